//! What is asked of a hold that was lost.

use super::{super::deadline::Instant, hold::Hold, loss::Remains, ticket::Ticket};

impl<W, S> Hold<W, S> {
    /// Lost, and to be released with its last ticket.
    pub(crate) fn is_to_release(&self) -> bool {
        self.loss().is_some_and(|loss| loss.remains == Remains::Field)
    }

    /// Its release was decided.
    pub(crate) fn let_go(&mut self) {
        if let Some(loss) = self.loss_mut() {
            loss.remains = Remains::Nothing;
        }
    }

    /// A lost hold that only detached tickets keep is forgotten then.
    pub(crate) fn remembered_until(&self) -> Option<Instant> {
        let only_detached = self.tickets.as_slice().iter().all(Ticket::is_detached);
        self.loss().filter(|_| only_detached).map(|loss| loss.until)
    }
}
