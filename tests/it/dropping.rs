//! Acquisitions that are dropped half-way, wherever they stand: nothing of them is left.

use std::{
    future::pending,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use relatch::{Acquire, Client, Lease, LockGuard, Owner, Released};
use tokio::{runtime::Handle, select};

use crate::{
    flushing,
    harness::{
        Server,
        asleep::asked_since_it_listens,
        eventually_async,
        proxy::{Action, Proxy, matching::script},
        unique_name,
    },
    kept::{self, channel, connected, kept, poll_once},
};

/// What must come comes within this.
const SOON: Duration = Duration::from_secs(10);
/// What is dropped is gone by then; two round trips take a hundredth of it, and what was sent in vain is sent again later.
const GONE: Duration = Duration::from_millis(2_500);
/// No acquisition here takes more polls.
const POLLS: usize = 50;

/// So many tries of one client are under way at most.
const TRIES: usize = 128;

/// At which moment an acquisition is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// As soon as its nth poll has come to nothing.
    AtOnce,
    /// When it would be polled once more: what it was woken for is there and not taken.
    Woken,
}

/// An acquisition that is polled so often and no more.
struct Polls {
    acquire: Acquire,
    left: usize,
    when: When,
}

impl Future for Polls {
    /// `None` if it did not come to its end.
    type Output = Option<LockGuard>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.left -= 1;
        match Pin::new(&mut self.acquire).poll(cx) {
            Poll::Ready(guard) => Poll::Ready(Some(guard.expect("the server answers"))),
            Poll::Pending if self.left == 0 && self.when == When::AtOnce => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// Two clients on the test's own runtime, one whose acquisitions are dropped and one that is in its way.
struct Scene<'a> {
    server: &'a Server,
    client: Client,
    other: Client,
    /// How many tasks there are when nobody does anything.
    idle: usize,
}

impl<'a> Scene<'a> {
    /// On this server, which the one whose acquisitions are dropped reaches by the url.
    async fn of(server: &'a Server, url: String) -> Self {
        let client = connected(Client::builder().url(url).handover_slice(Duration::from_secs(60))).await;
        let other = kept::client(server.url()).await;
        // The subscription link comes with the first waiter, and stays.
        let name = unique_name();
        let guard = other.lock(&name).lock().await.expect("it is free");
        let wait = Duration::from_millis(100);
        assert!(client.lock(&name).try_lock().wait(wait).await.expect("the server answers").is_none());
        guard.unlock().await.expect("it is held");
        let mut scene = Self { server, client, other, idle: 0 };
        scene.idle = scene.settled().await;
        scene
    }

    async fn plain() -> Scene<'static> {
        Scene::of(Server::shared(), Server::shared().url()).await
    }

    /// How many tasks there are once that changes no more.
    async fn settled(&self) -> usize {
        let (mut seen, mut looks) = (tasks(), 0);
        eventually_async(SOON, async || {
            looks = if tasks() == seen { looks + 1 } else { 0 };
            seen = tasks();
            looks == 20
        })
        .await;
        seen
    }

    /// Whatever was dropped, nothing is left of it, and the lock is there for whoever comes next.
    async fn is_clean(&self, name: &str) {
        let gone = async || kept(self.server, name).is_none() && tasks() == self.idle;
        eventually_async(GONE, async || gone().await && self.server.listeners(&channel(name)) == 0).await;
        let next = self.client.lock(name).try_lock().await.expect("the server answers").expect("nobody is before us");
        next.unlock().await.expect("it is held");
        eventually_async(GONE, gone).await;
    }
}

fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

/// Drops an acquisition after one poll, after two, and so on until it comes to its end. The caller says whether it did,
/// and on the way looks at what is left.
async fn at_every_point(mut acquisition: impl AsyncFnMut(usize, When) -> bool) {
    for when in [When::AtOnce, When::Woken] {
        let mut polls = 1;
        while !acquisition(polls, when).await {
            polls += 1;
            assert!(polls < POLLS, "it never ends");
        }
        assert!(polls > 1, "it waits for the server at least");
    }
}

#[tokio::test]
async fn an_acquisition_of_a_free_lock_can_be_dropped_anywhere() {
    of_a_free_lock(&Scene::plain().await).await;
}

#[tokio::test]
async fn an_acquisition_of_a_busy_lock_can_be_dropped_anywhere() {
    let proxy = Proxy::to(Server::shared());
    of_a_busy_lock(&Scene::of(Server::shared(), proxy.url()).await, &proxy).await;
}

