//! Does to processes, links and the server what the plan says, and writes down when. It looks at no lock.

use std::{
    collections::BTreeMap,
    thread::sleep,
    time::{Duration, Instant},
};

use relatch::Client;
use tokio::runtime::{Builder, Runtime};

use super::{
    LONGEST_HOLDUP,
    checker::{Freeze, Loss},
    fleet::Ship,
    name,
    plan::{Harm, ProcessFault, ServerFault, Step},
    servers::impatient,
};
use crate::harness::{
    Server,
    clock::monotonic,
    proxy::{Door, Rule},
};

/// What was done to one process or to the servers, and what went wrong with them by itself.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) faults: BTreeMap<String, usize>,
    pub(super) freezes: Vec<Freeze>,
    pub(super) losses: Vec<Loss>,
    pub(super) wrong: Vec<String>,
}

/// How a fault ends.
enum Relief {
    Thaw(Duration),
    Lift(Rule),
    OpenDoor(usize),
    FullSpeed(usize),
}

/// The faults of one process, and which of its ways each is about, until that instant; all of them end with it.
pub(super) fn harass(ship: &mut Ship, plan: impl Iterator<Item = Step<(usize, ProcessFault)>>, until: Instant) -> Done {
    let mut done = Done::default();
    let mut reliefs: Vec<(Instant, Relief)> = Vec::new();
    let mut due = Instant::now();
    for step in plan {
        due += step.after;
        let stop = due.min(until);
        while let Some(next) = reliefs.iter().position(|(at, _)| *at <= stop && is_first(&reliefs, *at)) {
            let (at, relief) = reliefs.remove(next);
            wait_for(at);
            relieve(ship, relief, &mut done);
        }
        wait_for(stop);
        if due >= until {
            break;
        }
        let (way, fault) = step.fault;
        *done.faults.entry(fault.kind()).or_default() += 1;
        ship.proxies[way].clear_log();
        strike(ship, way, fault, &mut reliefs, &mut done);
    }
    reliefs.into_iter().for_each(|(_, relief)| relieve(ship, relief, &mut done));
    done
}

fn is_first(reliefs: &[(Instant, Relief)], at: Instant) -> bool {
    reliefs.iter().all(|(other, _)| at <= *other)
}

fn strike(ship: &mut Ship, way: usize, fault: ProcessFault, reliefs: &mut Vec<(Instant, Relief)>, done: &mut Done) {
    let proxy = &ship.proxies[way];
    let frozen = reliefs.iter().any(|(_, relief)| matches!(relief, Relief::Thaw(_)));
    let (pause, relief) = match fault {
        ProcessFault::Freeze(_) if frozen => return,
        ProcessFault::Freeze(pause) => {
            let from = monotonic();
            ship.process.freeze();
            (pause, Relief::Thaw(from))
        }
        ProcessFault::Kill => {
            ship.replace();
            let of_the_old = reliefs.extract_if(.., |(_, relief)| matches!(relief, Relief::Thaw(_)));
            return of_the_old.for_each(|(_, relief)| relieve(ship, relief, done));
        }
        ProcessFault::Rule(target, action, pause) => (pause, Relief::Lift(proxy.rule(target.matches(), action))),
        ProcessFault::Cut => return proxy.cut_all(),
        ProcessFault::Silence => return proxy.silence_all(),
        ProcessFault::Door(door, pause) => {
            proxy.door(door);
            (pause, Relief::OpenDoor(way))
        }
        ProcessFault::Partition(pause) => {
            proxy.door(Door::Silent);
            proxy.silence_all();
            (pause, Relief::OpenDoor(way))
        }
        ProcessFault::Throttle(rate, pause) => {
            proxy.throttle(rate);
            (pause, Relief::FullSpeed(way))
        }
    };
    reliefs.push((Instant::now() + pause, relief));
}

fn relieve(ship: &Ship, relief: Relief, done: &mut Done) {
    match relief {
        Relief::Thaw(from) => {
            ship.process.thaw();
            done.freezes.push(Freeze { process: ship.number, from, until: monotonic() });
        }
        Relief::Lift(rule) => {
            rule.remove();
            rule.let_go();
        }
        Relief::OpenDoor(way) => ship.proxies[way].door(Door::Open),
        Relief::FullSpeed(way) => ship.proxies[way].throttle(0),
    }
}

