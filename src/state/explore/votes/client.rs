//! Who asks, holds and renews: what the library does about what a ballot decides.

use crate::ballot::{self, Fresh, Settled, Word};

use super::{
    super::server::TICK,
    config::{Config, Rule},
    master::{Answer, Verb},
    world::{MASTERS, World},
};

/// So many numbers a client may draw.
const NUMBERS: u8 = 16;

/// How far a client has come. Deadlines are ticks that are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    Idle,
    Asks {
        deadline: u8,
    },
    Holds {
        deadline: u8,
        /// What the deadline is to be once the renewal under way is won.
        renewal: Option<u8>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    /// So often it will ask.
    pub(crate) left: u8,
    pub(crate) drawn: u8,
    /// The last one.
    pub(crate) number: Option<u8>,
    pub(crate) questions: u8,
    pub(crate) stage: Stage,
}

impl Client {
    pub(crate) fn believes(&self) -> bool {
        matches!(self.stage, Stage::Holds { .. })
    }
}

impl World {
    /// What all masters said to the question under way.
    fn words(&self, client: usize) -> [Word; MASTERS] {
        std::array::from_fn(|at| self.masters[at].links[client].said.unwrap_or(Word::Open))
    }

    pub(crate) fn waits(&self, client: usize) -> bool {
        self.masters.iter().any(|master| master.links[client].said == Some(Word::Open))
    }

    /// All masters are asked at once.
    fn put(&mut self, client: usize, verb: Verb, number: u8) {
        self.clients[client].questions += 1;
        let question = self.clients[client].questions;
        for master in &mut self.masters {
            let link = &mut master.links[client];
            if verb == Verb::Acquire {
                link.repeat_owed();
                link.absent = false;
            }
            link.send(verb, number, question);
            link.said = Some(Word::Open);
        }
    }

    pub(crate) fn ask(&mut self, at: usize, config: &Config) {
        let client = &mut self.clients[at];
        let drawn = at as u8 * NUMBERS + client.drawn;
        let number = client.number.filter(|_| !config.has(Rule::FreshNumbers)).unwrap_or(drawn);
        client.left -= 1;
        client.drawn += 1;
        (client.number, client.stage) = (Some(number), Stage::Asks { deadline: config.lease });
        self.put(at, Verb::Acquire, number);
    }

    pub(crate) fn renew(&mut self, at: usize, config: &Config) {
        self.left.renewals -= 1;
        let client = &mut self.clients[at];
        if let (Stage::Holds { renewal, .. }, Some(number)) = (&mut client.stage, client.number) {
            *renewal = Some(config.lease);
            self.put(at, Verb::Renew, number);
        }
    }

    pub(crate) fn hear(&mut self, at: usize, master: usize, answer: Answer, config: &Config) {
        if !self.hears(at, master, answer) {
            return;
        }
        let link = &mut self.masters[master].links[at];
        link.said = Some(answer.word);
        let is_mended = !config.has(Rule::MendingCountsLater) && answer.to.verb == Verb::Renew;
        if is_mended && answer.word == Word::Gone {
            link.send(Verb::Acquire, answer.to.number, answer.to.question);
            link.said = Some(Word::Open);
        }
        let asks = matches!(self.clients[at].stage, Stage::Asks { .. });
        if asks && answer.word == Word::Yes && self.is_young(master, config) {
            self.masters[master].links[at].said = Some(Word::Young);
        }
        self.decide(at, config);
    }

    /// Whether somebody waits for this answer.
    pub(crate) fn hears(&self, at: usize, master: usize, answer: Answer) -> bool {
        self.masters[master].links[at].said == Some(Word::Open) && answer.to.question == self.clients[at].questions
    }

    fn is_young(&self, master: usize, config: &Config) -> bool {
        let remembers = TICK * self.masters[master].remembers.into();
        ballot::young_for(remembers, TICK * config.quarantine.into()).is_some()
    }

    /// Those that said nothing are waited for no longer.
    pub(crate) fn give_up(&mut self, at: usize, config: &Config) {
        self.left.impatience -= 1;
        for master in &mut self.masters {
            let said = &mut master.links[at].said;
            if *said == Some(Word::Open) {
                *said = Some(Word::Nothing { may_have_run: true });
            }
        }
        self.decide(at, config);
    }

    pub(crate) fn decide(&mut self, at: usize, config: &Config) {
        match self.clients[at].stage {
            Stage::Idle | Stage::Holds { renewal: None, .. } => {}
            Stage::Asks { deadline } => self.decide_fresh(at, deadline, config),
            Stage::Holds { deadline, renewal: Some(renewal) } => self.decide_renewal(at, deadline, renewal),
        }
    }

    fn decide_fresh(&mut self, at: usize, deadline: u8, config: &Config) {
        let words = self.words(at);
        let verdict = if config.has(Rule::MajorityOfAll) {
            ballot::fresh(&words)
        } else {
            let heard = words.iter().filter(|word| !matches!(word, Word::Nothing { .. }));
            ballot::fresh(&heard.copied().collect::<Vec<_>>())
        };
        let Some(verdict) = verdict else { return };
        self.forget_question(at);
        for (master, word) in self.masters.iter_mut().zip(words) {
            master.links[at].absent = matches!(word, Word::Nothing { .. }) && !ballot::may_have(word);
        }
        let deadline = if config.has(Rule::LeaseFromSending) { deadline } else { config.lease };
        match verdict {
            Fresh::Won if deadline > 0 => self.clients[at].stage = Stage::Holds { deadline, renewal: None },
            Fresh::Won | Fresh::Split { .. } => self.end(at),
            Fresh::TooFew if words.into_iter().any(ballot::may_have) => self.end(at),
            Fresh::Busy { .. } | Fresh::TooFew => self.clients[at].stage = Stage::Idle,
        }
    }

    fn decide_renewal(&mut self, at: usize, deadline: u8, renewal: u8) {
        let words = self.words(at);
        let Some(settled) = ballot::changed(&words) else { return };
        self.forget_question(at);
        let stays = |deadline| Stage::Holds { deadline, renewal: None };
        match (settled, self.clients[at].number) {
            (Settled::Done, Some(number)) => {
                self.clients[at].stage = stays(deadline.max(renewal));
                for master in ballot::mends(&words) {
                    let link = &mut self.masters[master].links[at];
                    link.send(Verb::Acquire, number, 0);
                    link.absent = false;
                }
            }
            (Settled::Gone, _) => self.end(at),
            _ => self.clients[at].stage = stays(deadline),
        }
    }

    /// What is heard of it later counts for nothing.
    fn forget_question(&mut self, at: usize) {
        self.masters.iter_mut().for_each(|master| master.links[at].said = None);
    }

    /// The number is over: it is released wherever something of it may be.
    pub(crate) fn end(&mut self, at: usize) {
        self.forget_question(at);
        self.clients[at].stage = Stage::Idle;
        let Some(number) = self.clients[at].number else { return };
        for master in &mut self.masters {
            let link = &mut master.links[at];
            if !link.absent {
                link.send(Verb::Release, number, 0);
            }
        }
    }

    pub(crate) fn client_ticks(&mut self, at: usize) {
        match &mut self.clients[at].stage {
            Stage::Idle => {}
            Stage::Asks { deadline } => *deadline = deadline.saturating_sub(1),
            Stage::Holds { deadline, renewal } => {
                *deadline -= 1;
                *renewal = renewal.map(|renewal| renewal.saturating_sub(1));
                if *deadline == 0 {
                    self.end(at);
                }
            }
        }
    }
}
