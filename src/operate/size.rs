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

/// What a hash of ours takes at the most, in bytes, beside its name.
const LARGEST: i64 = 16 << 10;

/// How many bytes a hash may take. Its name is counted, too, with as much room as a server sets aside for it.
pub(super) fn largest(key: &str) -> i64 {
    i64::try_from(key.len()).unwrap_or(i64::MAX / 4).saturating_mul(2).saturating_add(LARGEST)
}

/// How many bytes a hash takes. To look at the parts that one of ours has costs a server no more, however many there are.
pub(super) fn memory(key: &str) -> Question {
    questions::memory(key.as_bytes(), MOST_FIELDS)
}

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
        let asked = sized.map(|(shape, key)| questions::size(shape, key)).into_iter().chain([memory(key)]).collect();
        match self.sizes(name, server, asked).await?[..] {
            [Some(fields), ..] if MOST_FIELDS < fields => Err(no_lock(name, format!("a hash of {fields} fields"))),
            [Some(_), .., Some(bytes)] if largest(key) < bytes => {
                Err(no_lock(name, format!("a hash of {bytes} bytes")))
            }
            [_, Some(bytes), ..] if LONGEST_TOKEN < bytes => Err(no_lock(name, format!("a string of {bytes} bytes"))),
            [_, _, Some(digits), _] => Ok(digits <= LONGEST_FENCE),
            _ => Ok(true),
        }
    }

    /// Refuses what is too large to be the record of a job.
    pub(super) async fn job_is_small(&self, name: &Arc<str>, of: &str, server: Option<&Arc<dyn Server>>) -> Result<()> {
        let record = keys::job_record(of).to_string();
        let asked = vec![questions::size(Shape::Hash, record.as_bytes()), memory(&record)];
        let what = match self.sizes(name, server, asked).await?[..] {
            [Some(fields), _] if MOST_FIELDS < fields => format!("{fields} fields"),
            [Some(_), Some(bytes)] if largest(&record) < bytes => format!("{bytes} bytes"),
            _ => return Ok(()),
        };
        Err(no_lock(name, format!("a hash of {what} where a job's record would be")))
    }

    /// The answers to questions of sizes; `None` where it is of another type, or where this user may not ask, or the server does not know
    /// what is asked: then the look itself says what the user may.
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
                        Err(fault) if !is_of_no_use(&fault) => {
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

/// Whether a size is not known for want of a right, of the right type, or of the command.
pub(super) fn is_of_no_use(fault: &Fault) -> bool {
    matches!(fault.kind, FaultKind::WrongType | FaultKind::Permission | FaultKind::Other)
}

/// What the key holds is no lock.
pub(super) fn no_lock(name: &Arc<str>, what: impl AsRef<str>) -> Error {
    let words = format!("the key holds {}", what.as_ref());
    Error::from_fault(Fault::of(FaultKind::WrongType, false, words), name, Op::Inspect)
}
