//! The rooms of the library: who may see whom, and no circle of files inside a room. Both are computed from the paths that
//! begin with `crate::`, `super::` and `self::`, in `use` lines and elsewhere.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use super::{
    ROOT, bites, collect, everywhere, in_code,
    rust::{Line, code, words},
    spares,
};

/// Each room and those below it that it may see, from above to below. Beside them all may see what is in `LEAVES`, but for the
/// state, which sees nothing but itself.
const ROOMS: &[(&str, &[&str])] = &[
    ("guide", &[]),
    ("fence", &[]),
    ("operate", &["client", "locks", "engine", "backend"]),
    ("embedded", &["backend"]),
    ("red_lock", &["client", "locks", "quorum", "engine", "backend"]),
    ("client", &["acl", "locks", "engine", "backend"]),
    ("schedule", &["locks"]),
    ("locks", &["acl", "quorum", "engine", "backend"]),
    ("acl", &["backend"]),
    ("quorum", &["engine", "state", "backend"]),
    ("engine", &["state", "backend"]),
    ("state", &[]),
    ("backend", &[]),
    ("token", &["error"]),
    ("runtime", &["error"]),
    ("lease", &["error"]),
    ("error", &["name"]),
    // Names and errors need each other: a bad name is an error, and an error says of which name.
    ("name", &["error"]),
    ("keys", &["glob"]),
    ("script", &[]),
    ("owner", &[]),
    ("glob", &[]),
    ("chance", &[]),
    ("spare", &[]),
];

/// What lies below all rooms but the state.
const LEAVES: &[&str] =
    &["chance", "error", "glob", "keys", "lease", "name", "owner", "runtime", "script", "spare", "token"];

/// Files that see up today, and what. There shall be no more of them: a store's faults are asked for by the client that they
/// befall.
const KNOWN: &[(&str, &str)] = &[("src/backend/embedded/client_faults.rs", "client")];

/// Rooms whose files must form no circle.
const WITHOUT_CIRCLES: &[&str] = &["src/state", "src/engine", "src/backend/embedded"];

/// What decides about a name does nothing by itself. These words of other crates and of `std` would let it.
const DOERS: &[&str] = &[
    "Arc",
    "AtomicBool",
    "AtomicU64",
    "AtomicUsize",
    "Mutex",
    "OnceLock",
    "RwLock",
    "SystemTime",
    "async",
    "await",
    "dashmap",
    "fastrand",
    "futures_util",
    "rand",
    "redis",
    "thread",
    "tokio",
    "tokio_util",
    "tracing",
    "uuid",
];

/// The same, as paths.
const DOING: &[&str] =
    &["std::fs", "std::io", "std::net", "std::os", "std::process", "std::sync", "std::time::Instant"];

#[test]
fn arrows_between_rooms_run_down_only() {
    bites(upward, "src/state/name.rs", "use crate::engine::Hold;");
    bites(upward, "src/state/name.rs", "use crate::{\n    error::Error,\n    backend::{Fault, FaultKind},\n};");
    bites(upward, "src/state/name.rs", "use crate::backend::Fault;");
    bites(upward, "src/engine/hold.rs", "fn lock() -> crate::locks::Mutex {}");
    bites(upward, "src/locks/mutex.rs", "use crate::client::Client;");
    bites(upward, "src/backend/slot.rs", "use crate::{engine::Hold};");
    bites(upward, "src/engine/hold.rs", "use super::super::client::Client;");
    bites(upward, "src/state/name.rs", "use crate::error::Error;");
    bites(upward, "src/backend/slot.rs", "use crate::state::Name;");
    bites(upward, "src/keys.rs", "use crate::owner::Owner;");
    spares(upward, "src/engine/hold.rs", "use crate::{state::Name, backend::Fault, lease::Lease}; // crate::client");
    spares(upward, "src/backend/slot.rs", "use crate::{keys::slot, error::Error};");
    spares(upward, "src/client/builder.rs", "use crate::{engine::Hold, locks::Mutex, client::Client};");
    spares(upward, "src/engine/hold.rs", "#[cfg(test)]\nmod tests {\n    use crate::client::Client;\n}");
    everywhere("src", "rs", upward);
}

