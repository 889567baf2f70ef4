//! relatch

mod name;
mod owner;
mod lease;
mod error;
mod keys;
mod script;
mod backend;
mod engine;
mod locks;
mod client;
