//! The primitives: each is its keys, its scripts and how to read their replies. They wait for nothing and renew nothing.

#[cfg(feature = "operate")]
mod by_kind;
mod fenced;
mod fenced_hash;
mod hash;
mod held_token;
mod job;
mod job_hash;
mod job_outcome;
mod job_told;
mod multi;
mod mutex;
mod reentrant;
mod replies;
mod scope;
mod token;
mod token_compared;
mod token_string;
mod tokens;
mod voted;

#[cfg(feature = "operate")]
pub(crate) use self::by_kind::job_record;
pub use self::{
    fenced::FencedLock,
    held_token::HeldToken,
    job::PeriodicJob,
    job_outcome::{JobAttempt, JobContext, JobRecord, JobSuccess, Outcome},
    multi::{MultiLock, Part},
    mutex::Mutex,
    reentrant::{Inspection, ReentrantLock},
    token::{TokenInspection, TokenLock},
};
pub(crate) use self::{
    job::{Begun, JobTurn},
    scope::Scope,
    voted::VotedScope,
};
