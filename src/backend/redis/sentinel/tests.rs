//! Whom a backend follows whose sentinels say what a test wants, with real servers where they say.

mod sentinel;

use std::{net::TcpListener, sync::Arc, time::Duration};

use self::sentinel::Sentinel;
use super::*;
use crate::backend::{
    Backend, Call, FaultKind, Heard, Line, Listener, Memory, Polled,
    redis::{
        address::Address,
        testing::{COUNT, Server, eventually, options},
    },
};

const CALL: Call<'static> = Call { script: &COUNT, keys: &["n"], args: &[], dispatch: None, polled: Polled::ByUs };
const SECOND: Duration = Duration::from_secs(1);

/// A server on a port of its own.
fn server(more: &[&str]) -> (Server, u16) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    (Server::with(&[&["--port", &port.to_string()], more].concat()), port)
}

fn by(sentinels: &[&Sentinel]) -> Sentinels {
    let hosts: Vec<_> = sentinels.iter().map(|sentinel| format!("127.0.0.1:{}", sentinel.port)).collect();
    match Address::parse(&format!("redis-sentinel://{}#m", hosts.join(","))).unwrap() {
        Address::Sentinel(sentinels) => sentinels,
        other => panic!("{other:?}"),
    }
}

async fn connected(sentinels: &[&Sentinel]) -> Standalone {
    connect(&by(sentinels), options(3000)).await.unwrap()
}

/// Listens, and that is all.
struct Ignores;

impl Listener for Ignores {
    fn hear(&self, _: Heard<'_>) {}
}

fn is_listened_to(server: &Server) -> bool {
    server.ask::<(String, u64)>(&["PUBSUB", "NUMSUB", "channel"]).1 == 1
}

fn count(server: &Server) -> Option<i64> {
    server.ask(&["GET", "n"])
}

#[tokio::test]
async fn a_later_failover_is_followed_and_what_is_older_is_not_whoever_says_so() {
    let ((old, at_old), (new, at_new)) = (server(&[]), server(&[]));
    // Nobody says anything by himself: they are asked.
    let [one, two, three] = [5, 5, 4].map(|epoch| Sentinel::new(epoch, at_old).mute());
    let backend = connected(&[&one, &two, &three]).await;
    let era = backend.eras();
    three.says(4, at_new);
    two.says(5, at_new);
    let asked = [one.asked(), two.asked(), three.asked()];
    eventually("all were asked", || one.asked() > asked[0] && two.asked() > asked[1] && three.asked() > asked[2]).await;
    sleep(SECOND / 5).await;
    backend.run(&CALL).await.unwrap();
    assert_eq!((backend.link(""), era.has_changed().unwrap(), count(&old)), (1, false, Some(1)));
    one.says(6, at_new);
    eventually("there is another link", || backend.link("") == 2).await;
    assert!(era.has_changed().unwrap());
    backend.run(&CALL).await.unwrap();
    // Most of them heard nothing of it.
    two.says(5, at_old);
    let asked = [one.asked(), two.asked(), three.asked()];
    eventually("all were asked", || one.asked() > asked[0] && two.asked() > asked[1] && three.asked() > asked[2]).await;
    sleep(SECOND / 5).await;
    backend.run(&CALL).await.unwrap();
    assert_eq!((backend.link(""), count(&old), count(&new)), (2, Some(1), Some(2)));
}

#[tokio::test]
async fn what_a_sentinel_says_by_itself_is_followed_at_once_and_nothing_is_waited_for_at_the_old_master() {
    let servers = [server(&[]), server(&[])];
    // Who is not told which server it is has it from the sentinels alone.
    servers.iter().for_each(|(server, _)| server.ask(&["ACL", "SETUSER", "default", "-info"]));
    let sentinel = Sentinel::new(0, servers[0].1);
    let backend = connected(&[&sentinel]).await;
    let _subscription = backend.subscribe("n", "channel".into(), Arc::new(Ignores));
    eventually("it is listened to", || sentinel.is_listened_to() && is_listened_to(&servers[0].0)).await;
    // So often that no question of each second comes so well.
    for turn in 1..=6 {
        let (old, new) = (&servers[(turn + 1) % 2].0, &servers[turn % 2]);
        sleep(SECOND / 5).await;
        old.freeze();
        let under_way = tokio::spawn(backend.run(&CALL));
        sleep(SECOND / 20).await;
        let switched = Instant::now();
        sentinel.switches(turn as u64, new.1);
        let fault = under_way.await.unwrap().unwrap_err();
        assert!(fault.kind == FaultKind::Dropped && fault.may_have_run, "{fault:?}");
        backend.run(&CALL).await.unwrap();
        eventually("whoever listens goes along", || is_listened_to(&new.0)).await;
        assert!(switched.elapsed() < SECOND / 4, "{:?}", switched.elapsed());
        old.thaw();
        eventually("nobody listens there", || !is_listened_to(old)).await;
    }
}

#[tokio::test]
async fn a_link_that_does_not_come_at_the_old_master_is_not_waited_for() {
    let ((old, at_old), (new, at_new)) = (server(&[]), server(&[]));
    let sentinel = Sentinel::new(0, at_old);
    let backend = connect(&by(&[&sentinel]), options(1000)).await.unwrap();
    eventually("it is listened to", || sentinel.is_listened_to()).await;
    old.freeze();
    let fault = backend.run(&CALL).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Timeout, "{fault:?}");
    // A new link is tried for, for a second, and one to listen.
    let _subscription = backend.subscribe("n", "channel".into(), Arc::new(Ignores));
    sleep(SECOND / 5).await;
    let switched = Instant::now();
    sentinel.switches(1, at_new);
    backend.run(&CALL).await.unwrap();
    eventually("somebody listens there", || is_listened_to(&new)).await;
    assert!(switched.elapsed() < SECOND / 4, "{:?}", switched.elapsed());
}

