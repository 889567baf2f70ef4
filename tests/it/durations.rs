//! Durations through the public API: rounded up to a whole millisecond, or refused by the option's name before anything
//! is sent. What the server is told is read from the traffic.

use std::time::{Duration, Instant};

use relatch::{Client, ClientBuilder, Error, LockGuard, LostCause};

use crate::harness::{
    Server, eventually_async,
    lag::Lag,
    proxy::{Door, Event, Proxy},
    unique_name,
};

const NS: Duration = Duration::from_nanos(1);
const MS: Duration = Duration::from_millis(1);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// How long a look may take on a busy machine.
const LOOK: Duration = Duration::from_secs(10);
/// How much later than its bound an answer may be seen on a busy machine.
const SLACK: Duration = Duration::from_millis(500);

/// What every option is asked: nothing, less than a millisecond, a part of one, a lot, everything.
const ASKED: [Duration; 6] = [
    Duration::ZERO,
    NS,
    Duration::from_micros(999),
    Duration::from_micros(1500),
    DAY.saturating_mul(30),
    Duration::MAX,
];

/// Which of `ASKED` an option takes.
type Takes = [bool; 6];

async fn connect(url: impl AsRef<str>) -> Client {
    Client::connect(url).await.expect("connects")
}

/// The words of the last request that ran this script.
fn last_words(proxy: &Proxy, script: &str) -> Vec<String> {
    let log = proxy.log();
    let entry = log.iter().rfind(|entry| entry.script().as_deref() == Some(script)).expect("the script was sent");
    let words = entry.words().expect("a request has words");
    words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// The lease that the last acquire asked for: EVALSHA, hash, 1, key, field, lease.
fn asked_lease(proxy: &Proxy) -> String {
    last_words(proxy, "acquire")[5].clone()
}

fn is_refusal_of<T>(option: &str, answer: &relatch::Result<T>) -> bool {
    matches!(answer, Err(Error::Invalid { what, why, .. }) if *what == option && why.contains("must be from"))
}

#[tokio::test]
async fn an_option_of_a_client_is_taken_or_refused_by_its_name_before_anybody_connects() {
    let server = Server::own();
    type Set = fn(ClientBuilder, Duration) -> ClientBuilder;
    type Edges = [Duration; 2];
    let options: [(&str, Set, Takes, Edges, Edges); 4] = [
        (
            "watchdog_timeout",
            ClientBuilder::watchdog_timeout,
            [false, false, false, false, true, false],
            [MS * 99 + NS, DAY * 365],
            [MS * 99, DAY * 365 + NS],
        ),
        (
            "command_timeout",
            ClientBuilder::command_timeout,
            [false, true, true, true, true, false],
            [NS, DAY * 365],
            [Duration::ZERO, DAY * 365 + NS],
        ),
        (
            "unreachable_after",
            ClientBuilder::unreachable_after,
            [false, true, true, true, true, false],
            [NS, DAY * 365],
            [Duration::ZERO, DAY * 365 + NS],
        ),
        (
            "handover_slice",
            ClientBuilder::handover_slice,
            [true, true, true, true, false, false],
            [Duration::ZERO, Duration::from_secs(60)],
            [Duration::from_secs(60) + NS, DAY],
        ),
    ];
    for (option, set, takes, taken, refused) in options {
        let asked = ASKED.into_iter().zip(takes);
        let asked = asked.chain(taken.map(|value| (value, true))).chain(refused.map(|value| (value, false)));
        for (value, takes) in asked {
            let proxy = Proxy::to(&server);
            let answer = set(Client::builder().url(proxy.url()), value).connect().await;
            if takes {
                // A command that may take a millisecond may be too slow; it is not refused.
                let slow = option == "command_timeout" && matches!(answer, Err(Error::Unreachable { .. }));
                assert!(slow || answer.is_ok(), "{option} of {value:?} gave {answer:?}");
            } else {
                assert!(is_refusal_of(option, &answer), "{option} of {value:?} gave {answer:?}");
                assert_eq!(proxy.log().len(), 0, "{option} of {value:?} was refused after connecting");
            }
        }
    }
}

#[tokio::test]
async fn a_time_out_below_a_millisecond_counts_as_a_whole_one() {
    let server = Server::own();
    let proxy = Proxy::to(&server);
    proxy.door(Door::Silent);
    for (asked, counts) in [(NS, "1ms"), (ASKED[2], "1ms"), (ASKED[3], "2ms"), (MS * 3, "3ms")] {
        let answer = Client::builder().url(proxy.url()).command_timeout(asked).connect().await;
        let Err(Error::Unreachable { source, .. }) = answer else { panic!("{answer:?}") };
        assert!(source.to_string().contains(counts), "{asked:?} gave {source}");
    }
}

#[tokio::test]
async fn a_bad_lease_or_bound_is_refused_by_its_name_and_nothing_is_sent() {
    let server = Server::own();
    let proxy = Proxy::to(&server);
    let client = connect(proxy.url()).await;
    let (lock, mutex) = (client.lock("refused"), client.mutex("refused"));
    let held = client.lock("held").lock().await.expect("a free lock");
    proxy.clear_log();
    let below = [Duration::ZERO, NS, ASKED[2], ASKED[3], MS * 9];
    for value in below.into_iter().chain([DAY * 365 + NS, Duration::MAX]) {
        let answers = [
            ("lease", lock.lock().lease(value).await.map(|_| ())),
            ("lease", lock.try_lock().lease(value).await.map(|_| ())),
            ("lease", lock.try_lock().lease(value).wait(LOOK).await.map(|_| ())),
            ("lease", mutex.lock().lease(value).await.map(|_| ())),
            ("lease", mutex.try_lock().lease(value).await.map(|_| ())),
            ("lease", held.extend(value).await),
            ("max_hold", lock.lock().max_hold(value).await.map(|_| ())),
            ("max_hold", lock.try_lock().max_hold(value).await.map(|_| ())),
            ("max_hold", mutex.lock().max_hold(value).await.map(|_| ())),
            ("max_hold", mutex.try_lock().max_hold(value).await.map(|_| ())),
        ];
        for (at, (option, answer)) in answers.into_iter().enumerate() {
            assert!(is_refusal_of(option, &answer), "{option} of {value:?} gave {answer:?}");
            // Of many locks that are taken in one expression, it is this one.
            let name = if at == 5 { "held" } else { "refused" };
            let said = answer.map(drop).expect_err("it is a refusal").to_string();
            assert!(said.ends_with(&format!(", for lock {name:?}")), "{said}");
        }
    }
    // What a client asks and says of itself, once connected, may still be on its way.
    let asks = |command: String| !matches!(&*command, "INFO" | "CLIENT");
    let sent = proxy.log().iter().filter(|entry| entry.command().is_some_and(asks)).count();
    assert_eq!(sent, 0, "something was sent");
    assert!(held.is_held());
}

#[tokio::test]
async fn a_part_of_a_millisecond_of_a_lease_reaches_the_server_as_a_whole_one() {
    let server = Server::own();
    let proxy = Proxy::to(&server);
    let client = connect(proxy.url()).await;
    let lock = client.lock("job");
    let whole = [
        (MS * 9 + NS, "10"),
        (MS * 10, "10"),
        (MS * 10 + NS, "11"),
        (MS * 50 + ASKED[2], "51"),
        (MS * 50 + ASKED[3], "52"),
        (DAY * 30, "2592000000"),
        (DAY * 30 + NS, "2592000001"),
        (DAY * 365, "31536000000"),
    ];
    for (lease, told) in whole {
        let answer = lock.lock().lease(lease).await;
        assert_eq!(asked_lease(&proxy), told, "{lease:?}");
        // A short lease may be over before a busy machine hears that it was given.
        assert!(answer.is_ok() || lease < LOOK, "{lease:?}: {answer:?}");
        if let Ok(guard) = answer {
            guard.unlock().await.ok();
        }
    }
    for (lease, told) in whole {
        let guard = lock.lock().await.expect("a free lock");
        guard.extend(lease).await.expect("a live hold");
        assert!(last_words(&proxy, "renew").contains(&told.to_owned()), "{lease:?}");
        guard.unlock().await.expect("a hold of ours is released");
    }
    // The watchdog's own, first asked for and then renewed.
    for (timeout, told) in [(MS * 1799 + NS, "1800"), (MS * 1800 + ASKED[3], "1802")] {
        let proxy = Proxy::to(&server);
        let client = Client::builder().url(proxy.url()).watchdog_timeout(timeout).connect().await.expect("connects");
        let guard = client.lock("watched").lock().await.expect("a free lock");
        assert_eq!(asked_lease(&proxy), told, "{timeout:?}");
        eventually_async(LOOK, async || proxy.log().iter().any(|entry| entry.script().as_deref() == Some("renew")))
            .await;
        assert!(last_words(&proxy, "renew").contains(&told.to_owned()), "{timeout:?}");
        guard.unlock().await.expect("a hold of ours is released");
    }
}

#[tokio::test]
async fn the_key_lives_as_long_as_was_asked_for() {
    let server = Server::shared();
    let client = Client::builder().url(server.url()).watchdog_timeout(DAY * 30).connect().await.expect("connects");
    let mut connection = server.async_connection().await;
    let mut left = async |name: &str| {
        let mut pttl = redis::cmd("PTTL");
        let ms: i64 = pttl.arg(name).query_async(&mut connection).await.expect("PTTL answers");
        ms
    };
    let close_to = |lease: Duration, ms: i64, asked: Instant| {
        let lease = i64::try_from(lease.as_millis()).expect("a lease is short enough");
        // A look that comes late is no fault of the lease.
        let late = i64::try_from(asked.elapsed().as_millis()).expect("it was just now");
        assert!((lease - 50 - late..=lease + 50).contains(&ms), "asked for {lease} ms, has {ms} ms");
    };
    for lease in [MS * 200, MS * 1500, MS * 30_000, DAY, DAY * 30, DAY * 365] {
        let name = unique_name();
        let asked = Instant::now();
        let guard = client.lock(&name).lock().lease(lease).await.expect("a free lock");
        close_to(lease, left(&name).await, asked);
        let expires = guard.expires_in().expect("a live hold");
        assert!(
            expires <= lease && expires + lease / 200 + MS * 51 + asked.elapsed() >= lease,
            "{lease:?}: {expires:?}"
        );
        guard.unlock().await.expect("a hold of ours is released");

        let asked = Instant::now();
        let guard = client.lock(&name).lock().lease(MS * 150).await.expect("a free lock");
        guard.extend(lease).await.expect("a live hold");
        close_to(lease, left(&name).await, asked);
        guard.unlock().await.expect("a hold of ours is released");
    }
    let name = unique_name();
    let asked = Instant::now();
    let _guard = client.lock(&name).lock().await.expect("a free lock");
    close_to(DAY * 30, left(&name).await, asked);
}

#[tokio::test]
async fn an_acquisition_reaches_no_further_than_its_max_hold() {
    let server = Server::shared();
    let client = connect(server.url()).await;
    for bound in [MS * 10, MS * 9 + NS, MS * 300 + ASKED[3]] {
        let name = unique_name();
        let asked = Instant::now();
        let Ok(guard) = client.lock(&name).lock().max_hold(bound).await else {
            // Ten milliseconds may be over before the answer is here, time and again.
            assert!(bound < MS * 100, "no hold under {bound:?}");
            continue;
        };
        let lost = guard.lost().await;
        assert!(asked.elapsed() >= bound - MS * 4, "{bound:?}: lost after {:?}", asked.elapsed());
        assert!(matches!(lost, Error::Lost { cause: LostCause::MaxHold, .. }), "{lost:?}");
        eventually_async(LOOK, async || !client.lock(&name).is_locked().await.expect("the server answers")).await;
    }
    for bound in [DAY * 30, DAY * 365] {
        let guard = client.lock(unique_name()).lock().max_hold(bound).await.expect("a free lock");
        assert!(guard.expires_in().is_some_and(|left| left <= MS * 30_000), "{bound:?}");
        guard.unlock().await.expect("a hold of ours is released");
    }
}

#[tokio::test]
async fn a_wait_is_one_try_or_its_length_or_for_ever() {
    let server = Server::shared();
    let (holder, waiter) = (connect(server.url()).await, connect(server.url()).await);
    let name = unique_name();
    let held = holder.mutex(&name).lock().await.expect("a free lock");
    let tried = async |wait: Duration| waiter.mutex(&name).try_lock().wait(wait).await.expect("the server answers");
    for wait in [Duration::ZERO, NS, ASKED[2], ASKED[3], MS * 60] {
        let (lag, asked) = (Lag::watch(), Instant::now());
        assert!(tried(wait).await.is_none(), "{wait:?}");
        let took = asked.elapsed();
        assert!((wait..lag.added_to(wait + SLACK)).contains(&took), "{wait:?}: given up after {took:?}");
    }
    let long = [DAY * 30, DAY * 36_525, Duration::from_secs(u64::MAX / 2), Duration::MAX - NS, Duration::MAX];
    let waiting: Vec<_> =
        long.map(|wait| tokio::spawn(waiter.mutex(&name).try_lock().wait(wait))).into_iter().collect();
    eventually_async(LOOK, async || server.listeners(&format!("redisson_lock__channel:{{{name}}}")) == 1).await;
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
    held.unlock().await.expect("a hold of ours is released");
    for waiting in waiting {
        let guard: Option<LockGuard> = waiting.await.expect("no panic").expect("the server answers");
        guard.expect("a long wait gets the lock").unlock().await.expect("a hold of ours is released");
    }
}

#[tokio::test]
async fn a_short_unreachable_after_ends_a_wait_that_is_not_answered() {
    let server = Server::own();
    for after in [NS, ASKED[2], ASKED[3]] {
        let proxy = Proxy::to(&server);
        let builder = Client::builder().url(proxy.url()).command_timeout(MS * 150).unreachable_after(after);
        let client = builder.connect().await.expect("connects");
        proxy.silence_all();
        proxy.door(Door::Silent);
        let (lag, asked) = (Lag::watch(), Instant::now());
        let answer = client.lock("job").lock().await;
        let took = asked.elapsed();
        assert!(matches!(answer, Err(Error::Unreachable { .. })), "{answer:?}");
        assert!(took < lag.added_to(MS * 150 + SLACK), "{after:?} took {took:?}");
        assert!(proxy.log().iter().any(|entry| matches!(entry.event, Event::Request { .. })));
    }
}

#[tokio::test]
async fn a_lease_belongs_to_its_hold_and_leaks_through_no_lock_that_is_used_again() {
    let server = Server::shared();
    let proxy = Proxy::to(server);
    let watchdog = MS * 900;
    let client = Client::builder().url(proxy.url()).watchdog_timeout(watchdog).connect().await.expect("connects");
    let lock = client.lock(unique_name());
    for lease in [Some(DAY), None, Some(LOOK), None] {
        let acquire = lease.map_or_else(|| lock.lock(), |lease| lock.lock().lease(lease));
        let guard = acquire.await.expect("a free lock");
        let asked = lease.unwrap_or(watchdog);
        assert_eq!(asked_lease(&proxy), asked.as_millis().to_string());
        let claims = guard.expires_in().expect("it is held");
        assert!(claims <= asked && claims + asked / 128 + SLACK > asked, "{asked:?}: {claims:?}");
        // A hold under the watchdog is renewed after a fixed one, and a fixed one after it is not.
        proxy.clear_log();
        tokio::time::sleep(watchdog / 2).await;
        let renewed = proxy.log().iter().any(|entry| entry.script().as_deref() == Some("renew"));
        assert_eq!(renewed, lease.is_none(), "{lease:?}");
        guard.unlock().await.expect("a hold of ours is released");
    }
}
