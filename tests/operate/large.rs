//! Keys that are very large and have the name of a lock: a look by name costs their server no more than a lock does.

use std::sync::LazyLock;

use redis::Connection;
use relatch::{
    Client, Error, RefusedKind,
    operate::{ForcedRelease, HolderId, Kind},
};
use tokio::runtime::{Builder, Runtime};

use crate::{
    harness::{
        Deployment, Server,
        cluster::{MASTERS, name_on, slot},
    },
    scenes::{all, client, connected, names, one},
    slow::{slow_commands, watched},
};

/// With as many fields as would take far longer to read than any command may take.
const FIELDS: usize = 200_000;
const FILL: &str =
    "for i = ARGV[1], ARGV[2] do redis.call('HSET', KEYS[1], '8743c9c0-0795-4907-87fd-6c719a6b4586:' .. i, 1) end";

const BYTES: u64 = 50 << 20;

static HOLDERS: LazyLock<[HolderId; 2]> = LazyLock::new(|| {
    ["8743c9c0-0795-4907-87fd-6c719a6b4586:1", "token:0123456789abcdef"].map(|id| id.parse().expect("a holder"))
});

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn hash(connection: &mut Connection, key: &str) {
    // A part at a time, each of which a busy machine does while somebody waits.
    let part = FIELDS / 20;
    for first in (1..=FIELDS).step_by(part) {
        redis::cmd("EVAL")
            .arg(FILL)
            .arg(1)
            .arg(key)
            .arg(first)
            .arg(first + part - 1)
            .exec(connection)
            .expect("it is taken");
    }
}

fn string(connection: &mut Connection, key: &str) {
    redis::cmd("SETRANGE").arg(key).arg(BYTES).arg("x").exec(connection).expect("it is taken");
}

fn is_no_lock<T>(told: &Result<T, Error>) -> bool {
    matches!(told, Err(Error::Refused { name, kind: RefusedKind::WrongType, .. }) if &**name == "x" || &**name == "y")
}

/// How often each of what reads a whole key was done.
fn reads(server: &Server) -> [u64; 3] {
    ["hgetall", "hkeys", "get"].map(|command| server.count(command))
}

#[test]
fn a_name_whose_key_is_very_large_is_no_lock_and_nothing_is_read_of_it() {
    let (server, runtime) = (watched(), runtime());
    let mut connection = server.connection();
    for key in ["x", "relatch_job:{z}"] {
        hash(&mut connection, key);
    }
    string(&mut connection, "y");
    let client = runtime.block_on(client(server.url()));
    server.reset_counts();
    let slow = slow_commands(&server, || {
        runtime.block_on(async {
            for name in ["x", "y"] {
                assert!(is_no_lock(&client.inspect_key(name).await), "{name}");
                for holder in &*HOLDERS {
                    assert!(is_no_lock(&client.force_unlock_held(name, holder).await), "{name} {holder}");
                }
            }
            let (found, errors) = all(client.find("[xyz]")).await;
            assert!(found.is_empty() && errors.is_empty(), "{found:?} {errors:?}");
        });
    });
    assert!(slow.is_empty(), "{slow:?}");
    assert_eq!(reads(&server), [0; 3]);

    // A record of a job, beside which nobody holds a lock.
    let slow = slow_commands(&server, || {
        runtime.block_on(async {
            let told = [client.inspect_job("z").await, client.inspect_key("z").await];
            for told in told {
                let error = told.expect_err("it is no record");
                assert!(matches!(error, Error::Refused { kind: RefusedKind::WrongType, .. }), "{error:?}");
            }
            let forced = client.force_unlock_held("z", &HOLDERS[0]).await;
            assert!(matches!(forced, Err(Error::Refused { kind: RefusedKind::WrongType, .. })), "{forced:?}");
        });
    });
    assert!(slow.is_empty(), "{slow:?}");
    assert_eq!(reads(&server)[0], 0);
}

/// Few fields of what a lock or a job's record has, of which one is very large by itself.
const FEW: [(&str, &str); 3] = [
    ("v", "redis.call('HSET', KEYS[1], '8743c9c0-0795-4907-87fd-6c719a6b4586:1', string.rep('1', ARGV[1]))"),
    ("w", "redis.call('HSET', KEYS[1], 'a', 1, string.rep('x', ARGV[1]), 1)"),
    ("relatch_job:{z}", "redis.call('HSET', KEYS[1], 'start', 1, 'attempts', 1, 'by', string.rep('x', ARGV[1]))"),
];

