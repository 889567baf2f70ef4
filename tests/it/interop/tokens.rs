//! Token locks on one name with the lock clients of other languages: who keeps whom out, how the lock changes hands, and tokens that
//! are handed to the other side.

use std::time::Duration;

use redis::{AsyncCommands, aio::MultiplexedConnection};
use relatch::{Client, Error, LockGuard, LostCause, RefusedKind, Released, Token, TokenLock};
use tokio::{
    task::{JoinHandle, JoinSet},
    time::sleep,
};
use tokio_util::sync::CancellationToken;

use super::{
    SOON, STIRRED, assert_lost, assert_prompt, entered,
    foreign::{Foreign, Kind, are_installed},
    listening_on,
    site::{Company, Turn},
};
use crate::{
    harness::{Server, clock::monotonic, eventually_async, unique_name},
    kept::{client, connected},
};

/// Makes tests of functions from a place, for each of the clients alone.
macro_rules! beside_each {
    ($($test:ident),* $(,)?) => {
        beside!(redis_py: [RedisPy] $($test)*);
        beside!(redsync: [Redsync] $($test)*);
        beside!(redislock: [Redislock] $($test)*);
        beside!(redlock4: [Redlock4] $($test)*);
        beside!(redlock5: [Redlock5] $($test)*);
    };
}

beside_each!(
    they_keep_us_out_and_we_enter_soon_after_their_release,
    we_keep_them_out_and_they_enter_after_our_release,
    a_waiter_of_ours_enters_when_their_lock_expires_and_their_late_calls_change_nothing,
    a_waiter_of_theirs_enters_when_our_lock_expires_and_our_late_calls_change_nothing,
    a_token_of_ours_is_extended_and_released_by_them,
    a_token_of_theirs_is_extended_and_released_by_us,
);

beside!(
    redis_py_alone: [RedisPy]
    a_lock_without_a_timeout_is_waited_for_and_never_gets_one
    a_lock_without_a_timeout_gets_one_from_a_waiter_that_repairs_and_its_holder_loses_it
    our_watchdog_keeps_them_out_until_the_token_is_given_away
    a_prefix_of_ours_is_a_part_of_their_name
    a_plain_lock_of_ours_and_a_lock_of_theirs_are_never_held_at_once
);

beside!(
    redislock_alone: [Redislock]
    a_token_of_theirs_with_metadata_is_the_locks_only_with_these
);

beside!(
    all: [RedisPy Redsync Redislock Redlock4 Redlock5]
    clients_of_all_languages_count_together_and_no_count_is_lost
    the_guide_names_the_versions_that_are_run
);

const LEASE: Duration = Duration::from_secs(30);
/// What an extension gives, which only it can have given.
const LONGER: Duration = Duration::from_secs(90);
/// Their side's votes are asked for within a part of it.
const SHORT: Duration = Duration::from_secs(1);
const WATCHDOG: Duration = Duration::from_millis(1500);
const WAIT: Duration = Duration::from_millis(300);
/// The longest that a waiter of ours pauses before it looks again, though nobody told it anything.
const LOOKS_AGAIN: Duration = Duration::from_millis(250);

/// One server for one test.
#[derive(Debug)]
struct Place {
    server: Server,
    kinds: Vec<Kind>,
    _turn: Turn,
}

impl Place {
    /// `None` where the tools of one of them are missing.
    fn of(kinds: &[Kind], test: &str) -> Option<Self> {
        if !are_installed(kinds, test) {
            return None;
        }
        let turn = Turn::take(Company::Any);
        Some(Self { server: Server::builder().tcp().start(), kinds: kinds.to_vec(), _turn: turn })
    }

    /// The first of its clients.
    async fn theirs(&self) -> Foreign {
        self.kinds[0].start(&self.server).await
    }

    /// A client of ours, with the default options.
    async fn ours(&self) -> Client {
        client(self.server.url()).await
    }

    /// What is at this key, and when it ends; `None` where it has no end.
    fn at(&self, key: &str) -> Option<(String, Option<Duration>)> {
        let asked = redis::pipe().atomic().get(key).cmd("PTTL").arg(key).query(&mut self.server.connection());
        let (value, ttl): (Option<String>, i64) = asked.expect("it is text, or nothing");
        Some((value?, u64::try_from(ttl).ok().map(Duration::from_millis)))
    }