#[test]
fn the_table_of_a_room_names_each_of_its_files_once_and_no_other() {
    let table = "//! | to do | `a.rs`, and more `b.rs` |\n//! In words: `c.rs`.\nmod a;";
    assert_eq!(untabled(table, &["a", "b"]), [""; 0]);
    assert_eq!(untabled(table, &["a", "b", "c"]), ["c.rs is named 0 times"]);
    assert_eq!(untabled(table, &["a"]), ["b.rs is not there"]);
    assert_eq!(untabled("//! | `a.rs` | `a.rs` |", &["a"]), ["a.rs is named 2 times"]);

    let room = Path::new(ROOT).join("src/engine");
    let entries = fs::read_dir(&room).expect("the engine is there").flatten();
    let names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let names: Vec<&str> = names.iter().filter_map(|name| name.strip_suffix(".rs")).collect();
    let names: Vec<&str> = names.into_iter().filter(|name| !["mod", "inside"].contains(name)).collect();
    let table = fs::read_to_string(room.join("mod.rs")).expect("the engine has a table");
    // The second table is about bounds.
    let table = table.split("Nothing grows without a bound").next().unwrap_or_default();
    assert_eq!(untabled(table, &names), [""; 0]);
}

/// What a table of files lacks, or has too often.
fn untabled(text: &str, files: &[&str]) -> Vec<String> {
    let rows = text.lines().filter(|line| line.starts_with("//! |"));
    let named: Vec<&str> =
        rows.flat_map(|row| row.split('`').skip(1).step_by(2)).filter_map(|name| name.strip_suffix(".rs")).collect();
    let often = |file: &&str| named.iter().filter(|name| *name == file).count();
    let wrong = files.iter().filter(|file| often(file) != 1);
    let mut found: Vec<String> = wrong.map(|file| format!("{file}.rs is named {} times", often(file))).collect();
    found.extend(named.iter().filter(|name| !files.contains(name)).map(|name| format!("{name}.rs is not there")));
    found
}

#[test]
fn every_module_of_the_library_is_a_room() {
    let entries = fs::read_dir(Path::new(ROOT).join("src")).expect("the sources are there").flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().trim_end_matches(".rs").to_owned());
    let modules: BTreeSet<String> = names.filter(|name| name != "lib" && name != "bin").collect();
    let rooms: BTreeSet<String> = ROOMS.iter().map(|(room, _)| (*room).to_owned()).collect();
    assert_eq!(modules, rooms);
}

#[test]
fn a_known_arrow_is_forgotten_with_its_last_use() {
    for (path, to) in KNOWN {
        let text = fs::read_to_string(Path::new(ROOT).join(path)).expect("a file with a known arrow is there");
        assert!(arrows(path, &text).iter().any(|(_, room)| room == to), "{path} does not see {to} any more");
    }
}

#[test]
fn what_decides_about_a_name_does_nothing_by_itself() {
    bites(doing, "src/state/name.rs", "use tokio::time::Instant;");
    bites(doing, "src/state/name.rs", "use std::{sync::Arc, time::Duration};");
    bites(doing, "src/state/name.rs", "let now = std::time::Instant::now();");
    bites(doing, "src/state/name.rs", "use std::time::{Duration, Instant};");
    bites(doing, "src/state/name.rs", "pub async fn on() {}");
    bites(doing, "src/state/name.rs", "tracing::debug!(\"lost\");");
    spares(doing, "src/state/name.rs", "use std::time::Duration;\nuse crate::state::deadline::Instant; // no Arc");
    spares(doing, "src/engine/hold.rs", "use std::sync::Arc;");
    // It drives what decides, and is no part of the library.
    spares(doing, "src/state/explore/search.rs", "use std::{thread, time::Instant};");
    everywhere("src", "rs", doing);
}

