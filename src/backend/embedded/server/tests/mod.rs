//! The server as a caller sees it: what a script answers, leaves behind and publishes.

// Draws its steps with proptest, which is in `tests/foreign` only.
#[cfg(relatch_proptest)]
mod differential;
mod real;
mod scripts;

use super::*;
use crate::script::reentrant;

/// Any time will do.
pub(super) const NOW: Duration = Duration::from_secs(1000);
const LEASE: &[u8] = b"30000";

fn array(ints: &[i64]) -> Reply {
    Reply::Array(ints.iter().map(|int| Reply::Int(*int)).collect())
}

fn bulk(text: &str) -> Reply {
    Reply::Bulk(text.as_bytes().to_vec())
}

fn ask(server: &mut Server, words: &[&str]) -> Reply {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    server.execute(NOW, &words)
}

#[test]
fn a_lock_is_taken_nested_and_freed_as_on_a_server() {
    let mut server = Server::default();
    server.listen(b"freed", 2);
    let mut run = |script, args: &[&[u8]]| server.run(NOW, script, &[b"lock"], args);
    assert_eq!(run(&reentrant::ACQUIRE, &[b"me:1", LEASE]), Reply::Int(1));
    assert_eq!(run(&reentrant::ACQUIRE, &[b"me:1", LEASE, b"2"]), Reply::Int(2));
    assert_eq!(run(&reentrant::ACQUIRE, &[b"you:1", LEASE]), array(&[0, 30_000, 0, 0]));
    assert_eq!(run(&reentrant::RENEW, &[b"60000", b"me:1"]), Reply::Int(1));
    let Reply::Array(sight) = run(&reentrant::INSPECT, &[]) else { panic!("no sight") };
    assert_eq!(sight, [Reply::Int(60_000), bulk("me:1"), bulk("2")]);
    assert_eq!(run(&reentrant::HAND_OVER, &[b"me:1", b"me:2", LEASE, b"PUBLISH", b"freed"]), array(&[1, 2]));
    assert_eq!(run(&reentrant::RELEASE, &[b"me:1", b"PUBLISH", b"freed"]), array(&[-1, 0, -1]));
    assert_eq!(run(&reentrant::RELEASE, &[b"me:2", b"PUBLISH", b"freed"]), Reply::Int(2));
    assert_eq!(run(&reentrant::FORCE_RELEASE, &[b"PUBLISH", b"freed", b"me:2"]), array(&[-1, -1]));
    let freed = Published { channel: b"freed".to_vec(), message: b"0".to_vec(), sharded: false };
    assert_eq!(server.take_published(), [freed.clone(), freed]);
    assert_eq!(server.take_published(), []);
    assert_eq!(ask(&mut server, &["EXISTS", "lock"]), Reply::Int(0));
}

#[test]
fn a_lock_ends_with_its_lease() {
    let mut server = Server::default();
    let mut acquire = |now, field: &[u8]| server.run(now, &reentrant::ACQUIRE, &[b"lock"], &[field, LEASE]);
    let end = NOW + Duration::from_secs(30);
    assert_eq!(acquire(NOW, b"me:1"), Reply::Int(1));
    assert_eq!(acquire(end, b"you:1"), array(&[0, 0, 0, 0]));
    assert_eq!(acquire(end + Duration::from_millis(1), b"you:1"), Reply::Int(1));
}

#[test]
fn a_key_of_another_type_is_refused_in_the_words_of_a_server() {
    let mut server = Server::default();
    ask(&mut server, &["SET", "lock", "text"]);
    let Reply::Error(words) = server.run(NOW, &reentrant::ACQUIRE, &[b"lock"], &[b"me:1", LEASE]) else {
        panic!("not refused");
    };
    let name = sha1::hex(reentrant::ACQUIRE.source.as_bytes());
    let line = reentrant::ACQUIRE.source.lines().position(|line| line.contains("'HGET'")).unwrap() + 1;
    let refused = "WRONGTYPE Operation against a key holding the wrong kind of value";
    assert_eq!(words, format!("{refused} script: {name}, on @user_script:{line}."));
    assert_eq!(server.run(NOW, &reentrant::RENEW, &[b"lock"], &[LEASE, b"me:1"]), array(&[-1]));
}

#[test]
fn a_hash_that_grows_large_is_sorted_and_loses_nothing() {
    let mut server = Server::default();
    let mut fields: Vec<String> = (0..200).rev().map(|number| format!("f{number:03}")).collect();
    for field in &fields {
        assert_eq!(ask(&mut server, &["HSET", "hash", field, "1"]), Reply::Int(1));
    }
    fields.sort();
    assert_eq!(ask(&mut server, &["HLEN", "hash"]), Reply::Int(200));
    assert_eq!(ask(&mut server, &["HKEYS", "hash"]), Reply::Array(fields.iter().map(|field| bulk(field)).collect()));
    let long = "a".repeat(65);
    ask(&mut server, &["HSET", "long", "b", "1", "a", &long]);
    assert_eq!(ask(&mut server, &["HKEYS", "long"]), Reply::Array(vec![bulk("a"), bulk("b")]));
    for field in &fields {
        assert_eq!(ask(&mut server, &["HDEL", "hash", field]), Reply::Int(1));
    }
    assert_eq!(ask(&mut server, &["DEL", "hash", "long"]), Reply::Int(1));
    assert_eq!(server.used(), 0);
}

#[test]
fn what_has_expired_is_neither_there_nor_counted() {
    let mut server = Server::default();
    let all: &[&[&str]] =
        &[&["SET", "a", "1", "PX", "10"], &["RPUSH", "b", "1"], &["PEXPIRE", "b", "20"], &["SET", "c", "1"]];
    for words in all {
        ask(&mut server, words);
    }
    let mut at = |milliseconds, words: &[&[u8]]| server.execute(NOW + Duration::from_millis(milliseconds), words);
    assert_eq!(at(10, &[b"PTTL", b"a"]), Reply::Int(0));
    assert_eq!(at(11, &[b"PTTL", b"a"]), Reply::Int(-2));
    assert_eq!(at(11, &[b"DBSIZE"]), Reply::Int(2));
    assert_eq!(at(21, &[b"KEYS", b"*"]), Reply::Array(vec![bulk("c")]));
    assert_eq!(at(21, &[b"DBSIZE"]), Reply::Int(1));
    assert_eq!(at(21, &[b"DEL", b"a", b"b", b"c"]), Reply::Int(1));
    assert_eq!(server.used(), 0);
}

#[test]
fn a_message_that_nobody_takes_for_long_reaches_nobody() {
    let mut server = Server::default();
    server.listen(b"channel", 1);
    let reached = |server: &mut Server| ask(server, &["PUBLISH", "channel", ""]);
    let mut taken = 0;
    while reached(&mut server) == Reply::Int(1) {
        taken += 1;
    }
    assert_eq!(server.take_published().len(), taken);
    assert_eq!(reached(&mut server), Reply::Int(1));
    server.listen(b"channel", 0);
    assert_eq!(reached(&mut server), Reply::Int(0));
}

#[test]
fn a_server_moves_between_threads() {
    fn moves<T: Send>(_: &T) {}
    moves(&Server::default());
}