    /// Whose token has this lock, and for how long.
    #[track_caller]
    fn holder(&self, name: &str) -> (String, Duration) {
        let (token, ttl) = self.at(name).expect("somebody holds it");
        (token, ttl.expect("it has a TTL"))
    }

    /// Whether it is held, and not for ever.
    fn holder_ends(&self, name: &str) -> bool {
        self.at(name).is_some_and(|(_, ttl)| ttl.is_some())
    }

    #[track_caller]
    fn is_left_empty(&self) {
        assert_eq!(self.server.keys(), Vec::<String>::new());
    }
}

fn channel(name: &str) -> String {
    format!("relatch_token__channel:{{{name}}}")
}

/// Waits for the lock in the background, and is known to: the guard, and when it came.
async fn waiter(place: &Place, lock: &TokenLock) -> JoinHandle<(LockGuard, Duration)> {
    let waiting = lock.lock();
    let task = tokio::spawn(async move {
        let guard = waiting.await.expect("the lock is ours in the end");
        (guard, monotonic())
    });
    listening_on(&place.server, &channel(lock.name()), 1).await;
    task
}

/// Nothing that they do with this token changes what is there, and they say why.
async fn assert_theirs_is_over(place: &Place, theirs: &Foreign, name: &str, token: &str) {
    let (holder, left) = place.holder(name);
    if theirs.kind().knows_what_is_its_own() {
        assert!(!theirs.is_mine(name).await.yes());
    } else {
        // Its local clock is to believe in the lock: else it refuses by itself.
        assert!(theirs.adopt(name, LEASE, token).await.yes());
    }
    assert_eq!(theirs.extend(name, LONGER).await.refusal(), theirs.kind().refuses_to_extend());
    assert_eq!(theirs.release(name).await.refusal(), theirs.kind().refuses_to_release());
    let after = place.holder(name);
    assert_eq!(after.0, holder);
    assert!(after.1 <= left, "{:?} longer", after.1 - left);
}

async fn they_keep_us_out_and_we_enter_soon_after_their_release(place: &Place) {
    let (theirs, ours, name) = (place.theirs().await, place.ours().await, unique_name());
    let lock = ours.token_lock(&name);
    let token = theirs.try_lock(&name, LEASE).await.token().expect("it is free").to_owned();
    assert_eq!(place.holder(&name).0, token);
    assert!(lock.try_lock().await.expect("the server answers").is_none());
    assert!(lock.try_lock().wait(WAIT).await.expect("the server answers").is_none());
    assert!(lock.is_locked().await.expect("the server answers"));
    let waiter = waiter(place, &lock).await;
    let released = monotonic();
    assert!(theirs.release(&name).await.yes());
    let (guard, at) = entered(waiter).await;
    assert_prompt(released, at, LOOKS_AGAIN + STIRRED);
    assert_theirs_is_over(place, &theirs, &name, &token).await;
    assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
}

async fn we_keep_them_out_and_they_enter_after_our_release(place: &Place) {
    let (theirs, ours, name) = (place.theirs().await, place.ours().await, unique_name());
    let lock = ours.token_lock(&name);
    let guard = lock.lock().await.expect("it is free");
    assert_eq!(theirs.try_lock(&name, LEASE).await.token(), None);
    assert_eq!(theirs.lock(&name, LEASE, WAIT).await.token(), None);
    assert_eq!(guard.token().map(|token| token.as_ref().to_owned()), Some(place.holder(&name).0));
    let mut waits = theirs.lock(&name, LEASE, SOON);
    sleep(WAIT).await;
    assert!(waits.is_pending() && guard.is_held());
    assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
    let token = waits.await.token().expect("it is free").to_owned();
    assert_eq!(place.holder(&name).0, token);
    assert!(lock.try_lock().await.expect("the server answers").is_none());
    assert!(theirs.release(&name).await.yes());
}

