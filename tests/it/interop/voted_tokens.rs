//! Token locks of a vote over three servers, beside clients of other languages that vote over the same: who keeps whom out, whose token
//! is whose, and leases that ended.

use std::time::Duration;

use relatch::{LockGuard, LostCause, Released, Token, TokenLock};
use tokio::task::JoinHandle;

use super::{
    SOON, STIRRED, assert_lost, assert_prompt, entered,
    foreign::{Foreign, Kind, are_installed},
    masters::{MAJORITY, MASTERS, Masters},
    site::{Company, Turn},
};
use crate::harness::{clock::monotonic, eventually_async, unique_name};

/// Makes tests of functions from a place, for each client that votes.
macro_rules! beside_each {
    ($($test:ident),* $(,)?) => {
        beside!(redsync: [Redsync] $($test)*);
        beside!(redlock4: [Redlock4] $($test)*);
        beside!(redlock5: [Redlock5] $($test)*);
    };
}

beside_each!(
    their_vote_keeps_us_out_and_we_enter_soon_after_their_release,
    our_vote_keeps_them_out_and_they_enter_after_our_release,
    whose_lease_is_over_changes_nothing_of_the_vote_of_the_other,
    a_token_of_either_side_is_extended_and_released_by_the_other,
);

beside!(
    redsync_alone: [Redsync]
    a_lock_at_one_server_is_one_vote_and_at_two_it_keeps_us_out
);

const LEASE: Duration = Duration::from_secs(30);
/// What an extension gives, which only it can have given.
const LONGER: Duration = Duration::from_secs(90);
const SHORT: Duration = Duration::from_secs(1);
const WAIT: Duration = Duration::from_millis(300);
/// The longest that a waiter of ours pauses before it looks again, though nobody told it anything.
const LOOKS_AGAIN: Duration = Duration::from_millis(250);

/// Three servers for one test.
#[derive(Debug)]
struct Place {
    masters: Masters,
    kinds: Vec<Kind>,
}

impl Place {
    /// `None` where the tools of one of them are missing.
    fn of(kinds: &[Kind], test: &str) -> Option<Self> {
        are_installed(kinds, test)
            .then(|| Self { masters: Masters::of(Turn::take(Company::Any)), kinds: kinds.to_vec() })
    }

    /// The first of its clients, over all servers.
    async fn theirs(&self) -> Foreign {
        self.kinds[0].start_over(&self.masters.addresses()).await
    }

    /// The token that each server has at this name.
    fn tokens(&self, name: &str) -> [Option<String>; MASTERS] {
        let at = |server: &crate::harness::Server| redis::cmd("GET").arg(name).query(&mut server.connection());
        self.masters.servers().each_ref().map(|server| at(server).expect("it is text, or nothing"))
    }

    /// Until this token is at each of them, or none is: who is not waited for has answered, too.
    async fn all_have(&self, name: &str, token: Option<&str>) {
        eventually_async(SOON, async || self.tokens(name).iter().all(|it| it.as_deref() == token)).await;
    }

    /// Until this token is at most of them: the last may have been asked before the other side let go of it there.
    async fn most_have(&self, name: &str, token: &str) {
        let has = || self.tokens(name).iter().filter(|it| it.as_deref() == Some(token)).count();
        eventually_async(SOON, async || has() >= MAJORITY).await;
    }

    /// How long the lock lasts by the word of each server that has it.
    fn left(&self, name: &str) -> Vec<Duration> {
        let ttl = |server: &crate::harness::Server| -> i64 {
            redis::cmd("PTTL").arg(name).query(&mut server.connection()).expect("it answers")
        };
        let left = self.masters.servers().iter().filter_map(|server| u64::try_from(ttl(server)).ok());
        left.map(Duration::from_millis).collect()
    }

    #[track_caller]
    fn is_left_empty(&self) {
        assert_eq!(self.masters.keys(), [const { Vec::<String>::new() }; MASTERS]);
    }
}

