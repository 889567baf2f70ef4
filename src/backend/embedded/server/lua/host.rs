//! The functions that scripts are given besides Lua's own: commands, hashes, random numbers, and the bounds of their sandbox.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use mlua::{ChunkMode, Function, Lua, MultiValue, Table, Value};

use super::{
    convert,
    raised::{self, Raised},
    random::Random,
};
use crate::backend::embedded::server::{
    database::{Shared, lock},
    errors, numbers,
    reply::Reply,
    runner, sha1,
};

/// For how many instructions of a script one command counts.
const COMMAND: u64 = 200;

const READ_ONLY: &str = "Attempt to modify a readonly table";

/// Everything that the prelude wants from us.
pub(super) fn functions(lua: &Lua, db: &Shared, random: &Arc<Random>, spent: &Arc<AtomicU64>) -> mlua::Result<Table> {
    let host = lua.create_table()?;
    host.raw_set("redis", redis(lua, &Commands { db: db.clone(), spent: spent.clone() })?)?;
    host.raw_set("refuse", lua.create_function(refuse)?)?;
    host.raw_set("refuse_raw", lua.create_function(refuse_raw)?)?;
    host.raw_set("missing", lua.create_function(missing)?)?;
    host.raw_set("shown", lua.create_function(raised::shown)?)?;
    host.raw_set("raised", lua.create_function(raised::raised)?)?;
    host.raw_set("explain", lua.create_function(raised::explain)?)?;
    host.raw_set("load", lua.create_function(load)?)?;
    let generator = random.clone();
    let draw = move |lua: &Lua, (first, second): (Option<f64>, Option<f64>)| generator.draw(lua, first, second);
    host.raw_set("random", lua.create_function(draw)?)?;
    let generator = random.clone();
    host.raw_set("randomseed", lua.create_function(move |_, seed: f64| seeded(&generator, seed))?)?;
    Ok(host)
}

fn seeded(random: &Random, seed: f64) -> mlua::Result<()> {
    random.seed(seed as i32);
    Ok(())
}

/// What runs the commands of scripts.
#[derive(Clone)]
struct Commands {
    db: Shared,
    spent: Arc<AtomicU64>,
}

fn redis(lua: &Lua, commands: &Commands) -> mlua::Result<Table> {
    let redis = lua.create_table()?;
    let own = commands.clone();
    let call = move |lua: &Lua, words: MultiValue| match own.run(&words) {
        Ok(reply) => convert::to_lua(lua, reply),
        Err(refusal) => Err(Raised::Refusal(refusal.into_owned()).error()),
    };
    redis.raw_set("call", lua.create_function(call)?)?;
    let own = commands.clone();
    let pcall = move |lua: &Lua, words: MultiValue| match own.run(&words) {
        Ok(reply) => convert::to_lua(lua, reply),
        Err(refusal) => convert::refusal(lua, &refusal),
    };
    redis.raw_set("pcall", lua.create_function(pcall)?)?;
    redis.raw_set("sha1hex", lua.create_function(sha1hex)?)?;
    redis.raw_set("status_reply", lua.create_function(|lua, args| single(lua, &args, status))?)?;
    redis.raw_set("error_reply", lua.create_function(|lua, args| single(lua, &args, error))?)?;
    redis.raw_set("log", lua.create_function(log)?)?;
    for (name, nothing) in
        [("set_repl", false), ("setresp", false), ("breakpoint", false), ("replicate_commands", true)]
    {
        let idle = move |_: &Lua, _: MultiValue| Ok(if nothing { Value::Boolean(true) } else { Value::Nil });
        redis.raw_set(name, lua.create_function(idle)?)?;
    }
    let levels = [("LOG_DEBUG", 0), ("LOG_VERBOSE", 1), ("LOG_NOTICE", 2), ("LOG_WARNING", 3)];
    let copies = [("REPL_NONE", 0), ("REPL_AOF", 1), ("REPL_SLAVE", 2), ("REPL_REPLICA", 2), ("REPL_ALL", 3)];
    for (name, number) in levels.into_iter().chain(copies) {
        redis.raw_set(name, number)?;
    }
    redis.raw_set("REDIS_VERSION", "7.0.15")?;
    redis.raw_set("REDIS_VERSION_NUM", 0x0007_000f)?;
    Ok(redis)
}

impl Commands {
    /// Runs a command with the words that the script gave.
    fn run(&self, words: &MultiValue) -> Result<Reply, errors::ErrorText> {
        self.spent.fetch_add(COMMAND, Ordering::Relaxed);
        if words.is_empty() {
            return Err("ERR Please specify at least one argument for this redis lib call".into());
        }
        if words.len() > FEW {
            let texts = words.iter().map(Text::of).collect::<Result<Vec<_>, _>>()?;
            let words: Vec<_> = texts.iter().map(Text::bytes).collect();
            return runner::run_in_script(&mut lock(&self.db), &words);
        }
        let mut texts = [const { Text::Own(String::new()) }; FEW];
        for (text, word) in texts.iter_mut().zip(words) {
            *text = Text::of(word)?;
        }
        let mut bytes = [&b""[..]; FEW];
        for (bytes, text) in bytes.iter_mut().zip(&texts) {
            *bytes = text.bytes();
        }
        runner::run_in_script(&mut lock(&self.db), &bytes[..words.len()])
    }
}

