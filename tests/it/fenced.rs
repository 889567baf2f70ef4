//! The fenced lock: who gets which token, and what the guarded resource makes of it. What it shares with the plain lock is in
//! `conformance.rs`, what its scripts do in `scripts.rs`.

use std::time::Duration;

use relatch::{Client, Error, Owner, RefusedKind, fence};

use crate::{
    harness::{
        Server,
        proxy::{Action, Proxy, matching::script},
        unique_name,
    },
    kept::{client, connected, kept, poll_once, teach},
};

const MS: Duration = Duration::from_millis(1);

fn counter(name: &str) -> String {
    format!("redisson_lock_token:{{{name}}}")
}

fn counted(server: &Server, name: &str) -> Option<u64> {
    redis::cmd("GET").arg(counter(name)).query(&mut server.connection()).expect("the server answers")
}

fn run<T: redis::FromRedisValue>(server: &Server, words: &[&str]) -> T {
    redis::cmd(words[0]).arg(&words[1..]).query(&mut server.connection()).expect("the server answers")
}

#[tokio::test]
async fn each_holder_has_a_greater_token_than_all_before_and_the_guards_of_one_hold_have_one() {
    let (server, name) = (Server::shared(), unique_name());
    let (one, other) = (client(server.url()).await, client(server.url()).await);
    let (lock, theirs) = (one.fenced_lock(&name), other.fenced_lock(&name));
    let first = lock.lock().await.expect("it is free");
    assert_eq!(first.fence(), Some(1));
    let inner = lock.lock().await.expect("it nests");
    assert_eq!((inner.fence(), counted(server, &name)), (Some(1), Some(1)));
    inner.unlock().await.expect("it is held");
    let owner = first.detach();
    let back = lock.attach(&owner).expect("it was left there");
    assert_eq!(back.fence(), Some(1));
    back.unlock().await.expect("it is held");
    for fence in 2..6 {
        let lock = if fence % 2 == 0 { &theirs } else { &lock };
        let guard = lock.try_lock().await.expect("the server answers").expect("it is free");
        assert_eq!(guard.fence(), Some(fence));
        guard.unlock().await.expect("it is held");
        assert_eq!(guard.fence(), Some(fence), "a guard that is over says what it had");
    }
    assert_eq!((kept(server, &name), counted(server, &name)), (None, Some(5)));
}

#[tokio::test]
async fn tasks_that_hand_it_to_each_other_have_a_token_each() {
    let (server, name) = (Server::shared(), unique_name());
    let builder = Client::builder().url(server.url()).handover_slice(MS * 60_000);
    let lock = connected(builder).await.fenced_lock(&name);
    let outer = lock.lock().await.expect("it is free");
    let mut waiting = Vec::new();
    for _ in 0..5 {
        let mut acquiring = lock.lock().owner(&Owner::new());
        // Each is in line before the next one comes.
        assert!(poll_once(&mut acquiring).await.is_pending());
        waiting.push(acquiring);
    }
    let mut fences = vec![outer.fence()];
    outer.unlock().await.expect("it is held");
    for acquiring in waiting {
        let guard = acquiring.await.expect("its turn");
        fences.push(guard.fence());
        guard.unlock().await.expect("it is held");
    }
    assert_eq!(fences, [1, 2, 3, 4, 5, 6].map(Some));
    assert_eq!(counted(server, &name), Some(6));
}

#[tokio::test]
async fn a_try_whose_reply_is_lost_and_that_is_repeated_reads_the_token_that_it_was_given() {
    let server = Server::shared();
    teach(server);
    for verb in ["acquire", "hand_over"] {
        let (proxy, name) = (Proxy::to(server), unique_name());
        let builder = Client::builder().url(proxy.url()).command_timeout(MS * 300).handover_slice(MS * 60_000);
        let lock = connected(builder).await.fenced_lock(&name);
        proxy.rule(script(verb).first(1), Action::SwallowReply);
        if verb == "acquire" {
            let guard = lock.lock().await.expect("it is asked for again");
            assert_eq!(guard.fence(), counted(server, &name), "the newest is the holder's");
            guard.unlock().await.expect("it is held");
            continue;
        }
        let guard = lock.lock().await.expect("it is free");
        let mut successor = lock.lock().owner(&Owner::new());
        assert!(poll_once(&mut successor).await.is_pending());
        drop(guard);
        let next = successor.await.expect("its turn, in the end");
        assert!(next.fence() > Some(1), "{:?}", next.fence());
        assert_eq!(next.fence(), counted(server, &name));
        next.unlock().await.expect("it is held");
    }
}

