//! What a name is made of: each part knows itself alone. What happens to them is decided in the files beside this folder.

pub(crate) mod beside;
pub(crate) mod contender;
pub(crate) mod copies;
pub(crate) mod counting;
pub(crate) mod ending;
pub(crate) mod forcing;
pub(crate) mod gate;
pub(crate) mod handing_over;
pub(crate) mod hold;
mod hold_beside;
pub(crate) mod kept;
pub(crate) mod list;
pub(crate) mod loss;
pub(crate) mod lost;
pub(crate) mod old_copies;
pub(crate) mod origin;
pub(crate) mod owners;
pub(crate) mod queue;
pub(crate) mod raising;
pub(crate) mod release;
pub(crate) mod releases;
pub(crate) mod slice;
pub(crate) mod subscription;
pub(crate) mod tenant;
pub(crate) mod ticket;
pub(crate) mod turns;
pub(crate) mod untaken;
