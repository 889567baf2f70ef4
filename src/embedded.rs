//! What happens at an [`EmbeddedStore`]: what a test lets befall its clients by chance, and the trace of all that happened.
//! The store itself also stands at the crate's root.

pub use crate::backend::embedded::{EmbeddedStore, Forget, Happening, Purpose, Ran, Rival, Road, Traced, Weather};
