//! Who is refused when connecting and who is not, and what is said of a key that holds something else.

use std::{
    collections::VecDeque,
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::net::UnixListener,
    thread,
};

use super::*;

async fn refused(target: &Target, options: Options<'_>) -> Fault {
    let started = Instant::now();
    let fault = connect(target, options).await.map(|_| ()).unwrap_err();
    assert!(started.elapsed() < options.command_timeout + Duration::from_millis(500));
    assert!(!fault.may_have_run);
    fault
}

#[tokio::test]
async fn connecting_fails_in_bounded_time_and_says_why() {
    let folder = Server::start();
    let path = folder.url();
    let nobody = Target::parse(&format!("{path}x")).unwrap();
    assert_eq!(refused(&nobody, options(500)).await.kind, FaultKind::Dropped);

    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    let tcp = Target::parse(&format!("redis://{address}")).unwrap();
    let named = |fault: Fault| {
        assert!(fault.source.to_string().starts_with(&address.to_string()), "{fault:?}");
        fault.kind
    };
    assert_eq!(named(refused(&tcp, options(300)).await), FaultKind::Timeout);
    drop(free);
    assert_eq!(named(refused(&tcp, options(500)).await), FaultKind::Dropped);

    let _silent = UnixListener::bind(format!("{}x", path.strip_prefix("redis+unix://").unwrap())).unwrap();
    assert_eq!(refused(&nobody, options(300)).await.kind, FaultKind::Timeout);
}

#[tokio::test]
async fn connecting_tells_a_wrong_password_and_leaves_refused_scripts_to_the_first_of_them() {
    let server = Server::start();
    for rules in [
        "ACL SETUSER dave on >s3cret +@all -eval ~* &*",
        "ACL SETUSER alice on >s3cret +@all ~* &*",
        "ACL SETUSER bob on >s3cret +@all -evalsha ~* &*",
        "ACL SETUSER carol on >s3cret +@all -hello ~* &*",
    ] {
        let _: () = server.ask(&rules.split(' ').collect::<Vec<_>>());
    }
    let target = |user: &str, pass: &str| Target::parse(&format!("{}?user={user}&pass={pass}", server.url())).unwrap();
    for protocol in ["", "&protocol=resp2"] {
        let fault = refused(&target("alice", &format!("wr0ng{protocol}")), options(3000)).await;
        assert!(fault.kind == FaultKind::Credentials && fault.source.to_string().contains("WRONGPASS"), "{fault:?}");
        assert!(!format!("{fault:?} {}", fault.source).contains("wr0ng"));
        let refused = async |user| {
            let backend = connect(&target(user, &format!("s3cret{protocol}")), options(3000)).await.unwrap();
            backend.run(&CALL).await.unwrap_err()
        };
        let fault = refused("bob").await;
        assert_eq!(fault.kind, FaultKind::Permission, "{fault:?}");
        assert!(fault.source.to_string().contains("evalsha"));
        let fault = refused("dave").await;
        assert!(fault.kind == FaultKind::Permission && fault.source.to_string().contains("'eval'"), "{fault:?}");
        for user in ["alice", "carol"] {
            let target = target(user, &format!("s3cret{protocol}"));
            assert!(connect(&target, options(3000)).await.is_ok(), "{user}{protocol}");
        }
    }
    for command in ["EVALSHA", "EVAL"] {
        let server = Server::with(&["--rename-command", command, ""]);
        let backend = connect(&server.target(), options(3000)).await.unwrap();
        assert_eq!(backend.run(&CALL).await.unwrap_err().kind, FaultKind::ScriptDisabled, "{command}");
    }
    let server = Server::with(&["--rename-command", "HELLO", ""]);
    let backend = connect(&server.target(), options(3000)).await.unwrap();
    assert_eq!(backend.run(&CALL).await.unwrap(), Value::Int(1));
}

