//! Acquisitions that come to nothing, ten thousand at a time: memory, tasks, descriptors, channels and keys are what
//! they were. They happen in a process of their own, so that nothing else blurs what it uses.

use std::{process, thread, time::Duration};

use futures_util::{StreamExt, stream};
use redis::Commands;
use relatch::{Client, Error, Owner, RefusedKind};
use tokio::{
    runtime::{Builder, Handle},
    time::{sleep, timeout},
};

use crate::{
    harness::{
        Server,
        cluster::home,
        deployment::Deployment,
        eventually, eventually_async,
        process::{Parent, Process},
        proxy::{Action, Door, Proxy, Rule, matching::script},
        unique_name, usage,
    },
    kept::{channel, connected, held, poll_once},
};

/// So many, and so many before them.
const ROUND: usize = 10_000;
const WARM_UP: usize = 2_500;
/// So many of them are under way at the same time.
const AT_ONCE: usize = 125;
/// Behind so many its cleaning up comes to its end before there are more.
const BATCH: usize = 500;
/// After this a command counts as unanswered, where nobody is there.
const COMMAND: Duration = Duration::from_millis(100);
const WAIT: Duration = Duration::from_millis(60);
/// What is cleaned up behind an attempt takes no longer than a lease and the third of one.
const LEASE: Duration = Duration::from_millis(60);
/// A round takes no longer, however busy the machine is.
const LONG: Duration = Duration::from_secs(90);
const SOON: Duration = Duration::from_secs(30);
/// Between two messages.
const PACE: Duration = Duration::from_micros(200);
/// What could leak is more than that in ten thousand: an entry with a name and a queue, a hold, a task, a subscription
/// have some hundred bytes each.
const GROWTH: usize = 40 * ROUND;
const ROUNDS: usize = 5;

/// What an idle process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Uses {
    memory: usize,
    tasks: usize,
    descriptors: usize,
}

impl Uses {
    fn now() -> Self {
        Self { memory: usage::memory(), tasks: tasks(), descriptors: usage::descriptors(process::id()).len() }
    }

    fn said(self) -> String {
        format!("{} {} {}", self.memory, self.tasks, self.descriptors)
    }

    fn heard(line: &str) -> Self {
        let mut numbers = line.split(' ').map(|number| number.parse().expect("a number"));
        let mut next = || numbers.next().expect("three numbers");
        Self { memory: next(), tasks: next(), descriptors: next() }
    }
}

/// Tries in vain, ten thousand times a round, in a way that the first argument names; the others are the server's url and
/// the client's, what all names begin with, and how those who wait are told. Says what the process uses at rest after each round.
pub(crate) fn try_in_vain(parent: &mut Parent, args: &[String]) {
    let [way, server, url, root, publish] = args else { panic!("five arguments") };
    let new_name = || format!("{root}{}", unique_name());
    let command_timeout = if ["unanswered", "unheard"].contains(&way.as_str()) { COMMAND } else { SOON };
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime starts");
    runtime.block_on(async {
        let client = connected(Client::builder().url(url).command_timeout(command_timeout)).await;
        let mut server = redis::Client::open(server.as_str()).and_then(|it| it.get_connection()).expect("connects");
        wait_for_nothing(&client, &mut server, (&new_name(), publish)).await;
        let idle = tasks();
        let mut number = WARM_UP;
        loop {
            parent.say("ready");
            if parent.hear() == "end" {
                return;
            }
            for _ in 0..number / BATCH {
                // New ones all the time: what is kept of a name is kept for good.
                let names: Vec<String> = (0..BATCH).map(|_| new_name()).collect();
                prepare(way, &names, &mut server);
                let attempts = stream::iter(names.iter().enumerate());
                attempts.for_each_concurrent(AT_ONCE, |(number, name)| attempt(way, &client, name, number)).await;
                eventually_async(SOON, async || tasks() <= idle + AT_ONCE).await;
            }
            parent.say("done");
            parent.hear();
            // The links are up again, the subscriptions' too, and the last of the cleaning up is over.
            wait_for_nothing(&client, &mut server, (&new_name(), publish)).await;
            eventually_async(SOON, async || channels(&mut server, publish) == 0).await;
            sleep(10 * LEASE).await;
            eventually_async(SOON, async || tasks() <= idle).await;
            parent.say(&Uses::now().said());
            number = ROUND;
        }
    });
}

fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

/// Puts on the server what is in the way.
fn prepare(way: &str, names: &[String], server: &mut redis::Connection) {
    let mut all = redis::pipe();
    for (number, name) in names.iter().enumerate() {
        match way {
            "timed out" => all.hset(name, "somebody:1", 1).ignore().pexpire(name, LONG.as_millis() as i64).ignore(),
            "cancelled" if number % 2 == 0 => {
                all.hset(name, "somebody:1", 1).ignore().pexpire(name, LONG.as_millis() as i64).ignore()
            }
            "refused" => all.pset_ex(name, "no lock", LONG.as_millis() as u64).ignore(),
            _ => &mut all,
        };
    }
    if !all.is_empty() {
        all.exec(server).expect("the server answers");
    }
}

