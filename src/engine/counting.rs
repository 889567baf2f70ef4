//! What the server was told of a hold's count. Counts are set, never counted: each command says what shall be afterwards, so
//! the newest one heals whatever an older one left. Who tells it is in `telling.rs`.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::date::Date;

/// A hold's nested acquisitions, and what the server was told of its count. Most holds have none, and none of this.
#[derive(Debug, Default)]
pub(super) struct Counting(Option<Box<Count>>);

#[derive(Debug)]
struct Count {
    /// Nested acquisitions under way; a hold does not end while there is one.
    pending: u32,
    /// Since when they are all that keeps the hold, or guards that nobody has looked at; nothing while there is another.
    alone: Option<Date>,
    /// The count on the server as far as answers told; `None` while one is missing.
    told: Option<u32>,
    /// The newest count-changing command: the answers to older ones tell nothing any more.
    asked: u64,
    /// A detached ticket was unlocked, and the server has not been told of that.
    unlocked: bool,
    /// Who tells the server the newest count in the background: one at a time.
    retelling: Retelling,
    /// Count-changing commands go one at a time.
    commands: Arc<Semaphore>,
}

/// Whether a count is being told in the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Retelling {
    None,
    UnderWay,
    /// It changed again: to be told once more before it ends.
    Again,
}

impl Counting {
    pub(super) fn pending(&self) -> u32 {
        self.0.as_ref().map_or(0, |count| count.pending)
    }

    /// What a fresh hold counts is what its acquire asked for.
    pub(super) fn told(&self) -> Option<u32> {
        self.0.as_ref().map_or(Some(1), |count| count.told)
    }

    /// Whoever sends the hold's last command waits for the others.
    pub(super) fn take_commands(&mut self) -> Option<Arc<Semaphore>> {
        self.0.take().map(|count| count.commands)
    }

    /// Another owner has the hold: whoever tells for the old tenure finds that that is over.
    pub(super) fn passed(&mut self) {
        if let Some(count) = &mut self.0 {
            (count.retelling, count.alone, count.unlocked) = (Retelling::None, None, false);
        }
    }

    /// A nested acquisition starts.
    pub(super) fn begins(&mut self) {
        self.made().pending += 1;
    }

    /// Nobody works under the hold from now on. Where nothing ever nested, that is since it was granted.
    pub(super) fn left_alone(&mut self, now: Date) {
        if let Some(count) = &mut self.0 {
            count.alone = Some(now);
        }
    }

    /// The same for one that was held for others that were missing, and not worked under since it was granted.
    pub(super) fn left_with_others(&mut self, now: Date) {
        self.made().alone = Some(now);
    }

    pub(super) fn alone_since(&self) -> Option<Date> {
        self.0.as_ref()?.alone
    }

    /// There is one more ticket.
    pub(super) fn joined(&mut self) {
        if let Some(count) = &mut self.0 {
            count.alone = None;
        }
    }

    /// It was granted, or came to nothing.
    pub(super) fn ends(&mut self) {
        self.made().pending -= 1;
    }

    pub(super) fn commands(&mut self) -> Arc<Semaphore> {
        Arc::clone(&self.made().commands)
    }

    /// A count-changing command is about to leave.
    pub(super) fn asks(&mut self) -> u64 {
        let count = self.made();
        count.told = None;
        count.asked += 1;
        count.asked
    }

    /// It was answered. Whoever stopped polling may bring an answer that newer commands have overtaken.
    pub(super) fn answers(&mut self, asked: u64, holds: u32) {
        let count = self.made();
        if asked == count.asked {
            count.told = Some(holds);
        }
    }

    /// A detached ticket is unlocked, and the others stay.
    pub(super) fn unlocks(&mut self) {
        self.made().unlocked = true;
    }

    /// The server has the newest count.
    pub(super) fn is_right(&mut self) {
        if let Some(count) = &mut self.0 {
            count.unlocked = false;
        }
    }

    /// Whether the server may not know yet that a detached ticket was unlocked.
    pub(super) fn tells_of_unlock(&self) -> bool {
        self.0.as_ref().is_some_and(|count| count.unlocked)
    }

    /// The newest count is to be told in the background: whether there is nobody yet who does so.
    pub(super) fn retelling_begins(&mut self) -> bool {
        let retelling = &mut self.made().retelling;
        let next = if *retelling == Retelling::None { Retelling::UnderWay } else { Retelling::Again };
        std::mem::replace(retelling, next) == Retelling::None
    }

    /// Whoever told it is through: whether it may go.
    pub(super) fn retelling_ends(&mut self) -> bool {
        let retelling = &mut self.made().retelling;
        let again = *retelling == Retelling::Again;
        *retelling = if again { Retelling::UnderWay } else { Retelling::None };
        !again
    }

    fn made(&mut self) -> &mut Count {
        self.0.get_or_insert_with(|| {
            let commands = Arc::new(Semaphore::new(1));
            let (told, retelling) = (Some(1), Retelling::None);
            Box::new(Count { pending: 0, alone: None, told, asked: 0, unlocked: false, retelling, commands })
        })
    }
}
