//! What a name becomes on the server: its key, its channel, or a refusal before anything is sent. It checks no text that
//! has no server to go to.

use std::{collections::BTreeSet, time::Duration};

use relatch::{Client, Error, Owner};

use crate::{
    harness::{Server, eventually_async, monitor::Ran},
    kept::connected,
};

/// How long a look may take on a busy machine.
const LOOK: Duration = Duration::from_secs(10);
const MS: Duration = Duration::from_millis(1);

/// Names that something on the way could take for another one, or for none.
fn awkward() -> Vec<String> {
    let names = [
        "a",
        "A",
        "a ",
        " a",
        " ",
        "a:b",
        "a::b",
        ":",
        "{",
        "}",
        "{}",
        "{a}",
        "{a}b",
        "}{",
        "a\0",
        "a\0b",
        "\0",
        "a\n",
        "a\r\n",
        "\r\n$1\r\n",
        "*",
        "a*",
        "🔒",
        "👩\u{200d}👧",
        "caf\u{e9}",
        "cafe\u{301}",
        "redisson_lock__channel:{a}",
        "%00",
        "\\0",
        "null",
        "0",
    ];
    let longest = ["x".repeat(65_536), "x".repeat(65_535), "é".repeat(32_768)];
    names.into_iter().map(str::to_owned).chain(longest).collect()
}

async fn keys(server: &Server) -> BTreeSet<Vec<u8>> {
    let mut connection = server.async_connection().await;
    let keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query_async(&mut connection).await.expect("KEYS answers");
    keys.into_iter().collect()
}

#[tokio::test]
async fn distinct_names_never_share_a_key_and_each_key_is_prefix_and_name() {
    for prefix in ["", "app:", "{app}:", "a", "Ä\0\n"] {
        let server = Server::own();
        let client = Client::builder().url(server.url()).name_prefix(prefix).connect().await.expect("connects");
        let mut guards = Vec::new();
        for name in awkward() {
            let guard = client.mutex(&name).try_lock().await.expect("the server answers");
            guards.push(guard.unwrap_or_else(|| panic!("{name:?} shares a key with another name")));
        }
        let expected = awkward().iter().map(|name| [prefix, name].concat().into_bytes()).collect::<BTreeSet<_>>();
        assert_eq!(expected.len(), guards.len());
        assert!(keys(&server).await == expected, "with the prefix {prefix:?} other keys were written");
        for guard in guards {
            guard.unlock().await.expect("a hold of ours is released");
        }
        assert_eq!(keys(&server).await, BTreeSet::new());
    }
}

#[tokio::test]
async fn prefix_and_name_together_are_the_lock_that_a_client_without_a_prefix_sees() {
    let server = Server::own();
    let prefixed = Client::builder().url(server.url()).name_prefix("app:").connect().await.expect("connects");
    let plain = Client::connect(server.url()).await.expect("connects");
    let guard = prefixed.lock("job").lock().await.expect("a free lock");
    // What users see is the name as they gave it; what the server has is both.
    assert_eq!(guard.name(), "job");
    assert!(plain.lock("app:job").try_lock().await.expect("the server answers").is_none());
    assert!(plain.lock("job").try_lock().await.expect("the server answers").is_some());
    let seen = plain.lock("app:job").inspect().await.expect("the server answers").expect("somebody holds it");
    assert_eq!(seen.client_id, prefixed.id().to_string());
    guard.unlock().await.expect("a hold of ours is released");
    assert!(plain.lock("app:job").try_lock().await.expect("the server answers").is_some());
}

/// The refusal of a name, whichever call it answers.
#[track_caller]
fn refusal<T>(answer: relatch::Result<T>, call: &str) -> String {
    match answer.map(|_| ()) {
        Err(Error::Invalid { what: "name", why, .. }) => why.to_string(),
        other => panic!("{call} with a bad name gave {other:?}"),
    }
}

