//! Two processes of each language on one lock for half a minute: what each section wrote down holds together.
//!
//! In a folder of the test are `counter`, eight bytes that each section reads when it begins and writes one higher when it
//! ends, and a log of each worker with a line for each section: when it was asked for, began and ended, by the machine's
//! monotonic clock, which Java reads too. A worker's section and its pause afterwards are of random length.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    os::unix::fs::FileExt,
    path::Path,
    time::Duration,
};

use relatch::ReentrantLock;
use tokio::{runtime::Builder, task::JoinSet, time::sleep};

use super::{SOON, site::Site};
use crate::{
    harness::{
        clock::monotonic,
        process::{Parent, Process},
        random::Random,
        unique_name,
    },
    kept::client,
};

live!(
    NoneForLong:
    a_crowd_of_both_languages_counts_exactly_and_nobody_starves;
);

clustered!(
    sharded, NoneForLong:
    a_crowd_of_both_languages_counts_exactly_and_nobody_starves;
);

const LASTS: Duration = Duration::from_secs(30);
/// Two in each of two processes, of each language.
const WORKERS: [[&str; 2]; 2] = [["0", "1"], ["2", "3"]];
/// The longest section, and the longest pause after it, in microseconds. Together the eight want about one and a half
/// times what there is, so that somebody waits all the time and nobody is idle.
const SECTION: u64 = 2_000;
const PAUSE: u64 = 10_000;
/// The least part of all sections that a language has, and the least part of an eighth of them that a worker has.
const SHARE: f64 = 0.2;

/// One section: when it was asked for, began and ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    asked: Duration,
    began: Duration,
    ended: Duration,
}

/// Takes part as two tasks. Its arguments: where to connect, the name, the folder, until when, and who the two are.
pub(crate) fn work_in_a_crowd(parent: &mut Parent, args: &[String]) {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime starts");
    runtime.block_on(async {
        let client = client(&args[0]).await;
        let until = Duration::from_nanos(args[3].parse().expect("a number"));
        let mut tasks = JoinSet::new();
        for worker in &args[4..] {
            let (lock, folder, log) = (client.lock(&args[1]), args[2].clone(), format!("rust-{worker}"));
            let random = Random::new(until.as_nanos() as u64, &[worker.parse().expect("a number")]);
            tasks.spawn(async move {
                sections(lock, Path::new(&folder), &log, until, [SECTION, PAUSE], random).await;
            });
        }
        parent.say("at work");
        tasks.join_all().await;
        client.close().await;
    });
    parent.say("done");
}

/// Sections of this lock until then, `longest` of each and of the pause after it, in microseconds.
pub(super) async fn sections(
    lock: ReentrantLock,
    folder: &Path,
    log: &str,
    until: Duration,
    longest: [u64; 2],
    mut random: Random,
) {
    let mut log = fs::File::create(folder.join(log)).expect("a log opens");
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(folder.join("counter"));
    let counter = file.expect("the counter opens");
    let [section, pause] = longest;
    while monotonic() < until {
        let asked = monotonic();
        let guard = lock.lock().await.expect("the server answers");
        let began = monotonic();
        let mut number = [0; 8];
        let _ = counter.read_at(&mut number, 0).expect("the counter is read");
        sleep(Duration::from_micros(random.next() % (section + 1))).await;
        let next = u64::from_be_bytes(number) + 1;
        counter.write_all_at(&next.to_be_bytes(), 0).expect("the counter is written");
        let ended = monotonic();
        guard.unlock().await.expect("it is held");
        writeln!(log, "{} {} {}", asked.as_nanos(), began.as_nanos(), ended.as_nanos()).expect("the log is written");
        sleep(Duration::from_micros(random.next() % (pause + 1))).await;
    }
}

pub(super) fn spans(log: &Path) -> Vec<Span> {
    let text = fs::read_to_string(log).expect("a worker has a log");
    let span = |line: &str| {
        let times: Vec<u64> = line.split(' ').map(|word| word.parse().expect("a number")).collect();
        let [asked, began, ended] = times[..] else { panic!("no section: {line}") };
        let [asked, began, ended] = [asked, began, ended].map(Duration::from_nanos);
        Span { asked, began, ended }
    };
    text.lines().map(span).collect()
}

/// What was wrong with the sections of all, in the order in which they began.
pub(super) fn overlaps(mut all: Vec<Span>) -> Vec<(Span, Span)> {
    all.sort_by_key(|span| span.began);
    all.windows(2).filter(|two| two[0].ended > two[1].began).map(|two| (two[0], two[1])).collect()
}

async fn a_crowd_of_both_languages_counts_exactly_and_nobody_starves(site: &Site) {
    let name = unique_name();
    let folder = site.server().socket().with_file_name("crowd");
    fs::create_dir(&folder).expect("a folder is made");
    let folder_text = folder.to_str().expect("a path of ours is text");
    let javas = [site.java().await, site.java().await];
    let until = (monotonic() + LASTS).as_nanos().to_string();
    let mut rusts = Vec::new();
    let mut asked = Vec::new();
    for ([one, other], java) in WORKERS.iter().zip(&javas) {
        let process = Process::spawn("work_in_a_crowd", &[&site.url(), &name, folder_text, &until, one, other]);
        assert_eq!(process.hear(), "at work");
        rusts.push(process);
        for worker in [one, other] {
            let (log, section, pause) = (format!("java-{worker}"), SECTION.to_string(), PAUSE.to_string());
            asked.push(java.tell(worker, "sections", &["plain", &name, folder_text, &log, &until, &section, &pause]));
        }
    }
    for answer in asked {
        assert!(answer.within(LASTS + SOON).await.number() > 0);
    }
    for rust in &mut rusts {
        assert_eq!(rust.hear(), "done");
    }

    let mut all = Vec::new();
    let mut shares = Vec::new();
    for language in ["java", "rust"] {
        for worker in WORKERS.as_flattened() {
            let spans = spans(&folder.join(format!("{language}-{worker}")));
            let longest = spans.iter().map(|span| span.began - span.asked).max();
            println!("{language} {worker}: {} sections, waited {longest:?} at most", spans.len());
            shares.push((language, spans.len()));
            all.extend(spans);
        }
    }
    let counter = fs::read(folder.join("counter")).expect("the counter is read");
    assert_eq!(u64::from_be_bytes(counter.try_into().expect("eight bytes")), all.len() as u64);
    let share_of = |of: &str| {
        let sections =
            shares.iter().filter(|(language, _)| *language == of).map(|(_, sections)| sections).sum::<usize>();
        sections as f64 / all.len() as f64
    };
    let (java, rust) = (share_of("java"), share_of("rust"));
    println!("{} sections, of which java {java:.2}, rust {rust:.2}", all.len());
    assert!(java >= SHARE && rust >= SHARE, "{shares:?}");
    let workers = shares.len() as f64;
    assert!(shares.iter().all(|(_, sections)| *sections as f64 >= SHARE / workers * all.len() as f64), "{shares:?}");
    let overlaps = overlaps(all);
    assert!(overlaps.is_empty(), "{} overlaps, the first: {:?}", overlaps.len(), overlaps[0]);
}

#[test]
fn two_sections_at_a_time_are_found() {
    let span = |began, ended| {
        let [asked, began, ended] = [began, began, ended].map(Duration::from_micros);
        Span { asked, began, ended }
    };
    assert_eq!(overlaps(vec![span(30, 40), span(10, 20), span(20, 30)]).len(), 0);
    assert_eq!(overlaps(vec![span(30, 40), span(10, 20), span(19, 30)]).len(), 1);
}
