//! Steps of Redisson, recorded from a running one, taken by our client: after each the answer, the keys and the messages are
//! the same. Where they are not, and should not be, it is said here and why. No Java.
//!
//! A hold's field has the client's id and a number: Java's thread, or a number that is ours for each hold. Here it stands for
//! the actor that held it when it was first seen.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    pin::Pin,
    task::Poll,
    time::{Duration, Instant},
};

use relatch::{Client, Error, Lease, Owner, ReentrantLock};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::{
    SOON, channel, is_script, listening_on,
    site::{Company, Turn},
};
use crate::{
    harness::{
        Server,
        asleep::asleep_by,
        eventually_async,
        monitor::{Monitor, Ran},
    },
    kept::{connected, poll_once},
};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop/traces");

/// Where a step of ours is meant to end otherwise: the scenario, the step, and what is there instead.
const DIFFERENT: &[(&str, usize, Instead)] = &[
    // A nested acquisition never shortens the hold, and a nested release leaves its time alone.
    ("plain_leases", 2, Instead::Ttl(30_000)),
    ("plain_leases", 3, Instead::Ttl(30_000)),
    ("plain_leases", 6, Instead::Ttl(60_000)),
    ("plain_leases", 7, Instead::Ttl(60_000)),
    // The lock goes to the next task of this process and is never free: there is nothing to tell.
    ("plain_lock_waiters", 3, Instead::Silence),
    ("plain_lock_waiters", 6, Instead::Silence),
    // And the hold goes with it as it stands.
    ("plain_lock_waiters", 3, Instead::Owner("<uuid1>:<t1>")),
    ("plain_lock_waiters", 4, Instead::Owner("<uuid1>:<t1>")),
    ("plain_lock_waiters", 5, Instead::Owner("<uuid1>:<t1>")),
    ("plain_lock_waiters", 6, Instead::Owner("<uuid1>:<t1>")),
    ("plain_lock_waiters", 7, Instead::Owner("<uuid1>:<t1>")),
];

/// Whoever was woken is in by then. Nobody waits for so long a time for anything but a message.
const WOKEN: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Instead {
    Ttl(i64),
    Owner(&'static str),
    Silence,
}

type Call = Pin<Box<dyn Future<Output = Value> + Send>>;

/// A scenario in the middle of it.
struct Replay<'a> {
    scenario: &'a str,
    server: &'a Server,
    monitor: Monitor<'a>,
    clients: BTreeMap<String, Client>,
    owners: BTreeMap<String, Owner>,
    pending: BTreeMap<String, JoinHandle<Value>>,
    /// Who held the lock when this field of one of our clients was first seen.
    holders: BTreeMap<String, String>,
    watchdog: Duration,
    _turn: Turn,
}

fn trace(name: &str) -> Value {
    let text = fs::read_to_string(format!("{FOLDER}/{name}.json")).expect("the trace is there");
    serde_json::from_str(&text).expect("a trace is JSON")
}

async fn replay(scenario: &str) {
    let turn = Turn::take(Company::Any);
    let (trace, server) = (trace(scenario), Server::own());
    assert_eq!(trace["scenario"], scenario);
    let mut replay = Replay {
        scenario,
        server: &server,
        monitor: server.monitor(),
        clients: BTreeMap::new(),
        owners: BTreeMap::new(),
        pending: BTreeMap::new(),
        holders: BTreeMap::new(),
        _turn: turn,
        watchdog: Duration::from_millis(trace["watchdog_ms"].as_u64().expect("a number")),
    };
    let steps = trace["steps"].as_array().expect("steps");
    for (number, step) in steps.iter().enumerate() {
        let next = steps.get(number + 1).map(|next| &next["call"]);
        replay.take(number, step, next).await;
    }
}