/// Waits for the lock in the background: the guard, and when it came.
fn enter(lock: &TokenLock) -> JoinHandle<(LockGuard, Duration)> {
    let waiting = lock.lock();
    tokio::spawn(async move { (waiting.await.expect("the lock is ours in the end"), monotonic()) })
}

fn token_of(guard: &LockGuard) -> Token {
    guard.token().expect("a token lock has one")
}

async fn their_vote_keeps_us_out_and_we_enter_soon_after_their_release(place: &Place) {
    let (theirs, red, name) = (place.theirs().await, place.masters.rust().await, unique_name());
    let lock = red.token_lock(&name);
    let token = theirs.try_lock(&name, LEASE).await.token().expect("it is free").to_owned();
    assert_eq!(place.tokens(&name), std::array::from_fn::<_, MASTERS, _>(|_| Some(token.clone())));
    assert!(lock.try_lock().await.expect("a majority answers").is_none());
    assert!(lock.try_lock().wait(WAIT).await.expect("a majority answers").is_none());
    assert!(lock.is_locked().await.expect("a majority answers"));
    let waiter = enter(&lock);
    place.masters.listening(&format!("relatch_token__channel:{{{name}}}"), 1).await;
    assert!(!waiter.is_finished());
    let released = monotonic();
    assert!(theirs.release(&name).await.yes());
    let (guard, at) = entered(waiter).await;
    assert_prompt(released, at, LOOKS_AGAIN + STIRRED);
    let ours = token_of(&guard);
    assert_ne!(ours.as_ref(), token);
    place.most_have(&name, ours.as_ref()).await;
    assert!(theirs.adopt(&name, LEASE, &token).await.yes());
    assert_eq!(theirs.extend(&name, LONGER).await.refusal(), theirs.kind().refuses_to_extend());
    assert_eq!(theirs.release(&name).await.refusal(), theirs.kind().refuses_to_release());
    assert!(place.left(&name).iter().all(|left| *left <= LEASE), "{:?}", place.left(&name));
    assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
    place.all_have(&name, None).await;
}

async fn our_vote_keeps_them_out_and_they_enter_after_our_release(place: &Place) {
    let (theirs, red, name) = (place.theirs().await, place.masters.rust().await, unique_name());
    let lock = red.token_lock(&name);
    let guard = lock.lock().await.expect("it is free");
    place.all_have(&name, Some(token_of(&guard).as_ref())).await;
    assert_eq!(theirs.try_lock(&name, LEASE).await.token(), None);
    assert_eq!(theirs.lock(&name, LEASE, WAIT).await.token(), None);
    let mut waits = theirs.lock(&name, LEASE, SOON);
    tokio::time::sleep(WAIT).await;
    assert!(waits.is_pending() && guard.is_held());
    assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
    let token = waits.await.token().expect("it is free").to_owned();
    place.most_have(&name, &token).await;
    assert!(lock.try_lock().await.expect("a majority answers").is_none());
    assert!(theirs.release(&name).await.yes());
}

async fn whose_lease_is_over_changes_nothing_of_the_vote_of_the_other(place: &Place) {
    let (theirs, red, name) = (place.theirs().await, place.masters.rust().await, unique_name());
    let lock = red.token_lock(&name);
    let token = theirs.try_lock(&name, SHORT).await.token().expect("it is free").to_owned();
    let ends = monotonic() + place.left(&name).into_iter().max().expect("there are three");
    let (guard, at) = entered(enter(&lock)).await;
    assert!(at + SHORT >= ends && at <= ends + LOOKS_AGAIN + STIRRED, "{at:?}, {ends:?}");
    place.most_have(&name, token_of(&guard).as_ref()).await;
    assert!(theirs.adopt(&name, LEASE, &token).await.yes());
    assert_eq!(theirs.release(&name).await.refusal(), theirs.kind().refuses_to_release());
    assert!(guard.is_held());
    assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
    place.all_have(&name, None).await;

    let guard = lock.lock().lease(SHORT).await.expect("it is free");
    let ours = token_of(&guard);
    let token = theirs.lock(&name, LEASE, SOON).await.token().expect("our lease ends").to_owned();
    place.most_have(&name, &token).await;
    assert_lost(guard.extend(LONGER).await, LostCause::Expired);
    assert_lost(guard.unlock().await, LostCause::Gone);
    // Nor with the token alone, whatever the guard knew.
    let late = lock.resume(ours);
    assert_lost(late.extend(LONGER).await, LostCause::Gone);
    assert_lost(late.unlock().await, LostCause::Gone);
    assert!(place.left(&name).iter().all(|left| *left <= LEASE), "{:?}", place.left(&name));
    place.most_have(&name, &token).await;
    assert!(theirs.release(&name).await.yes());

    // Nobody has it: an Ok with us, and an error with each of them.
    let guard = lock.lock().lease(SHORT).await.expect("it is free");
    place.all_have(&name, Some(token_of(&guard).as_ref())).await;
    place.all_have(&name, None).await;
    assert_eq!(guard.unlock().await.expect("nobody has it"), Released::AlreadyExpired);
    assert_eq!(theirs.release(&name).await.refusal(), theirs.kind().has_nothing_to_release());
}