/// The faults of the server, until that instant; all of them end with it.
pub(super) fn harass_server(server: &Server, plan: impl Iterator<Item = Step<ServerFault>>, until: Instant) -> Done {
    let mut done = Done::default();
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime starts");
    let bystander = runtime.block_on(crate::kept::client(server.url()));
    let mut due = Instant::now();
    for step in plan {
        due += step.after;
        wait_for(due.min(until));
        if due >= until {
            break;
        }
        *done.faults.entry(step.fault.kind().to_owned()).or_default() += 1;
        strike_server(server, &step.fault, (&runtime, &bystander), &mut done);
        // What one fault took longer than planned does not bring the next ones all at once.
        due = due.max(Instant::now());
    }
    runtime.block_on(bystander.close());
    done
}

fn strike_server(server: &Server, fault: &ServerFault, bystander: (&Runtime, &Client), done: &mut Done) {
    let from = monotonic();
    match fault {
        ServerFault::Harm(harm) => harm_server(server, harm),
        ServerFault::RestartEmpty => {
            server.restart_empty();
            done.losses.push(Loss { name: None, from, until: monotonic(), told: None, whole: true });
        }
        ServerFault::Force(which) => {
            let (runtime, client) = bystander;
            let forced = runtime.block_on(client.lock(name(*which)).force_unlock());
            // Without an answer it may run later.
            let late = if forced.is_ok() { Duration::ZERO } else { LONGEST_HOLDUP };
            done.losses.push(Loss { name: Some(*which), from, until: monotonic() + late, told: None, whole: false });
        }
    }
}

/// What costs a server none of its keys.
pub(super) fn harm_server(server: &Server, harm: &Harm) {
    match harm {
        Harm::FlushScripts => server.flush_scripts(),
        Harm::KillClients(kind) => {
            // Its own connection may be of that kind.
            let _ = redis::cmd("CLIENT").arg("KILL").arg("TYPE").arg(*kind).exec(&mut server.connection());
        }
        Harm::Sleep(pause) => {
            let asleep = redis::cmd("DEBUG").arg("SLEEP").arg(pause.as_secs_f64()).exec(&mut server.connection());
            asleep.expect("the server sleeps");
        }
        Harm::Freeze(pause) => {
            server.freeze();
            sleep(*pause);
            server.thaw();
        }
    }
}

/// Looks at every key of a server again and again; says what it must not have seen.
pub(super) fn watch_keys(server: &redis::Client, longest: Duration, until: Instant) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut connection = None;
    while Instant::now() < until {
        sleep(Duration::from_millis(10));
        connection = connection.or_else(|| impatient(server));
        let Some(open) = &mut connection else { continue };
        match ttls(open) {
            Ok(ttls) => wrong.extend(ttls.iter().filter_map(|(key, ttl_ms)| complaint(key, *ttl_ms, longest))),
            // The server may be away for a while, or a replica that runs no scripts.
            Err(_) => connection = None,
        }
    }
    wrong
}

/// Every key and its TTL as the server says it, in one step.
fn ttls(connection: &mut redis::Connection) -> redis::RedisResult<Vec<(String, i64)>> {
    const LOOK: &str = "local seen = {} \
        for _, key in ipairs(redis.call('KEYS', '*')) do \
            seen[#seen + 1] = key seen[#seen + 1] = redis.call('PTTL', key) \
        end return seen";
    redis::cmd("EVAL").arg(LOOK).arg(0).query(connection)
}

fn complaint(key: &str, ttl_ms: i64, longest: Duration) -> Option<String> {
    let known = (0..2 * super::NAMES).any(|known| name(known) == key);
    let ends = (0..=longest.as_millis() as i64).contains(&ttl_ms) || ttl_ms == -2;
    (!known || !ends).then(|| format!("at {} the key {key} has a TTL of {ttl_ms} ms", monotonic().as_nanos()))
}

pub(super) fn wait_for(instant: Instant) {
    sleep(instant.saturating_duration_since(Instant::now()));
}

#[test]
fn a_key_that_is_no_lock_has_no_ttl_or_outlives_every_lease_is_complained_about() {
    let longest = Duration::from_millis(750);
    assert_eq!(complaint(name(0), 750, longest), None);
    for (key, ttl_ms) in [(name(0), -1), (name(1), 751), ("other", 5)] {
        assert!(complaint(key, ttl_ms, longest).is_some(), "{key} {ttl_ms}");
    }
}
