//! The processes of a storm, each with a proxy of its own before the server, and their folder. What happens to them is
//! `chaos.rs`.

use std::{fs, path::PathBuf, time::Duration};

use super::{
    record::{Counter, Section, read_line},
    verdict::Run,
    worker,
};
use crate::harness::{Server, process::Process, proxy::Proxy, unique_name};

/// Whoever is asked to rest is at the end of its last section within this: a wait, a section, and a lease's end.
const RESTED: Duration = Duration::from_secs(30);

pub(crate) struct Fleet {
    folder: PathBuf,
    names: Vec<String>,
    seed: u64,
    honesty: &'static str,
    members: Vec<Member>,
}

struct Member {
    proxy: Proxy,
    process: Process,
    incarnation: u32,
}

/// What a process at rest has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Weight {
    pub(crate) incarnation: u32,
    pub(crate) tasks: u64,
    pub(crate) descriptors: u64,
    pub(crate) kilobytes: u64,
}

impl Fleet {
    pub(crate) fn new(server: &Server, processes: usize, names: usize, seed: u64, honesty: &'static str) -> Self {
        let folder = std::env::temp_dir().join(format!("relatch-storm-{}", unique_name()));
        fs::create_dir(&folder).expect("a folder can be made");
        let names = (0..names).map(|_| unique_name()).collect();
        let mut fleet = Self { folder, names, seed, honesty, members: Vec::new() };
        for number in 0..processes {
            let proxy = Proxy::to(server);
            let process = fleet.spawn(&proxy, number, 0);
            fleet.members.push(Member { proxy, process, incarnation: 0 });
        }
        fleet
    }

    fn spawn(&self, proxy: &Proxy, process: usize, incarnation: u32) -> Process {
        let folder = self.folder.to_str().expect("the folder's path is text").to_owned();
        let numbers = [process.to_string(), incarnation.to_string(), self.seed.to_string()];
        let mut args = vec![folder, proxy.url()];
        args.extend(numbers);
        args.push(self.honesty.to_owned());
        args.extend(self.names.iter().cloned());
        let mut process = Process::spawn("storm", &args.iter().map(String::as_str).collect::<Vec<_>>());
        process.say("work");
        process
    }

    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    pub(crate) fn proxy(&self, process: usize) -> &Proxy {
        &self.members[process].proxy
    }

    pub(crate) fn process(&mut self, process: usize) -> &mut Process {
        &mut self.members[process].process
    }

    /// Kills a process, and starts its next incarnation. Who was killed.
    pub(crate) fn replace(&mut self, process: usize) -> (u32, u32) {
        let incarnation = self.members[process].incarnation;
        self.members[process].process.kill();
        let next = self.spawn(&self.members[process].proxy, process, incarnation + 1);
        let member = &mut self.members[process];
        (member.process, member.incarnation) = (next, incarnation + 1);
        (u32::try_from(process).expect("few processes"), incarnation)
    }

    /// Everybody comes to the end of the section it is in, and begins no other.
    pub(crate) fn rest(&mut self) {
        self.members.iter_mut().for_each(|member| member.process.say("rest"));
        for (number, member) in self.members.iter().enumerate() {
            let said = member.process.hear_within(RESTED);
            assert_eq!(said.as_deref(), Some("rests"), "process {number} does not come to rest: a waiter hangs");
        }
    }

    pub(crate) fn work(&mut self) {
        self.members.iter_mut().for_each(|member| member.process.say("work"));
    }

    /// What everybody has, once it is as little as it gets.
    pub(crate) fn weigh(&mut self) -> Vec<Weight> {
        self.members.iter_mut().for_each(|member| member.process.say("weigh"));
        let weight = |member: &Member| {
            let line = member.process.hear();
            let mut numbers = line.split(' ').map(|word| word.parse::<u64>().expect("a number"));
            let mut next = || numbers.next().expect("three numbers");
            Weight { incarnation: member.incarnation, tasks: next(), descriptors: next(), kilobytes: next() }
        };
        self.members.iter().map(weight).collect()
    }

    /// Everybody goes, and must go well.
    pub(crate) fn end(&mut self) {
        self.members.iter_mut().for_each(|member| member.process.say("end"));
        for (number, member) in self.members.iter_mut().enumerate() {
            assert!(member.process.ended_well(), "process {number} did not end well");
        }
    }

    /// Everything that was written down, and the counters.
    pub(crate) fn records(&self) -> (Run, Vec<Vec<Section>>) {
        let mut run = Run::default();
        for (process, member) in (0..).zip(&self.members) {
            for incarnation in 0..=member.incarnation {
                let text = fs::read_to_string(worker::record(&self.folder, process, incarnation)).unwrap_or_default();
                for (number, fact) in text.lines().filter_map(read_line) {
                    run.take(Section { process, incarnation, number }, &fact);
                }
            }
        }
        let counters = (0..self.names.len()).map(|name| Counter::of(&self.folder, name).entries()).collect();
        (run, counters)
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.members.clear();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
