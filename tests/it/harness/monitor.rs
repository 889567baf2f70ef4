//! A tap on a server that records the commands it runs, with their arguments. It changes nothing on the way.

use std::{
    io::{BufRead, BufReader, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use super::{Server, eventually, unique_name};

/// How long the server may take to show a command.
const SHOWN: Duration = Duration::from_secs(10);

/// A connection in monitor mode, until it is dropped.
#[derive(Debug)]
pub(crate) struct Monitor<'a> {
    server: &'a Server,
    stream: UnixStream,
    seen: Arc<Mutex<Vec<Ran>>>,
    reader: Option<JoinHandle<()>>,
}

/// One command that the server ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    /// When, by the server's wall clock.
    pub(crate) at: Duration,
    /// Whether a script called it, and not a client.
    pub(crate) by_script: bool,
    /// The command's name and its arguments, as they were sent.
    pub(crate) words: Vec<Vec<u8>>,
}

impl Ran {
    /// The command's name, in capitals.
    pub(crate) fn name(&self) -> String {
        self.words.first().map(|name| String::from_utf8_lossy(name).to_uppercase()).unwrap_or_default()
    }

    /// Whether one of its words is this text.
    pub(crate) fn mentions(&self, text: &str) -> bool {
        self.words.iter().any(|word| word == text.as_bytes())
    }
}

impl<'a> Monitor<'a> {
    pub(super) fn new(server: &'a Server) -> Self {
        let mut stream = UnixStream::connect(server.socket()).expect("the server takes a connection");
        for command in server.password().map(|password| format!("AUTH {password}\r\n")).iter().map(String::as_str) {
            stream.write_all(command.as_bytes()).expect("the server reads");
        }
        stream.write_all(b"MONITOR\r\n").expect("the server reads");
        let mut lines = BufReader::new(stream.try_clone().expect("a socket can be cloned"));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let record = Arc::clone(&seen);
        let reader = thread::spawn(move || {
            let mut line = Vec::new();
            while lines.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                record.lock().unwrap_or_else(PoisonError::into_inner).extend(ran(&line));
                line.clear();
            }
        });
        let monitor = Self { server, stream, seen, reader: Some(reader) };
        monitor.ran();
        monitor.seen().clear();
        monitor
    }

    /// Everything that ran until now, in order. What the look itself ran is left out.
    pub(crate) fn ran(&self) -> Vec<Ran> {
        // The tap lags behind: it has shown everything up to now when it has shown a mark that is sent now.
        let mark = unique_name();
        let mut connection = self.server.connection();
        let _: String = redis::cmd("ECHO").arg(&mark).query(&mut connection).expect("ECHO answers");
        drop(connection);
        eventually(SHOWN, || self.seen().iter().any(|ran| ran.mentions(&mark)));
        self.seen().iter().filter(|ran| !is_ours(ran)).cloned().collect()
    }

    /// [`Monitor::ran`], and the record starts anew.
    pub(crate) fn take(&self) -> Vec<Ran> {
        let ran = self.ran();
        self.seen().clear();
        ran
    }

    fn seen(&self) -> MutexGuard<'_, Vec<Ran>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Monitor<'_> {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

/// Marks, and what every connection says first.
fn is_ours(ran: &Ran) -> bool {
    matches!(ran.name().as_str(), "ECHO" | "CLIENT" | "AUTH" | "HELLO")
}

/// A line of the tap, like `+1700000000.000001 [0 unix:…] "SET" "key" "a\x00b"`.
fn ran(line: &[u8]) -> Option<Ran> {
    let at = line.windows(3).position(|window| window == b"] \"")?;
    let by_script = line[..at].ends_with(b" lua");
    let (seconds, micros) = str::from_utf8(&line[..at]).ok()?.strip_prefix('+')?.split(' ').next()?.split_once('.')?;
    let ran_at = Duration::from_secs(seconds.parse().ok()?) + Duration::from_micros(micros.parse().ok()?);
    let mut words = Vec::new();
    let mut rest = line[at + 2..].iter();
    while rest.by_ref().any(|byte| *byte == b'"') {
        words.push(unquoted(&mut rest)?);
    }
    Some(Ran { at: ran_at, by_script, words })
}

/// The bytes up to the closing quote, with the server's escapes undone.
fn unquoted<'a>(rest: &mut impl Iterator<Item = &'a u8>) -> Option<Vec<u8>> {
    let mut word = Vec::new();
    loop {
        match *rest.next()? {
            b'"' => return Some(word),
            b'\\' => word.push(match *rest.next()? {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'a' => 0x07,
                b'b' => 0x08,
                b'x' => {
                    let digits = [*rest.next()?, *rest.next()?];
                    u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
                }
                other => other,
            }),
            byte => word.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_tap_is_read_with_its_escapes() {
        let client = ran(b"+1700000000.000001 [0 unix:/a b.sock] \"SET\" \"a\\\"b\" \"\\x00\\n\\\\\"\r\n");
        let words = vec![b"SET".to_vec(), b"a\"b".to_vec(), b"\0\n\\".to_vec()];
        let at = Duration::new(1_700_000_000, 1000);
        assert_eq!(client, Some(Ran { at, by_script: false, words }));
        assert!(ran(b"+1700000000.000001 [0 lua] \"GET\" \"a\"\r\n").is_some_and(|ran| ran.by_script));
        assert_eq!(ran(b"+OK\r\n"), None);
    }

    #[test]
    fn the_tap_shows_what_ran_with_its_arguments_and_who_ran_it() {
        let server = Server::builder().password("secret").start();
        let monitor = server.monitor();
        let mut connection = server.connection();
        let script = redis::Script::new("return redis.call('HINCRBY', KEYS[1], ARGV[1], 2)");
        let two: u64 = script.key("shown").arg("field \"é\"").invoke(&mut connection).expect("the script runs");
        assert_eq!(two, 2);
        let ran = monitor.take();
        let inner = ran.iter().find(|ran| ran.name() == "HINCRBY").expect("the script's own command is shown");
        assert!(inner.by_script && inner.mentions("field \"é\""));
        assert!(ran.iter().any(|ran| ran.name() == "EVALSHA" && !ran.by_script));
        assert_eq!(monitor.ran(), []);
    }
}