async fn a_token_of_either_side_is_extended_and_released_by_the_other(place: &Place) {
    let (theirs, red, name) = (place.theirs().await, place.masters.rust().await, unique_name());
    let lock = red.token_lock(&name);
    let is_longer = async || place.left(&name).iter().all(|left| *left > LEASE && *left <= LONGER);
    let token = lock.lock().await.expect("it is free").into_token().expect("a token lock has one");
    place.all_have(&name, Some(token.as_ref())).await;
    assert!(theirs.adopt(&name, LEASE, token.as_ref()).await.yes());
    assert!(theirs.extend(&name, LONGER).await.yes());
    assert!(is_longer().await, "{:?}", place.left(&name));
    assert!(theirs.release(&name).await.yes());
    place.all_have(&name, None).await;

    let token = theirs.try_lock(&name, LEASE).await.token().expect("it is free").to_owned();
    let held = lock.resume(token.parse::<Token>().expect("any text of theirs is one"));
    held.extend(LONGER).await.expect("it is the holder's");
    eventually_async(SOON, is_longer).await;
    place.all_have(&name, Some(&token)).await;
    assert_eq!(held.unlock().await.expect("it is held"), Released::Freed);
    place.all_have(&name, None).await;
    assert_eq!(theirs.release(&name).await.refusal(), theirs.kind().has_nothing_to_release());
}

async fn a_lock_at_one_server_is_one_vote_and_at_two_it_keeps_us_out(place: &Place) {
    let (red, name) = (place.masters.rust().await, unique_name());
    let lock = red.token_lock(&name);
    let [one, two, _] = place.masters.servers();
    let (one, two) = (place.kinds[0].start(one).await, place.kinds[0].start(two).await);
    let token = one.try_lock(&name, LEASE).await.token().expect("it is free").to_owned();
    let guard = lock.try_lock().await.expect("a majority answers").expect("two are free");
    let ours = token_of(&guard);
    let has = |token: &str| place.tokens(&name).iter().flatten().filter(|it| *it == token).count();
    eventually_async(SOON, async || has(ours.as_ref()) == MAJORITY).await;
    assert_eq!(two.try_lock(&name, LEASE).await.token(), None);
    assert_eq!(place.tokens(&name)[0].as_ref(), Some(&token));
    assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
    eventually_async(SOON, async || has(ours.as_ref()) == 0).await;

    let other = two.try_lock(&name, LEASE).await.token().expect("it is free").to_owned();
    assert!(lock.try_lock().await.expect("a majority answers").is_none());
    eventually_async(SOON, async || place.tokens(&name) == [Some(token.clone()), Some(other.clone()), None]).await;
    let waiter = enter(&lock);
    assert!(two.release(&name).await.yes());
    let (guard, _) = entered(waiter).await;
    assert_eq!(place.tokens(&name)[0].as_ref(), Some(&token));
    assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
    assert!(one.release(&name).await.yes());
    place.all_have(&name, None).await;
}
