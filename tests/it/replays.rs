//! Old copies of commands that reach the server late: held back on a link that was given up long ago, and let through
//! when the same owner has a newer hold, or nobody has one.

use std::time::Duration;

use relatch::{Client, Error, LostCause, Owner, Released};

use crate::{
    harness::{
        Server,
        clock::monotonic,
        eventually_async,
        lag::Lag,
        proxy::{
            Action, Event, Proxy, Rule,
            matching::{script, verb},
        },
        unique_name,
    },
    kept::{Kept, connected, held, kept, poll_once, teach},
};

/// What must come comes within this.
const SOON: Duration = Duration::from_secs(10);
/// After this a command counts as unanswered, and its link as dead.
const COMMAND: Duration = Duration::from_millis(200);
/// How late something may be noticed that has a time of its own.
const AWAKE: Duration = Duration::from_millis(50);
/// A lease that is not waited out.
const LONG: Duration = Duration::from_secs(20);

/// A client behind a proxy that keeps the first command of a kind until it is let go.
struct Scene {
    server: &'static Server,
    proxy: Proxy,
    client: Client,
    name: String,
    late: Rule,
    verb: &'static str,
}

impl Scene {
    /// The first command of the kind is held back, and its link with it.
    async fn new(verb: &'static str, watchdog: Duration) -> Self {
        let (server, name) = (Server::shared(), unique_name());
        teach(server);
        let proxy = Proxy::to(server);
        let late = proxy.rule(script(verb).first(1), Action::HoldRequest);
        let builder = Client::builder().url(proxy.url()).command_timeout(COMMAND).watchdog_timeout(watchdog);
        let client = connected(builder.handover_slice(Duration::from_secs(60))).await;
        Self { server, proxy, client, name, late, verb }
    }

    /// How many commands of the kind were answered.
    fn answered(&self) -> usize {
        self.answered_of(self.verb)
    }

    fn answered_of(&self, kind: &str) -> usize {
        let answers = |event: &Event| matches!(event, Event::Reply { to, .. } if verb(to).as_deref() == Some(kind));
        self.proxy.log().iter().filter(|entry| answers(&entry.event)).count()
    }

    /// Lets the old copy run, and returns when the server has answered it.
    async fn let_go(&self) {
        let before = self.answered();
        self.late.let_go();
        eventually_async(SOON, async || self.answered() > before).await;
    }

    fn held(&self) -> Kept {
        held(self.server, &self.name)
    }

    /// The hold that was seen then is still there, and lasts no longer than its own renewals make it: on a new link every hold
    /// is asked for.
    #[track_caller]
    fn has_still(&self, new: &Kept, seen: Duration) {
        let now = self.held();
        assert_eq!((&now.field, now.count), (&new.field, new.count));
        let longest = new.expires + (monotonic() - seen) + Duration::from_millis(2);
        assert!((new.expires..=longest).contains(&now.expires), "{now:?} was {new:?}");
    }

    fn kept(&self) -> Option<Kept> {
        kept(self.server, &self.name)
    }
}

#[tokio::test]
async fn a_release_that_comes_late_leaves_the_same_owners_newer_hold() {
    let scene = Scene::new("release", LONG).await;
    let (lock, owner) = (scene.client.lock(&scene.name), Owner::new());
    let first = lock.lock().owner(&owner).await.expect("it is free");
    let old = scene.held();
    let unlocked = first.unlock().await;
    assert!(matches!(unlocked, Err(Error::Unreachable { may_have_run: true, .. })), "{unlocked:?}");
    let second = lock.lock().owner(&owner).await.expect("the release is repeated on the new link");
    assert_eq!(first.unlock().await.expect("the repetition is answered"), Released::Freed);
    let (seen, new) = (monotonic(), scene.held());
    assert_ne!(new.field, old.field);
    scene.let_go().await;
    scene.has_still(&new, seen);
    assert!(second.is_held());
    second.unlock().await.expect("it is held");
}

#[tokio::test]
async fn a_renewal_that_comes_late_leaves_the_same_owners_newer_hold() {
    let watchdog = Duration::from_millis(900);
    let scene = Scene::new("renew", watchdog).await;
    let (lock, owner) = (scene.client.lock(&scene.name), Owner::new());
    let first = lock.lock().owner(&owner).await.expect("it is free");
    let old = scene.held();
    // The first renewal is stuck; its repetition on a new link gets through.
    scene.late.nth(1).await;
    eventually_async(SOON, async || scene.held().expires > old.expires).await;
    assert!(first.is_held());
    first.unlock().await.expect("it is held");
    // The copy would renew for longer than this.
    let second = lock.lock().owner(&owner).lease(watchdog / 2).await.expect("it is free");
    let (seen, new) = (monotonic(), scene.held());
    assert_ne!(new.field, old.field);
    scene.let_go().await;
    scene.has_still(&new, seen);
    assert!(second.is_held());
    second.unlock().await.expect("it is held");
}