#[test]
fn no_circle_of_files_is_in_a_room() {
    let room = |files: &[(&str, &str)]| {
        let files = files.iter().map(|(path, text)| (format!("src/room/{path}"), (*text).to_owned()));
        circles("src/room", &files.collect::<Vec<_>>())
    };
    let face = ("mod.rs", "mod a;\nmod b;\nmod c;\npub(crate) use self::{a::A, b::{B, B2 as Other}};");
    assert_eq!(room(&[face, ("a.rs", "use crate::room::b::B;"), ("b.rs", "use super::c::C;"), ("c.rs", "")]), [""; 0]);
    let one = ["src/room/a.rs, src/room/b.rs"];
    assert_eq!(room(&[face, ("a.rs", "use crate::room::b::B;"), ("b.rs", "use super::a::A;")]), one);
    // By the names that the room shows, in a group, and in the midst of code.
    assert_eq!(room(&[face, ("a.rs", "use crate::{room::Other};"), ("b.rs", "fn a() -> super::A {}")]), one);
    let three = ["src/room/a.rs, src/room/b.rs, src/room/c.rs"];
    let files = [face, ("a.rs", "use super::{c::{self, C}};"), ("b.rs", "use super::a::*;"), ("c.rs", "use super::B;")];
    assert_eq!(room(&files), three);
    // What the room's own file defines belongs to that file.
    let face = ("mod.rs", "mod a;\nuse self::a::A;\npub(crate) struct Own;");
    assert_eq!(room(&[face, ("a.rs", "use super::Own;")]), ["src/room/a.rs, src/room/mod.rs"]);
    // A folder is a room in the room.
    let files = [("mod.rs", "mod a;\nmod b;"), ("a.rs", "use super::b::C;"), ("b/mod.rs", "mod c;\npub use c::C;")];
    assert_eq!(
        room(&[files[0], files[1], files[2], ("b/c.rs", "use crate::room::a::A;")]),
        ["src/room/a.rs, src/room/b/c.rs"]
    );

    let found: Vec<String> = WITHOUT_CIRCLES.iter().flat_map(|room| circles(room, &files_of(room))).collect();
    assert!(found.is_empty(), "files that need each other:\n{}", found.join("\n"));
}

fn upward(path: &str, text: &str) -> Vec<String> {
    let up = arrows(path, text).into_iter().filter(|(from, to)| {
        let sees = ROOMS.iter().find(|(room, _)| room == from).map_or(&[][..], |(_, sees)| *sees);
        let leaf = LEAVES.contains(&to.as_str()) && !LEAVES.contains(&from.as_str()) && from != "state";
        !leaf && !sees.contains(&to.as_str()) && !KNOWN.contains(&(path, to.as_str()))
    });
    up.map(|(from, to)| format!("{from} sees {to}, which is not below it")).collect()
}

fn doing(path: &str, text: &str) -> Vec<String> {
    if !path.starts_with("src/state/") || path.starts_with("src/state/explore/") {
        return Vec::new();
    }
    let does = |line: &Line| line.words().any(|word| DOERS.contains(&word));
    let mut found = in_code(path, text, "names what only somebody who does something needs", does);
    let paths = paths(path, text).into_iter().map(|path| path.join("::"));
    let does = |path: &String| DOING.iter().any(|doing| path == doing || path.starts_with(&format!("{doing}::")));
    found.extend(paths.filter(does).map(|path| format!("names {path}")));
    found
}

