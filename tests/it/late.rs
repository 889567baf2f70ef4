//! Copies of commands that were answered long ago and run once more: what a newer hold feels of them, which is nothing,
//! and what they make of a free key. Commands that were given up before they ran are in `replays.rs`.

use std::time::Duration;

use relatch::{Client, LockGuard, Owner, Released};

use crate::{
    harness::{
        Server, eventually_async,
        proxy::{
            Action, Event, Proxy, Rule,
            matching::{command, script, verb},
        },
        traces::Traces,
        unique_name,
    },
    kept::{Kept, connected, held, kept, poll_once, teach},
    sent::assert_ends_are_final,
};

/// What must come comes within this.
const SOON: Duration = Duration::from_secs(10);
/// The lease of the newest hold, what old copies ask for, and a watchdog between the two.
const SHORT: Duration = Duration::from_secs(20);
const WATCHDOG: Duration = Duration::from_secs(40);
const LONG: Duration = Duration::from_secs(90);

/// What the copy is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Old {
    Release,
    NestedRelease,
    Renewal,
    HandOver,
    ForcedRelease,
}

impl Old {
    const ALL: [Self; 5] = [Self::Release, Self::NestedRelease, Self::Renewal, Self::HandOver, Self::ForcedRelease];

    fn verb(self) -> &'static str {
        match self {
            Self::Release | Self::NestedRelease => "release",
            Self::Renewal => "renew",
            Self::HandOver => "hand_over",
            Self::ForcedRelease => "force_release",
        }
    }
}

/// How the newest hold came to be.
#[derive(Clone, Copy, Debug)]
enum Newest {
    /// The same owner asked again.
    Acquired,
    /// It asked again, and passed the hold on.
    Passed,
    /// It asked again, gave the hold away and got it back, by a hand-over each.
    ThereAndBack,
}

/// One name, two owners, and a proxy that keeps a copy.
struct Scene {
    server: &'static Server,
    proxy: Proxy,
    client: Client,
    name: String,
    owner: Owner,
    other: Owner,
    late: Rule,
    verb: &'static str,
}

impl Scene {
    async fn of(verb: &'static str) -> Self {
        let (server, name) = (Server::shared(), unique_name());
        teach(server);
        let proxy = Proxy::to(server);
        let late = proxy.rule(script(verb).first(1), Action::DuplicateLater);
        let builder = Client::builder().url(proxy.url()).watchdog_timeout(WATCHDOG);
        let client = connected(builder.handover_slice(Duration::from_secs(60))).await;
        Self { server, proxy, client, name, owner: Owner::new(), other: Owner::new(), late, verb }
    }

    fn held(&self) -> Kept {
        held(self.server, &self.name)
    }

    /// How many commands of the kind were answered.
    fn answered(&self) -> usize {
        let answers =
            |event: &Event| matches!(event, Event::Reply { to, .. } if verb(to).as_deref() == Some(self.verb));
        self.proxy.log().iter().filter(|entry| answers(&entry.event)).count()
    }

    /// Lets the copy run, and returns when the server has answered it.
    async fn let_go(&self) {
        assert!(self.late.seen() >= 1, "nothing was copied");
        let before = self.answered();
        self.late.let_go();
        eventually_async(SOON, async || self.answered() > before).await;
    }

    async fn enter(&self, owner: &Owner, lease: Duration) -> LockGuard {
        self.client.lock(&self.name).lock().owner(owner).lease(lease).await.expect("it is free, or ours")
    }

    /// Gives the hold to another owner, who waits for it.
    async fn give(&self, guard: LockGuard, to: &Owner, lease: Option<Duration>) -> LockGuard {
        let waiter = self.client.lock(&self.name).lock().owner(to);
        let mut waiter = if let Some(lease) = lease { waiter.lease(lease) } else { waiter };
        assert!(poll_once(&mut waiter).await.is_pending());
        assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
        waiter.await.expect("it is its turn")
    }

    /// The life of the first hold, with the command in it that is copied.
    async fn first(&self, old: Old) {
        let first = self.enter(&self.owner, LONG).await;
        match old {
            Old::Release => {}
            Old::NestedRelease => drop(self.enter(&self.owner, LONG).await.unlock().await.expect("it nests")),
            Old::Renewal => first.extend(LONG + SHORT).await.expect("it is held"),
            Old::HandOver => drop(self.give(first, &self.other, Some(LONG)).await.unlock().await.expect("it is held")),
            Old::ForcedRelease => {
                assert!(self.client.lock(&self.name).force_unlock().await.expect("the server answers"));
                assert!(first.lost().await.is_lost());
            }
        }
    }

