//! Which traffic a rule is about. What happens to it is the rule's.

use std::{
    collections::HashMap,
    fmt, fs,
    ops::RangeInclusive,
    path::Path,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

/// Where the scripts are.
const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/lua");

/// A test on the words of a command or a push.
type Predicate = Arc<dyn Fn(&[Vec<u8>]) -> bool + Send + Sync>;

/// Traffic that a rule is about: what it is, on which connection, and at which of its occurrences.
#[derive(Clone)]
pub(crate) struct Match {
    what: What,
    on: On,
    predicates: Vec<Predicate>,
    occurrences: RangeInclusive<usize>,
}

#[derive(Clone, Debug)]
enum What {
    /// Any request.
    Request,
    /// A request, by the command's name.
    Command(String),
    /// A request that runs a script, by the script's verb.
    Script(String),
    /// A frame that answers no request, by its first word: `message`, `subscribe`, …
    Push(String),
}

#[derive(Clone, Copy, Debug)]
enum On {
    Any,
    Connection(u64),
    Subscribing(bool),
}

/// Something on its way, as rules see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'a> {
    pub(super) connection: u64,
    /// Whether the connection has sent a SUBSCRIBE, this request included.
    pub(super) subscribing: bool,
    pub(super) push: bool,
    pub(super) words: &'a [Vec<u8>],
}

/// Every request.
pub(crate) fn any() -> Match {
    Match::new(What::Request)
}

/// Requests by the command's name, whatever its case.
pub(crate) fn command(name: &str) -> Match {
    Match::new(What::Command(name.to_uppercase()))
}

/// Requests that run this script of the reentrant lock, by its hash or by its text.
pub(crate) fn script(verb: &str) -> Match {
    Match::new(What::Script(verb.to_owned()))
}

/// Frames from the server that answer no request, by their first word: `message`, `subscribe`, `unsubscribe`, …
pub(crate) fn push(kind: &str) -> Match {
    Match::new(What::Push(kind.to_owned()))
}

impl Match {
    fn new(what: What) -> Self {
        Self { what, on: On::Any, predicates: Vec::new(), occurrences: 1..=usize::MAX }
    }

    /// Only where the words, the command's name first, pass a test.
    pub(crate) fn with(mut self, predicate: impl Fn(&[Vec<u8>]) -> bool + Send + Sync + 'static) -> Self {
        self.predicates.push(Arc::new(predicate));
        self
    }

    /// Only where one of the words is this text.
    pub(crate) fn mentioning(self, text: &str) -> Self {
        let text = text.as_bytes().to_vec();
        self.with(move |words| words.contains(&text))
    }

    /// Only on the connection of this number; the first one through a proxy is 0.
    pub(crate) fn on_connection(mut self, number: u64) -> Self {
        self.on = On::Connection(number);
        self
    }

    /// Only on connections that have sent a SUBSCRIBE.
    pub(crate) fn on_subscribing(mut self) -> Self {
        self.on = On::Subscribing(true);
        self
    }

    /// Only on connections that have sent no SUBSCRIBE.
    pub(crate) fn on_commanding(mut self) -> Self {
        self.on = On::Subscribing(false);
        self
    }

    /// Only the nth, counted from one and from the moment the rule was given.
    pub(crate) fn nth(mut self, nth: usize) -> Self {
        self.occurrences = nth..=nth;
        self
    }

    /// Only the first ones.
    pub(crate) fn first(mut self, number: usize) -> Self {
        self.occurrences = 1..=number;
        self
    }

    /// All but the first ones.
    pub(crate) fn after(mut self, number: usize) -> Self {
        self.occurrences = number + 1..=usize::MAX;
        self
    }

    /// Whether it is about this at all, whichever occurrence it is.
    pub(super) fn is_about(&self, seen: &Seen<'_>) -> bool {
        let name = || seen.words.first().map(|name| String::from_utf8_lossy(name).to_uppercase());
        let what = match &self.what {
            What::Request => !seen.push,
            What::Command(wanted) => !seen.push && name().as_ref() == Some(wanted),
            What::Script(wanted) => !seen.push && verb(seen.words).as_ref() == Some(wanted),
            What::Push(wanted) => seen.push && seen.words.first().is_some_and(|kind| kind == wanted.as_bytes()),
        };
        let on = match self.on {
            On::Any => true,
            On::Connection(number) => number == seen.connection,
            On::Subscribing(subscribing) => subscribing == seen.subscribing,
        };
        what && on && self.predicates.iter().all(|passes| passes(seen.words))
    }

    pub(super) fn applies_to(&self, occurrence: usize) -> bool {
        self.occurrences.contains(&occurrence)
    }
}

