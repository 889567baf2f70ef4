//! `tests/with-redis.sh` as its users meet it: a server of one's own, the command's status, and nothing left behind.

use std::{
    env, fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{eventually, unique_name};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/with-redis.sh");

/// How long the script's server may take to come or to go.
const SOON: Duration = Duration::from_secs(20);

/// The script around a command of the shell.
fn with_redis(command: &str) -> Command {
    // Whoever started the tests in the background may have made them ignore an interruption, and a shell cannot trap that.
    let mut script = Command::new("env");
    script
        .args(["--default-signal=INT", SCRIPT, "sh", "-c", command])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    script
}

/// The script while its command waits for a signal, and the server's address.
fn waiting() -> (Child, String) {
    // It ends with the script, also where that is killed and can tell nobody.
    let command = "trap 'echo told; exit 9' TERM INT; echo $REDIS_URL; while kill -0 $PPID; do sleep 0.05; done";
    let mut script = with_redis(command).spawn().expect("the script starts");
    let mut url = String::new();
    let mut stdout = BufReader::with_capacity(1, script.stdout.as_mut().expect("the output is piped"));
    stdout.read_line(&mut url).expect("the command says where its server is");
    let address = url.trim().trim_start_matches("redis://").trim_end_matches('/').to_owned();
    assert!(pings(&address), "the server at {address} does not answer");
    (script, address)
}

fn pings(address: &str) -> bool {
    let Ok(mut stream) = TcpStream::connect(address) else {
        return false;
    };
    let mut answer = [0; 7];
    stream.write_all(b"PING\r\n").is_ok() && stream.read_exact(&mut answer).is_ok() && &answer == b"+PONG\r\n"
}

fn signal(script: &Child, signal: Signal) {
    kill_process(Pid::from_child(script), signal).expect("the script takes the signal");
}

#[test]
fn a_command_keeps_its_status_and_its_input() {
    let mut script = with_redis("cat; exit 7").spawn().expect("the script starts");
    script.stdin.take().expect("the input is piped").write_all(b"passed on").expect("the command reads");
    let done = script.wait_with_output().expect("the script ends");
    assert_eq!((done.status.code(), done.stdout.as_slice()), (Some(7), b"passed on".as_slice()));
}

#[test]
fn a_temporary_folder_with_a_long_name_will_do() {
    let long = env::temp_dir().join(format!("{}{}", unique_name(), "-long".repeat(24)));
    fs::create_dir(&long).expect("a folder is made");
    let said = with_redis("redis-cli -u $REDIS_URL ping").env("TMPDIR", &long).output().expect("the script ends");
    let left = fs::read_dir(&long).expect("the folder is there").count();
    fs::remove_dir(&long).expect("nothing is left in the folder");
    assert_eq!((said.stdout.as_slice(), left), (b"PONG\n".as_slice(), 0));
}

#[test]
fn two_scripts_have_two_servers_and_each_is_gone_with_its_script() {
    let (mut one, mut two) = (waiting(), waiting());
    assert_ne!(one.1, two.1);
    for (script, address) in [&mut one, &mut two] {
        signal(script, Signal::TERM);
        script.wait().expect("the script ends");
        assert!(!pings(address));
    }
}

#[test]
fn a_signal_reaches_the_command_and_its_own_status_is_kept() {
    for sent in [Signal::TERM, Signal::INT] {
        let (mut script, address) = waiting();
        signal(&script, sent);
        let mut rest = String::new();
        script.stdout.take().expect("the output is piped").read_to_string(&mut rest).expect("the command ends");
        assert_eq!((script.wait().ok().and_then(|status| status.code()), rest.trim()), (Some(9), "told"));
        assert!(!pings(&address));
    }
}

#[test]
fn the_server_of_a_killed_script_is_gone_too() {
    let (mut script, address) = waiting();
    script.kill().and_then(|()| script.wait()).expect("the script is killed");
    eventually(SOON, || !pings(&address));
}
