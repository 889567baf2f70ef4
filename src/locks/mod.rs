//! The primitives: each is its keys, its scripts and how to read their replies. They wait for nothing and renew nothing.

mod fenced;
mod fenced_hash;
mod hash;
mod held_token;
mod multi;
mod mutex;
mod reentrant;
mod replies;
mod scope;
mod token;
mod token_compared;
mod token_string;

pub(crate) use self::scope::Scope;
pub use self::{
    fenced::FencedLock,
    held_token::HeldToken,
    multi::{MultiLock, Part},
    mutex::Mutex,
    reentrant::{Inspection, ReentrantLock},
    token::{TokenInspection, TokenLock},
};