#[tokio::test]
async fn locks_without_tokens_give_none_and_a_name_is_of_one_kind_in_a_client() {
    let (server, name) = (Server::shared(), unique_name());
    let (one, other) = (client(server.url()).await, client(server.url()).await);
    let guard = one.lock(&name).lock().await.expect("it is free");
    assert_eq!(guard.fence(), None);
    let refused = one.fenced_lock(&name).try_lock().await;
    assert!(matches!(refused, Err(Error::Invalid { what: "name", .. })), "{refused:?}");
    assert!(
        other.fenced_lock(&name).try_lock().await.expect("the server answers").is_none(),
        "a plain lock excludes it"
    );
    guard.unlock().await.expect("it is held");
    let mutex = one.mutex(unique_name()).lock().await.expect("it is free");
    assert_eq!(mutex.fence(), None);
    mutex.unlock().await.expect("it is held");
}

#[tokio::test]
async fn a_counter_that_is_none_refuses_the_lock_and_leaves_it_free() {
    let (server, name) = (Server::shared(), unique_name());
    let client = client(server.url()).await;
    for (bad, kind) in [("RPUSH", RefusedKind::WrongType), ("SET", RefusedKind::Other)] {
        run::<redis::Value>(server, &[bad, &counter(&name), "text"]);
        let refused = client.fenced_lock(&name).try_lock().await;
        assert!(matches!(&refused, Err(Error::Refused { kind: of, .. }) if *of == kind), "{refused:?}");
        assert_eq!(kept(server, &name), None);
        run::<u64>(server, &["DEL", &counter(&name)]);
    }
}

#[tokio::test]
async fn tokens_stay_exact_beyond_the_numbers_of_lua_and_after_the_last_one_the_lock_is_refused() {
    let (server, name) = (Server::shared(), unique_name());
    let builder = Client::builder().url(server.url()).handover_slice(MS * 60_000);
    let lock = connected(builder).await.fenced_lock(&name);
    for last in [1 << 53, (1 << 53) + 1, (1 << 53) + 2, i64::MAX as u64 - 1] {
        run::<()>(server, &["SET", &counter(&name), &(last - 2).to_string()]);
        let first = lock.lock().await.expect("it is free");
        let inner = lock.lock().await.expect("it nests");
        assert_eq!([first.fence(), inner.fence()], [Some(last - 1); 2]);
        inner.unlock().await.expect("it is held");
        let mut successor = lock.lock().owner(&Owner::new());
        assert!(poll_once(&mut successor).await.is_pending());
        first.unlock().await.expect("it is held");
        let next = successor.await.expect("its turn");
        assert_eq!(next.fence(), Some(last));
        next.unlock().await.expect("it is held");
    }
    let last = lock.lock().await.expect("it is free");
    assert_eq!(last.fence(), Some(i64::MAX as u64));
    let mut successor = lock.lock().owner(&Owner::new());
    assert!(poll_once(&mut successor).await.is_pending());
    // Whoever is next was to have a token.
    let handed_over = last.unlock().await.map(|_| ());
    let none_is_left = [handed_over, successor.await.map(drop), lock.lock().await.map(drop)];
    for refused in none_is_left {
        assert!(matches!(&refused, Err(Error::Refused { kind: RefusedKind::Other, .. })), "{refused:?}");
    }
    assert_eq!((kept(server, &name), counted(server, &name)), (None, Some(i64::MAX as u64)));
}

/// The rule in Lua, as one puts it before a script.
fn admits(server: &Server, newest: &str, token: &str) -> bool {
    let script = format!("{}return admits(KEYS[1], ARGV[1]) and 1 or 0", fence::LUA);
    run::<u64>(server, &["EVAL", &script, "1", newest, token]) == 1
}

