//! Scripts: compiled once, run in a sandbox, stopped where they do not end. It knows commands only as words to run.
//!
//! The sandbox is the server's, less what no lock needs: there are no `cjson`, `cmsgpack`, `struct` and `bit`, no coroutines, no
//! `load`, no `collectgarbage`, no flags in a first line `#!lua`, and no replies of the third protocol.
//!
//! | what | bound |
//! | --- | --- |
//! | instructions of one run, commands among them | `INSTRUCTIONS` |
//! | memory of Lua | `MEMORY` |
//! | scripts in the cache | `CACHED` |
//! | depth and size of a reply | in `convert.rs` |

mod convert;
mod host;
mod raised;
mod random;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use mlua::{
    BString, Either, Function, HookTriggers, Lua, LuaOptions, MultiValue, StdLib, Table, Value, Variadic, VmState,
};

use self::{raised::Raised, random::Random};
use super::{
    arguments,
    database::{Answer, Shared, lock},
    errors::{self, ErrorText, NO_SCRIPT},
    reply::Reply,
    sha1,
};
use crate::script::Script;

/// A script that runs longer is stopped. Some tenths of a second.
const INSTRUCTIONS: u64 = 20_000_000;
/// After how many that is looked at.
const STEP: u32 = 10_000;
/// What Lua may take, in bytes.
const MEMORY: usize = 128 << 20;
/// How many scripts the cache has; with one more all of them are forgotten, which every client must bear.
const CACHED: usize = 1024;

#[derive(Debug)]
pub(super) struct Scripts {
    lua: Lua,
    db: Shared,
    random: Arc<Random>,
    spent: Arc<AtomicU64>,
    globals: Table,
    runner: Function,
    /// The same for scripts with one key.
    one_key_runner: Function,
    cache: HashMap<String, Function>,
    catalogue: Vec<Compiled>,
}

/// A script of ours.
#[derive(Debug)]
struct Compiled {
    source: &'static str,
    name: String,
    function: Function,
}

