//! Which lock a name is within a client: one at a time. It says so where somebody asks for another.

use super::Protocol;
use crate::error::Error;

/// Why a name that is in use cannot be what is asked for.
pub(super) fn in_use_as_another(there: &dyn Protocol, asked: &dyn Protocol) -> Option<Error> {
    if (there.kind(), there.repairs()) == (asked.kind(), asked.repairs()) {
        return None;
    }
    let (name, there, asked) = (&**asked.name(), manner(there), manner(asked));
    let why = format!("{name:?} is in use as a {there} of this client, and cannot be a {asked} too");
    Some(Error::invalid("name", why))
}

pub(super) fn in_use_with_other_options(asked: &dyn Protocol) -> Error {
    Error::invalid("name", format!("{:?} is in use by this client with other options", &**asked.name()))
}

/// What a protocol is called where its kind alone may not tell it from another.
fn manner(protocol: &dyn Protocol) -> String {
    let after = protocol.repairs().map_or_else(String::new, |ttl| format!(" after {ttl:?}"));
    format!("{}{after}", protocol.kind())
}
