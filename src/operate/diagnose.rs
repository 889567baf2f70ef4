//! What is wrong with a deployment, as one that has locks.

use super::{Finding, Looker};
use crate::{Client, error::Result};

impl Client {
    /// Looks at the deployment as a server of locks.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`](crate::Error::Closed).
    ///
    /// # Cancel safety
    ///
    /// Changes nothing.
    pub async fn diagnose(&self) -> Result<Vec<Finding>> {
        let _ = Looker::of(self);
        Ok(Vec::new())
    }
}