/// By a server that forgets every script: what an acquisition and its undoing send is longer by a round trip each.
#[tokio::test]
async fn an_acquisition_can_be_dropped_anywhere_also_where_the_server_forgets_every_script() {
    let server = Server::own();
    let proxy = flushing::before(&server);
    let scene = Scene::of(&server, proxy.url()).await;
    of_a_free_lock(&scene).await;
    of_a_busy_lock(&scene, &proxy).await;
    behind_a_local_holder(&scene, Lease::Watchdog).await;
    behind_a_local_holder(&scene, Lease::Fixed(Duration::from_secs(20))).await;
}

async fn of_a_free_lock(scene: &Scene<'_>) {
    at_every_point(async |left, when| {
        let name = unique_name();
        let entered = Polls { acquire: scene.client.lock(&name).lock(), left, when }.await.is_some();
        scene.is_clean(&name).await;
        entered
    })
    .await;
}

async fn of_a_busy_lock(scene: &Scene<'_>, proxy: &Proxy) {
    at_every_point(async |left, when| {
        let name = unique_name();
        let held = scene.other.lock(&name).lock().await.expect("it is free");
        proxy.clear_log();
        let release = async {
            // It listens and has looked again. On a slow machine it looks once more after that, which is a point like the others.
            eventually_async(SOON, async || asked_since_it_listens(proxy, "acquire").is_some()).await;
            held.unlock().await.expect("it is held");
            pending().await
        };
        let entered = select! {
            guard = Polls { acquire: scene.client.lock(&name).lock(), left, when } => guard.is_some(),
            never = release => never,
        };
        // The holder's hold is left alone by all that.
        assert!(entered || !held.is_held() || kept(scene.server, &name).is_some_and(|kept| kept.is_of(&scene.other)));
        held.unlock().await.expect("it is held");
        scene.is_clean(&name).await;
        entered
    })
    .await;
}

/// The holder is of the same process: the acquisition stands in the local queue, and is given the hold there.
async fn behind_a_local_holder(scene: &Scene<'_>, lease: Lease) {
    at_every_point(async |left, when| {
        let name = unique_name();
        let held = scene.client.mutex(&name).lock().lease(lease).await.expect("it is free");
        let acquire = scene.client.mutex(&name).lock().lease(lease);
        let mut waiter = Polls { acquire, left, when };
        let mut entered = false;
        if poll_once(&mut waiter).await.is_pending() {
            // The release first, so that there is something to wake for.
            let (unlocked, guard) = tokio::join!(held.unlock(), waiter);
            assert_eq!(unlocked.expect("it is held"), Released::Freed);
            entered = guard.is_some();
        } else {
            drop(waiter);
            assert_eq!(held.unlock().await.expect("it is held"), Released::Freed);
        }
        scene.is_clean(&name).await;
        entered
    })
    .await;
}

#[tokio::test]
async fn an_acquisition_that_a_hold_is_passed_to_can_be_dropped_anywhere() {
    behind_a_local_holder(&Scene::plain().await, Lease::Watchdog).await;
}

#[tokio::test]
async fn an_acquisition_that_a_hold_is_handed_to_can_be_dropped_anywhere() {
    behind_a_local_holder(&Scene::plain().await, Lease::Fixed(Duration::from_secs(20))).await;
}

#[tokio::test]
async fn of_two_hundred_acquisitions_dropped_after_their_first_poll_nothing_stays() {
    let proxy = Proxy::to(Server::shared());
    let scene = Scene::of(Server::shared(), proxy.url()).await;
    for (names, sent) in [(200, false), (200, true), (1, false), (1, true)] {
        let names: Vec<String> = (0..names).map(|_| unique_name()).collect();
        // No answer comes before all are dropped, so no more than the first tries leave.
        let answers = sent.then(|| proxy.rule(script("acquire"), Action::HoldReply));
        let mut storm = Vec::new();
        for name in names.iter().cycle().take(200) {
            let owner = Owner::new();
            let mut acquire = scene.client.lock(name).lock().owner(&owner);
            assert!(poll_once(&mut acquire).await.is_pending());
            storm.push((name, owner, acquire));
        }
        let mut connection = scene.server.connection();
        let mut taken = || -> usize { redis::cmd("EXISTS").arg(&names).query(&mut connection).expect("it answers") };
        if sent {
            // Nobody knows yet that these are taken.
            eventually_async(SOON, async || taken() == names.len().min(TRIES)).await;
        }
        let owners: Vec<_> = storm.into_iter().map(|(name, owner, _)| (name, owner)).collect();
        if let Some(answers) = answers {
            answers.let_go();
            answers.remove();
        }
        eventually_async(GONE, async || taken() == 0 && tasks() == scene.idle).await;
        assert!(owners.iter().all(|(name, owner)| !scene.client.lock(name).is_held_by(owner)));
        for name in &names {
            scene.is_clean(name).await;
        }
    }
}