impl fmt::Debug for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} on {:?}, occurrences {:?}", self.what, self.on, self.occurrences)?;
        if self.predicates.is_empty() { Ok(()) } else { f.write_str(", under a condition") }
    }
}

/// The verb of the script that a command runs, whichever primitive's it is.
pub(crate) fn verb(words: &[Vec<u8>]) -> Option<String> {
    static KNOWN: LazyLock<Catalogue> = LazyLock::new(|| {
        Catalogue::read(["reentrant", "fenced", "token", "job"].map(|folder| Path::new(SCRIPTS).join(folder)))
    });
    KNOWN.verb(words)
}

/// Verbs by the hash and by the text of their scripts.
#[derive(Debug)]
struct Catalogue {
    by_hash: Mutex<HashMap<Vec<u8>, String>>,
    texts: Vec<(String, String)>,
}

impl Catalogue {
    /// Reads folders; one that is not there has no scripts.
    fn read(folders: impl IntoIterator<Item = impl AsRef<Path>>) -> Self {
        let files = folders
            .into_iter()
            .filter_map(|folder| fs::read_dir(folder).ok())
            .flatten()
            .filter_map(Result::ok)
            .map(|file| file.path());
        let texts: Vec<(String, String)> = files
            .filter(|path| path.extension().is_some_and(|extension| extension == "lua"))
            .filter_map(|path| Some((path.file_stem()?.to_str()?.to_owned(), fs::read_to_string(&path).ok()?)))
            .collect();
        let hash = |text: &str| redis::Script::new(text).get_hash().as_bytes().to_vec();
        let by_hash = texts.iter().map(|(verb, text)| (hash(text), verb.clone())).collect();
        Self { by_hash: Mutex::new(by_hash), texts }
    }

    fn verb(&self, words: &[Vec<u8>]) -> Option<String> {
        let name = words.first()?.to_ascii_uppercase();
        match name.as_slice() {
            b"EVALSHA" => self.by_hash().get(&words.get(1)?.to_ascii_lowercase()).cloned(),
            b"EVAL" => self.learn(words.get(1)?),
            b"SCRIPT" => {
                // Loading runs nothing; but the hash of a text with shared functions before it is learnt here.
                words.get(2).and_then(|text| self.learn(text));
                None
            }
            _ => None,
        }
    }

    /// The verb of a text that is or ends with a file.
    fn learn(&self, text: &[u8]) -> Option<String> {
        let text = str::from_utf8(text).ok()?;
        let (verb, _) = self.texts.iter().find(|(_, file)| text.trim_end().ends_with(file.trim_end()))?;
        let hash = redis::Script::new(text).get_hash().as_bytes().to_vec();
        self.by_hash().insert(hash, verb.clone());
        Some(verb.clone())
    }

    fn by_hash(&self) -> std::sync::MutexGuard<'_, HashMap<Vec<u8>, String>> {
        self.by_hash.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::env;

    use super::*;
    use crate::harness::unique_name;

    fn words(line: &[&str]) -> Vec<Vec<u8>> {
        line.iter().map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn scripts_are_known_by_hash_by_text_and_behind_shared_functions() {
        let folder = env::temp_dir().join(unique_name());
        fs::create_dir(&folder).expect("a folder is made");
        fs::write(folder.join("acquire.lua"), "return 1\n").expect("a file is written");
        let catalogue = Catalogue::read([&folder]);
        fs::remove_dir_all(&folder).expect("the folder is removed");

        let hash = |text: &str| redis::Script::new(text).get_hash().to_owned();
        let acquire = Some("acquire".to_owned());
        assert_eq!(catalogue.verb(&words(&["evalsha", &hash("return 1\n"), "0"])), acquire);
        assert_eq!(catalogue.verb(&words(&["EVAL", "return 1\n", "0"])), acquire);
        let longer = "local x = 1\nreturn 1\n";
        assert_eq!(catalogue.verb(&words(&["EVALSHA", &hash(longer), "0"])), None);
        assert_eq!(catalogue.verb(&words(&["SCRIPT", "LOAD", longer])), None);
        assert_eq!(catalogue.verb(&words(&["EVALSHA", &hash(longer), "0"])), acquire);
        assert_eq!(catalogue.verb(&words(&["GET", "return 1\n"])), None);
    }

    #[test]
    fn a_folder_that_is_not_there_has_no_scripts() {
        let catalogue = Catalogue::read(Path::new("no/such/folder"));
        assert_eq!(catalogue.verb(&words(&["EVAL", "return 1", "0"])), None);
    }
}
