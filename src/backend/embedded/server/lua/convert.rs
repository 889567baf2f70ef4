//! Replies as Lua values, and Lua values as replies. The third version of the protocol is not spoken.

use mlua::{Lua, MultiValue, Table, Value};

use super::super::{errors, numbers, reply::Reply};

/// How deep a reply may be nested.
const DEEPEST: usize = 128;
/// How many parts a reply may have, all together.
const MOST_PARTS: usize = 1 << 20;

/// What a command answered, as the script sees it.
pub(super) fn to_lua(lua: &Lua, reply: Reply) -> mlua::Result<Value> {
    match reply {
        Reply::Nil => Ok(Value::Boolean(false)),
        Reply::Int(int) => Ok(Value::Integer(int)),
        Reply::Bulk(bytes) => lua.create_string(bytes).map(Value::String),
        Reply::Status(status) => lua.create_table_from([("ok", status)]).map(Value::Table),
        Reply::Error(words) => refusal(lua, &words),
        Reply::Array(parts) => {
            let table = lua.create_table_with_capacity(parts.len(), 0)?;
            for part in parts {
                table.raw_push(to_lua(lua, part)?)?;
            }
            Ok(Value::Table(table))
        }
    }
}

/// A refusal that is no error to the script.
pub(super) fn refusal(lua: &Lua, words: &str) -> mlua::Result<Value> {
    lua.create_table_from([("err", words)]).map(Value::Table)
}

/// What the script returned in parts.
pub(super) fn to_array(parts: &MultiValue) -> mlua::Result<Reply> {
    let mut reading = Reading { depth: 1, parts: parts.len() };
    parts.iter().map(|part| reading.reply(part)).collect::<mlua::Result<_>>().map(Reply::Array)
}

/// What the script returned, as the client sees it.
pub(super) fn to_reply(value: &Value) -> mlua::Result<Reply> {
    Reading { depth: 0, parts: 0 }.reply(value)
}

struct Reading {
    depth: usize,
    parts: usize,
}

impl Reading {
    fn reply(&mut self, value: &Value) -> mlua::Result<Reply> {
        match value {
            Value::Boolean(true) => Ok(Reply::Int(1)),
            Value::Integer(int) => Ok(Reply::Int(*int)),
            Value::Number(number) => Ok(Reply::Int(numbers::truncated(*number))),
            Value::String(text) => Ok(Reply::Bulk(text.as_bytes().to_vec())),
            Value::Table(table) => self.table(table),
            _ => Ok(Reply::Nil),
        }
    }

    fn table(&mut self, table: &Table) -> mlua::Result<Reply> {
        if let Value::String(words) = table.raw_get("err")? {
            return Ok(Reply::Error(errors::error_line(errors::c_string(&words.as_bytes()))));
        }
        if let Value::String(status) = table.raw_get("ok")? {
            return Ok(Reply::Status(errors::line(&status.as_bytes())));
        }
        if self.depth >= DEEPEST || self.parts >= MOST_PARTS {
            return Ok(Reply::Error("ERR reached lua stack limit".to_owned()));
        }
        self.depth += 1;
        let mut parts = Vec::new();
        for at in 1.. {
            let part: Value = table.raw_get(at)?;
            if part.is_nil() || self.parts >= MOST_PARTS {
                break;
            }
            self.parts += 1;
            parts.push(self.reply(&part)?);
        }
        self.depth -= 1;
        Ok(Reply::Array(parts))
    }
}
