//! One step of a world of votes: which can be next, how it happens, and in words.

use std::fmt::{self, Display, Formatter, Write as _};

use crate::ballot::Word;

use super::{
    super::search::{Worlds, step},
    client::Stage,
    config::Config,
    master::{Answer, Verb},
    world::{MASTERS, World},
};

/// What happens. The first number is a client, the second a master, unless it is said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Ask(u8),
    Renew(u8),
    End(u8),
    GiveUp(u8),
    /// The first request of a link runs; the first answer is heard.
    Run(u8, u8),
    Hear(u8, u8),
    /// The third number is which of the copies.
    RunStray(u8, u8, u8),
    Repeat(u8, u8),
    Reap(u8, u8),
    Cut(u8, u8),
    /// A master.
    Restart(u8),
    Tick,
}

impl Display for Step {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = |client: u8| char::from(b'A' + client);
        match *self {
            Self::Ask(client) => write!(f, "{} asks all masters", name(client)),
            Self::Renew(client) => write!(f, "{} renews at all masters", name(client)),
            Self::End(client) => write!(f, "{} lets go", name(client)),
            Self::GiveUp(client) => write!(f, "{} waits no longer", name(client)),
            Self::Run(client, master) => write!(f, "master {master} runs what {} sent", name(client)),
            Self::Hear(client, master) => write!(f, "{} hears master {master}", name(client)),
            Self::RunStray(client, master, _) => write!(f, "master {master} runs an old copy of {}", name(client)),
            Self::Repeat(client, master) => write!(f, "{} repeats its release at master {master}", name(client)),
            Self::Reap(client, master) => write!(f, "{} releases an old number at master {master}", name(client)),
            Self::Cut(client, master) => write!(f, "the link of {} to master {master} is replaced", name(client)),
            Self::Restart(master) => write!(f, "master {master} starts again without its data"),
            Self::Tick => f.write_str("a tick passes"),
        }
    }
}

impl World {
    pub(super) fn choices(&self, config: &Config, out: &mut Vec<Step>) {
        for (at, client) in self.clients.iter().enumerate() {
            let which = at as u8;
            match client.stage {
                Stage::Idle if client.left > 0 => out.push(Step::Ask(which)),
                Stage::Holds { renewal, .. } => {
                    out.push(Step::End(which));
                    if renewal.is_none() && self.left.renewals > 0 {
                        out.push(Step::Renew(which));
                    }
                }
                Stage::Idle | Stage::Asks { .. } => {}
            }
            if self.left.impatience > 0 && self.waits(at) {
                out.push(Step::GiveUp(which));
            }
            (0..MASTERS).for_each(|master| self.link_chooses(at, master, out));
        }
        for (at, master) in self.masters.iter().enumerate() {
            if self.left.restarts > 0 && master.key.is_some() {
                out.push(Step::Restart(at as u8));
            }
        }
        if self.left.ticks > 0 && config.lease > 0 {
            out.push(Step::Tick);
        }
    }

    fn link_chooses(&self, client: usize, master: usize, out: &mut Vec<Step>) {
        let it = &self.clients[client];
        let held = it.number.filter(|_| it.stage != Stage::Idle);
        let (link, client, master) = (&self.masters[master].links[client], client as u8, master as u8);
        if !link.requests.is_empty() {
            out.push(Step::Run(client, master));
        }
        if !link.answers.is_empty() {
            out.push(Step::Hear(client, master));
        }
        if !link.owed.is_empty() {
            out.push(Step::Repeat(client, master));
        }
        if link.may_reap(held) {
            out.push(Step::Reap(client, master));
        }
        out.extend((0..link.strays.len()).map(|stray| Step::RunStray(client, master, stray as u8)));
        if self.left.cuts > 0 && !(link.requests.is_empty() && link.answers.is_empty()) {
            out.push(Step::Cut(client, master));
        }
    }

    pub(super) fn make(&mut self, step: Step, config: &Config) {
        match step {
            Step::Ask(client) => self.ask(client.into(), config),
            Step::Renew(client) => self.renew(client.into(), config),
            Step::End(client) => self.end(client.into()),
            Step::GiveUp(client) => self.give_up(client.into(), config),
            Step::Run(client, master) => self.run_next(client.into(), master.into(), config),
            Step::Hear(client, master) => {
                let answer = self.masters[usize::from(master)].links[usize::from(client)].answers.pop_front();
                answer.into_iter().for_each(|answer| self.hear(client.into(), master.into(), answer, config));
            }
            Step::RunStray(client, master, stray) => {
                let master = &mut self.masters[usize::from(master)];
                let request = master.links[usize::from(client)].strays.remove(stray.into());
                master.run(request, config.lease);
            }
            Step::Repeat(client, master) => {
                self.masters[usize::from(master)].links[usize::from(client)].repeat_owed();
            }
            Step::Reap(client, master) => self.masters[usize::from(master)].links[usize::from(client)].reap(),
            Step::Cut(client, master) => {
                self.left.cuts -= 1;
                if self.masters[usize::from(master)].links[usize::from(client)].lose(config) {
                    self.decide(client.into(), config);
                }
            }
            Step::Restart(master) => self.restart(master.into(), config),
            Step::Tick => {
                self.left.ticks -= 1;
                self.masters.iter_mut().for_each(|master| master.tick(config.quarantine));
                (0..self.clients.len()).for_each(|at| self.client_ticks(at));
            }
        }
    }

    fn run_next(&mut self, client: usize, at: usize, config: &Config) {
        let master = &mut self.masters[at];
        let Some(to) = master.links[client].requests.pop_front() else { return };
        let answer = Answer { to, word: master.run(to, config.lease) };
        if to.verb == Verb::Release || !self.hears(client, at, answer) {
            return;
        }
        if config.at_once {
            self.hear(client, at, answer, config);
        } else {
            self.masters[at].links[client].answers.push_back(answer);
        }
    }

    /// What was on its way to it is gone with it.
    fn restart(&mut self, at: usize, config: &Config) {
        self.left.restarts -= 1;
        (self.masters[at].key, self.masters[at].remembers) = (None, 0);
        for client in 0..self.clients.len() {
            let link = &mut self.masters[at].links[client];
            let waited = link.lose(config);
            link.strays.clear();
            if waited {
                self.decide(client, config);
            }
        }
    }
}

/// What happens, step by step, and what each comes to.
pub(crate) fn story(config: &Config, steps: &[Step]) -> String {
    let (mut told, mut world) = (String::new(), config.first());
    for (at, next) in steps.iter().enumerate() {
        let _ = writeln!(told, "{:>3}. {next}", at + 1);
        match step(config, &world, *next, &mut ()) {
            Ok(after) => world = after,
            Err(promise) => return told + promise.broken() + "\n",
        }
        let _ = writeln!(told, "       {}", in_words(&world));
    }
    told + config.breaks(&world, &()).map_or("nothing is broken", |promise| promise.broken()) + "\n"
}

fn in_words(world: &World) -> String {
    let keys = world.masters.iter().map(|master| match master.key {
        Some(key) => format!("{} for {}", key.number, key.ttl),
        None => "free".to_owned(),
    });
    let clients = world.clients.iter().enumerate().map(|(at, client)| {
        let said: Vec<Word> = world.masters.iter().filter_map(|master| master.links[at].said).collect();
        format!("{} {:?} {:?} {said:?}", char::from(b'A' + at as u8), client.number, client.stage)
    });
    format!("keys: {}; {}", keys.collect::<Vec<_>>().join(", "), clients.collect::<Vec<_>>().join("; "))
}