/// From one room to another.
fn arrows(path: &str, text: &str) -> Vec<(String, String)> {
    let room_of = |name: &str| ROOMS.iter().find(|(room, _)| *room == name).map(|(room, _)| (*room).to_owned());
    let Some(from) = module(path).get(1).and_then(|name| room_of(name)) else { return Vec::new() };
    let seen = paths(path, text).into_iter().filter(|path| path[0] == "crate");
    let rooms = seen.filter_map(|path| room_of(path.get(1)?));
    let others: BTreeSet<String> = rooms.filter(|to| *to != from).collect();
    others.into_iter().map(|to| (from.clone(), to)).collect()
}

/// The circles of a room, each as the files that are on it.
fn circles(room: &str, files: &[(String, String)]) -> Vec<String> {
    let file_of: BTreeMap<Vec<String>, &str> = files.iter().map(|(path, _)| (module(path), path.as_str())).collect();
    let mut shown = BTreeMap::new();
    for (path, text) in files {
        for (name, of) in re_exports(path, text) {
            shown.insert([module(path), vec![name]].concat(), of);
        }
    }
    let home = |path: &[String]| {
        let mut path = path.to_vec();
        // A name may be shown by several faces in a row.
        for _ in 0..8 {
            let Some((cut, of)) = (1..=path.len()).find_map(|cut| Some((cut, shown.get(&path[..cut])?))) else { break };
            path = [of, &path[cut..]].concat();
        }
        (0..=path.len()).rev().find_map(|end| file_of.get(&path[..end]).copied())
    };
    let mut sees: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (path, text) in files {
        let shown: BTreeSet<Vec<String>> = re_exports(path, text).into_iter().map(|(_, of)| of).collect();
        let used = paths(path, text).into_iter().filter(|path| path[0] == "crate" && !shown.contains(path));
        let others = used.filter_map(|used| home(&used)).filter(|other| other != path && other.starts_with(room));
        sees.insert(path, others.collect());
    }
    let reached: BTreeMap<&str, BTreeSet<&str>> = sees.keys().map(|path| (*path, reaches(path, &sees))).collect();
    let on_one = |a: &str, b: &str| reached[a].contains(b) && reached[b].contains(a);
    let circle = |path: &&str| sees.keys().filter(|other| on_one(path, other)).copied().collect::<Vec<_>>().join(", ");
    let found: BTreeSet<String> = sees.keys().map(circle).filter(|circle| !circle.is_empty()).collect();
    found.into_iter().collect()
}

fn reaches<'a>(from: &'a str, sees: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> BTreeSet<&'a str> {
    let (mut reached, mut todo) = (BTreeSet::new(), vec![from]);
    while let Some(at) = todo.pop() {
        todo.extend(sees[at].iter().filter(|to| reached.insert(**to)));
    }
    reached
}

/// The module that a file is, from the crate on.
fn module(path: &str) -> Vec<String> {
    let path = path.strip_prefix("src/").unwrap_or(path).trim_end_matches(".rs").trim_end_matches("/mod");
    let names = path.split('/').filter(|name| *name != "lib").map(str::to_owned);
    ["crate".to_owned()].into_iter().chain(names).collect()
}

/// All paths of a file that begin in the crate or in `std`, from there on. `super` and `self` are resolved.
fn paths(path: &str, text: &str) -> Vec<Vec<String>> {
    let lines: Vec<String> = code(path, text).into_iter().map(|line| line.code).collect();
    trees(&module(path), &lines.join("\n")).into_iter().map(|(_, path)| path).collect()
}