async fn a_waiter_of_ours_enters_when_their_lock_expires_and_their_late_calls_change_nothing(place: &Place) {
    let (theirs, ours, name) = (place.theirs().await, place.ours().await, unique_name());
    let lock = ours.token_lock(&name);
    let token = theirs.try_lock(&name, SHORT).await.token().expect("it is free").to_owned();
    let ends = monotonic() + place.holder(&name).1;
    let (guard, at) = entered(waiter(place, &lock).await).await;
    assert_prompt(ends, at, LOOKS_AGAIN + STIRRED);
    assert_theirs_is_over(place, &theirs, &name, &token).await;
    assert!(guard.is_held());
    assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
    // Nobody has it now: what is an Ok with us is an error with each of them.
    assert_eq!(theirs.release(&name).await.refusal(), theirs.kind().has_nothing_to_release());
}

async fn a_waiter_of_theirs_enters_when_our_lock_expires_and_our_late_calls_change_nothing(place: &Place) {
    let (theirs, ours, name) = (place.theirs().await, place.ours().await, unique_name());
    let lock = ours.token_lock(&name);
    let guard = lock.lock().lease(SHORT).await.expect("it is free");
    let token = guard.token().expect("a token lock has one");
    let waits = theirs.lock(&name, LEASE, SOON);
    let ends = monotonic() + place.holder(&name).1;
    let theirs_is = waits.await.token().expect("our lease ends").to_owned();
    assert_prompt(ends, monotonic(), SOON);
    let (holder, left) = place.holder(&name);
    assert_eq!(holder, theirs_is);
    assert_lost(guard.extend(LONGER).await, LostCause::Expired);
    assert_lost(guard.unlock().await, LostCause::Gone);
    // Nor with the token alone, whatever the guard knew.
    let late = lock.resume(token);
    assert_lost(late.extend(LONGER).await, LostCause::Gone);
    assert_lost(late.unlock().await, LostCause::Gone);
    let after = place.holder(&name);
    assert!(after.0 == holder && after.1 <= left, "{after:?}");
    assert!(theirs.release(&name).await.yes());
}

async fn a_token_of_ours_is_extended_and_released_by_them(place: &Place) {
    let (theirs, ours, name) = (place.theirs().await, place.ours().await, unique_name());
    let lock = ours.token_lock(&name);
    let token = lock.lock().await.expect("it is free").into_token().expect("a token lock has one");
    let text: &str = token.as_ref();
    assert_eq!(place.holder(&name).0, text);
    assert!(theirs.adopt(&name, LEASE, text).await.yes());
    if theirs.kind().knows_what_is_its_own() {
        assert!(theirs.is_mine(&name).await.yes());
    }
    assert!(theirs.extend(&name, LONGER).await.yes());
    let (holder, left) = place.holder(&name);
    assert!(holder == text && left > LEASE, "{holder} for {left:?}");
    // It is theirs by now, and whoever gave it away waits for it like anybody else.
    assert!(lock.try_lock().await.expect("the server answers").is_none());
    let waiter = waiter(place, &lock).await;
    assert!(theirs.release(&name).await.yes());
    let (guard, _) = entered(waiter).await;
    assert_ne!(guard.token().as_ref(), Some(&token));
    assert_theirs_is_over(place, &theirs, &name, text).await;
    assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
}

async fn a_token_of_theirs_is_extended_and_released_by_us(place: &Place) {
    let (theirs, ours, name) = (place.theirs().await, place.ours().await, unique_name());
    let lock = ours.token_lock(&name);
    let token = theirs.try_lock(&name, LEASE).await.token().expect("it is free").to_owned();
    let held = lock.resume(token.parse::<Token>().expect("any text of theirs is one"));
    held.extend(LONGER).await.expect("it is the holder's");
    assert!(held.expires_in().is_some_and(|left| left > LEASE && left <= LONGER), "{:?}", held.expires_in());
    let (holder, left) = place.holder(&name);
    assert!(holder == token && left > LEASE, "{holder} for {left:?}");
    if theirs.kind().knows_what_is_its_own() {
        assert!(theirs.is_mine(&name).await.yes());
    }
    assert_eq!(held.unlock().await.expect("it is held"), Released::Freed);
    assert_eq!(theirs.release(&name).await.refusal(), theirs.kind().has_nothing_to_release());
    assert!(lock.try_lock().await.expect("the server answers").is_some());
    // The guard was dropped: its release is on the way.
    ours.close().await;
}

