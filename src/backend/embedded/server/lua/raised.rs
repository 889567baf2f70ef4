//! Errors of scripts: how commands raise them, what who catches one sees, and what the client is told.

use mlua::{Error, Lua, Value};

use crate::backend::embedded::server::errors;

/// Where our own part in Lua comes from.
pub(super) const PRELUDE: &str = "=prelude";

/// What a function of the host raises.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum Raised {
    /// The words of a command that was refused.
    #[error("{0}")]
    Refusal(String),
    /// Any other text.
    #[error("{0}")]
    Text(String),
}

impl Raised {
    /// The same, as a function of the host returns it.
    pub(super) fn error(self) -> Error {
        Error::external(self)
    }

    /// A text that says where the script was.
    pub(super) fn here(lua: &Lua, text: &str) -> Error {
        let place = lua.inspect_stack(1, |debug| {
            let source = debug.source().short_src.map(|source| source.into_owned()).unwrap_or_default();
            debug.current_line().map(|line| format!("{source}:{line}: ")).unwrap_or_default()
        });
        Self::Text(format!("{}{text}", place.unwrap_or_default())).error()
    }
}

/// What was raised, as the script that catches it by `pcall` sees it: nothing but text.
pub(super) fn shown(lua: &Lua, raised: Value) -> mlua::Result<Value> {
    match raised {
        Value::Error(error) => lua.create_string(text_of(&error)).map(Value::String),
        Value::Table(table) => match table.raw_get("err")? {
            words @ Value::String(_) => Ok(words),
            _ => Ok(Value::Table(table)),
        },
        other => Ok(other),
    }
}

/// The same as a handler of the script's own sees it: the words of a command in a table.
pub(super) fn raised(lua: &Lua, raised: Value) -> mlua::Result<Value> {
    let Value::Error(error) = raised else { return Ok(raised) };
    let text = lua.create_string(text_of(&error))?;
    match host_error(&error) {
        Some(Raised::Refusal(_)) => lua.create_table_from([("err", text)]).map(Value::Table),
        _ => Ok(Value::String(text)),
    }
}

/// What nobody caught: the words, and where the script was. Must be called while it is still there.
pub(super) fn explain(lua: &Lua, raised: Value) -> mlua::Result<Value> {
    let words = match &raised {
        Value::Error(error) => match host_error(error) {
            Some(Raised::Refusal(words)) => words.clone(),
            _ => format!("ERR {}", text_of(error)),
        },
        Value::Table(table) => match table.raw_get("err")? {
            Value::String(words) => line(&words.as_bytes()),
            _ => "ERR execution failure".to_owned(),
        },
        Value::String(text) => format!("ERR {}", line(&text.as_bytes())),
        Value::Nil | Value::Boolean(_) | Value::Integer(_) | Value::Number(_) => format!("ERR {}", raised.to_string()?),
        other => format!("ERR {}", other.type_name()),
    };
    let place = (1..).map_while(|level| place(lua, level)).find_map(|place| place);
    let explained = lua.create_table_from([("words", words)])?;
    if let Some(place) = place {
        explained.raw_set("place", place)?;
    }
    Ok(Value::Table(explained))
}

/// Where the function of this level is: nothing where there is none, nothing inside it where it is not the script's.
fn place(lua: &Lua, level: usize) -> Option<Option<String>> {
    lua.inspect_stack(level, |debug| {
        let source = debug.source();
        let name = source.source.map(|name| name.into_owned()).unwrap_or_default();
        let line = debug.current_line().map_or_else(|| "-1".to_owned(), |line| line.to_string());
        (source.what != "C" && name != PRELUDE).then(|| format!("{name}:{line}"))
    })
}

/// The error that one of our functions raised, whatever was put around it.
fn host_error(error: &Error) -> Option<&Raised> {
    match error {
        Error::CallbackError { cause, .. } | Error::WithContext { cause, .. } => host_error(cause),
        Error::ExternalError(cause) => cause.downcast_ref(),
        _ => None,
    }
}

fn text_of(error: &Error) -> String {
    match error {
        Error::CallbackError { cause, .. } | Error::WithContext { cause, .. } => text_of(cause),
        Error::MemoryError(_) => "not enough memory".to_owned(),
        other => other.to_string(),
    }
}

fn line(bytes: &[u8]) -> String {
    errors::line(errors::c_string(bytes))
}