#[test]
fn a_hash_of_few_fields_of_which_one_is_very_large_is_no_lock_either() {
    let (server, runtime) = (Server::own(), runtime());
    for (key, fill) in FEW {
        redis::cmd("EVAL").arg(fill).arg(1).arg(key).arg(BYTES).exec(&mut server.connection()).expect("it is taken");
    }
    let client = runtime.block_on(client(server.url()));
    server.reset_counts();
    runtime.block_on(async {
        let is_refused = |told: Result<_, Error>| {
            let Err(Error::Refused { kind: RefusedKind::WrongType, source, .. }) = told else { panic!("{told:?}") };
            let bytes = source.to_string().split(' ').find_map(|word| word.parse().ok());
            assert!(bytes.is_some_and(|bytes: u64| bytes > BYTES), "{source}");
        };
        for name in ["v", "w"] {
            is_refused(client.inspect_key(name).await);
            is_refused(client.force_unlock_held(name, &HOLDERS[0]).await.map(|_| None));
        }
        is_refused(client.inspect_job("z").await);
        let (found, errors) = all(client.find("*")).await;
        assert!(found.is_empty() && errors.is_empty(), "{found:?} {errors:?}");
        assert_eq!(reads(&server), [0; 3]);
        is_refused(client.inspect_key("z").await);
    });
}

#[test]
fn a_lock_beside_which_something_large_stands_where_its_tokens_are_counted_is_a_plain_one() {
    let (server, runtime) = (watched(), runtime());
    string(&mut server.connection(), "redisson_lock_token:{x}");
    let (client, guard) = runtime.block_on(async {
        let client = client(server.url()).await;
        let guard = client.lock("x").lock().await.expect("it is free");
        (client, guard)
    });
    let slow = slow_commands(&server, || {
        runtime.block_on(async {
            let found = one(&client, "x").await;
            assert_eq!((found.kind, found.fence, found.holders.len()), (Kind::Plain, None, 1));
            assert_eq!(names(client.find("x")).await, [("x".to_owned(), Kind::Plain)].into());
        });
    });
    assert!(slow.is_empty(), "{slow:?}");
    drop(guard);
}

#[tokio::test]
async fn a_large_key_whose_slot_is_half_moved_is_not_read_either() {
    let cluster = Deployment::of_cluster();
    let client = connected(Client::builder().url(cluster.url())).await;
    let [from, to] = [MASTERS[0], MASTERS[1]];
    let name = name_on(from);
    let fields: Vec<String> = (0..10_000).map(|at| at.to_string()).collect();
    let words: Vec<&str> = ["HSET", &name].into_iter().chain(fields.iter().map(String::as_str)).collect();
    let () = cluster.ask(from, &words);
    cluster.begin_migration(slot(&name), from, to);
    let is_refused = async || {
        let told = client.inspect_key(&name).await;
        assert!(matches!(told, Err(Error::Refused { kind: RefusedKind::WrongType, .. })), "{told:?}");
        for node in [from, to] {
            let stats: String = cluster.ask(node, &["INFO", "commandstats"]);
            assert!(!stats.contains("cmdstat_hgetall"), "{node}: {stats}");
        }
    };
    // Before it goes, when it is gone, and when all know that.
    is_refused().await;
    cluster.move_keys(slot(&name), from, to);
    is_refused().await;
    cluster.end_migration(slot(&name), from, to);
    is_refused().await;
}

#[tokio::test]
async fn a_server_that_does_not_say_what_a_key_takes_is_looked_at_all_the_same() {
    let server = Server::builder().line("rename-command MEMORY \"\"").start();
    let client = client(server.url()).await;
    let guard = client.lock("x").lock().await.expect("it is free");
    assert_eq!(one(&client, "x").await.kind, Kind::Plain);
    assert_eq!(names(client.find("x")).await, [("x".to_owned(), Kind::Plain)].into());
    drop(guard);
}

/// The application's own user, who may take locks and no more.
#[tokio::test]
async fn who_may_not_ask_for_sizes_can_look_and_end_by_name_all_the_same() {
    let required = client(Server::shared().url()).await.required_acl("*").expect("a good pattern").data;
    let server = Server::builder().tcp().line(format!("user app on >s {required}")).start();
    let app = client(server.tcp_url().replace("://", "://app:s@")).await;
    let guards = (
        app.fenced_lock("fenced").lock().await.expect("it is free"),
        app.token_lock("token").lock().await.expect("it is free"),
    );
    for (name, kind) in [("fenced", Kind::Fenced), ("token", Kind::Token)] {
        let found = one(&app, name).await;
        assert_eq!((found.kind, found.fence.is_some()), (kind, kind == Kind::Fenced));
        let ended = app.force_unlock_held(name, &found.holders[0].id).await.expect("it may be ended");
        assert_eq!(ended, ForcedRelease::Ended);
    }
    assert!(app.inspect_job("nobody").await.expect("it may be looked at").is_none());
    drop(guards);
}