/// Commands of up to so many words are run without asking for memory.
const FEW: usize = 6;

/// Numbers of scripts are floats, and large ones are written as such.
fn number(int: i64) -> String {
    const EXACT: u64 = 1 << 53;
    if int.unsigned_abs() < EXACT { int.to_string() } else { numbers::text(int as f64) }
}

enum Text<'a> {
    Lua(mlua::BorrowedBytes<'a>),
    Own(String),
}

impl<'a> Text<'a> {
    fn of(word: &'a Value) -> Result<Self, errors::ErrorText> {
        match word {
            Value::String(text) => Ok(Self::Lua(text.as_bytes())),
            Value::Integer(int) => Ok(Self::Own(number(*int))),
            Value::Number(float) => Ok(Self::Own(numbers::text(*float))),
            _ => Err("ERR Lua redis lib command arguments must be strings or integers".into()),
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Lua(bytes) => bytes,
            Self::Own(text) => text.as_bytes(),
        }
    }
}

fn sha1hex(_: &Lua, args: MultiValue) -> mlua::Result<String> {
    match args.into_iter().collect::<Vec<_>>().as_slice() {
        [Value::String(text)] => Ok(sha1::hex(&text.as_bytes())),
        [Value::Integer(int)] => Ok(sha1::hex(number(*int).as_bytes())),
        [Value::Number(float)] => Ok(sha1::hex(numbers::text(*float).as_bytes())),
        [_] => Ok(sha1::hex(b"")),
        _ => Err(Raised::Refusal("ERR wrong number of arguments".to_owned()).error()),
    }
}

fn log(_: &Lua, args: MultiValue) -> mlua::Result<()> {
    let refuse = |words: &str| Err(Raised::Refusal(words.to_owned()).error());
    if args.len() < 2 {
        return refuse("ERR redis.log() requires two arguments or more.");
    }
    match args.front() {
        Some(Value::Integer(0..=3)) => Ok(()),
        Some(Value::Integer(_)) => refuse("ERR Invalid debug level."),
        _ => refuse("ERR First argument must be a number (log level)."),
    }
}

/// A table with one text in it, from one text.
fn single(lua: &Lua, args: &MultiValue, reply: fn(&[u8]) -> (&'static str, Vec<u8>)) -> mlua::Result<Table> {
    let (name, text) = match (args.len(), args.front()) {
        (1, Some(Value::String(text))) => reply(&text.as_bytes()),
        _ => ("err", b"ERR wrong number or type of arguments".to_vec()),
    };
    lua.create_table_from([(name, lua.create_string(text)?)])
}

fn status(text: &[u8]) -> (&'static str, Vec<u8>) {
    ("ok", text.to_vec())
}

/// The first word is a code, if there is more than one.
fn error(text: &[u8]) -> (&'static str, Vec<u8>) {
    let text = errors::c_string(text);
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let (code, rest) = match text.iter().position(|byte| *byte == b' ') {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (&b"ERR"[..], text),
    };
    let ends = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let first = rest.iter().position(|byte| !ends(byte)).unwrap_or(rest.len());
    let end = rest.iter().rposition(|byte| !ends(byte)).map_or(first, |last| last + 1);
    ("err", [code, b" ", &rest[first..end]].concat())
}

fn refuse(lua: &Lua, _: MultiValue) -> mlua::Result<()> {
    Err(Raised::here(lua, READ_ONLY))
}

fn refuse_raw(_: &Lua, (): ()) -> mlua::Result<()> {
    Err(Raised::Text(READ_ONLY.to_owned()).error())
}

fn missing(lua: &Lua, (_, name): (Value, Value)) -> mlua::Result<()> {
    let name = match &name {
        Value::String(name) => errors::line(errors::c_string(&name.as_bytes())),
        other => other.to_string()?,
    };
    Err(Raised::here(lua, &format!("Script attempted to access nonexistent global variable '{name}'")))
}

/// Text as a function; nothing and the reason where it is none.
fn load(
    lua: &Lua,
    (globals, source, name): (Table, mlua::String, Option<mlua::String>),
) -> mlua::Result<(Option<Function>, Option<String>)> {
    let name = name.as_ref().unwrap_or(&source).to_string_lossy();
    match compile(lua, &source.as_bytes(), &name, &globals) {
        Ok(function) => Ok((Some(function), None)),
        Err(why) => Ok((None, Some(why))),
    }
}

/// Text as a function, never bytes that Lua made: those are not checked.
pub(super) fn compile(lua: &Lua, source: &[u8], name: &str, globals: &Table) -> Result<Function, String> {
    // A space makes text of what begins like such bytes: the error is then that of text.
    let text = if source.first() == Some(&0x1b) { [b" ", source].concat() } else { source.to_vec() };
    let chunk = lua.load(text).set_name(name).set_mode(ChunkMode::Text).set_environment(globals.clone());
    chunk.into_function().map_err(|error| match error {
        mlua::Error::SyntaxError { message, .. } => message,
        other => other.to_string(),
    })
}