#[test]
fn the_rule_in_lua_holds_for_all_tokens() {
    let server = Server::shared();
    const DOUBLE: u64 = 1 << 53;
    let tokens = [1, 2, 9, 10, 99, 100, DOUBLE - 1, DOUBLE, DOUBLE + 1, u64::MAX / 2, u64::MAX - 1, u64::MAX];
    for first in tokens {
        for second in tokens {
            let (newest, here) = (unique_name(), fence::Newest::new());
            for token in [first, second] {
                let wanted = token == first || second >= first;
                assert_eq!(admits(server, &newest, &token.to_string()), wanted, "{first}, then {second}");
                assert_eq!(here.admits(token), wanted, "{first}, then {second}");
            }
            let kept: u64 = run(server, &["GET", &newest]);
            assert_eq!(kept, first.max(second));
        }
    }
}

#[tokio::test]
async fn a_holder_that_was_paused_past_its_lease_is_refused_by_what_it_writes_to() {
    let (server, name) = (Server::shared(), unique_name());
    let (slow, next) = (client(server.url()).await, client(server.url()).await);
    let write = format!(
        "{}if not admits(KEYS[2], ARGV[2]) then return 0 end redis.call('SET', KEYS[1], ARGV[1]) return 1",
        fence::LUA
    );
    let (row, newest) = (format!("{{{name}}}:row"), format!("{{{name}}}:fence"));
    let writes = |value: &str, fence: Option<u64>| {
        let fence = fence.expect("a fenced lock").to_string();
        run::<u64>(server, &["EVAL", &write, "2", &row, &newest, value, &fence]) == 1
    };
    let paused = slow.fenced_lock(&name).lock().lease(MS * 100).await.expect("it is free");
    assert!(writes("of the slow one", paused.fence()) && writes("of the slow one again", paused.fence()));
    let guard = next.fenced_lock(&name).lock().await.expect("the lease of the slow one is over");
    assert!(writes("of the next one", guard.fence()));
    assert!(!writes("too late", paused.fence()), "{:?} after {:?}", paused.fence(), guard.fence());
    assert_eq!(run::<String>(server, &["GET", &row]), "of the next one");
    guard.unlock().await.expect("it is held");
}

#[cfg(feature = "embedded")]
#[tokio::test(start_paused = true)]
async fn ten_thousand_holders_of_several_processes_have_growing_tokens_though_replies_are_lost() {
    use std::sync::{Arc, Mutex};

    const CLIENTS: u64 = 4;
    const HOLDERS: u64 = 10_000;
    let store = relatch::EmbeddedStore::seeded(11);
    // In the order of the sections.
    let (fences, lost) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(0)));
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..CLIENTS * 2 {
        let client = if number % 2 == 0 {
            Client::builder().embedded(&store)
        } else {
            Client::builder().embedded(&store).handover_slice(Duration::ZERO)
        };
        let client = client.command_timeout(MS * 20).connect().await.expect("a store lets everybody in");
        let (store, fences, lost) = (store.clone(), Arc::clone(&fences), Arc::clone(&lost));
        tasks.spawn(async move {
            let lock = client.fenced_lock("ledger");
            let workers = (0..2).map(|_| async {
                for round in 0..HOLDERS / (CLIENTS * 4) {
                    if round % 7 == number % 7 {
                        store.drop_next_reply(&client).expect("its client");
                        *lost.lock().expect("no panic") += 1;
                    }
                    let guard = lock.lock().owner(&Owner::new()).await.expect("it is free in the end");
                    fences.lock().expect("no panic").push(guard.fence().expect("a fenced lock"));
                    tokio::task::yield_now().await;
                    drop(guard);
                }
            });
            futures_util::future::join_all(workers).await;
        });
    }
    tasks.join_all().await;
    let fences = fences.lock().expect("no panic");
    assert!(fences.len() as u64 == HOLDERS && *lost.lock().expect("no panic") > 500, "{}", fences.len());
    assert_eq!(fences.windows(2).find(|pair| pair[0] >= pair[1]), None);
}