impl Replay<'_> {
    async fn take(&mut self, number: usize, step: &Value, next: Option<&Value>) {
        let at = format!("{} step {number}: {step}", self.scenario);
        let actor = step["actor"].as_str().expect("an actor");
        let returned = match step["call"].as_str().expect("a call") {
            "pass" => {
                tokio::time::sleep(Duration::from_millis(step["ms"].as_u64().expect("a number"))).await;
                Value::Null
            }
            "foreign" => {
                self.foreign(&step["command"]);
                Value::Null
            }
            "returns" => {
                let call = self.pending.remove(actor).expect("it is under way");
                tokio::time::timeout(SOON, call).await.expect("it ends").expect("no panic")
            }
            verb => {
                let mut call = self.call(actor, verb, step).await;
                if step["returned"] == "<pending>" {
                    let company = self.waits_in_company(actor, step);
                    assert!(matches!(poll_once(&mut call).await, Poll::Pending), "{at}");
                    self.pending.insert(actor.to_owned(), tokio::spawn(call));
                    if company {
                        tokio::task::yield_now().await;
                    } else {
                        self.listens(actor, step).await;
                    }
                    json!("<pending>")
                } else {
                    call.await
                }
            }
        };
        assert_eq!(returned, step["returned"], "{at}");
        let of_this = DIFFERENT.iter().filter(|(scenario, step, _)| (*scenario, *step) == (self.scenario, number));
        let instead: Vec<Instead> = of_this.map(|(_, _, instead)| *instead).collect();
        let state = expected(&step["state_after"], &instead);
        // Who was woken needs a moment.
        let started = Instant::now();
        loop {
            let there = self.state();
            if there == state {
                break;
            }
            assert!(started.elapsed() < WOKEN, "{at}\nthere is {there}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        if returned == "<pending>" && next.is_some_and(|next| next == "foreign") {
            // What happens next without a message nobody may find who polls.
            asleep_by(&self.monitor, &channel(name_of(step)), self.asks(actor)).await;
        }
        let published: Vec<Value> = self
            .monitor
            .take()
            .iter()
            .filter(|ran| ran.name() == "PUBLISH")
            .map(|ran| json!({ "channel": utf8(&ran.words[1]), "payload": utf8(&ran.words[2]) }))
            .collect();
        let wanted = if instead.contains(&Instead::Silence) { &json!([]) } else { &step["published"] };
        assert_eq!(json!(published), *wanted, "{at}");
    }

    /// Whether this actor's client holds the lock, or has another actor that waits already: it then waits inside of it.
    fn waits_in_company(&self, actor: &str, step: &Value) -> bool {
        let client = client_of(actor);
        let held = self.server.hash(name_of(step));
        let id = self.clients[client].id().to_string();
        held.keys().any(|field| field.split_once(':').is_some_and(|(holder, _)| holder == id))
            || self.pending.keys().any(|waiting| client_of(waiting) == client)
    }

    /// Whether something that ran was a script of this actor's client.
    fn asks(&self, actor: &str) -> impl Fn(&Ran) -> bool + use<> {
        let id = self.clients[client_of(actor)].id().to_string();
        move |ran| is_script(ran) && ran.words.iter().any(|word| word.starts_with(id.as_bytes()))
    }

    /// Waits until this actor, alone in its client, listens and has looked again since: no message is too early for it.
    async fn listens(&self, actor: &str, step: &Value) {
        let channel = channel(name_of(step));
        let client = client_of(actor);
        let others: BTreeSet<&str> = self.pending.keys().map(|waiting| client_of(waiting)).collect();
        let asks = self.asks(actor);
        eventually_async(SOON, async || {
            let ran = self.monitor.ran();
            let subscribed = ran.iter().rposition(|ran| ran.name() == "SUBSCRIBE" && ran.mentions(&channel));
            subscribed.is_some_and(|at| ran[at..].iter().any(&asks))
        })
        .await;
        // Who waits where the lock is held does not listen.
        let listening = others.iter().filter(|other| **other == client || !self.holds(other, name_of(step))).count();
        listening_on(self.server, &channel, listening as u64).await;
    }

    /// Whether one of this client's actors holds the lock.
    fn holds(&self, client: &str, name: &str) -> bool {
        let lock = self.clients[client].lock(name);
        self.owners.iter().any(|(actor, owner)| client_of(actor) == client && lock.is_held_by(owner))
    }

    /// A call of one of the traces' methods. A hold is kept for its owner, as Redisson does it.
    async fn call(&mut self, actor: &str, verb: &str, step: &Value) -> Call {
        let lock = self.lock(actor, name_of(step)).await;
        let owner = self.owners.entry(actor.to_owned()).or_insert_with(Owner::new).clone();
        let time = |key: &str| step[key].as_u64().map(Duration::from_millis);
        let (lease, wait) = (time("lease_ms").map_or(Lease::Watchdog, Lease::Fixed), time("wait_ms"));
        match verb {
            "lock" => Box::pin(async move {
                lock.lock().owner(&owner).lease(lease).await.expect("the server answers").detach();
                Value::Null
            }),
            "tryLock" => Box::pin(async move {
                let asked = lock.try_lock().owner(&owner).lease(lease).wait(wait.unwrap_or_default());
                let guard = asked.await.expect("the server answers");
                json!(guard.map(relatch::LockGuard::detach).is_some())
            }),
            "unlock" => Box::pin(async move {
                match lock.unlock().owner(&owner).await {
                    Ok(_) => Value::Null,
                    Err(Error::NotHeld { .. } | Error::Lost { .. }) => {
                        json!({ "exception": "IllegalMonitorStateException" })
                    }
                    Err(error) => panic!("{error}"),
                }
            }),
            "forceUnlock" => Box::pin(async move { json!(lock.force_unlock().await.expect("the server answers")) }),
            "isLocked" => Box::pin(async move { json!(lock.is_locked().await.expect("the server answers")) }),
            "isHeldByCurrentThread" => Box::pin(async move { json!(lock.is_held_by(&owner)) }),
            "getHoldCount" => Box::pin(async move { owner.scope(async { json!(lock.hold_count()) }).await }),
            "remainsTimeToLive" => {
                Box::pin(async move { json!(lock.remaining_lease().await.expect("the server answers").is_some()) })
            }
            "remainTimeToLive" => Box::pin(async move {
                let left = lock.remaining_lease().await.expect("the server answers");
                left.map_or(json!(-2), |left| json!(left.as_millis() as u64))
            }),
            other => panic!("no call is known as {other}"),
        }
    }

    async fn lock(&mut self, actor: &str, name: &str) -> ReentrantLock {
        let client = client_of(actor);
        if !self.clients.contains_key(client) {
            // Redisson's own threads won a race in these; ours have their turn for as long as the slice lasts.
            let builder = Client::builder().url(self.server.url()).watchdog_timeout(self.watchdog).handover_slice(SOON);
            self.clients.insert(client.to_owned(), connected(builder).await);
        }
        self.clients[client].lock(name)
    }

    fn foreign(&self, command: &Value) {
        let words: Vec<&str> =
            command.as_array().expect("words").iter().map(|word| word.as_str().expect("a word")).collect();
        let mut run = redis::cmd(words[0]);
        run.arg(&words[1..]);
        run.exec(&mut self.server.connection()).expect("the server takes it");
    }

    /// Every key, as the traces write it: type, value, rounded TTL.
    fn state(&mut self) -> Value {
        let mut state = serde_json::Map::new();
        for key in self.server.keys() {
            let (kind, fields, ttl): (String, BTreeMap<String, String>, i64) = redis::pipe()
                .cmd("TYPE")
                .arg(&key)
                .hgetall(&key)
                .cmd("PTTL")
                .arg(&key)
                .query(&mut self.server.connection())
                .expect("a lock is a hash");
            let fields: BTreeMap<String, String> =
                fields.into_iter().map(|(field, count)| (self.written(&key, &field), count)).collect();
            state.insert(key, json!({ "type": kind, "value": fields, "pttl": rounded(ttl) }));
        }
        Value::Object(state)
    }

    /// A field of one of our clients as an owner of the traces; as it is until somebody of that client knows of the hold.
    fn written(&mut self, key: &str, field: &str) -> String {
        if let Some(holder) = self.holders.get(field) {
            return holder.clone();
        }
        let ours = self.owners.iter().find(|(actor, owner)| {
            let client = &self.clients[client_of(actor)];
            let number = field.strip_prefix(&format!("{}:", client.id()));
            number.is_some_and(|number| number.parse::<u64>().is_ok()) && client.lock(key).is_held_by(owner)
        });
        let Some((actor, _)) = ours else { return field.to_owned() };
        let (client, thread) = actor.split_once(':').expect("a client and a thread");
        let holder = format!("<uuid{}>:<{thread}>", &client[1..]);
        self.holders.insert(field.to_owned(), holder.clone());
        holder
    }
}

