//! What a hold has beside its tickets, and is asked for: few have any of it.

use super::{counting::Counting, hold::Hold, loss::Loss, raising::Extension};

impl<W, S> Hold<W, S> {
    /// What the server is told of its count, from now on.
    pub(crate) fn counting(&mut self) -> &mut Counting<W> {
        self.beside.get_or_insert_default().counting.get_or_insert_default()
    }

    /// The same, where it is told anything.
    pub(crate) fn counted(&self) -> Option<&Counting<W>> {
        self.beside.as_ref()?.counting.as_ref()
    }

    pub(crate) fn counted_mut(&mut self) -> Option<&mut Counting<W>> {
        self.beside.as_mut()?.counting.as_mut()
    }

    pub(crate) fn take_counting(&mut self) -> Option<Counting<W>> {
        let counting = self.beside.as_mut()?.counting.take();
        self.beside.take_if(|beside| beside.is_empty());
        counting
    }

    pub(crate) fn extensions(&self) -> &[Extension<W>] {
        self.beside.as_ref().map_or(&[], |beside| &beside.extensions)
    }

    pub(crate) fn extension_mut(&mut self, is_it: impl FnMut(&&mut Extension<W>) -> bool) -> Option<&mut Extension<W>> {
        self.beside.as_mut()?.extensions.iter_mut().find(is_it)
    }

    /// A longer lease was asked for.
    pub(crate) fn extends(&mut self, extension: Extension<W>) {
        self.beside.get_or_insert_default().extensions.push(extension);
    }

    /// Takes out the first for which it is true; the others stay in their order.
    pub(crate) fn take_extension(&mut self, is_it: impl FnMut(&Extension<W>) -> bool) -> Option<Extension<W>> {
        let extensions = &mut self.beside.as_mut()?.extensions;
        let at = extensions.iter().position(is_it)?;
        let taken = extensions.remove(at);
        self.beside.take_if(|beside| beside.is_empty());
        Some(taken)
    }

    pub(crate) fn take_extensions(&mut self) -> Vec<Extension<W>> {
        let taken = self.beside.as_mut().map(|beside| std::mem::take(&mut beside.extensions));
        self.beside.take_if(|beside| beside.is_empty());
        taken.unwrap_or_default()
    }

    pub(crate) fn loss(&self) -> Option<&Loss> {
        self.beside.as_ref()?.loss.as_ref()
    }

    pub(super) fn loss_mut(&mut self) -> Option<&mut Loss> {
        self.beside.as_mut()?.loss.as_mut()
    }

    pub(crate) fn is_lost(&mut self, loss: Loss) {
        self.beside.get_or_insert_default().loss = Some(loss);
    }
}