/// One acquisition that must come to nothing.
async fn attempt(way: &str, client: &Client, name: &str, number: usize) {
    let (lock, owner) = (client.lock(name), Owner::new());
    match way {
        "timed out" => {
            let waited = lock.try_lock().owner(&owner).lease(LEASE).wait(WAIT).await;
            // On a busy machine there may be no answer before the wait is over.
            assert!(matches!(waited, Ok(None) | Err(Error::Unreachable { .. })), "{waited:?}");
        }
        "cancelled" => {
            let mut acquire = lock.lock().owner(&owner).lease(LEASE);
            if number.is_multiple_of(2) {
                let wait = Duration::from_millis(number as u64 / 2 % 20);
                assert!(timeout(wait, acquire).await.is_err(), "somebody holds it");
            } else {
                // Begun, sent, or answered and not taken.
                assert!(poll_once(&mut acquire).await.is_pending());
                for _ in 0..number / 2 % 4 {
                    tokio::task::yield_now().await;
                }
                drop(acquire);
            }
        }
        "refused" => {
            let refused = lock.lock().owner(&owner).lease(LEASE).await;
            assert!(matches!(refused, Err(Error::Refused { kind: RefusedKind::WrongType, .. })), "{refused:?}");
        }
        _ => {
            let unanswered = lock.try_lock().owner(&owner).lease(LEASE).await;
            assert!(matches!(unanswered, Err(Error::Unreachable { .. })), "{unanswered:?}");
        }
    }
}

/// A wait that needs every link there is, and comes to nothing.
async fn wait_for_nothing(client: &Client, server: &mut redis::Connection, (name, publish): (&str, &str)) {
    let mut busy = redis::pipe();
    busy.hset(name, "somebody:1", 1).pexpire(name, LONG.as_millis() as i64);
    busy.exec(server).expect("the server answers");
    let waiting = tokio::spawn(client.lock(name).try_lock().wait(LONG));
    let mut listeners = redis::cmd("PUBSUB");
    listeners.arg(if publish == "SPUBLISH" { "SHARDNUMSUB" } else { "NUMSUB" }).arg(channel_of(name));
    let mut listens = || listeners.query::<(String, u64)>(server).expect("the server answers").1 == 1;
    eventually_async(SOON, async || listens()).await;
    redis::cmd("DEL").arg(name).exec(server).expect("the server answers");
    redis::cmd(publish).arg(channel_of(name)).arg("0").exec(server).expect("the server answers");
    let guard = waiting.await.expect("no panic").expect("the server answers").expect("it is free");
    guard.unlock().await.expect("it is held");
}

/// Where those listen who wait for this name, which may have braces of its own.
fn channel_of(name: &str) -> String {
    if name.contains('{') { format!("redisson_lock__channel:{name}") } else { channel(name) }
}

/// How many channels anybody listens to. While many are left behind, nobody gets to their ends at once.
fn channels(server: &mut redis::Connection, publish: &str) -> usize {
    let asked = if publish == "SPUBLISH" { "SHARDCHANNELS" } else { "CHANNELS" };
    let all: Vec<String> = redis::cmd("PUBSUB").arg(asked).query(server).expect("the server answers");
    all.len()
}

/// Two rounds, one after the other, after which a process uses what it used before. A heap may take a few rounds until
/// it has the size that it needs; what leaks makes it grow on.
fn stays_flat(what: &str, warm: Uses, mut round: impl FnMut() -> Uses) {
    let mut seen = vec![warm];
    for _ in 0..ROUNDS {
        let after = round();
        eprintln!("{ROUND} {what}: {:?}, then {after:?}", seen[seen.len() - 1]);
        assert_eq!((after.tasks, after.descriptors), (warm.tasks, warm.descriptors));
        seen.push(after);
        if let [.., before, _, _] = seen[..]
            && after.memory <= before.memory + GROWTH
        {
            return;
        }
    }
    panic!("each two of {ROUNDS} rounds kept more than {GROWTH} bytes: {seen:?}");
}

/// What is wrong with the way to the server while attempts are made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Open,
    /// Nobody is there.
    Shut,
    /// Acquires run, and their answers get lost.
    Deaf,
}

/// What a process uses before and after ten thousand attempts that come to nothing, the first few aside.
fn in_vain(how: &str, way: Way) {
    let server = Server::own();
    let proxy = (way != Way::Open).then(|| Proxy::to(&server));
    let url = proxy.as_ref().map_or_else(|| server.url(), Proxy::url);
    let mut child = Process::spawn("try_in_vain", &[how, &server.url(), &url, "plain-", "PUBLISH"]);
    let mut round = || {
        assert_eq!(child.hear_within(LONG).as_deref(), Some("ready"));
        let lost = proxy.as_ref().filter(|_| way == Way::Deaf);
        let lost = lost.map(|proxy| proxy.rule(script("acquire"), Action::SwallowReply));
        if let Some(proxy) = proxy.as_ref().filter(|_| way == Way::Shut) {
            proxy.door(Door::Refusing);
            proxy.cut_all();
        }
        child.say("go");
        assert_eq!(child.hear_within(LONG).as_deref(), Some("done"));
        if let Some(proxy) = &proxy {
            proxy.door(Door::Open);
            proxy.clear_log();
        }
        lost.iter().for_each(Rule::remove);
        child.say("rest");
        let uses = Uses::heard(&child.hear_within(LONG).expect("it comes to rest"));
        assert_eq!(channels(&mut server.connection(), "PUBLISH"), 0);
        uses
    };
    stays_flat(how, round(), &mut round);
    assert_eq!(child.hear_within(LONG).as_deref(), Some("ready"));
    child.say("end");
    assert_eq!(ours(&mut server.connection()), Vec::<String>::new());
    assert!(child.ended_well());
}