/// How often each of the others counts, and for how long everybody pauses between reading and writing: long enough that somebody else
/// would come in.
const TIMES: u32 = 6;
const PAUSE: Duration = Duration::from_millis(3);
/// For how long ours leave the lock to the others, who look every 100 or 200 ms.
const LEAVES: Duration = Duration::from_millis(10);

async fn clients_of_all_languages_count_together_and_no_count_is_lost(place: &Place) {
    let (ours, name, key) = (place.ours().await, unique_name(), unique_name());
    let mut others = Vec::new();
    for kind in &place.kinds {
        others.push(kind.start(&place.server).await);
    }
    let over = CancellationToken::new();
    let counting: Vec<_> = others.iter().map(|other| other.count(&name, LEASE, &key, TIMES, PAUSE)).collect();
    let mut tasks = JoinSet::new();
    for _ in 0..2 {
        let connection = place.server.async_connection().await;
        tasks.spawn(count(ours.token_lock(&name), connection, key.clone(), over.clone()));
    }
    for counted in counting {
        assert!(counted.await.yes());
    }
    over.cancel();
    let own = tasks.join_all().await;
    assert!(own.iter().all(|times| *times > TIMES), "{own:?}: they hardly met");
    let counted = place.at(&key).expect("they counted").0;
    assert_eq!(counted, (own.iter().sum::<u32>() + TIMES * others.len() as u32).to_string());
    place.server.delete(&key);
}

/// Counts until it is over, and tells how often.
async fn count(lock: TokenLock, mut connection: MultiplexedConnection, key: String, over: CancellationToken) -> u32 {
    let mut times = 0;
    while !over.is_cancelled() {
        let guard = lock.lock().await.expect("the server answers");
        let number: Option<u32> = connection.get(&key).await.expect("it is a number");
        sleep(PAUSE).await;
        let () = connection.set(&key, number.unwrap_or(0) + 1).await.expect("the server answers");
        guard.unlock().await.expect("it is held");
        times += 1;
        sleep(LEAVES).await;
    }
    times
}

async fn the_guide_names_the_versions_that_are_run(place: &Place) {
    let page = include_str!("../../../src/guide/token_lock.rs");
    for kind in &place.kinds {
        let theirs = kind.start(&place.server).await;
        let row = page.lines().find(|line| line.starts_with(&format!("//! | {kind} "))).expect("it has a row");
        let named = row.split([' ', ',']).any(|word| word == theirs.version());
        assert!(named, "{kind} is {}: {row}", theirs.version());
    }
}

async fn a_lock_without_a_timeout_is_waited_for_and_never_gets_one(place: &Place) {
    let (theirs, ours, name) = (place.theirs().await, place.ours().await, unique_name());
    let lock = ours.token_lock(&name);
    let token = theirs.try_lock_for_ever(&name).await.token().expect("it is free").to_owned();
    assert!(lock.try_lock().wait(WAIT).await.expect("the server answers").is_none());
    assert!(lock.is_locked().await.expect("the server answers"));
    assert_eq!(lock.remaining_lease().await.expect("the server answers"), None);
    let waiter = waiter(place, &lock).await;
    sleep(2 * LOOKS_AGAIN).await;
    assert_eq!(place.at(&name), Some((token, None)));
    let released = monotonic();
    assert!(theirs.release(&name).await.yes());
    let (guard, at) = entered(waiter).await;
    assert_prompt(released, at, LOOKS_AGAIN + STIRRED);
    guard.unlock().await.expect("it is held");
}