/// What a file shows of others: the name, and whose it is.
fn re_exports(path: &str, text: &str) -> Vec<(String, Vec<String>)> {
    let lines: Vec<String> = code(path, text).into_iter().map(|line| line.code).collect();
    let (here, all) = (module(path), lines.join("\n"));
    let statements = all.split(';').map(str::trim);
    let mut shown = Vec::new();
    for statement in statements {
        let Some(at) = statement.rfind("use ").filter(|at| statement[..*at].trim_end().ends_with(['b', ')'])) else {
            continue;
        };
        let before = statement[..at].trim_end();
        let is_public = before.ends_with("pub") || before.rfind("pub(").is_some_and(|at| !before[at..].contains(' '));
        if !is_public {
            continue;
        }
        // `pub use a::A` in a module's own file is `self::a::A`.
        let tree = statement[at + 4..].trim();
        let rooted = ["crate::", "self::", "super::", "std::"].iter().any(|root| tree.starts_with(root));
        let tree = if rooted { tree.to_owned() } else { format!("self::{tree}") };
        shown.extend(trees(&here, &tree));
    }
    shown
}

/// The paths of a piece of code, each with the name that it goes by.
fn trees(here: &[String], code: &str) -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    for root in ["crate", "self", "super", "std"] {
        for (at, _) in code.match_indices(&format!("{root}::")) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            let mut reader = Reader { rest: &code[at..], found: Vec::new() };
            reader.tree(&[]);
            let full = |(name, path): (String, Vec<String>)| (name, resolved(here, &path));
            found.extend(reader.found.into_iter().map(full));
        }
    }
    found
}

fn resolved(here: &[String], path: &[String]) -> Vec<String> {
    let ups = path.iter().take_while(|name| *name == "super" || *name == "self").count();
    if ups == 0 {
        return path.to_vec();
    }
    let supers = path[..ups].iter().filter(|name| *name == "super").count();
    [&here[..here.len().saturating_sub(supers)], &path[ups..]].concat()
}

/// Reads one tree of a `use`, or one path.
struct Reader<'a> {
    rest: &'a str,
    found: Vec<(String, Vec<String>)>,
}

impl Reader<'_> {
    fn tree(&mut self, before: &[String]) {
        self.rest = self.rest.trim_start();
        if let Some(rest) = self.rest.strip_prefix('{') {
            self.rest = rest;
            while !self.rest.trim_start().starts_with('}') && !self.rest.is_empty() {
                let left = self.rest.len();
                self.tree(before);
                self.rest = self.rest.trim_start().trim_start_matches(',').trim_start();
                if self.rest.len() == left {
                    return;
                }
            }
            self.rest = self.rest.trim_start().strip_prefix('}').unwrap_or_default();
            return;
        }
        let name: String = self.rest.chars().take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '*')).collect();
        self.rest = &self.rest[name.len()..];
        // `a::{self}` is `a`.
        let itself = name == "self" && !before.is_empty();
        let path = if itself { before.to_vec() } else { [before, &[name]].concat() };
        match self.rest.strip_prefix("::") {
            Some(rest) => {
                self.rest = rest;
                self.tree(&path);
            }
            None => {
                let renamed = self.rest.trim_start().strip_prefix("as ").map(str::trim_start);
                let renamed = renamed.and_then(|rest| words(rest).next().map(|name| (name.to_owned(), rest)));
                let own = path.last().cloned().unwrap_or_default();
                let name = renamed.map_or(own, |(name, rest)| {
                    self.rest = &rest[name.len()..];
                    name
                });
                self.found.push((name, path.into_iter().filter(|name| name != "*" && !name.is_empty()).collect()));
            }
        }
    }
}

fn files(folder: &str) -> Vec<(String, String)> {
    let mut paths = Vec::new();
    collect(&Path::new(ROOT).join(folder), true, &mut paths);
    paths.retain(|path| path.extension().unwrap_or_default() == "rs");
    let read = |path: std::path::PathBuf| {
        let text = fs::read_to_string(&path).expect("a source file can be read");
        (path.strip_prefix(ROOT).expect("the file is below the root").to_string_lossy().into_owned(), text)
    };
    paths.into_iter().map(read).collect()
}

/// Those that are the library's: what explores the state is compiled by itself.
fn files_of(room: &str) -> Vec<(String, String)> {
    files(room).into_iter().filter(|(path, _)| !path.starts_with("src/state/explore/")).collect()
}