#[tokio::test]
async fn a_node_of_a_cluster_and_a_sentinel_are_refused_by_the_scheme_that_is_for_them() {
    let cluster = |more: &[&str]| {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
        let server = Server::with(&["--cluster-enabled", "yes", "--cluster-port", &port]);
        more.iter().for_each(|slots| server.ask::<()>(&["CLUSTER", "ADDSLOTSRANGE", "0", slots]));
        server
    };
    // Whether it serves the key that is asked for or not, in either protocol, and whatever we may ask.
    for server in [cluster(&[]), cluster(&["16383"])] {
        let _: () = server.ask(&["ACL", "SETUSER", "ann", "on", ">pw", "~app:*", "+@all", "-info"]);
        let target = |query: &str| Target::parse(&format!("{}?{query}", server.url())).unwrap();
        let own = Target::of_client(&redis::Client::open(server.url()).unwrap(), "redis_client");
        let ann = target("user=ann&pass=pw&protocol=resp2");
        for (target, probe_key) in [
            (server.target(), "relatch:probe"),
            (own, "relatch:probe"),
            (target("protocol=resp2"), "relatch:probe"),
            // All that is behind such a prefix is in one slot.
            (target("protocol=resp2"), "{app}:relatch:probe"),
            (ann.clone(), "app:relatch:probe"),
            (ann, "{app}:relatch:probe"),
        ] {
            let fault = refused(&target, Options { probe_key, ..options(3000) }).await;
            assert_eq!(fault.kind, FaultKind::Invalid, "{probe_key}: {fault:?}");
            assert!(fault.source.to_string().contains("redis-cluster://"), "{fault:?}");
        }
    }
    let sentinel = [
        "%1\r\n+proto\r\n:3\r\n",
        OK,
        OK,
        "-ERR unknown command 'EVALSHA'\r\n",
        "%1\r\n$4\r\nmode\r\n$8\r\nsentinel\r\n",
    ];
    let target = Target::parse(&format!("redis://{}/", answers_in_turn(&[&sentinel]))).unwrap();
    let fault = refused(&target, options(3000)).await;
    assert!(fault.kind == FaultKind::Invalid && fault.source.to_string().contains("redis-sentinel://"), "{fault:?}");
}

const OK: &str = "+OK\r\n";
const UNKNOWN: &str = "-NOSCRIPT No matching script. Please use EVAL.\r\n";

#[tokio::test]
async fn in_the_older_protocol_a_cluster_is_known_by_what_it_refuses_and_a_proxy_that_refuses_the_same_is_served() {
    const CROSSED: &str = "-CROSSSLOT Keys in request don't hash to the same slot\r\n";
    const DENIED: &str = "-NOPERM this user has no permissions to run the 'info' command\r\n";
    const MOVED: &str = "-MOVED 9156 127.0.0.1:7001\r\n";
    let info = |enabled: u8| format!("$19\r\ncluster_enabled:{enabled}\r\n\r\n");
    let greeting = |mode: &str| format!("*2\r\n$4\r\nmode\r\n${}\r\n{mode}\r\n", mode.len());
    for (key, two, further, cluster) in [
        (UNKNOWN, UNKNOWN, vec![], false),
        (MOVED, CROSSED, vec![], true),
        (UNKNOWN, CROSSED, vec![info(1)], true),
        (UNKNOWN, CROSSED, vec![info(0)], false),
        (UNKNOWN, CROSSED, vec![DENIED.to_owned(), greeting("cluster")], true),
        (UNKNOWN, CROSSED, vec![DENIED.to_owned(), greeting("standalone")], false),
        (UNKNOWN, CROSSED, vec![DENIED.to_owned(), "-ERR unknown command 'HELLO'\r\n".to_owned()], false),
        // It ends the link instead.
        (UNKNOWN, CROSSED, vec![DENIED.to_owned()], false),
        (UNKNOWN, CROSSED, vec![], false),
    ] {
        let mut answers = vec![OK, OK];
        answers.extend([UNKNOWN; 7]);
        answers.extend([key, two]);
        // What some do not know is asked over a connection of its own.
        let aside: Vec<_> = [OK, OK].into_iter().chain(further.iter().map(String::as_str)).collect();
        let at = answers_in_turn(&[&answers, &aside]);
        let target = Target::parse(&format!("redis://{at}/?protocol=resp2")).unwrap();
        let answer = connect(&target, options(3000)).await.map(drop);
        match answer {
            Err(fault) if cluster => assert!(fault.source.to_string().contains("redis-cluster://"), "{fault:?}"),
            answer => assert!(answer.is_ok() && !cluster, "{key} {two} {further:?}: {answer:?}"),
        }
    }
}

