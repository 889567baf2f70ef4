//! The catalogue of all that is asked of a key: every Lua file with its declared keys and arguments, and every command that needs
//! none. It runs none and reads no reply.

use std::{collections::BTreeSet, fmt};

/// One Lua file, or one command of the server's own.
///
/// The declared names are in the order of `KEYS` and `ARGV`; a last one that ends in `...` stands for one or more, and last ones
/// that end in `?` may be left out.
pub(crate) struct Script {
    pub(crate) path: &'static str,
    /// Its text; none of a command.
    pub(crate) source: &'static str,
    /// A command, word for word, with its one key right behind its name; none of a script.
    pub(crate) words: &'static [Word],
    pub(crate) keys: &'static [&'static str],
    pub(crate) args: &'static [&'static str],
    /// What it answers with where it goes as expected: `1`, or what the number is. Anything else is an array.
    pub(crate) answer: &'static str,
}

/// A word of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Is(&'static str),
    Key,
    /// The argument at this place.
    Arg(usize),
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.path)
    }
}

impl Script {
    /// Whether a call with so many keys and arguments is one that was declared.
    pub(crate) fn takes(&self, keys: usize, args: usize) -> bool {
        let fits = |declared: &[&str], given: usize| {
            let least = declared.iter().filter(|name| !name.ends_with('?')).count();
            let any = declared.last().is_some_and(|last| last.ends_with("..."));
            given >= least && (any || given <= declared.len())
        };
        fits(self.keys, keys) && fits(self.args, args)
    }
}

/// Every command that is sent to a server which runs no scripts, and deletes a key by this one while it has a value.
pub(crate) fn compared(deletes: &'static Script) -> BTreeSet<&'static str> {
    COMMANDS.iter().chain(COMPARING).chain([&deletes]).filter_map(|command| command.command()).collect()
}

/// Every command that is sent, and that some script calls, but for those by which it publishes: which one that is, is said by an
/// argument.
pub(crate) fn called() -> BTreeSet<&'static str> {
    let sent = COMMANDS.iter().filter_map(|command| command.command());
    CATALOGUE.iter().flat_map(|script| script.source.lines()).flat_map(calls).chain(sent).collect()
}

impl Script {
    /// The name of the command, where it is no script.
    pub(crate) fn command(&self) -> Option<&'static str> {
        if let Some(Word::Is(name)) = self.words.first() { Some(name) } else { None }
    }

    /// What it calls in one of its lines, from 1 on.
    pub(crate) fn called_in(&self, line: usize) -> Option<&'static str> {
        calls(self.source.lines().nth(line.checked_sub(1)?)?).next()
    }

    /// What it calls without ending where that is refused: it answers with the refusal.
    pub(crate) fn answered(&self) -> BTreeSet<&'static str> {
        let asked = self.source.lines().filter_map(|line| line.split_once("redis.p"));
        asked.flat_map(|(_, call)| calls(call)).collect()
    }
}

