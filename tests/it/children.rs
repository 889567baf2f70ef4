//! Programs that a holder starts: they inherit nothing of its client, and keep no lock alive when it is gone. And what
//! the client itself starts: tasks, and no thread.

use std::{
    process::{self, Stdio},
    time::Duration,
};

use relatch::Client;
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    runtime::{Builder, Runtime},
    time::timeout,
};

use crate::{
    harness::{
        Server,
        clock::monotonic,
        eventually,
        lag::Lag,
        process::{Parent, Process},
        unique_name, usage,
    },
    kept::{channel, client, connected, held, kept},
};

const SOON: Duration = Duration::from_secs(10);
const WATCHDOG: Duration = Duration::from_millis(600);
/// How late a busy machine may see the end of a lease.
const AWAKE: Duration = Duration::from_millis(150);

/// Takes a lock, waits for another one, starts a program in each of two ways, and says what became of its descriptors.
pub(crate) fn start_programs(parent: &mut Parent, args: &[String]) {
    let [url, name, busy] = args else { panic!("three arguments") };
    // Whoever started the tests may have left some open.
    let given: Vec<String> = usage::descriptors(process::id()).iter().map(shown).collect();
    Runtime::new().expect("a runtime starts").block_on(async {
        let client = connected(Client::builder().url(url).watchdog_timeout(WATCHDOG)).await;
        let _guard = client.lock(name).lock().await.expect("it is free");
        let _waiting = tokio::spawn(client.lock(busy).lock());
        parent.say("held");
        // The other lock is waited for: every link there is is open.
        parent.hear();
        let ours = usage::descriptors(process::id());
        let sockets = ours.iter().filter(|(_, is)| is.starts_with("socket:")).count();
        let open = ours.iter().filter(|(number, _)| !usage::closes_on_exec(*number)).map(shown);
        let open: Vec<String> = open.filter(|it| !given.contains(it)).collect();
        parent.say(&format!("{sockets} sockets, kept open: {}", open.join(" ")));
        parent.say(&given.join(" "));
        let quiet = || [Stdio::null(), Stdio::null(), Stdio::null()];
        let [stdin, stdout, stderr] = quiet();
        let program = process::Command::new("sleep").arg("60").stdin(stdin).stdout(stdout).stderr(stderr).spawn();
        let [stdin, stdout, stderr] = quiet();
        let other = tokio::process::Command::new("sleep").arg("60").stdin(stdin).stdout(stdout).stderr(stderr).spawn();
        let other = other.expect("a program starts");
        for pid in [program.expect("a program starts").id(), other.id().expect("it runs")] {
            parent.say(&pid.to_string());
        }
        parent.hear();
    });
}

fn shown((number, is): &(u32, String)) -> String {
    format!("{number}={is}")
}

/// A program that nobody else would end.
struct Program(Pid);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::KILL);
    }
}

impl Program {
    fn runs(&self) -> bool {
        // Ended and not collected counts as ended.
        std::fs::read_to_string(format!("/proc/{}/stat", self.0.as_raw_nonzero()))
            .is_ok_and(|stat| stat.rsplit(')').next().is_some_and(|rest| !rest.trim_start().starts_with('Z')))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn programs_of_a_killed_holder_have_none_of_its_links_and_keep_no_lock() {
    let server = Server::builder().tcp().start();
    for url in [server.url(), server.tcp_url()] {
        let (name, busy) = (unique_name(), unique_name());
        let client = client(server.url()).await;
        let other = client.lock(&busy).lock().await.expect("it is free");
        let mut holder = Process::spawn("start_programs", &[&url, &name, &busy]);
        assert_eq!(holder.hear(), "held");
        eventually(SOON, || server.listeners(&channel(&busy)) == 1);
        holder.say("look");
        let said = holder.hear();
        let (sockets, open) = said.split_once(" sockets, kept open: ").expect("what it found");
        assert!(sockets.parse::<u32>().expect("a number") >= 2, "commands and subscriptions: {sockets}");
        assert_eq!(open, "");
        let given = holder.hear();
        let pids: [u32; 2] = std::array::from_fn(|_| holder.hear().parse().expect("a pid"));
        let pid = |pid: u32| Pid::from_raw(pid.try_into().expect("a pid")).expect("a pid");
        let programs = pids.map(|number| Program(pid(number)));
        for number in pids {
            // While it starts it opens its libraries.
            eventually(SOON, || {
                let has = usage::descriptors(number);
                let is_given = |it: &String| given.split(' ').any(|given| given == it);
                has.len() >= 3 && has.iter().filter(|(number, _)| *number > 2).map(shown).all(|it| is_given(&it))
            });
        }
        assert!(!held(&server, &name).is_of(&client));
        holder.kill();
        let (lag, killed) = (Lag::watch(), monotonic());
        let guard = timeout(SOON, client.lock(&name).lock()).await.expect("the lease ends").expect("it answers");
        let (took, bound) = (monotonic() - killed, lag.added_to(WATCHDOG + AWAKE));
        assert!(took <= bound, "{took:?} of {bound:?}");
        assert!(programs.iter().all(Program::runs), "they live on");
        assert_eq!(server.listeners(&channel(&busy)), 0, "nobody keeps its link open");
        guard.unlock().await.expect("it is held");
        other.unlock().await.expect("it is held");
        assert_eq!(kept(&server, &name), None);
    }
}

/// Leads a whole life of a client on one thread, and says how many threads there were.
pub(crate) fn live_on_one_thread(parent: &mut Parent, args: &[String]) {
    let [url, name, busy] = args else { panic!("three arguments") };
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime starts");
    let before = usage::threads();
    runtime.block_on(async {
        let client = connected(Client::builder().url(url).watchdog_timeout(Duration::from_secs(1))).await;
        let guard = client.lock(name).lock().await.expect("it is free");
        let wait = Duration::from_millis(1_500);
        assert!(client.lock(busy).try_lock().wait(wait).await.expect("the server answers").is_none());
        assert!(guard.is_held(), "it was renewed");
        let during = usage::threads();
        guard.unlock().await.expect("it is held");
        client.close().await;
        parent.say(&format!("{before} {during} {}", usage::threads()));
    });
}

/// What a fork without a new program would leave behind is a thread; there is none but the runtime's. The copy
/// of a client in such a child cannot be made to work, and the README says so; no test can fork without unsafe code.
#[tokio::test]
async fn a_client_starts_no_thread() {
    let server = Server::builder().tcp().start();
    let busy = unique_name();
    let _guard = client(server.url()).await.lock(&busy).lock().await.expect("it is free");
    for url in [server.url(), server.tcp_url()] {
        let mut process = Process::spawn("live_on_one_thread", &[&url, &unique_name(), &busy]);
        let said = process.hear();
        let counts: Vec<&str> = said.split(' ').collect();
        assert!(counts.len() == 3 && counts.iter().all(|count| *count == counts[0]), "{said}");
        assert!(process.ended_well());
    }
}
