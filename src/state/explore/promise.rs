//! What must be true in every world.

use crate::state::Settings;

use super::world::{Process, Task, World};

/// So many ticks of an overlap are a lease.
const LEASE_TICKS: u8 = 3;

/// What was promised, and is broken where it is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Promise {
    OneBeliever,
    AnOverlapEndsWithTheLease,
    WhatIsBelievedIsThere,
    AForcedReleaseIsHeard,
    NobodyBelievesWhatItForced,
    ANewServerIsAsked,
    NobodyFreesABelievedHold,
    NobodyMovesABelievedHold,
    NoKeyIsLeft,
    NoStateIsLeftWithoutATimer,
    AGhostDiesSoon,
    NobodyListensForNobody,
    TheCountIsTheGuards,
    NobodySleepsOnAFreeKey,
    NobodySleepsLongOnAFreeKey,
    AQueueHasAContender,
    NobodyWaitsForItself,
    WhatNobodyTakesIsNotKept,
    AKeptHoldIsNotLost,
    ALostHoldStaysLost,
    OwnReleaseGoesFirst,
    WhoWaitsIsTold,
    AnUnlockIsAnsweredOnce,
    AnUnlockIsAnswered,
    AnExtensionIsAnswered,
    ATicketIsSomebodys,
    WhatIsGrantedIsHeld,
    WhoIsAloneIsNeverBusy,
    NobodyIsLetInAtTheEnd,
    /// What the state says of itself is not true.
    TheStateIsSound(&'static str),
    NothingPanics(&'static str),
}

impl Promise {
    /// How it is broken.
    pub(crate) fn broken(self) -> &'static str {
        match self {
            Self::OneBeliever => "two processes believe that they hold",
            Self::AnOverlapEndsWithTheLease => "an overlap after a loss lasts longer than a lease",
            Self::WhatIsBelievedIsThere => "a hold that is believed in is not on the server",
            Self::AForcedReleaseIsHeard => "a forced release was heard, all is quiet, and its holder believes",
            Self::NobodyBelievesWhatItForced => "a process believes in a hold that it has forced itself",
            Self::ANewServerIsAsked => {
                "all know of the new server, all is quiet, and somebody believes what it does not have"
            }
            Self::NobodyFreesABelievedHold => "a release freed a hold that somebody believes in",
            Self::NobodyMovesABelievedHold => "a hand-over moved a hold that somebody believes in",
            Self::NoKeyIsLeft => "all is quiet, and the key is held for nobody",
            Self::NoStateIsLeftWithoutATimer => "nobody wants anything, and something is left that no timer ends",
            Self::AGhostDiesSoon => "a hold that nobody answers for lives for too long",
            Self::NobodyListensForNobody => "subscribed, and nobody waits",
            Self::TheCountIsTheGuards => "all is quiet, and the server does not count the guards",
            Self::NobodySleepsOnAFreeKey => "somebody sleeps on a free key, and only time will wake it",
            Self::NobodySleepsLongOnAFreeKey => "somebody sleeps for too long on a free key",
            Self::AQueueHasAContender => "somebody waits, and nobody of this process tries or holds",
            Self::NobodyWaitsForItself => "an owner waits for its own lost hold",
            Self::WhatNobodyTakesIsNotKept => "a hold that nobody takes is kept for longer than a lease",
            Self::AKeptHoldIsNotLost => "nothing failed, answers come at once, and a watched hold is lost",
            Self::ALostHoldStaysLost => "a hold whose time was over is believed in again",
            Self::OwnReleaseGoesFirst => "a try meets a hold that its own process lets go of",
            Self::WhoWaitsIsTold => "somebody waits, and nobody will tell it",
            Self::AnUnlockIsAnsweredOnce => "an unlock is answered twice",
            Self::AnUnlockIsAnswered => "an unlock is never answered",
            Self::AnExtensionIsAnswered => "an extension is never answered",
            Self::ATicketIsSomebodys => "a hold has a ticket that nobody has",
            Self::WhatIsGrantedIsHeld => "a hold was granted that is over",
            Self::NobodyIsLetInAtTheEnd => "a client that is about to end gives a hold to somebody who had none",
            Self::WhoIsAloneIsNeverBusy => "who is alone in the world is told that somebody else holds",

            Self::TheStateIsSound(what) | Self::NothingPanics(what) => what,
        }
    }
}

impl World {
    /// The promise that is broken in this world.
    pub(crate) fn breaks(&self, settings: &Settings) -> Option<Promise> {
        self.broken
            .or_else(|| self.breaks_of_belief())
            .or_else(|| self.breaks_at_any_time(settings))
            .or_else(|| if self.is_quiet() { self.breaks_at_rest() } else { None })
    }