/// The keys that are holds of ours, and not what was in the way.
fn ours(server: &mut redis::Connection) -> Vec<String> {
    const OURS: &str = "
        local ours = {}
        for _, key in ipairs(redis.call('KEYS', '*')) do
            if redis.call('TYPE', key).ok == 'hash' and redis.call('HEXISTS', key, 'somebody:1') == 0 then
                table.insert(ours, key)
            end
        end
        return ours";
    redis::Script::new(OURS).invoke(server).expect("the server answers")
}

#[test]
fn of_ten_thousand_acquisitions_whose_wait_ended_nothing_stays() {
    in_vain("timed out", Way::Open);
}

/// All names are in one slot, and their channels at one node: a link there listens to all of them, sharded where the server knows
/// that.
#[test]
fn of_ten_thousand_acquisitions_on_a_cluster_whose_wait_ended_nothing_stays() {
    let cluster = Deployment::of_cluster();
    let (root, node) = ("{slot}", home("slot"));
    let publish = if cluster.flavour() == "redis62" { "PUBLISH" } else { "SPUBLISH" };
    let args = ["timed out", &cluster.url_of(node), &cluster.url(), root, publish];
    let mut child = Process::spawn("try_in_vain", &args);
    let mut round = || {
        for (said, order) in [("ready", "go"), ("done", "rest")] {
            assert_eq!(child.hear_within(LONG).as_deref(), Some(said));
            child.say(order);
        }
        let uses = Uses::heard(&child.hear_within(LONG).expect("it comes to rest"));
        assert_eq!(channels(&mut cluster.connection(node), publish), 0);
        uses
    };
    stays_flat("timed out on a cluster", round(), &mut round);
    assert_eq!(child.hear_within(LONG).as_deref(), Some("ready"));
    child.say("end");
    assert_eq!(ours(&mut cluster.connection(node)), Vec::<String>::new());
    assert!(child.ended_well());
}

#[test]
fn of_ten_thousand_acquisitions_that_were_dropped_nothing_stays() {
    in_vain("cancelled", Way::Open);
}

#[test]
fn of_ten_thousand_acquisitions_that_were_refused_nothing_stays() {
    in_vain("refused", Way::Open);
}

#[test]
fn of_ten_thousand_acquisitions_that_found_nobody_nothing_stays() {
    in_vain("unanswered", Way::Shut);
}

#[test]
fn of_ten_thousand_acquisitions_whose_answers_were_lost_nothing_stays() {
    in_vain("unheard", Way::Deaf);
}

/// Waits for a lock, and says at each line what the process uses, until it has the lock.
pub(crate) fn wait_long(parent: &mut Parent, args: &[String]) {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime starts");
    runtime.block_on(async {
        let client = connected(Client::builder().url(&args[0])).await;
        let waiting = tokio::spawn(client.lock(&args[1]).lock());
        while parent.hear() == "measure" {
            parent.say(&Uses::now().said());
        }
        waiting.await.expect("no panic").expect("it is free at last").unlock().await.expect("it is held");
    });
}

/// As many looks as a wait of days would take, in a few seconds.
#[test]
fn a_waiter_that_looks_ten_thousand_times_uses_no_more_than_at_first() {
    let (server, name) = (Server::own(), unique_name());
    let mut connection = server.connection();
    let mut busy = redis::pipe();
    busy.hset(&name, "somebody:1", 1).pexpire(&name, 1000 * LONG.as_millis() as i64);
    busy.exec(&mut connection).expect("the server answers");
    let mut child = Process::spawn("wait_long", &[&server.url(), &name]);
    eventually(SOON, || server.listeners(&channel(&name)) == 1);
    let mut looks = |number: usize| {
        let wanted = server.count("evalsha") + number as u64;
        while server.count("evalsha") < wanted {
            for _ in 0..100 {
                // One by one: those that come together wake it once.
                let _: () = connection.publish(channel(&name), "0").expect("the server answers");
                thread::sleep(PACE);
            }
        }
        child.say("measure");
        Uses::heard(&child.hear_within(LONG).expect("it looks around"))
    };
    stays_flat("looks of a waiter", looks(WARM_UP), || looks(ROUND));
    assert_eq!(held(&server, &name).field, "somebody:1");
    redis::cmd("DEL").arg(&name).exec(&mut server.connection()).expect("the server answers");
    redis::cmd("PUBLISH").arg(channel(&name)).arg("0").exec(&mut server.connection()).expect("the server answers");
    child.say("enter");
    assert!(child.ended_well());
}