#[tokio::test]
async fn a_refused_name_says_why_at_every_call_and_no_command_is_sent() {
    let server = Server::own();
    for prefix in ["", "app:"] {
        let client = Client::builder().url(server.url()).name_prefix(prefix).connect().await.expect("connects");
        let monitor = server.monitor();
        for (name, why) in [(String::new(), "empty"), ("x".repeat(65_537), "65537"), ("é".repeat(32_769), "65538")] {
            let (lock, mutex, owner) = (client.lock(&name), client.mutex(&name), Owner::new());
            let whys = [
                refusal(lock.lock().await, "lock"),
                refusal(lock.lock().owner(&owner).await, "lock with an owner"),
                refusal(lock.try_lock().await, "try_lock"),
                refusal(lock.try_lock().wait(LOOK).await, "try_lock with a wait"),
                refusal(lock.unlock().await, "unlock"),
                refusal(lock.unlock().owner(&owner).await, "unlock of an owner"),
                refusal(lock.force_unlock().await, "force_unlock"),
                refusal(lock.is_locked().await, "is_locked"),
                refusal(lock.remaining_lease().await, "remaining_lease"),
                refusal(lock.inspect().await, "inspect"),
                refusal(mutex.lock().await, "a mutex' lock"),
                refusal(mutex.try_lock().await, "a mutex' try_lock"),
                refusal(mutex.is_locked().await, "a mutex' is_locked"),
                refusal(mutex.remaining_lease().await, "a mutex' remaining_lease"),
                refusal(mutex.inspect().await, "a mutex' inspect"),
            ];
            for said in whys {
                assert!(said.contains(why) && said.len() < 400, "{said}");
            }
            // What needs no server has nothing to say of such a lock.
            assert!(!lock.is_held() && !lock.is_held_by(&owner) && lock.attach(&owner).is_none());
            assert_eq!((lock.hold_count(), lock.name(), mutex.name()), (0, "", ""));
        }
        assert_eq!(monitor.ran(), []);
    }
}

#[tokio::test]
async fn a_waiter_listens_on_the_channel_that_redisson_derives_from_the_key() {
    let names = [
        ("", "job", "redisson_lock__channel:{job}"),
        ("", "a}b", "redisson_lock__channel:{a}b}"),
        ("", "{a}b", "redisson_lock__channel:{a}b"),
        ("", "a{", "redisson_lock__channel:a{"),
        ("", "{}", "redisson_lock__channel:{}"),
        ("", "two words\n", "redisson_lock__channel:{two words\n}"),
        ("", "🔒", "redisson_lock__channel:{🔒}"),
        ("app:", "job", "redisson_lock__channel:{app:job}"),
        ("app:", "{job}", "redisson_lock__channel:app:{job}"),
        ("{app}:", "job", "redisson_lock__channel:{app}:job"),
    ];
    let server = Server::own();
    let channels = async || {
        let mut connection = server.async_connection().await;
        let mut ask = redis::cmd("PUBSUB");
        let channels: Vec<String> = ask.arg("CHANNELS").query_async(&mut connection).await.expect("PUBSUB answers");
        channels.into_iter().collect::<BTreeSet<_>>()
    };
    for (prefix, name, channel) in names {
        let connect = || Client::builder().url(server.url()).name_prefix(prefix).connect();
        let (holder, waiter) = (connect().await.expect("connects"), connect().await.expect("connects"));
        let guard = holder.lock(name).lock().await.expect("a free lock");
        assert_eq!(channels().await, BTreeSet::new(), "{name:?}: somebody listens although nobody waits");
        let waiting = tokio::spawn(waiter.lock(name).lock());
        eventually_async(LOOK, async || channels().await == BTreeSet::from([channel.to_owned()])).await;
        guard.unlock().await.expect("a hold of ours is released");
        let guard = waiting.await.expect("no panic").expect("the lock is free");
        eventually_async(LOOK, async || channels().await.is_empty()).await;
        guard.unlock().await.expect("a hold of ours is released");
    }
}

