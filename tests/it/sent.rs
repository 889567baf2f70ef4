//! What a client sent about its holds, read from a proxy's log: one line for each command and hold, and the rules that
//! hold for all of them. Answers play no part.

use std::{collections::HashMap, time::Duration};

use crate::{
    harness::{
        Server,
        proxy::{Event, Proxy, matching::verb},
        unique_name,
    },
    kept::{channel, teach},
};

/// One command, as far as it is about one hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    /// The reading of the shared monotonic clock.
    pub(crate) at: Duration,
    pub(crate) connection: u64,
    /// The hold: the client's id and the hold's number.
    pub(crate) field: String,
    pub(crate) does: Does,
}

/// What a command is to do with a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Does {
    Acquire,
    Renew,
    /// So many shall remain.
    Release(u32),
    /// Give it away to a newer hold.
    Give,
    /// Be that newer hold.
    Take,
    Force,
}

impl Does {
    /// Whether the hold's number is finished once this was sent.
    fn finishes(self) -> bool {
        matches!(self, Self::Release(0) | Self::Give)
    }
}

/// Everything that was sent about holds, in order.
pub(crate) fn sent(proxy: &Proxy) -> Vec<Sent> {
    let mut all = Vec::new();
    for entry in proxy.log() {
        if let Event::Request { words, .. } = &entry.event {
            let about = holds(words).into_iter();
            all.extend(about.map(|(field, does)| Sent { at: entry.at, connection: entry.connection, field, does }));
        }
    }
    all
}

/// What was sent about one hold, in order.
pub(crate) fn sent_about(proxy: &Proxy, field: &str) -> Vec<Does> {
    sent(proxy).into_iter().filter(|sent| sent.field == field).map(|sent| sent.does).collect()
}

/// The holds that a request is about, and what it does with each.
fn holds(words: &[Vec<u8>]) -> Vec<(String, Does)> {
    let Some(verb) = verb(words) else { return Vec::new() };
    let text = |word: &Vec<u8>| String::from_utf8_lossy(word).into_owned();
    let keys: usize = text(&words[2]).parse().expect("a script is told how many keys there are");
    let args: Vec<String> = words[3 + keys..].iter().map(text).collect();
    match verb.as_str() {
        "acquire" => vec![(args[0].clone(), Does::Acquire)],
        "release" => {
            vec![(args[0].clone(), Does::Release(args.get(3).map_or(0, |left| left.parse().expect("a count"))))]
        }
        "hand_over" => vec![(args[0].clone(), Does::Give), (args[1].clone(), Does::Take)],
        "renew" => args[1..].iter().map(|field| (field.clone(), Does::Renew)).collect(),
        "force_release" => args[2..].iter().map(|field| (field.clone(), Does::Force)).collect(),
        _ => Vec::new(),
    }
}

/// For a hold whose end was sent nothing is sent but its end: no acquire, no renewal, no nested release, no hand-over to
/// it. Says how many holds ended.
#[track_caller]
pub(crate) fn assert_ends_are_final(proxy: &Proxy) -> usize {
    let mut ended: HashMap<String, Duration> = HashMap::new();
    for Sent { at, field, does, .. } in sent(proxy) {
        if let Some(end) = ended.get(&field) {
            // A forced release names what was seen; whether that is still there is the server's to say.
            let is_final = does.finishes() || does == Does::Force;
            assert!(is_final, "{does:?} of {field} was sent {:?} after its end", at - *end);
        }
        if does.finishes() {
            ended.entry(field).or_insert(at);
        }
    }
    ended.len()
}

/// Sends commands of a hold by hand, through a proxy: after its release the last one.
fn sends_after_the_end(last: &str, args: &[&str]) {
    let server = Server::shared();
    teach(server);
    let (proxy, name) = (Proxy::to(server), unique_name());
    let mut connection = redis::Client::open(proxy.url()).and_then(|client| client.get_connection()).expect("connects");
    let release = ["me:1", "PUBLISH", &*channel(&name)].map(str::to_owned);
    for (verb, args) in [
        ("acquire", ["me:1", "9000"].map(str::to_owned).to_vec()),
        ("release", release.to_vec()),
        (last, args.iter().map(|arg| (*arg).to_owned()).collect()),
    ] {
        let text = std::fs::read_to_string(format!("{}/lua/reentrant/{verb}.lua", env!("CARGO_MANIFEST_DIR")));
        let hash = redis::Script::new(&text.expect("a script is text")).get_hash().to_owned();
        redis::cmd("EVALSHA").arg(hash).arg(1).arg(&name).arg(args).exec(&mut connection).expect("it runs");
    }
    assert_eq!(sent_about(&proxy, "me:1")[..2], [Does::Acquire, Does::Release(0)]);
    assert_eq!(assert_ends_are_final(&proxy), 1);
}

#[test]
fn a_release_that_is_repeated_is_no_command_after_the_end() {
    sends_after_the_end("release", &["me:1", "PUBLISH", "channel"]);
}

#[test]
#[should_panic(expected = "Renew of me:1 was sent")]
fn a_renewal_after_the_end_is_found() {
    sends_after_the_end("renew", &["9000", "me:1"]);
}

#[test]
#[should_panic(expected = "Acquire of me:1 was sent")]
fn an_acquire_after_the_end_is_found() {
    sends_after_the_end("acquire", &["me:1", "9000"]);
}