    fn is_there(&self, number: u64) -> bool {
        self.key.is_some_and(|key| key.number == number)
    }

    fn breaks_of_belief(&self) -> Option<Promise> {
        let overlap = self.believers().count() > 1;
        if self.forced.is_some_and(|forced| self.believers().any(|it| it == (0, forced))) {
            return Some(Promise::NobodyBelievesWhatItForced);
        }
        match self.harmed {
            None if overlap => Some(Promise::OneBeliever),
            None if self.believers().any(|(_, number)| !self.is_there(number)) => Some(Promise::WhatIsBelievedIsThere),
            Some(ticks) if overlap && ticks > LEASE_TICKS => Some(Promise::AnOverlapEndsWithTheLease),
            _ => None,
        }
    }

    fn breaks_at_any_time(&self, settings: &Settings) -> Option<Promise> {
        self.living().find_map(|(at, process)| {
            let (name, now) = (&process.name, self.now_of(at));
            let unsound = || process.contradicts_itself(now, settings).map(Promise::TheStateIsSound);
            if name.is_stuck() {
                Some(Promise::AQueueHasAContender)
            } else if name.listens_for_nobody() {
                Some(Promise::NobodyListensForNobody)
            } else if name.waits_for_itself() {
                Some(Promise::NobodyWaitsForItself)
            } else if name.held().is_some_and(|(_, tickets)| tickets as usize > process.tickets()) {
                Some(Promise::ATicketIsSomebodys)
            } else if process.tasks.iter().any(|task| task.asks.is_some_and(|id| !name.waits(id))) {
                Some(Promise::WhoWaitsIsTold)
            } else if cfg!(debug_assertions) {
                unsound()
            } else {
                None
            }
        })
    }

    /// Only what time or a task may change is still to come.
    fn breaks_at_rest(&self) -> Option<Promise> {
        if self.notified && self.believers().any(|(_, number)| !self.is_there(number)) {
            return Some(Promise::AForcedReleaseIsHeard);
        }
        if let Some(promise) = self.living().find_map(|(_, process)| self.breaks_of_process_at_rest(process)) {
            return Some(promise);
        }
        let new_server = self.processes.iter().any(|process| process.era > 0);
        let fires = self.living().any(|(_, process)| self.may_fire(process));
        if new_server && !fires && self.believers().any(|(_, number)| !self.is_there(number)) {
            return Some(Promise::ANewServerIsAsked);
        }
        let began_now = self.time == 0 && !self.late;
        let untouched = !self.stray_ran && self.harmed.is_none() && began_now;
        let all_live = self.processes.iter().all(|process| !process.dead && !process.closed);
        let for_nobody = self.key.is_some_and(|key| !self.answers_for(key.number));
        (untouched && all_live && for_nobody).then_some(Promise::NoKeyIsLeft)
    }

    fn breaks_of_process_at_rest(&self, process: &Process) -> Option<Promise> {
        let name = &process.name;
        let fires = self.may_fire(process);
        if process.armed.is_none() && process.tasks.iter().all(Task::has_nothing) && !name.is_done() {
            return Some(Promise::NoStateIsLeftWithoutATimer);
        }
        if !fires && process.tasks.iter().any(|task| task.unlocks > 0) {
            return Some(Promise::AnUnlockIsAnswered);
        }
        if !fires && process.tasks.iter().any(|task| task.extensions > 0) {
            return Some(Promise::AnExtensionIsAnswered);
        }
        if !fires && name.sleeps(self.now()) && self.key.is_none() && !self.silent {
            return Some(Promise::NobodySleepsOnAFreeKey);
        }
        let (number, tickets) = name.held()?;
        let guards: usize = process.tasks.iter().map(|task| task.guards.len()).sum();
        let counts = self.key.is_some_and(|key| key.number == number.0 && key.count != tickets);
        let untouched = !self.stray_ran && self.harmed.is_none();
        (counts && untouched && guards > 0).then_some(Promise::TheCountIsTheGuards)
    }
}

impl Process {
    /// Guards, and what was offered.
    fn tickets(&self) -> usize {
        let kept = |task: &Task| task.guards.len() + task.detached.len();
        self.tasks.iter().map(|task| kept(task) + usize::from(task.offered.is_some())).sum()
    }
}

impl Task {
    fn has_nothing(&self) -> bool {
        self.guards.is_empty()
            && self.detached.is_empty()
            && self.failed.is_empty()
            && self.asks.is_none()
            && self.offered.is_none()
    }
}