#[tokio::test]
async fn a_hand_over_that_comes_late_leaves_the_same_owners_newer_hold() {
    let scene = Scene::new("hand_over", LONG).await;
    let (lock, giver, taker) = (scene.client.lock(&scene.name), Owner::new(), Owner::new());
    let first = lock.lock().owner(&giver).lease(LONG).await.expect("it is free");
    let mut waiter = lock.lock().owner(&taker).lease(LONG);
    assert!(poll_once(&mut waiter).await.is_pending());
    let (unlocked, second) = tokio::join!(first.unlock(), waiter);
    assert!(matches!(unlocked, Err(Error::Unreachable { may_have_run: true, .. })), "{unlocked:?}");
    let second = second.expect("what was begun is undone, and the waiter tries for itself");
    let (seen, new) = (monotonic(), scene.held());
    scene.let_go().await;
    scene.has_still(&new, seen);
    assert!(second.is_held());
    second.unlock().await.expect("it is held");
}

#[tokio::test]
async fn a_hand_over_that_comes_late_leaves_the_givers_newer_hold() {
    let scene = Scene::new("hand_over", LONG).await;
    let (lock, giver, taker) = (scene.client.lock(&scene.name), Owner::new(), Owner::new());
    let first = lock.lock().owner(&giver).lease(LONG).await.expect("it is free");
    let mut waiter = lock.lock().owner(&taker).lease(LONG);
    assert!(poll_once(&mut waiter).await.is_pending());
    let (_, second) = tokio::join!(first.unlock(), waiter);
    second.expect("the waiter tries for itself").unlock().await.expect("it is held");
    let third = lock.lock().owner(&giver).lease(LONG).await.expect("it is free");
    let (seen, new) = (monotonic(), scene.held());
    scene.let_go().await;
    scene.has_still(&new, seen);
    assert!(third.is_held());
    third.unlock().await.expect("it is held");
}

#[tokio::test]
async fn a_forced_release_that_comes_late_leaves_the_same_owners_newer_hold() {
    let scene = Scene::new("force_release", LONG).await;
    let (lock, owner) = (scene.client.lock(&scene.name), Owner::new());
    let first = lock.lock().owner(&owner).await.expect("it is free");
    let old = scene.held();
    let forced = lock.force_unlock().await;
    assert!(matches!(forced, Err(Error::Unreachable { may_have_run: true, .. })), "{forced:?}");
    assert!(matches!(first.lost().await, Error::Lost { cause: LostCause::Forced, .. }));
    drop(first);
    let second = lock.lock().owner(&owner).await.expect("the lost hold is released first");
    let (seen, new) = (monotonic(), scene.held());
    assert_ne!(new.field, old.field);
    scene.let_go().await;
    scene.has_still(&new, seen);
    assert!(second.is_held());
    second.unlock().await.expect("it is held");
}

#[tokio::test]
async fn a_forced_release_from_elsewhere_that_comes_late_leaves_the_same_owners_newer_hold() {
    let scene = Scene::new("force_release", LONG).await;
    let elsewhere = connected(Client::builder().url(scene.server.url())).await;
    let (lock, owner) = (elsewhere.lock(&scene.name), Owner::new());
    let first = lock.lock().owner(&owner).await.expect("it is free");
    assert!(scene.client.lock(&scene.name).force_unlock().await.is_err());
    first.unlock().await.expect("nothing has reached it");
    let second = lock.lock().owner(&owner).await.expect("it is free");
    let (seen, new) = (monotonic(), scene.held());
    scene.let_go().await;
    scene.has_still(&new, seen);
    assert!(second.is_held());
    second.unlock().await.expect("it is held");
}

/// The old copy of an acquire takes the free key for nobody; watches how long that lasts.
async fn a_ghost_is_laid(scene: &Scene, lease: Duration) {
    assert_eq!(scene.kept(), None);
    scene.let_go().await;
    let ghost = scene.kept().expect("the copy ran");
    let (lag, seen) = (Lag::watch(), monotonic());
    eventually_async(SOON, async || scene.kept().is_none()).await;
    let (lived, bound) = (monotonic() - seen, lag.added_to(lease / 3 + AWAKE));
    assert!(lived <= bound, "{ghost:?} lived for {lived:?}, and not {bound:?}");
}

#[tokio::test]
async fn an_acquire_that_comes_late_holds_for_a_third_of_its_lease_at_most() {
    let lease = Duration::from_millis(1500);
    let scene = Scene::new("acquire", LONG).await;
    let guard = scene.client.lock(&scene.name).lock().lease(lease).await.expect("the second try is answered");
    guard.unlock().await.expect("it is held");
    a_ghost_is_laid(&scene, lease).await;
}

#[tokio::test]
async fn an_acquire_that_comes_late_after_it_was_dropped_holds_for_a_third_of_its_lease_at_most() {
    let watchdog = Duration::from_millis(1500);
    let scene = Scene::new("acquire", watchdog).await;
    let mut dropped = scene.client.lock(&scene.name).lock();
    assert!(poll_once(&mut dropped).await.is_pending());
    scene.late.nth(1).await;
    // Somebody else finds that its link is dead, so that its release goes over another: behind it, it would undo it.
    let other = scene.client.lock(unique_name()).try_lock().await;
    assert!(matches!(other, Err(Error::Unreachable { .. })), "{other:?}");
    drop(dropped);
    eventually_async(SOON, async || scene.answered_of("release") > 0).await;
    a_ghost_is_laid(&scene, watchdog).await;
}