fn client_of(actor: &str) -> &str {
    actor.split_once(':').expect("a client and a thread").0
}

fn name_of(step: &Value) -> &str {
    step["lock"].as_str().unwrap_or("job")
}

/// A state of the traces, with what is there instead.
fn expected(state: &Value, instead: &[Instead]) -> Value {
    let mut state = state.clone();
    for key in state.as_object_mut().expect("keys").values_mut() {
        for instead in instead {
            match instead {
                Instead::Ttl(ttl) => key["pttl"] = json!(ttl),
                Instead::Owner(owner) => key["value"] = json!({ *owner: "1" }),
                Instead::Silence => {}
            }
        }
    }
    state
}

/// Up to the next second, and from ten on to the next five.
fn rounded(ttl: i64) -> i64 {
    match ttl {
        ..0 => ttl,
        0..10_000 => (ttl + 999) / 1000 * 1000,
        _ => (ttl + 4999) / 5000 * 5000,
    }
}

fn utf8(word: &[u8]) -> &str {
    str::from_utf8(word).expect("it is text")
}

/// A test for each recorded scenario.
macro_rules! replays {
    ($($test:ident: $scenario:literal,)*) => {
        const REPLAYED: &[&str] = &[$($scenario),*];

        $(
            #[tokio::test]
            async fn $test() {
                replay($scenario).await;
            }
        )*
    };
}

