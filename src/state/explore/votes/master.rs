//! A master: its key, what it remembers, and what is under way between it and each client.

use std::collections::VecDeque;

use crate::ballot::Word;

use super::config::Config;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Verb {
    Acquire,
    Release,
    Renew,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Request {
    pub(crate) verb: Verb,
    pub(crate) number: u8,
    /// The question that it belongs to; none hears what it comes to where this is nothing.
    pub(crate) question: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Answer {
    pub(crate) to: Request,
    pub(crate) word: Word,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) number: u8,
    pub(crate) ttl: u8,
}

/// What is between a client and a master.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Link {
    /// On their way, in order.
    pub(crate) requests: VecDeque<Request>,
    pub(crate) answers: VecDeque<Answer>,
    /// Copies that may run at any time.
    pub(crate) strays: Vec<Request>,
    /// Numbers whose release was lost: repeated, and sent before the client asks again.
    pub(crate) owed: Vec<u8>,
    /// Numbers of which an old copy of an acquire may run: released again once each is over.
    pub(crate) watched: Vec<u8>,
    /// What the master said to the question of this client, if there is one.
    pub(crate) said: Option<Word>,
    /// Nothing of the number that this client has is left there: it is not released there.
    pub(crate) absent: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Master {
    pub(crate) key: Option<Key>,
    /// For so many ticks, and no more than matter.
    pub(crate) remembers: u8,
    /// One for each client.
    pub(crate) links: Vec<Link>,
}

impl Master {
    /// As its script does it.
    pub(crate) fn run(&mut self, Request { verb, number, .. }: Request, lease: u8) -> Word {
        let is_free = self.key.is_none();
        let its = self.key.as_mut().filter(|key| key.number == number);
        match (verb, its) {
            (Verb::Acquire | Verb::Renew, Some(key)) => {
                key.ttl = key.ttl.max(lease);
                Word::Yes
            }
            (Verb::Acquire, None) if is_free => {
                self.key = Some(Key { number, ttl: lease });
                Word::Yes
            }
            (Verb::Acquire, None) => Word::Busy { retry_in: None },
            (Verb::Release, Some(_)) => {
                self.key = None;
                Word::Yes
            }
            (Verb::Release | Verb::Renew, None) => Word::Gone,
        }
    }

    pub(crate) fn tick(&mut self, quarantine: u8) {
        self.remembers = (self.remembers + 1).min(quarantine);
        if let Some(key) = &mut self.key {
            key.ttl -= 1;
        }
        self.key.take_if(|key| key.ttl == 0);
    }
}

impl Link {
    pub(crate) fn send(&mut self, verb: Verb, number: u8, question: u8) {
        self.requests.push_back(Request { verb, number, question });
    }

    pub(crate) fn repeat_owed(&mut self) {
        for number in std::mem::take(&mut self.owed) {
            self.send(Verb::Release, number, 0);
        }
    }

    /// Whether a copy of an acquire may still run.
    fn has_old_acquire(&self) -> bool {
        self.strays.iter().any(|stray| stray.verb == Verb::Acquire)
    }

    /// The last release of such a number comes when its copy has run. Those before it change nothing that this does not.
    pub(crate) fn may_reap(&self, held: Option<u8>) -> bool {
        !self.has_old_acquire() && self.watched.first().is_some_and(|number| held != Some(*number))
    }

    pub(crate) fn reap(&mut self) {
        let number = self.watched.remove(0);
        self.send(Verb::Release, number, 0);
    }

    /// What was under way is lost. True if somebody waited for it.
    pub(crate) fn lose(&mut self, config: &Config) -> bool {
        let unanswered = self.answers.iter().map(|answer| answer.to).chain(self.requests.iter().copied());
        for request in unanswered.filter(|request| config.reaps && request.verb == Verb::Acquire) {
            if !self.watched.contains(&request.number) {
                self.watched.push(request.number);
            }
        }
        self.answers.clear();
        for request in std::mem::take(&mut self.requests) {
            if request.verb == Verb::Release && !self.owed.contains(&request.number) {
                self.owed.push(request.number);
            }
            self.strays.push(request);
        }
        let waited = self.said == Some(Word::Open);
        if waited {
            self.said = Some(Word::Nothing { may_have_run: true });
        }
        waited
    }
}