/// The names of commands in a line of a script.
fn calls(line: &'static str) -> impl Iterator<Item = &'static str> {
    let code = line.split("--").next().unwrap_or_default();
    code.split("call('").skip(1).filter_map(|call| call.split('\'').next())
}

/// Declares `folder { NAME = verb(keys; args) -> answer; }` and collects everything that was declared.
macro_rules! scripts {
    ($($folder:ident {
        $($name:ident = $verb:ident($($key:literal),+; $($arg:literal),*) -> $answer:literal;)+
    })+) => {
        $(pub(crate) mod $folder {
            use super::Script;

            $(pub(crate) static $name: Script = Script {
                path: concat!("lua/", stringify!($folder), "/", stringify!($verb), ".lua"),
                source: include_str!(concat!("../lua/", stringify!($folder), "/", stringify!($verb), ".lua")),
                words: &[],
                keys: &[$($key),+],
                args: &[$($arg),*],
                answer: $answer,
            };)+
        })+

        /// Every script there is.
        pub(crate) static CATALOGUE: &[&Script] = &[$($(&$folder::$name),+),+];
    };
}

scripts! {
    reentrant {
        ACQUIRE = acquire("lock"; "field", "lease_ms", "holds_after?") -> "holds";
        RELEASE = release("lock"; "field", "publish", "channel", "holds_left?") -> "listeners";
        RENEW = renew("lock..."; "lease_ms", "field...") -> "1";
        HAND_OVER = hand_over("lock"; "from", "to", "lease_ms", "publish", "channel") -> "1";
        FORCE_RELEASE = force_release("lock"; "publish", "channel", "field...") -> "listeners";
        INSPECT = inspect("lock";) -> "{ttl_ms, field, count, ...}";
    }
    fenced {
        ACQUIRE = acquire("lock", "counter"; "field", "lease_ms", "holds_after?") -> "{1, 0, holds, fence}";
        HAND_OVER = hand_over("lock", "counter"; "from", "to", "lease_ms", "publish", "channel") -> "{1, fence, listeners}";
    }
    token {
        ACQUIRE = acquire("lock"; "token", "lease_ms", "orphan_ms?") -> "1";
        RELEASE = release("lock"; "token", "publish?", "channel?") -> "listeners";
        RENEW = renew("lock..."; "lease_ms", "token...") -> "1";
        HAND_OVER = hand_over("lock"; "from", "to", "lease_ms", "publish?", "channel?") -> "1";
        INSPECT = inspect("lock";) -> "{ttl_ms, token}";
    }
    job {
        ACQUIRE = acquire("job"; "field", "lease_ms", "every_ms", "offset_ms", "within_ms", "max_attempts", "keep_ms")
            -> "{1, 0, attempt, start_ms, now_ms, last_ms}";
        RELEASE = release("job"; "field", "note", "start_ms", "keep_ms", "publish", "channel") -> "listeners";
        RENEW = renew("job..."; "lease_ms", "field...") -> "1";
        FORCE_RELEASE = force_release("job"; "publish", "channel", "field...") -> "listeners";
        INSPECT = inspect("job";) -> "{ttl_ms, now_ms, field, value, ...}";
    }
}

/// What needs no script.
pub(crate) mod commands {
    use super::{
        Script,
        Word::{self, Arg, Is, Key},
    };

    macro_rules! command {
        ($name:ident = $path:literal: $words:expr, $args:expr, $answer:literal, $what:literal) => {
            #[doc = $what]
            pub(crate) static $name: Script = Script {
                path: $path,
                source: "",
                words: const { $words as &[Word] },
                keys: &["lock"],
                args: &$args,
                answer: $answer,
            };
        };
    }

    command!(SET_NX = "SET NX PX": &[Is("SET"), Key, Arg(0), Is("NX"), Is("PX"), Arg(1)], ["token", "lease_ms"], "OK",
        "Takes a free key.");
    command!(SET_IFEQ = "SET IFEQ PX": &[Is("SET"), Key, Arg(1), Is("IFEQ"), Arg(0), Is("PX"), Arg(2)], ["from", "to", "lease_ms"], "OK",
        "Moves the key from one token to another, or the same, and sets its TTL.");
    command!(DELIFEQ = "DELIFEQ": &[Is("DELIFEQ"), Key, Arg(0)], ["token"], "1", "Deletes the key of a token, as Valkey has it.");
    command!(DELEX = "DELEX IFEQ": &[Is("DELEX"), Key, Is("IFEQ"), Arg(0)], ["token"], "1", "The same, as Redis has it.");
    command!(GET = "GET": &[Is("GET"), Key], [], "token", "Whose token the key has.");
    command!(PTTL = "PTTL": &[Is("PTTL"), Key], [], "ttl_ms", "For how long.");
    command!(PEXPIRE_NX = "PEXPIRE NX": &[Is("PEXPIRE"), Key, Arg(0), Is("NX")], ["orphan_ms"], "1",
        "Gives a key without a TTL one.");
}

/// Every command that is sent to any server.
pub(crate) static COMMANDS: &[&Script] = &[&commands::SET_NX];

/// What else is sent to a server that runs no scripts, but for the one that deletes.
static COMPARING: &[&Script] = &[&commands::SET_IFEQ, &commands::GET, &commands::PTTL, &commands::PEXPIRE_NX];

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    /// What a script may name without declaring it.
    const FREE: &[&str] = &[
        "redis", "KEYS", "ARGV", "ipairs", "pairs", "tonumber", "tostring", "type", "unpack", "math", "string", "table",
    ];

    const KEYWORDS: &[&str] = &[
        "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "if", "in", "local", "nil", "not",
        "or", "repeat", "return", "then", "true", "until", "while",
    ];

    #[test]
    fn every_script_keeps_the_contract() {
        for script in CATALOGUE {
            assert_eq!(faults(script), Vec::<String>::new(), "{}", script.path);
        }
    }

    #[test]
    fn every_file_is_in_the_catalogue_and_the_other_way_round() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut on_disk = BTreeSet::new();
        collect(root, Path::new("lua"), &mut on_disk);
        let listed: BTreeSet<String> = CATALOGUE.iter().map(|script| script.path.to_owned()).collect();
        assert_eq!(listed.len(), CATALOGUE.len(), "a file is listed twice");
        assert_eq!(on_disk, listed);
    }

    /// By the tokens of the scripts, which is another way to read them.
    #[test]
    fn what_scripts_call_is_found_and_what_is_called_otherwise_is_a_fault() {
        let tokens: Vec<String> = CATALOGUE.iter().flat_map(|script| code(script.source)).collect();
        let calls = tokens.windows(3).filter(|window| window[1] == "(" && ["call", "pcall"].contains(&&*window[0]));
        let names = calls.map(|window| window[2].trim_matches('\'')).filter(|name| *name != "publish");
        let sent = COMMANDS.iter().filter_map(|command| command.command());
        assert_eq!(called(), names.chain(sent).collect());
        assert!(called().contains("PEXPIRE"));
        assert_eq!(reentrant::ACQUIRE.answered().into_iter().collect::<Vec<_>>(), ["PEXPIRE"]);
        let line = reentrant::ACQUIRE.source.lines().position(|line| line.contains("'HGET'")).unwrap();
        assert_eq!(reentrant::ACQUIRE.called_in(line + 1), Some("HGET"));
        assert_eq!((reentrant::ACQUIRE.called_in(1), reentrant::ACQUIRE.called_in(1000)), (None, None));
    }

    // The checks are worth what they catch: one good script, then one fault at a time put into it.
    #[test]
    fn the_contract_bites() {
        let good = "\
-- Does something.
--
-- KEYS[1] lock: a hash
-- ARGV[1] lease_ms: how long (milliseconds)
-- ARGV[2] field...: holds
-- returns 1: done
-- returns {-1, 0}: gone
-- publishes `0` when done

local lock = KEYS[1]
local lease_ms = tonumber(ARGV[1])

for i = 2, #ARGV do
  local field = ARGV[i]
  redis.call('PEXPIRE', lock, lease_ms)
end
redis.call('PUBLISH', 'a', '0') -- a word like `stray` in a comment is no name
if lease_ms < 0 then
  return {-1, 0}
end
return 1
";
        let script = |source: String| Script {
            path: "lua/made/up.lua",
            source: Box::leak(source.into_boxed_str()),
            words: &[],
            keys: &["lock"],
            args: &["lease_ms", "field..."],
            answer: "1",
        };
        assert_eq!(faults(&script(good.to_owned())), Vec::<String>::new());

        let rows = [
            ("-- Does something.\n", "local early = 1\n-- Does something.\n", "the header must come first"),
            ("-- Does something.", "-- does something", "no sentence of purpose"),
            ("-- KEYS[1] lock: a hash\n", "", "header"),
            ("ARGV[1] lease_ms: how", "ARGV[1] lease: how", "header"),
            ("-- ARGV[2] field...: holds\n", "-- ARGV[2] field...: holds\n-- ARGV[3] more: x\n", "header"),
            ("(milliseconds)", "(seconds)", "lease_ms has no unit"),
            ("field...: holds", "field...: holds (milliseconds)", "field is a time without its unit in the name"),
            ("-- returns 1: done\n-- returns {-1, 0}: gone\n", "", "no returns line"),
            ("-- returns 1: done\n", "", "says not first of all that it returns 1"),
            ("return 1\n", "return {-1, 0}\n", "never returns 1"),
            ("return {-1, 0}\n", "return {-1}\n", "returns 1 parts, and does not say so"),
            ("-- publishes `0` when done\n", "", "publishes without saying so"),
            ("redis.call('PUBLISH', 'a', '0')", "", "says that it publishes"),
            ("local lock = KEYS[1]", "local key = KEYS[1]\nlocal lock = key", "KEYS[1] is not named lock"),
            ("  local field = ARGV[i]\n", "", "no local names field"),
            ("return 1\n", "return {ARGV[4]}\n", "ARGV[4] is not declared"),
            ("return 1\n", "return {stray}\n", "free name stray"),
            ("return 1\n", "return {cjson.encode(lock)}\n", "free name cjson"),
            ("return 1\n", "count = 1\nreturn 1\n", "free name count"),
            ("return 1\n", "return {lock .. 'x'}\n", "joins text"),
            ("lock, lease_ms)", "lock, 30000)", "a time that no *_ms names"),
            ("redis.call('PEXPIRE', ", "redis.call(field, ", "calls what nobody can read"),
        ];
        for (from, to, fault) in rows {
            let found = faults(&script(good.replace(from, to)));
            assert!(found.iter().any(|f| f.contains(fault)), "{fault:?} was not found in {found:?}");
        }
    }

    #[test]
    fn what_may_be_left_out_stands_last_and_may_be_left_out() {
        let called = |given| (reentrant::ACQUIRE.takes(1, given), reentrant::RENEW.takes(2, given));
        assert_eq!(
            [0, 1, 2, 3, 4].map(called),
            [(false, false), (false, false), (true, true), (true, true), (false, true)]
        );
        let source =
            reentrant::ACQUIRE.source.replace("holds_after?", "holds_after").replace("lease_ms:", "lease_ms?:");
        let args = &["field", "lease_ms?", "holds_after"];
        let script = Script { path: "a", source: source.leak(), words: &[], keys: &["lock"], args, answer: "holds" };
        assert_eq!(faults(&script), ["what may be left out does not come last"]);
    }

    fn collect(root: &Path, folder: &Path, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(root.join(folder)).unwrap() {
            let path = folder.join(entry.unwrap().file_name());
            if root.join(&path).is_dir() {
                collect(root, &path, found);
            } else if path.extension().is_some_and(|ext| ext == "lua") {
                found.insert(path.to_str().unwrap().replace('\\', "/"));
            }
        }
    }

    /// Everything about a script that breaks the contract.
    fn faults(script: &Script) -> Vec<String> {
        let header: Vec<&str> =
            script.source.lines().map_while(|line| line.strip_prefix("--")).map(str::trim).collect();
        let body = code(script.source);
        let mut faults = Vec::new();
        header_faults(&header, script, &mut faults);
        answer_faults(&header, script.answer, &body, &mut faults);
        publish_faults(&header, script.source, &mut faults);
        input_faults("KEYS", script.keys, &body, &mut faults);
        input_faults("ARGV", script.args, &body, &mut faults);
        body_faults(&body, &mut faults);
        faults
    }

    fn header_faults(header: &[&str], script: &Script, faults: &mut Vec<String>) {
        if header.is_empty() {
            faults.push("the header must come first".to_owned());
        }
        let purpose = header.first().copied().unwrap_or_default();
        if !purpose.starts_with(char::is_uppercase) || !purpose.contains('.') {
            faults.push("no sentence of purpose".to_owned());
        }

        let number = |list: &'static str, names: &[&str]| -> Vec<String> {
            names.iter().enumerate().map(|(i, name)| format!("{list}[{}] {name}", i + 1)).collect()
        };
        let declared = [number("KEYS", script.keys), number("ARGV", script.args)].concat();
        let mut from_there = declared.iter().skip_while(|name| !name.ends_with('?'));
        if from_there.any(|name| !name.ends_with('?')) {
            faults.push("what may be left out does not come last".to_owned());
        }
        let inputs = header.iter().filter(|line| line.starts_with("KEYS[") || line.starts_with("ARGV["));
        let (described, meanings): (Vec<String>, Vec<&str>) =
            inputs.map(|line| line.split_once(": ").unwrap_or((line, ""))).map(|(d, m)| (d.to_owned(), m)).unzip();
        if described != declared {
            faults.push(format!("the header has {described:?}, the catalogue {declared:?}"));
        }
        for (input, meaning) in described.iter().zip(meanings) {
            let name = input.split(' ').next_back().unwrap_or_default().trim_end_matches(['.', '?']);
            match (name.ends_with("_ms"), meaning.ends_with("(milliseconds)")) {
                (true, false) => faults.push(format!("{name} has no unit")),
                (false, true) => faults.push(format!("{name} is a time without its unit in the name")),
                _ => {}
            }
        }
    }

    /// What it answers with is declared and described, the number where it goes as expected first of all.
    fn answer_faults(header: &[&str], answer: &str, body: &[String], faults: &mut Vec<String>) {
        let returns = header.iter().filter_map(|line| Some(line.strip_prefix("returns ")?.split_once(": ")?.0));
        let returns: Vec<&str> = returns.collect();
        match returns.first() {
            None => faults.push("no returns line".to_owned()),
            Some(first) if *first != answer => {
                faults.push(format!("says not first of all that it returns {answer}, but {first}"));
            }
            Some(_) => {}
        }
        if !answer.starts_with('{') && !body.windows(2).any(|pair| pair[0] == "return" && pair[1] == answer) {
            faults.push(format!("never returns {answer}"));
        }
        for (at, _) in body.windows(2).enumerate().filter(|(_, pair)| pair[0] == "return" && pair[1] == "{") {
            let list = body[at + 2..].iter().take_while(|token| *token != "}");
            let parts = 1 + list.filter(|token| *token == ",").count();
            if !returns.iter().any(|form| form.starts_with('{') && form.split(", ").count() == parts) {
                faults.push(format!("returns {parts} parts, and does not say so"));
            }
        }
    }

    fn publish_faults(header: &[&str], source: &str, faults: &mut Vec<String>) {
        let publishes = ["call(publish,", "call('PUBLISH'", "call('SPUBLISH'"].iter().any(|call| source.contains(call));
        match (publishes, header.iter().any(|line| line.starts_with("publishes "))) {
            (true, false) => faults.push("publishes without saying so".to_owned()),
            (false, true) => faults.push("says that it publishes, and does not".to_owned()),
            _ => {}
        }
    }

    /// Every input has a local of its declared name, and no other is read.
    fn input_faults(list: &str, names: &[&str], body: &[String], faults: &mut Vec<String>) {
        let text = body.join(" ");
        for (i, name) in names.iter().enumerate() {
            let at = i + 1;
            if let Some(name) = name.strip_suffix("...") {
                let named = [format!("local {name} = {list} [ i"), format!(", {name} in ipairs ( {list} )")];
                if !named.iter().any(|form| text.contains(form)) {
                    faults.push(format!("no local names {name}"));
                }
            } else {
                let name = name.trim_end_matches('?');
                let named =
                    [format!("local {name} = {list} [ {at} ]"), format!("local {name} = tonumber ( {list} [ {at} ]")];
                if !named.iter().any(|form| text.contains(form)) {
                    faults.push(format!("{list}[{at}] is not named {name}"));
                }
            }
        }
        let fixed = names.iter().filter(|name| !name.ends_with("...")).count();
        for window in body.windows(3) {
            if let [read, open, index] = window
                && read == list
                && open == "["
                && index.parse::<usize>().is_ok_and(|index| index > fixed)
            {
                faults.push(format!("{list}[{index}] is not declared"));
            }
        }
    }

    fn body_faults(body: &[String], faults: &mut Vec<String>) {
        let known: BTreeSet<&str> = locals(body).into_iter().chain(FREE.iter().chain(KEYWORDS).copied()).collect();
        for (i, token) in body.iter().enumerate() {
            let is_member = i > 0 && (body[i - 1] == "." || body[i - 1] == ":");
            if token.starts_with(|c: char| c.is_alphabetic() || c == '_')
                && !is_member
                && !known.contains(token.as_str())
            {
                faults.push(format!("free name {token}"));
            }
            let called = (token == "call" || token == "pcall").then(|| body.get(i + 2)).flatten();
            if called.is_some_and(|name| name != "publish" && !name.starts_with('\'')) {
                faults.push("calls what nobody can read, so that no right for it is asked for".to_owned());
            }
            if token == ".." {
                faults.push("joins text, and so may build a key".to_owned());
            }
            let time = token == "'PEXPIRE'" && body.get(i + 4).is_none_or(|time| !time.ends_with("_ms"));
            if time {
                faults.push("PEXPIRE with a time that no *_ms names".to_owned());
            }
        }
    }

    /// The names after `local` and between `for` and its `=` or `in`.
    fn locals(body: &[String]) -> Vec<&str> {
        let mut names = Vec::new();
        for (i, token) in body.iter().enumerate() {
            if token == "local" || token == "for" {
                let list = body[i + 1..].iter().map(String::as_str).take_while(|token| *token != "=" && *token != "in");
                names.extend(list.filter(|token| *token != ","));
            }
        }
        names
    }

    /// The tokens of a script without its comments. Knows the Lua that the scripts are written in: line comments, quoted
    /// strings without escapes.
    fn code(source: &str) -> Vec<String> {
        let mut tokens = Vec::new();
        let mut rest = source.trim_start();
        while let Some(first) = rest.chars().next() {
            let len = if rest.starts_with("--") {
                rest.find('\n').unwrap_or(rest.len())
            } else if first == '\'' || first == '"' {
                rest[1..].find(first).expect("a string without an end") + 2
            } else if first.is_alphanumeric() || first == '_' {
                rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())
            } else if let Some(pair) = ["..", "==", "~=", "<=", ">="].iter().find(|pair| rest.starts_with(**pair)) {
                pair.len()
            } else {
                first.len_utf8()
            };
            let (token, after) = rest.split_at(len);
            if !token.starts_with("--") {
                tokens.push(token.to_owned());
            }
            rest = after.trim_start();
        }
        tokens
    }
}
