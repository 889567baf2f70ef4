//! Locks and jobs that an operator names by their kind alone. What they are is in their own files.

use std::{sync::Arc, time::Duration};

use super::{
    JobRecord,
    job_hash::{Terms, kept},
    scope::Scope,
    token_string::Manner,
};
use crate::{
    backend::Value,
    engine::{Protocol, Publishes},
    error::Result,
};

impl Scope {
    /// A token lock of this name, whoever else has it.
    pub(crate) fn any_token_lock(self: &Arc<Self>, name: &str) -> Result<Arc<dyn Protocol>> {
        Ok(Arc::new(self.token_lock(name, Manner { publishes: Publishes::Sometimes, orphans: None })?))
    }

    /// A job of this name, whatever its terms are: none of them count for a look, or for an end by force.
    pub(crate) fn any_job(self: &Arc<Self>, name: &str) -> Result<Arc<dyn Protocol>> {
        let every = Duration::from_secs(1);
        let terms = Terms { every, offset: Duration::ZERO, max_attempts: 1, within: None, keep: None };
        Ok(Arc::new(self.job(name, terms)?))
    }
}

/// Reads a look at a job's record; `Some(None)` where there is none.
pub(crate) fn job_record(answer: &Value) -> Option<Option<JobRecord>> {
    kept(answer).map(|(kept, _)| kept.map(JobRecord::of))
}