    async fn newest(&self, how: Newest) -> LockGuard {
        match how {
            Newest::Acquired => self.enter(&self.owner, SHORT).await,
            Newest::Passed => {
                let before = self.client.lock(&self.name).lock().owner(&self.owner).await.expect("it is free");
                self.give(before, &self.other, None).await
            }
            Newest::ThereAndBack => {
                let before = self.enter(&self.owner, SHORT).await;
                let there = self.give(before, &self.other, Some(LONG)).await;
                self.give(there, &self.owner, Some(SHORT)).await
            }
        }
    }

    /// The old copy runs while this is the newest hold.
    async fn is_untouched(&self, newest: LockGuard, what: &str) {
        let (before, end) = (self.held(), newest.expires_in());
        self.let_go().await;
        assert_eq!(self.held(), before, "{what}");
        assert!(newest.is_held() && newest.expires_in() <= end, "{what}");
        assert_eq!(newest.unlock().await.expect("it is held"), Released::Freed, "{what}");
        assert_eq!(kept(self.server, &self.name), None, "{what}");
        assert_ends_are_final(&self.proxy);
    }
}

#[tokio::test]
async fn a_copy_of_anything_an_older_hold_sent_leaves_the_newest_one_as_it_is() {
    for old in Old::ALL {
        for how in [Newest::Acquired, Newest::Passed, Newest::ThereAndBack] {
            let scene = Scene::of(old.verb()).await;
            scene.first(old).await;
            let newest = scene.newest(how).await;
            scene.is_untouched(newest, &format!("{old:?}, {how:?}")).await;
        }
    }
}

/// The hand-over that is copied is the one there: its two numbers are those of the hold that came back and of the one in
/// between.
#[tokio::test]
async fn a_copy_of_the_hand_over_there_does_not_move_the_hold_that_came_back() {
    let scene = Scene::of("hand_over").await;
    let newest = scene.newest(Newest::ThereAndBack).await;
    scene.is_untouched(newest, "there and back").await;
}

#[tokio::test]
async fn a_hold_that_an_old_copy_left_is_believed_by_nobody_laid_and_told_in_one_warning() {
    let traces = Traces::here();
    let (server, name) = (Server::shared(), unique_name());
    teach(server);
    let proxy = Proxy::to(server);
    let watchdog = Duration::from_millis(900);
    let command_timeout = Duration::from_millis(200);
    let builder = Client::builder().url(proxy.url()).watchdog_timeout(watchdog).command_timeout(command_timeout);
    let client = connected(builder).await;
    // Never answered, so that there is something to watch for.
    let late = proxy.rule(script("acquire").first(1), Action::HoldRequest);
    let (lock, owner) = (client.lock(&name), Owner::new());
    let guard = lock.lock().owner(&owner).await.expect("the second try is answered");
    guard.unlock().await.expect("it is held");
    late.let_go();
    eventually_async(SOON, async || kept(server, &name).is_some_and(|ghost| ghost.is_of(&client))).await;
    assert!(!guard.is_held() && !lock.is_held_by(&owner) && guard.hold_count() == 0);
    assert!(lock.attach(&owner).is_none());
    assert!(lock.unlock().owner(&owner).await.is_err(), "nobody holds what it could release");
    eventually_async(SOON, async || kept(server, &name).is_none()).await;
    let warned = || traces.events("released a hold that an old copy of a command left");
    eventually_async(SOON, async || !warned().is_empty()).await;
    let [said] = warned().try_into().expect("one ghost, one warning");
    assert_eq!((said.level, said.field("lock")), (tracing::Level::WARN, &*name));
    // It was named by releases alone.
    assert_ends_are_final(&proxy);
}

#[tokio::test]
async fn a_copy_of_a_nested_acquire_makes_nothing_of_a_free_key() {
    let scene = Scene::of("acquire").await;
    let late = scene.proxy.rule(command("EVALSHA").with(nests), Action::DuplicateLater);
    let outer = scene.enter(&scene.owner, LONG).await;
    let inner = scene.enter(&scene.owner, LONG).await;
    assert_eq!((late.seen(), scene.held().count), (1, 2));
    inner.unlock().await.expect("it nests");
    outer.unlock().await.expect("it is held");
    let before = scene.answered();
    late.let_go();
    eventually_async(SOON, async || scene.answered() > before).await;
    assert_eq!(kept(scene.server, &scene.name), None);
}

/// Whether it asks for more than one hold.
fn nests(words: &[Vec<u8>]) -> bool {
    verb(words).as_deref() == Some("acquire") && words.len() > 6
}
