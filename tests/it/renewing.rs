//! Renewals that meet faults: what keeps a hold, what ends it, and that nothing is renewed any more once it has ended.

use std::{fs, thread, time::Duration};

use relatch::{Client, Error, LockGuard, LostCause, Owner, Released};
use tokio::time::{sleep, timeout};

use crate::{
    harness::{
        Server,
        clock::monotonic,
        eventually_async,
        lag::Lag,
        proxy::{
            Action, Door, Entry, Event, Proxy,
            matching::{script, verb},
        },
        unique_name,
    },
    kept::{Kept, connected, held, kept, teach},
    sent::{Does, assert_ends_are_final, sent, sent_about},
};

/// What must come comes within this.
const SOON: Duration = Duration::from_secs(10);
/// How late something may be noticed that has a time of its own.
const AWAKE: Duration = Duration::from_millis(100);
/// A lease that a test waits out, and the interval at which it is renewed.
const WATCHDOG: Duration = Duration::from_millis(900);
const RENEWAL: Duration = Duration::from_millis(300);

async fn watched(url: String) -> Client {
    connected(Client::builder().url(url).watchdog_timeout(WATCHDOG)).await
}

fn renewals_of(proxy: &Proxy, field: &str) -> usize {
    sent_about(proxy, field).into_iter().filter(|does| *does == Does::Renew).count()
}

/// Waits until the server has renewed it.
async fn renewed(server: &Server, name: &str, before: &Kept) -> Kept {
    eventually_async(SOON, async || held(server, name).expires > before.expires).await;
    let after = held(server, name);
    assert_eq!((&after.field, after.count), (&before.field, before.count));
    after
}

