//! A command that goes on without its caller's polls. Knows neither link nor script.

use tokio::{
    runtime::Handle,
    task::{JoinHandle, unconstrained},
};

use super::faults;
use crate::backend::Fault;

/// A command that does not need its caller's polls, and ends when the caller goes.
pub(super) struct Task<T>(JoinHandle<Result<T, Fault>>);

impl<T: Send + 'static> Task<T> {
    pub(super) fn spawn(runtime: &Handle, command: impl Future<Output = Result<T, Fault>> + Send + 'static) -> Self {
        Self(runtime.spawn(unconstrained(command)))
    }

    pub(super) async fn answer(mut self) -> Result<T, Fault> {
        // Only the end of its runtime takes a task away from a caller that is still there.
        (&mut self.0).await.unwrap_or_else(|_| Err(faults::closed(true)))
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