replays!(
    a_lock_that_nobody_else_wants: "plain_uncontended",
    an_owner_that_locks_twice: "plain_reentrant",
    leases_that_are_named: "plain_leases",
    a_waiter_that_is_woken: "plain_contended_wake",
    a_waiter_that_gives_up: "plain_contended_timeout",
    waiters_of_the_holders_client_and_of_another: "plain_lock_waiters",
    unlocks_by_those_who_do_not_hold_it: "plain_unlock_not_held",
    a_forced_unlock_beside_a_waiter: "plain_force_unlock",
    a_holder_whose_lease_runs_out: "plain_holder_expiry",
    holds_that_are_renewed: "plain_watchdog",
    a_foreign_holder_that_releases: "foreign_holder_release",
    foreign_holders_that_hand_over_without_a_message: "foreign_transfer",
);

#[test]
fn every_scenario_is_replayed() {
    let files = fs::read_dir(FOLDER).expect("the traces are there").filter_map(Result::ok);
    let scenarios = files.filter_map(|file| file.file_name().to_str()?.strip_suffix(".json").map(str::to_owned));
    let mut left: Vec<String> = scenarios.filter(|name| name != "names").collect();
    left.retain(|name| !REPLAYED.contains(&&**name));
    assert_eq!(left, Vec::<String>::new());
}

#[tokio::test]
async fn names_of_every_kind_have_the_same_key_and_channel() {
    let _turn = Turn::take(Company::Any);
    let server = Server::own();
    for row in trace("names")["names"].as_array().expect("names") {
        let text = |part: &str| row[part].as_str().expect("text");
        let connect = || connected(Client::builder().url(server.url()).name_prefix(text("prefix")));
        let (holder, waiter) = (connect().await, connect().await);
        let guard = holder.lock(text("name")).lock().await.expect("it is free");
        assert_eq!(server.keys(), [text("key")]);
        let mut waiting = Box::pin(waiter.lock(text("name")).lock());
        assert!(poll_once(&mut waiting).await.is_pending());
        let waiting = tokio::spawn(waiting);
        listening_on(&server, text("channel"), 1).await;
        let monitor = server.monitor();
        guard.unlock().await.expect("it is held");
        let entered = tokio::time::timeout(SOON, waiting).await.expect("a message wakes it");
        let published = monitor.take().into_iter().find(|ran| ran.name() == "PUBLISH").expect("a message was sent");
        assert_eq!((utf8(&published.words[1]), utf8(&published.words[2])), (text("channel"), "0"));
        entered.expect("no panic").expect("it is free").unlock().await.expect("it is held");
    }
}
