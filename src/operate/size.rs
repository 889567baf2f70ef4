//! How large the keys of one name are. It is asked before anything is read of them: whoever names a stranger's key costs its server no
//! more than whoever names a lock.

use std::{iter::once_with, mem, sync::Arc};

use super::{
    Looker,
    look::{LONGEST_FENCE, MOST_FIELDS, Slots},
};
use crate::{
    backend::{
        Fault, FaultKind, Question, Server, Value,
        questions::{self, Shape},
    },
    error::{Error, Op, Result},
    keys,
};

/// The longest token that is read, in bytes: any that a library draws has some dozens.
const LONGEST_TOKEN: i64 = 4096;

impl Looker {
    /// Refuses what is too large to be a lock. Whether there may be tokens for it, so that their counter is worth a look.
    pub(super) async fn lock_is_small(
        &self,
        name: &Arc<str>,
        key: &str,
        server: Option<&Arc<dyn Server>>,
    ) -> Result<bool> {
        let counter = keys::fence_counter(key);
        let sized = [(Shape::Hash, key.as_bytes()), (Shape::String, key.as_bytes()), (Shape::String, counter.bytes())];
        let sizes = self.sizes(name, server, sized.map(|(shape, key)| questions::size(shape, key)).into()).await?;
        match sizes[..] {
            [Some(fields), ..] if MOST_FIELDS < fields => Err(no_lock(name, format!("a hash of {fields} fields"))),
            [_, Some(bytes), _] if LONGEST_TOKEN < bytes => Err(no_lock(name, format!("a string of {bytes} bytes"))),
            [.., Some(digits)] => Ok(digits <= LONGEST_FENCE),
            _ => Ok(true),
        }
    }

    /// Refuses what is too large to be the record of a job.
    pub(super) async fn job_is_small(&self, name: &Arc<str>, of: &str, server: Option<&Arc<dyn Server>>) -> Result<()> {
        let record = keys::job_record(of);
        match self.sizes(name, server, vec![questions::size(Shape::Hash, record.bytes())]).await?[..] {
            [Some(fields)] if MOST_FIELDS < fields => {
                Err(no_lock(name, format!("a hash of {fields} fields where a job's record would be")))
            }
            _ => Ok(()),
        }
    }

    /// The answers to questions of sizes; `None` where it is of another type, or where this user may not ask: then the look itself
    /// says what the user may.
    async fn sizes(
        &self,
        name: &Arc<str>,
        server: Option<&Arc<dyn Server>>,
        asked: Vec<Question>,
    ) -> Result<Vec<Option<i64>>> {
        let mut sizes = vec![None; asked.len()];
        let Some(server) = server else { return Ok(sizes) };
        let mut open: Vec<usize> = (0..asked.len()).collect();
        let mut silence = None;
        // The first one knows it all, but while its slots move: then another one has some of the keys, or is about to.
        for slots in [Slots::Own, Slots::Coming] {
            let others = once_with(|| self.scope.backend().servers()).flatten();
            for (at, server) in [Arc::clone(server)].into_iter().chain(others).enumerate() {
                let still = open.iter().map(|at| asked[*at].clone()).collect();
                let answers = match self.ask_about(name, &server, still, slots).await {
                    Ok(answers) => answers,
                    Err(error) if at == 0 => return Err(error),
                    Err(error) => {
                        silence = Some(error);
                        continue;
                    }
                };
                for (at, answer) in mem::take(&mut open).into_iter().zip(answers) {
                    match answer {
                        Ok(Value::Int(size)) => sizes[at] = Some(size),
                        Err(fault) if questions::is_elsewhere(&fault) => open.push(at),
                        Err(fault) if !matches!(fault.kind, FaultKind::WrongType | FaultKind::Permission) => {
                            return Err(Error::from_fault(fault, name, Op::Inspect));
                        }
                        Ok(_) | Err(_) => {}
                    }
                }
                if open.is_empty() {
                    return Ok(sizes);
                }
            }
        }
        // No server that is known has them: whoever has is not to read what may be large.
        Err(silence.unwrap_or_else(|| {
            Error::from_fault(Fault::timeout(false, "no server that is known has the key now"), name, Op::Inspect)
        }))
    }
}

/// What the key holds is no lock.
pub(super) fn no_lock(name: &Arc<str>, what: impl AsRef<str>) -> Error {
    let words = format!("the key holds {}", what.as_ref());
    Error::from_fault(Fault::of(FaultKind::WrongType, false, words), name, Op::Inspect)
}