#[tokio::test]
async fn a_server_that_says_that_it_is_no_master_is_not_worked_with_until_it_is_one() {
    let (server, port) = server(&["--replicaof", "127.0.0.1", "1"]);
    let sentinel = Sentinel::new(1, port);
    let fault = connect(&by(&[&sentinel]), options(1000)).await.map(|_| ()).unwrap_err();
    assert!(fault.kind == FaultKind::ReadOnly && fault.source.to_string().contains(&port.to_string()), "{fault:?}");
    let sentinels = by(&[&sentinel]);
    let (backend, ()) = tokio::join!(connect(&sentinels, options(2000)), async {
        sleep(SECOND / 5).await;
        server.ask::<()>(&["REPLICAOF", "NO", "ONE"]);
    });
    let backend = backend.unwrap();
    backend.run(&CALL).await.unwrap();
    // And once more, while it lives.
    server.ask::<()>(&["REPLICAOF", "127.0.0.1", "1"]);
    let asked = sentinel.asked();
    let (asked_soon, ()) = tokio::join!(
        async {
            sleep(SECOND * 7 / 5).await;
            sentinel.asked()
        },
        async {
            for _ in 0..2 {
                let fault = backend.run(&CALL).await.unwrap_err();
                assert_eq!(fault.kind, FaultKind::ReadOnly, "{fault:?}");
            }
        }
    );
    assert!(asked_soon > asked + 3, "whoever misses his master does not wait for the next second");
    let before = backend.link("");
    server.ask::<()>(&["REPLICAOF", "NO", "ONE"]);
    eventually("there is a link again", || backend.link("") > before).await;
    backend.run(&CALL).await.unwrap();
}

#[tokio::test]
async fn a_master_is_found_by_its_name_and_by_either_kind_of_address() {
    let (server, port) = server(&["--bind", "127.0.0.1", "::1"]);
    for (calls, host) in (1..).zip(["localhost", "::1", "127.0.0.1"]) {
        let sentinel = Sentinel::new(0, port).calling_it(host);
        let backend = connected(&[&sentinel]).await;
        backend.run(&CALL).await.unwrap();
        assert_eq!(count(&server), Some(calls), "{host}");
    }
}

#[tokio::test]
async fn nothing_is_left_when_it_is_closed_or_nobody_waits_for_it() {
    let (_server, port) = server(&[]);
    let sentinels = [Sentinel::new(1, port), Sentinel::new(1, port)];
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = alive();
    let backend = connected(&[&sentinels[0], &sentinels[1]]).await;
    backend.close();
    eventually("no task is left", || alive() == before).await;
    // Where nobody is the master yet.
    let nowhere = Sentinel::new(1, 1);
    let connecting = by(&[&nowhere]);
    tokio::select! {
        _ = connect(&connecting, options(3000)) => panic!("nobody is there"),
        () = sleep(SECOND / 5) => assert!(alive() > before),
    }
    eventually("no task is left", || alive() == before).await;
}

#[tokio::test]
async fn a_server_that_comes_in_anothers_place_remembers_since_it_did_however_old_it_is() {
    let ((old, at_old), (_new, at_new)) = (server(&[]), server(&[]));
    let uptime =
        |info: String| info.lines().find_map(|line| line.strip_prefix("uptime_in_seconds:")?.parse::<u64>().ok());
    eventually("both are old", || uptime(old.ask(&["INFO", "server"])) >= Some(5)).await;
    let sentinel = Sentinel::new(0, at_old);
    let backend = connected(&[&sentinel]).await;
    backend.ask_memory().await;
    let first = backend.identities();
    let switched = Instant::now();
    assert!(matches!(backend.remembers_since("n"), Some(Memory::Since(since)) if since < switched - SECOND));
    sentinel.switches(1, at_new);
    eventually("there is another link", || backend.link("") == 2).await;
    backend.run(&CALL).await.unwrap();
    let memory = backend.remembers_since("n");
    assert!(matches!(memory, Some(Memory::Since(since)) if since > switched), "{memory:?}");
    assert!(backend.identities().len() == 1 && backend.identities() != first);
}