/// Nothing is said any more about any lock for two leases, and the key is not there.
async fn nothing_comes_back(proxy: &Proxy, server: &Server, name: &str) {
    let before = sent(proxy).len();
    let until = monotonic() + 2 * WATCHDOG;
    while monotonic() < until {
        assert_eq!(kept(server, name), None);
        sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(sent(proxy).len(), before, "{:?}", &sent(proxy)[before..]);
}

#[tokio::test]
async fn a_renewal_that_is_cut_off_twice_and_then_answered_keeps_the_hold() {
    let server = Server::shared();
    teach(server);
    for loss in [Action::CutBefore, Action::CutMidRequest, Action::CutAfter, Action::CutMidReply] {
        let (proxy, name) = (Proxy::to(server), unique_name());
        // Two pauses and two new links fit into what is left of it.
        let client = connected(Client::builder().url(proxy.url()).watchdog_timeout(3 * WATCHDOG)).await;
        let guard = client.lock(&name).lock().await.expect("it is free");
        let before = held(server, &name);
        let resets = proxy.rule(script("renew").first(2), loss);
        resets.nth(3).await;
        renewed(server, &name, &before).await;
        assert!(guard.is_held(), "{loss:?}");
        guard.unlock().await.expect("it is held");
        assert_ends_are_final(&proxy);
    }
}

#[tokio::test]
async fn a_hold_whose_renewal_finds_it_gone_is_lost_at_once_and_never_asked_for_again() {
    let (server, name) = (Server::shared(), unique_name());
    teach(server);
    let proxy = Proxy::to(server);
    let client = watched(proxy.url()).await;
    let guard = client.lock(&name).lock().await.expect("it is free");
    let field = held(server, &name).field;
    let renewal = proxy.rule(script("renew"), Action::Pass);
    renewal.nth(1).await;
    server.delete(&name);
    let before = renewals_of(&proxy, &field);
    let told = guard.lost().await;
    assert!(matches!(told, Error::Lost { cause: LostCause::Gone, .. }), "{told:?}");
    // One may have been on its way before the key went.
    assert!(renewals_of(&proxy, &field) <= before + 1);
    let asked = sent_about(&proxy, &field);
    nothing_comes_back(&proxy, server, &name).await;
    assert!(!guard.is_held());
    drop(guard);
    nothing_comes_back(&proxy, server, &name).await;
    assert_eq!(sent_about(&proxy, &field), asked);
}

#[tokio::test]
async fn a_holder_that_was_cut_off_beyond_its_lease_leaves_the_next_one_alone() {
    let (server, name) = (Server::shared(), unique_name());
    teach(server);
    let proxy = Proxy::to(server);
    let (client, other) = (watched(proxy.url()).await, watched(server.url()).await);
    let guard = client.lock(&name).lock().await.expect("it is free");
    let field = held(server, &name).field;
    proxy.door(Door::Refusing);
    proxy.cut_all();
    let theirs = other.lock(&name).lock().await.expect("it becomes free");
    // By the time that anybody else may enter it has been told.
    assert!(!guard.is_held());
    let lost = guard.lost().await;
    assert!(matches!(lost, Error::Lost { cause: LostCause::Expired, .. }), "{lost:?}");
    proxy.clear_log();
    proxy.door(Door::Open);
    drop(guard);
    eventually_async(SOON, async || sent_about(&proxy, &field).contains(&Does::Release(0))).await;
    // Two renewals of the other's own.
    let now = renewed(server, &name, &held(server, &name)).await;
    let now = renewed(server, &name, &now).await;
    assert!(now.is_of(&other) && now.count == 1 && theirs.is_held());
    assert!(sent_about(&proxy, &field).iter().all(|does| *does == Does::Release(0)));
    theirs.unlock().await.expect("it is held");
}

#[tokio::test]
async fn a_renewals_reply_that_comes_after_the_release_arms_nothing() {
    let (server, name) = (Server::shared(), unique_name());
    teach(server);
    let proxy = Proxy::to(server);
    let client = watched(proxy.url()).await;
    let guard = client.lock(&name).lock().await.expect("it is free");
    let reply = proxy.rule(script("renew").first(1), Action::HoldReply);
    reply.nth(1).await;
    drop(guard);
    eventually_async(SOON, async || kept(server, &name).is_none()).await;
    reply.let_go();
    nothing_comes_back(&proxy, server, &name).await;
    assert_eq!(assert_ends_are_final(&proxy), 1);
}

#[tokio::test]
async fn a_renewals_reply_that_comes_after_the_deadline_brings_nothing_back() {
    let (server, name) = (Server::shared(), unique_name());
    teach(server);
    let proxy = Proxy::to(server);
    // The link is not given up before the hold is.
    let client = watched(proxy.url()).await;
    let guard = client.lock(&name).lock().await.expect("it is free");
    let field = held(server, &name).field;
    let replies = proxy.rule(script("renew"), Action::HoldReply);
    replies.nth(1).await;
    let lost = guard.lost().await;
    assert!(matches!(lost, Error::Lost { cause: LostCause::Expired, .. }), "{lost:?}");
    replies.remove();
    replies.let_go();
    let late = async {
        loop {
            assert!(!guard.is_held() && guard.expires_in().is_none());
            sleep(Duration::from_millis(5)).await;
        }
    };
    let never: Result<(), _> = timeout(WATCHDOG, late).await;
    assert!(never.is_err());
    let asked = sent_about(&proxy, &field).len();
    drop(guard);
    eventually_async(SOON, async || sent_about(&proxy, &field).len() > asked).await;
    // For what the renewals may have left: one release, and no more.
    assert_eq!(sent_about(&proxy, &field)[asked..], [Does::Release(0)]);
    nothing_comes_back(&proxy, server, &name).await;
    assert_ends_are_final(&proxy);
}

#[tokio::test]
async fn a_renewals_reply_that_comes_when_its_owner_has_a_new_hold_neither_extends_nor_renews_that_one() {
    let (server, name) = (Server::shared(), unique_name());
    teach(server);
    let proxy = Proxy::to(server);
    // Without a cool-down the owner's next try goes right behind its release, on the same link.
    let builder = Client::builder().url(proxy.url()).watchdog_timeout(WATCHDOG);
    let client = connected(builder.handover_slice(Duration::from_secs(60))).await;
    let (lock, owner) = (client.lock(&name), Owner::new());
    let first = lock.lock().owner(&owner).await.expect("it is free");
    let old = held(server, &name).field;
    let reply = proxy.rule(script("renew").first(1), Action::HoldReply);
    reply.nth(1).await;
    drop(first);
    eventually_async(SOON, async || kept(server, &name).is_none()).await;
    // All three replies come at once, and that of the renewal first.
    let acquire = tokio::spawn(lock.lock().owner(&owner).lease(3 * WATCHDOG));
    eventually_async(SOON, async || kept(server, &name).is_some()).await;
    reply.let_go();
    let second = acquire.await.expect("no panic").expect("it is free");
    let new = held(server, &name);
    assert_ne!(new.field, old);
    assert!(sent(&proxy).iter().all(|sent| sent.connection == 0), "the link was given up before");
    let (until, mut claims) = (monotonic() + 2 * WATCHDOG, second.expires_in());
    while monotonic() < until {
        assert!(second.is_held() && second.expires_in() <= claims);
        claims = second.expires_in();
        sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(held(server, &name), new);
    assert_eq!(sent_about(&proxy, &new.field), [Does::Acquire]);
    second.unlock().await.expect("it is held");
    assert_ends_are_final(&proxy);
}

/// A hundred locks, each taken and let go of ten times by a task of its own, in sections of every length up to two
/// renewals.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_thousand_holds_with_slow_replies_none_is_renewed_after_its_release() {
    const LOCKS: u32 = 100;
    const HOLDS: u32 = 10;
    let (watchdog, renewal) = (2 * WATCHDOG, 2 * RENEWAL);
    let server = Server::own();
    teach(&server);
    let proxy = Proxy::to(&server);
    let client = connected(Client::builder().url(proxy.url()).watchdog_timeout(watchdog)).await;
    let slow = proxy.rule(script("renew"), Action::DelayReply(Duration::from_millis(15)));
    let sections = (0..LOCKS).map(|number| {
        let lock = client.lock(format!("job {number}"));
        tokio::spawn(async move {
            for hold in 0..HOLDS {
                let guard = lock.lock().await.expect("it is free");
                sleep(renewal * ((number * 7 + hold * 11) % LOCKS) * 2 / LOCKS).await;
                if hold % 2 == 0 {
                    guard.unlock().await.expect("it is held");
                }
            }
        })
    });
    for section in sections.collect::<Vec<_>>() {
        section.await.expect("no panic");
    }
    eventually_async(SOON, async || server.keys().is_empty()).await;
    let before = sent(&proxy).len();
    sleep(2 * watchdog).await;
    assert_eq!((server.keys().len(), sent(&proxy).len()), (0, before));
    assert_eq!(assert_ends_are_final(&proxy), (LOCKS * HOLDS) as usize);
    assert!(slow.seen() > 100, "only {} renewals were sent", slow.seen());
}

#[tokio::test]
async fn the_hold_after_one_that_the_server_lost_is_renewed_like_any_other() {
    let (server, name) = (Server::shared(), unique_name());
    let client = watched(server.url()).await;
    let (lock, owner) = (client.lock(&name), Owner::new());
    let first = lock.lock().owner(&owner).await.expect("it is free");
    server.delete(&name);
    assert!(first.lost().await.is_lost());
    let second = lock.lock().owner(&owner).await.expect("it is free");
    assert!(timeout(3 * WATCHDOG, second.lost()).await.is_err());
    assert!(held(server, &name).is_of(&client) && second.is_held() && !first.is_held());
    second.unlock().await.expect("it is held");
}

#[tokio::test]
async fn the_hold_of_another_task_after_a_nested_one_is_renewed_like_any_other() {
    let (server, name) = (Server::shared(), unique_name());
    let client = watched(server.url()).await;
    let (lock, owner) = (client.lock(&name), Owner::new());
    let outer = lock.lock().owner(&owner).await.expect("it is free");
    let inner = lock.lock().owner(&owner).await.expect("it nests");
    inner.unlock().await.expect("it is held");
    outer.unlock().await.expect("it is held");
    let other = tokio::spawn(client.lock(&name).lock()).await.expect("no panic").expect("it is free");
    assert!(timeout(5 * WATCHDOG, other.lost()).await.is_err());
    assert_eq!(held(server, &name).count, 1);
    other.unlock().await.expect("it is held");
}

#[tokio::test]
async fn a_holder_whose_server_came_back_empty_is_told_within_one_renewal_and_holds_anew() {
    let (server, name) = (Server::own(), unique_name());
    let proxy = Proxy::to(&server);
    let client = connected(Client::builder().url(proxy.url()).watchdog_timeout(3 * WATCHDOG)).await;
    let guard = client.lock(&name).lock().await.expect("it is free");
    server.restart_empty();
    let (lag, restarted) = (Lag::watch(), monotonic());
    let lost = guard.lost().await;
    let told = monotonic();
    assert!(matches!(lost, Error::Lost { cause: LostCause::Gone, .. }), "{lost:?}");
    let answer = |entry: &&Entry| entry.at >= restarted && matches!(entry.event, Event::Reply { .. });
    let back = proxy.log().iter().find(answer).expect("the server answers again").at;
    let bound = lag.added_to(3 * RENEWAL + AWAKE);
    assert!(told <= back + bound, "told {:?} after the server's first answer, and not {bound:?}", told - back);
    let next = client.lock(&name).lock().await.expect("it is free");
    assert!(timeout(4 * WATCHDOG, next.lost()).await.is_err());
    assert!(held(&server, &name).is_of(&client) && !guard.is_held());
    next.unlock().await.expect("it is held");
}

/// A hold under a watchdog whose renewals meet one fault after the other.
struct Patient {
    server: Server,
    proxy: Proxy,
    guard: LockGuard,
}

impl Patient {
    const NAME: &str = "job";
    /// The server's own refusals, before this server can give them.
    const MADE: [&'static str; 9] = [
        "-LOADING Redis is loading the dataset in memory\r\n",
        "-TRYAGAIN Multiple keys request during rehashing of slot\r\n",
        "-CLUSTERDOWN The cluster is down\r\n",
        "-MASTERDOWN Link with MASTER is down\r\n",
        "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
        "-NOAUTH Authentication required.\r\n",
        "-ERR something else\r\n",
        ":7\r\n",
        "*1\r\n:7\r\n",
    ];
    const LOSSES: [Action; 7] = [
        Action::CutBefore,
        Action::CutAfter,
        Action::CutMidRequest,
        Action::CutMidReply,
        Action::SwallowRequest,
        Action::SwallowReply,
        Action::Silence,
    ];

    async fn new() -> Self {
        let server =
            Server::builder().line("user ann on >s3cret ~* &* +@all").line("enable-protected-configs yes").start();
        teach(&server);
        let proxy = Proxy::to(&server);
        let url = format!("{}?user=ann&pass=s3cret", proxy.url());
        let builder = Client::builder().url(url).command_timeout(RENEWAL).watchdog_timeout(2 * WATCHDOG);
        let guard = connected(builder).await.lock(Self::NAME).lock().await.expect("it is free");
        Self { server, proxy, guard }
    }

    fn config(&self, name: &str, value: &str) {
        let mut set = redis::cmd("CONFIG");
        set.arg("SET").arg(name).arg(value).exec(&mut self.server.connection()).expect("CONFIG SET answers");
    }

    fn asks(&self, words: &[&str]) {
        redis::cmd(words[0]).arg(&words[1..]).exec(&mut self.server.connection()).expect("the server answers");
    }

    /// What the server refuses with, how it comes to do so, and how it stops.
    #[expect(clippy::type_complexity, reason = "a table")]
    fn moods(folder: &str) -> [(&'static str, Box<dyn Fn(&Self)>, Box<dyn Fn(&Self)>); 4] {
        let folder = folder.to_owned();
        [
            (
                "NOPERM",
                Box::new(|it| it.asks(&["ACL", "SETUSER", "ann", "-evalsha"])),
                Box::new(|it| it.asks(&["ACL", "SETUSER", "ann", "+evalsha"])),
            ),
            (
                "READONLY",
                Box::new(|it| it.asks(&["REPLICAOF", "127.0.0.1", "1"])),
                Box::new(|it| it.asks(&["REPLICAOF", "NO", "ONE"])),
            ),
            (
                "NOREPLICAS",
                Box::new(|it| it.config("min-replicas-to-write", "1")),
                Box::new(|it| it.config("min-replicas-to-write", "0")),
            ),
            (
                "MISCONF",
                Box::new(move |it| {
                    fs::create_dir(&folder).expect("a folder is made");
                    it.config("dir", &folder);
                    fs::remove_dir(&folder).expect("the folder is removed");
                    it.config("save", "3600 1");
                    it.asks(&["BGSAVE"]);
                }),
                Box::new(|it| it.config("save", "")),
            ),
        ]
    }

    /// The next renewal goes through, and the hold lives.
    async fn recovers(&self, from: &str) {
        let before = held(&self.server, Self::NAME);
        eventually_async(SOON, async || held(&self.server, Self::NAME).expires > before.expires).await;
        assert!(self.guard.is_held(), "{from}");
    }

    /// A renewal is answered like this while the server is so.
    async fn refuses(&self, code: &str) {
        let says = format!("-{code} ");
        let refused = |event: &Event| match event {
            Event::Reply { to, frame } => {
                verb(to).as_deref() == Some("renew") && frame.bytes().starts_with(says.as_bytes())
            }
            _ => false,
        };
        eventually_async(SOON, async || self.proxy.log().iter().any(|entry| refused(&entry.event))).await;
        assert!(self.guard.is_held(), "{code}");
    }
}

#[tokio::test]
async fn whatever_a_renewal_meets_the_next_one_is_sent_and_renews() {
    let patient = Patient::new().await;
    for loss in Patient::LOSSES {
        let once = patient.proxy.rule(script("renew").first(1), loss);
        once.nth(2).await;
        patient.recovers(&format!("{loss:?}")).await;
        once.remove();
    }
    for reply in Patient::MADE {
        let once = patient.proxy.rule(script("renew").first(1), Action::Answer(reply));
        once.nth(2).await;
        patient.recovers(reply).await;
        once.remove();
    }
    assert_eq!(sent(&patient.proxy).iter().filter(|sent| sent.does == Does::Acquire).count(), 1);
    assert_eq!(patient.guard.unlock().await.expect("it is held"), Released::Freed);
}

/// The refusals are the server's own.
#[tokio::test]
async fn a_server_that_refuses_for_a_while_renews_as_soon_as_it_does_not() {
    let patient = Patient::new().await;
    let folder = patient.server.socket().with_file_name("data");
    for (code, start, end) in Patient::moods(folder.to_str().expect("a folder of ours")) {
        patient.proxy.clear_log();
        start(&patient);
        patient.refuses(code).await;
        end(&patient);
        patient.recovers(code).await;
    }
    // A script that does not end answers for everybody; it is stopped from elsewhere.
    patient.config("busy-reply-threshold", "10");
    patient.proxy.clear_log();
    let mut stuck = patient.server.connection();
    let busy = thread::spawn(move || redis::cmd("EVAL").arg(&["while true do end", "0"]).exec(&mut stuck));
    patient.refuses("BUSY").await;
    patient.asks(&["SCRIPT", "KILL"]);
    assert!(busy.join().expect("no panic").is_err());
    patient.recovers("BUSY").await;
    assert_eq!(patient.guard.unlock().await.expect("it is held"), Released::Freed);
}