impl Scripts {
    pub(super) fn new(db: &Shared) -> mlua::Result<Self> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        // Lua's own `pcall` and `xpcall`: others put a frame between an error and who explains it.
        let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(true))?;
        let random = Arc::new(Random::default());
        let spent = Arc::new(AtomicU64::new(0));
        let functions = host::functions(&lua, db, &random, &spent)?;
        let prelude = lua.load(include_str!("prelude.lua")).set_name(raised::PRELUDE).into_function()?;
        let (globals, runner, one_key_runner) = prelude.call(functions)?;
        let (cache, catalogue) = (HashMap::new(), Vec::new());
        let scripts = Self { lua, db: db.clone(), random, spent, globals, runner, one_key_runner, cache, catalogue };
        scripts.watch(STEP)?;
        Ok(scripts)
    }

    /// Runs a script of ours, compiled before or not.
    pub(super) fn run(&mut self, script: &'static Script, keys: &[&[u8]], args: &[&[u8]]) -> Answer {
        let at = match self.catalogue.iter().position(|known| std::ptr::eq(known.source, script.source)) {
            Some(at) => at,
            None => {
                let (name, function) = self.cached(script.source.as_bytes())?;
                self.catalogue.push(Compiled { source: script.source, name, function });
                self.catalogue.len() - 1
            }
        };
        let known = &self.catalogue[at];
        self.call(&known.name, &known.function, keys, args)
    }

    pub(super) fn eval(&mut self, words: &[&[u8]]) -> Answer {
        let (keys, args) = keys_and_args(words)?;
        let (name, function) = self.cached(words[1])?;
        self.bounded(&name, &function, keys, args)
    }

    pub(super) fn eval_sha(&mut self, words: &[&[u8]]) -> Answer {
        if words[1].len() != sha1::LENGTH {
            return Err(NO_SCRIPT);
        }
        let (keys, args) = keys_and_args(words)?;
        let name = String::from_utf8_lossy(words[1]).to_ascii_lowercase();
        let function = self.cache.get(&name).ok_or(NO_SCRIPT)?;
        self.bounded(&name, function, keys, args)
    }

    /// What SCRIPT does with the cache.
    pub(super) fn administer(&mut self, words: &[&[u8]]) -> Answer {
        let (what, rest) = (words[1].to_ascii_lowercase(), &words[2..]);
        match (what.as_slice(), rest) {
            (b"load", [source]) => Ok(Reply::Bulk(self.cached(source)?.0.into_bytes())),
            (b"exists", [_, ..]) => {
                let known = |name: &&[u8]| self.cache.contains_key(&String::from_utf8_lossy(name).to_ascii_lowercase());
                Ok(Reply::Array(rest.iter().map(|name| Reply::Int(known(name).into())).collect()))
            }
            (b"flush", []) => Ok(self.forget()),
            (b"flush", [how]) if how.eq_ignore_ascii_case(b"sync") || how.eq_ignore_ascii_case(b"async") => {
                Ok(self.forget())
            }
            (b"flush", [_]) => Err("ERR SCRIPT FLUSH only support SYNC|ASYNC option".into()),
            (b"flush", _) => Err(errors::arity("script|flush")),
            (b"load", _) => Err(errors::arity("script|load")),
            (b"exists", _) => Err(errors::arity("script|exists")),
            _ => {
                let shown = errors::c_string(words[1]);
                let shown = errors::line(&shown[..shown.len().min(128)]);
                Err(format!("ERR unknown subcommand '{shown}'. Try SCRIPT HELP.").into())
            }
        }
    }

    fn forget(&mut self) -> Reply {
        self.cache.clear();
        self.catalogue.clear();
        Reply::ok()
    }

    /// Compiles a script that is not in the cache yet.
    fn cached(&mut self, source: &[u8]) -> Result<(String, Function), ErrorText> {
        let name = sha1::hex(source);
        if let Some(function) = self.cache.get(&name) {
            return Ok((name, function.clone()));
        }
        let function = host::compile(&self.lua, source, "@user_script", &self.globals).map_err(|why| {
            let why = errors::line(why.as_bytes());
            format!("ERR Error compiling script (new function): {why}")
        })?;
        if self.cache.len() >= CACHED {
            self.forget();
        }
        self.cache.insert(name.clone(), function.clone());
        Ok((name, function))
    }

    /// Runs a script that anybody may have written. The bound is not for those of ours: with it every call costs more.
    fn bounded(&self, name: &str, function: &Function, keys: &[&[u8]], args: &[&[u8]]) -> Answer {
        let bound = |bytes| self.lua.set_memory_limit(bytes).map_err(|error| ErrorText::from(error.to_string()));
        bound(MEMORY)?;
        let answer = self.call(name, function, keys, args);
        bound(0)?;
        answer
    }

    fn call(&self, name: &str, function: &Function, keys: &[&[u8]], args: &[&[u8]]) -> Answer {
        lock(&self.db).begin_script();
        let ended = self.protected(function, keys, args);
        lock(&self.db).end_script();
        let told = match ended {
            Ok((true, true, parts)) => convert::to_array(&parts),
            Ok((true, false, reply)) => convert::to_reply(reply.front().unwrap_or(&Value::Nil)),
            Ok((false, _, error)) => match error.front() {
                Some(Value::Table(explained)) => return Err(told(name, explained)),
                // Nobody could explain it: memory, or too many calls inside each other.
                other => {
                    Err(Raised::Text(other.map_or(Ok(String::new()), Value::to_string).unwrap_or_default()).error())
                }
            },
            Err(error) => Err(error),
        };
        told.map_err(|error| {
            let _ = self.lua.gc_collect();
            let text = errors::error_line(error.to_string().as_bytes());
            format!("ERR Error running script {name}, {text}").into()
        })
    }

    fn protected(&self, function: &Function, keys: &[&[u8]], args: &[&[u8]]) -> mlua::Result<(bool, bool, MultiValue)> {
        self.random.seed(0);
        if self.spent.swap(0, Ordering::Relaxed) >= INSTRUCTIONS {
            self.watch(STEP)?;
        }
        let words: Variadic<_> = keys.iter().chain(args).map(|word| pushed(word)).collect();
        if keys.len() == 1 {
            self.one_key_runner.call((function, words))
        } else {
            self.runner.call((function, keys.len(), words))
        }
    }

    /// Looks at the script after so many instructions, again and again.
    fn watch(&self, every: u32) -> mlua::Result<()> {
        watch(&self.lua, every, self.spent.clone())
    }
}

/// A word on its way into Lua: text goes there without a copy in between.
fn pushed(word: &[u8]) -> Either<&str, BString> {
    std::str::from_utf8(word).map_or_else(|_| Either::Right(BString::from(word)), Either::Left)
}

fn watch(lua: &Lua, every: u32, spent: Arc<AtomicU64>) -> mlua::Result<()> {
    let triggers = HookTriggers::new().every_nth_instruction(every);
    lua.set_hook(triggers, move |lua, debug| {
        if spent.fetch_add(every.into(), Ordering::Relaxed) < INSTRUCTIONS {
            return Ok(VmState::Continue);
        }
        if every != 1 {
            // From now on everywhere, or the script could catch it each time.
            watch(lua, 1, spent.clone())?;
        }
        if debug.source().source.is_some_and(|source| source == raised::PRELUDE) {
            return Ok(VmState::Continue);
        }
        Err(Raised::Refusal("ERR Script killed: it did not end".to_owned()).error())
    })
}

/// Some words of a command.
type Part<'a, 'b> = &'b [&'a [u8]];

fn keys_and_args<'a, 'b>(words: Part<'a, 'b>) -> Result<(Part<'a, 'b>, Part<'a, 'b>), ErrorText> {
    let count = arguments::integer(words[2])?;
    let rest = &words[3..];
    let count = usize::try_from(count).map_err(|_| ErrorText::from("ERR Number of keys can't be negative"))?;
    rest.split_at_checked(count).ok_or_else(|| "ERR Number of keys can't be greater than number of args".into())
}

/// The words of an error that was explained.
fn told(name: &str, explained: &Table) -> ErrorText {
    let words: String = explained.raw_get("words").unwrap_or_default();
    match explained.raw_get::<Option<String>>("place") {
        Ok(Some(place)) => format!("{words} script: {name}, on {place}.").into(),
        _ => words.into(),
    }
}
