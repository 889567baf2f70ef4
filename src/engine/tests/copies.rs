//! Old copies of commands: held back on the way, and run when a test says so, each of them once. A copy runs on the
//! server only; nobody hears its answer.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{fake::World, server::Server};

type Copy = Box<dyn FnOnce(&mut Server) + Send>;

/// What is held back, in the order in which it was sent.
#[derive(Clone, Default)]
pub(super) struct Copies(Arc<Mutex<Vec<Copy>>>);

impl Copies {
    pub(super) fn keep<T>(&self, run: impl Fn(&mut Server) -> T + Send + 'static) {
        self.inside().push(Box::new(move |server| drop(run(server))));
    }

    pub(super) fn len(&self) -> usize {
        self.inside().len()
    }

    /// Lets all of them through.
    pub(super) fn run(&self, world: &World) {
        let copies = std::mem::take(&mut *self.inside());
        copies.into_iter().for_each(|copy| world.server(copy));
    }

    /// Lets one of them through.
    pub(super) fn run_one(&self, world: &World, at: usize) {
        let copy = self.inside().remove(at);
        world.server(copy);
    }

    fn inside(&self) -> MutexGuard<'_, Vec<Copy>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Copies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} copies", self.len())
    }
}