/// Answers come in the order of their commands: what is behind one that a replica refused is refused as well.
#[tokio::test]
async fn whatever_is_under_way_when_a_replica_refuses_hears_the_same_and_may_have_run() {
    const READONLY: &str = "-READONLY You can't write against a read only replica.\r\n";
    let mut answers = vec![OK, OK];
    answers.extend([UNKNOWN; 9]);
    answers.push(READONLY);
    let at = answers_in_turn(&[&answers, &[OK, OK, "-NOPERM no\r\n"]]);
    let target = Target::parse(&format!("redis://{at}/?protocol=resp2")).unwrap();
    let backend = connect(&target, options(3000)).await.unwrap();
    let (mut refused, mut behind) = (backend.run(&CALL), backend.run(&CALL));
    assert!(poll(&mut refused).is_pending() && poll(&mut behind).is_pending());
    let faults = [refused.await, behind.await].map(Result::unwrap_err);
    let kinds = faults.each_ref().map(|fault| (fault.kind, fault.may_have_run));
    assert_eq!(kinds, [(FaultKind::ReadOnly, false), (FaultKind::ReadOnly, true)], "{faults:?}");
    assert!(faults.iter().all(|fault| fault.source.to_string().starts_with("READONLY ")), "{faults:?}");
    // Whoever comes later finds no link.
    let fault = backend.run(&CALL).await.unwrap_err();
    assert!(!fault.may_have_run && fault.heals(), "{fault:?}");
}

/// Somebody who gives each command the next of these answers, which every connection has its own of; where that is.
fn answers_in_turn(connections: &[&[&str]]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let owned = |answers: &&[&str]| answers.iter().map(|it| (*it).to_owned()).collect();
    let connections: Vec<VecDeque<String>> = connections.iter().map(owned).collect();
    thread::spawn(move || {
        for answers in connections {
            let stream = listener.accept().unwrap().0;
            thread::spawn(move || answer_in_turn(stream, answers));
        }
    });
    address
}

fn answer_in_turn(mut stream: TcpStream, mut answers: VecDeque<String>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    while let Some(answer) = answers.pop_front() {
        let Some(count) = lines.find_map(|line| line.strip_prefix('*')?.parse::<usize>().ok()) else { return };
        lines.nth(2 * count - 1);
        stream.write_all(answer.as_bytes()).unwrap();
    }
    // Until the other side goes.
    lines.next();
}

#[tokio::test]
async fn who_finds_something_else_at_the_key_is_told_what_it_is() {
    let server = Server::start();
    let _: () = server.ask(&["ACL", "SETUSER", "ann", "on", ">pw", "~*", "&*", "+@all", "-type"]);
    let _: i64 = server.ask(&["RPUSH", "list", "x"]);
    let _: i64 = server.ask(&["HSET", "hash", "x", "y"]);
    let _: () = server.ask(&["SET", "text", "x"]);
    let backend = connect(&server.target(), options(3000)).await.unwrap();
    let less = Target::parse(&format!("{}?user=ann&pass=pw", server.url())).unwrap();
    let less = connect(&less, options(3000)).await.unwrap();
    static READ: Script = Script {
        path: "test/read",
        source: "return redis.call('GET', KEYS[1])",
        words: &[],
        keys: &["key"],
        args: &[],
        answer: "1",
    };
    static WRITE: Script = Script {
        path: "test/write",
        source: "return redis.call('HSET', KEYS[1], 'f', 'v')",
        words: &[],
        keys: &["key"],
        args: &[],
        answer: "1",
    };
    let rows = [
        (&READ, "list", "WRONGTYPE, the key holds a list"),
        (&READ, "hash", "WRONGTYPE, the key holds a hash"),
        (&WRITE, "text", "WRONGTYPE, the key holds a string, as a lock of another library is"),
    ];
    for (script, key, shown) in rows {
        for _ in ["by source", "by hash"] {
            let call = Call { script, keys: &[key], args: &[], dispatch: None, polled: Polled::ByCaller };
            let fault = backend.run(&call).await.unwrap_err();
            assert_eq!((fault.kind, fault.may_have_run), (FaultKind::WrongType, true));
            let words = fault.source.to_string();
            assert_eq!(words, shown);
            // Whoever may not ask hears what the server says of the key.
            let words = less.run(&call).await.unwrap_err().source.to_string();
            assert_eq!(words, "WRONGTYPE Operation against a key holding the wrong kind of value");
        }
    }
}