async fn a_lock_without_a_timeout_gets_one_from_a_waiter_that_repairs_and_its_holder_loses_it(place: &Place) {
    let (theirs, ours, name) = (place.theirs().await, place.ours().await, unique_name());
    let lock = ours.token_lock(&name).repair_orphans(2 * SHORT);
    let token = theirs.try_lock_for_ever(&name).await.token().expect("it is free").to_owned();
    let waiter = waiter(place, &lock).await;
    eventually_async(SOON, async || place.holder_ends(&name)).await;
    let (holder, left) = place.holder(&name);
    assert!(holder == token && left <= 2 * SHORT, "{holder} for {left:?}");
    let ends = monotonic() + left;
    assert!(theirs.is_mine(&name).await.yes());
    let (guard, at) = entered(waiter).await;
    assert_prompt(ends, at, LOOKS_AGAIN + STIRRED);
    assert_eq!(theirs.release(&name).await.refusal(), theirs.kind().refuses_to_release());
    assert!(guard.is_held());
    guard.unlock().await.expect("it is held");
}

async fn our_watchdog_keeps_them_out_until_the_token_is_given_away(place: &Place) {
    let (theirs, name) = (place.theirs().await, unique_name());
    let ours = connected(Client::builder().url(place.server.url()).watchdog_timeout(WATCHDOG)).await;
    let guard = ours.token_lock(&name).lock().await.expect("it is free");
    let token = guard.token().expect("a token lock has one");
    assert_eq!(theirs.lock(&name, LEASE, 2 * WATCHDOG).await.token(), None);
    let (holder, left) = place.holder(&name);
    assert!(holder == token.as_ref() && left <= WATCHDOG && guard.is_held(), "{holder} for {left:?}");
    // Nobody renews it from now on.
    guard.into_token().expect("a token lock has one");
    assert!(theirs.lock(&name, LEASE, SOON).await.token().is_some());
    assert!(theirs.release(&name).await.yes());
}

async fn a_token_of_theirs_with_metadata_is_the_locks_only_with_these(place: &Place) {
    let (theirs, ours, name) = (place.theirs().await, place.ours().await, unique_name());
    let lock = ours.token_lock(&name);
    let token = theirs.try_lock_with(&name, LEASE, "host 7").await.token().expect("it is free").to_owned();
    let alone = lock.resume(token.parse().expect("any text of theirs is one"));
    assert_lost(alone.extend(LONGER).await, LostCause::Gone);
    assert_lost(alone.unlock().await, LostCause::Gone);
    let (holder, left) = place.holder(&name);
    assert!(holder == format!("{token}host 7") && left <= LEASE, "{holder} for {left:?}");
    let both = lock.resume(holder.parse().expect("any text of theirs is one"));
    both.extend(LONGER).await.expect("it is the holder's");
    assert!(theirs.is_mine(&name).await.yes());
    assert_eq!(both.unlock().await.expect("it is held"), Released::Freed);
}

async fn a_prefix_of_ours_is_a_part_of_their_name(place: &Place) {
    let (theirs, name) = (place.theirs().await, unique_name());
    let ours = connected(Client::builder().url(place.server.url()).name_prefix("app:")).await;
    let (whole, lock) = (format!("app:{name}"), ours.token_lock(&name));
    let guard = lock.lock().await.expect("it is free");
    assert_eq!(theirs.try_lock(&whole, LEASE).await.token(), None);
    // Without it they are two locks.
    assert!(theirs.try_lock(&name, LEASE).await.token().is_some());
    guard.unlock().await.expect("it is held");
    assert!(theirs.try_lock(&whole, LEASE).await.token().is_some());
    assert!(lock.try_lock().await.expect("the server answers").is_none());
    assert!(theirs.release(&whole).await.yes() && theirs.release(&name).await.yes());
}

async fn a_plain_lock_of_ours_and_a_lock_of_theirs_are_never_held_at_once(place: &Place) {
    let (theirs, ours, name) = (place.theirs().await, place.ours().await, unique_name());
    let plain = ours.lock(&name);
    assert!(theirs.try_lock(&name, LEASE).await.token().is_some());
    let refused = plain.try_lock().await;
    assert!(matches!(&refused, Err(Error::Refused { kind: RefusedKind::WrongType, .. })), "{refused:?}");
    assert!(theirs.release(&name).await.yes());
    let guard = plain.lock().await.expect("it is free");
    assert_eq!(theirs.try_lock(&name, LEASE).await.token(), None);
    guard.unlock().await.expect("it is held");
}