/// Names of one to eight parts that something could split, join, fold or decode, always the same ones.
fn drawn(count: usize) -> BTreeSet<String> {
    const PARTS: &[&str] = &[
        "a",
        "A",
        "é",
        "e\u{301}",
        "{",
        "}",
        "{a}",
        ":",
        "::",
        "%7B",
        "%",
        "\\x00",
        "\0",
        "\n",
        "\r\n",
        " ",
        "*",
        "?",
        "[a]",
        "🔒",
        "\u{feff}",
        "\u{202e}",
        "redisson_lock__channel",
        "0",
        "-1",
        "\"",
        "'",
    ];
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move |below: usize| {
        // Xorshift: a row of numbers that is the same on every machine.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let mut names = BTreeSet::new();
    while names.len() < count {
        let parts = 1 + next(8);
        names.insert((0..parts).map(|_| PARTS[next(PARTS.len())]).collect());
    }
    names
}

#[tokio::test]
async fn of_two_thousand_drawn_names_no_two_share_a_lock() {
    let server = Server::own();
    let client = Client::connect(server.url()).await.expect("connects");
    let names = drawn(2_000);
    let mut guards = Vec::new();
    for name in &names {
        let guard = client.mutex(name).try_lock().await.expect("the server answers");
        guards.push(guard.unwrap_or_else(|| panic!("{name:?} is another name's lock")));
    }
    assert!(keys(&server).await == names.iter().map(|name| name.as_bytes().to_vec()).collect());
    client.close().await;
}

/// How many channels somebody listens on.
fn listened_to(server: &Server) -> usize {
    let channels: Vec<Vec<u8>> =
        redis::cmd("PUBSUB").arg("CHANNELS").query(&mut server.connection()).expect("PUBSUB answers");
    channels.len()
}

/// What a command has to do with: the keys of a script, the first argument of what a script calls.
fn keys_of(ran: &Ran) -> Vec<Vec<u8>> {
    let number = |word: &Vec<u8>| std::str::from_utf8(word).ok()?.parse::<usize>().ok();
    match &*ran.name() {
        "EVAL" | "EVALSHA" => ran.words[3..][..number(&ran.words[2]).expect("so many keys")].to_vec(),
        // Two ask who is there, the last one is the test's own look.
        "PING" | "HELLO" | "INFO" | "PUBSUB" => Vec::new(),
        _ => vec![ran.words[1].clone()],
    }
}

#[tokio::test]
async fn whatever_a_lock_does_is_done_below_its_prefix() {
    let server = Server::own();
    for prefix in ["app:", "{app}:", "Ä\n*:"] {
        let builder = || Client::builder().url(server.url()).name_prefix(prefix).watchdog_timeout(MS * 1_200);
        let (one, other) = (connected(builder().handover_slice(LOOK)).await, connected(builder()).await);
        let monitor = server.monitor();
        let mut held = Vec::new();
        for name in drawn(8).into_iter().chain(["{app}".to_owned()]) {
            let lock = one.lock(&name);
            held.push((lock.lock().await.expect("a free lock"), lock, name));
        }
        tokio::time::sleep(MS * 1_500).await;
        assert!(held.iter().all(|(outer, ..)| outer.is_held()), "renewed meanwhile");
        for (outer, lock, name) in held {
            lock.lock().await.expect("ours").unlock().await.expect("a nested hold");
            outer.extend(LOOK).await.expect("a live hold");
            let successor = tokio::spawn(one.mutex(&name).lock().lease(LOOK));
            let waiting = tokio::spawn(other.mutex(&name).lock());
            eventually_async(LOOK, async || listened_to(&server) == 1).await;
            outer.unlock().await.expect("it is handed over");
            successor.await.expect("no panic").expect("its turn").unlock().await.expect("a live hold");
            let theirs = waiting.await.expect("no panic").expect("it is free");
            lock.inspect().await.expect("the server answers");
            lock.force_unlock().await.expect("the server answers");
            drop(theirs);
        }
        let ran = monitor.ran();
        let called: BTreeSet<String> = ran.iter().map(Ran::name).collect();
        for name in ["EVALSHA", "HINCRBY", "PEXPIRE", "HDEL", "DEL", "PUBLISH", "SUBSCRIBE", "UNSUBSCRIBE", "HGETALL"] {
            assert!(called.contains(name), "{name} is not among {called:?}");
        }
        let channels = ["redisson_lock__channel:", "redisson_lock__channel:{"].map(|start| format!("{start}{prefix}"));
        for ran in &ran {
            let is_channel = ["PUBLISH", "SUBSCRIBE", "UNSUBSCRIBE"].contains(&&*ran.name());
            let starts = if is_channel { channels.to_vec() } else { vec![prefix.to_owned()] };
            for key in keys_of(ran) {
                assert!(starts.iter().any(|start| key.starts_with(start.as_bytes())), "{ran:?}");
            }
        }
    }
}
