//! What few holds have beside their tickets: a count that the server is told, longer leases on their way, how they were lost. All
//! of it is behind one pointer.

use super::{counting::Counting, loss::Loss, raising::Extension};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Beside<W> {
    pub(super) counting: Option<Counting<W>>,
    /// Longer leases that were asked for and are not answered.
    pub(super) extensions: Vec<Extension<W>>,
    pub(super) loss: Option<Loss>,
}

impl<W> Default for Beside<W> {
    fn default() -> Self {
        Self { counting: None, extensions: Vec::new(), loss: None }
    }
}

impl<W> Beside<W> {
    pub(super) fn is_empty(&self) -> bool {
        self.counting.is_none() && self.extensions.is_empty() && self.loss.is_none()
    }
}
