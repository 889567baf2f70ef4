//! Clients of other languages and this library on one server, sharing locks: a real Redisson, driven by `interop/peer.rs`, or a
//! real lock client of Python, Go or Node, driven by `interop/foreign.rs`, beside a client of ours.
//!
//! | what | file |
//! | --- | --- |
//! | programs of other languages | `program.rs` |
//! | the Java program, and where it meets us | `peer.rs`, `site.rs` |
//! | who keeps whom out, and who may release | `holding.rs` |
//! | how a lock changes hands | `waking.rs`, and how fast: `speed.rs` |
//! | holds that end otherwise: killed, forced, expired | `ending.rs` |
//! | fenced locks: whose token is which | `fenced.rs` |
//! | several locks as one, in two orders | `multi.rs` |
//! | names, keys and channels | `names.rs` |
//! | many of both for half a minute | `crowd.rs` |
//! | what goes wrong in Redisson and not here | `faults.rs` |
//! | masters that change, a shard that is silent, both kinds of channels | `several.rs` |
//! | recorded steps of Redisson, taken by our client; no Java | `traces.rs` |
//! | three servers for a vote, and Redisson's `RedissonRedLock` beside ours | `masters.rs`, `voting.rs` |
//! | token locks, beside redis-py, redsync, bsm/redislock and node-redlock | `tokens.rs`, by `foreign.rs` |
//! | token locks of a vote, beside redsync and node-redlock | `voted_tokens.rs` |
//!
//! Where Maven or a language's tools are missing the tests that need them say so, and do nothing.

/// Makes tests of functions from a site, for each kind of deployment that both sides know. `Any` of the tests that need Java
/// may run beside them, or `None`: those that measure, some of them `NoneForLong`.
macro_rules! live {
    ($($company:ident: $($test:ident),*;)*) => {
        mod standalone {
            $($(live!(on standalone, $company, $test);)*)*
        }
        mod sentinel {
            $($(live!(on sentinel, $company, $test);)*)*
        }
    };
    (on $site:ident, $company:ident, $test:ident) => {
        #[tokio::test]
        async fn $test() {
            use crate::interop::site::{Company, Site};
            let Some(site) = Site::$site(Company::$company, stringify!($test)) else { return };
            super::$test(&site).await;
            site.is_left_empty().await;
        }
    };
}

/// The same on a cluster of one, as its releases are told.
macro_rules! clustered {
    ($site:ident, $company:ident: $($test:ident),*;) => {
        mod $site {
            use super::*;
            mod cluster {
                $(live!(on $site, $company, $test);)*
            }
        }
    };
}

/// Makes tests of functions from the `Place` of a file, for some of the clients of other languages.
macro_rules! beside {
    ($clients:ident: [$($kind:ident)*] $($test:ident)*) => {
        mod $clients {
            use super::{Kind, Place};
            const KINDS: &[Kind] = &[$(Kind::$kind),*];
            $(#[tokio::test]
            async fn $test() {
                let named = concat!(stringify!($clients), "::", stringify!($test));
                let Some(place) = Place::of(KINDS, named) else { return };
                super::$test(&place).await;
                place.is_left_empty();
            })*
        }
    };
}

mod crowd;
mod ending;
mod faults;
mod fenced;
mod foreign;
mod holding;
mod masters;
mod multi;
mod names;
mod peer;
mod program;
mod several;
mod site;
mod speed;
mod tokens;
mod traces;
mod voted_tokens;
mod voting;
mod waking;

use std::time::Duration;

use relatch::{Client, Error, LockGuard, LostCause};
use tokio::task::JoinHandle;

use self::{peer::Answer, site::Site};
use crate::harness::{
    Server,
    clock::{monotonic, wall},
    eventually_async,
    monitor::Ran,
};

pub(crate) use self::crowd::work_in_a_crowd;

const MS: Duration = Duration::from_millis(1);
/// What must come comes within this, and not after the 30 s that a lease lasts by default.
const SOON: Duration = Duration::from_secs(10);
/// What was asked for before a test ended is done by then.
const UNDER_WAY: Duration = Duration::from_secs(1);
/// How late somebody may be who was sent a message, or whose time is over.
const AWAKE: Duration = Duration::from_millis(50);
/// The same where one time is looked at, and not the most of many: the machine may have paused just then.
const STIRRED: Duration = Duration::from_millis(500);
/// How long after the end of a lease somebody else is in.
const EXPIRED: Duration = Duration::from_millis(100);

/// Waits for the lock in the background: the guard, and when it came.
fn enter(client: &Client, name: &str) -> JoinHandle<(LockGuard, Duration)> {
    let lock = client.mutex(name);
    tokio::spawn(async move {
        let guard = lock.lock().await.expect("the lock is ours in the end");
        (guard, monotonic())
    })
}

async fn entered(waiter: JoinHandle<(LockGuard, Duration)>) -> (LockGuard, Duration) {
    tokio::time::timeout(SOON, waiter).await.expect("the waiter enters").expect("no panic")
}

/// Waits until so many clients listen for the release of this lock.
async fn listening(site: &Site, name: &str, clients: u64) {
    eventually_async(SOON, async || site.listeners(&channel(name)) == clients).await;
}

async fn listening_on(server: &Server, channel: &str, clients: u64) {
    eventually_async(SOON, async || server.listeners(channel) == clients).await;
}

/// Where those who wait for this name listen.
fn channel(name: &str) -> String {
    if name.contains('{') {
        format!("redisson_lock__channel:{name}")
    } else {
        format!("redisson_lock__channel:{{{name}}}")
    }
}

/// How Redisson refuses an unlock by somebody who does not hold the lock.
#[track_caller]
fn assert_refused(answer: &Answer) {
    assert_eq!(answer.refusal(), "IllegalMonitorStateException");
}

#[track_caller]
fn assert_lost<T: std::fmt::Debug>(outcome: Result<T, Error>, wanted: LostCause) {
    assert!(matches!(&outcome, Err(Error::Lost { cause, .. }) if *cause == wanted), "{outcome:?}");
}

/// That something was done at this time: not before it could be, and not later than that after it.
#[track_caller]
fn assert_prompt(since: Duration, at: Duration, within: Duration) {
    // The server's times are whole milliseconds, and so are the timers that follow them.
    assert!(at + 2 * MS >= since, "{:?} too early", since.saturating_sub(at));
    let late = at.saturating_sub(since);
    assert!(late <= within, "{late:?} later");
}

/// When it will be that time of the wall clock, by the monotonic one.
fn due(at: Duration) -> Duration {
    monotonic() + at.saturating_sub(wall())
}

/// Whether a client asked for a script.
fn is_script(ran: &Ran) -> bool {
    !ran.by_script && matches!(&*ran.name(), "EVAL" | "EVALSHA")
}
