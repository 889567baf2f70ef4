//! The script catalogue: every Lua file with its declared keys and arguments.

/// One Lua file.
pub(crate) struct Script {
    pub(crate) path: &'static str,
    pub(crate) source: &'static str,
    pub(crate) keys: &'static [&'static str],
    pub(crate) args: &'static [&'static str],
}
