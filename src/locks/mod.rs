//! The primitives: each is its keys, its scripts and how to read their replies. They wait for nothing and renew nothing.

mod fenced;
mod fenced_hash;
mod hash;
mod mutex;
mod reentrant;

pub(crate) use self::hash::Scope;
pub use self::{
    fenced::FencedLock,
    mutex::Mutex,
    reentrant::{Inspection, ReentrantLock},
};
