//! Commands from their first poll to their answer, over links that keep their order. What breaks a link is in `breaks.rs`.

use std::{sync::Arc, time::Duration};

use tokio::{sync::oneshot, time::Instant};
use uuid::Uuid;

use super::{
    breaks::Cause,
    member::{Answer, Downward, Flight, Member, Parked, Server, Split, Stage, Upward},
    packet::{Answers, Packet},
    trace::{Happening, Purpose, Road},
    weather::{Fate, Passage, Then},
    world::{Event, News, World, after},
};
use crate::backend::{Fault, FaultKind, dispatch::Dispatches};

/// What became of a command in the poll that sent it.
pub(super) enum Sent {
    Answered(Answers),
    /// It left, and is waited for.
    UnderWay(oneshot::Receiver<Answers>),
    /// There was no link; it has this place in the line.
    Parked(u64, oneshot::Receiver<Answers>),
}

/// How a command may go.
pub(super) enum Way {
    Open,
    Line,
    Closed,
}

impl World {
    pub(super) fn way(&self, client: Uuid) -> Way {
        match self.members.get(&client) {
            None => Way::Closed,
            Some(member) if member.is_open() => Way::Open,
            Some(_) => Way::Line,
        }
    }

    /// Gives a command a place in the line for a link.
    pub(super) fn park(
        &mut self,
        client: Uuid,
        packet: Packet,
        dispatches: Arc<Dispatches>,
        deadline: Instant,
    ) -> Sent {
        let number = self.draw();
        let due = self.plan(deadline, Event::Unsent { client, parked: number });
        let (answer, answered) = oneshot::channel();
        if let Some(member) = self.members.get_mut(&client) {
            member.parked.push_back(Parked { number, packet, dispatches, deadline, answer: Some(answer), due });
        }
        Sent::Parked(number, answered)
    }

    /// The caller of a parked command left.
    pub(super) fn withdraw(&mut self, client: Uuid, parked: u64) -> Option<Parked> {
        let member = self.members.get_mut(&client)?;
        let at = member.parked.iter().position(|it| it.number == parked && it.answer.is_some())?;
        let left = member.parked.remove(at)?;
        self.cancel(left.due);
        Some(left)
    }

    /// Sends a command that was asked whether it may leave.
    pub(super) fn send(&mut self, client: Uuid, packet: &Packet, deadline: Instant) -> Sent {
        match self.transmit(client, packet, deadline) {
            Ok(flight) => {
                let (answer, answered) = oneshot::channel();
                self.awaited(client, flight, answer);
                Sent::UnderWay(answered)
            }
            Err(answers) => Sent::Answered(answers),
        }
    }

    /// Somebody waits for the answer of a flight.
    pub(super) fn awaited(&mut self, client: Uuid, flight: u64, answer: oneshot::Sender<Answers>) {
        if let Some(flight) = self.flight(client, flight) {
            flight.answer = Answer::Wanted(answer);
        }
    }

    /// Sends it: an answer that came at once, or the number of the flight.
    pub(super) fn transmit(&mut self, client: Uuid, packet: &Packet, deadline: Instant) -> Result<u64, Answers> {
        if self.is_plain(client) {
            return Err(self.exchange(client, packet));
        }
        let now = self.now();
        let flight = self.draw();
        let fate = self.fate(client);
        let Some(member) = self.members.get_mut(&client) else { return Err(packet.fails(&closed(true))) };
        if member.commands.stage != Stage::Up {
            // It broke between the question and the sending.
            return Err(packet.fails(&dropped()));
        }
        let answer = Answer::Here(None);
        let sent = Flight { sent: now, answer, packet: packet.clone(), due: None };
        member.flights.insert(flight, sent);
        match fate.request {
            Passage::Arrives => {
                let what = Upward::Run { flight, packet: packet.clone(), reply: fate.reply };
                self.send_there(client, what, fate.delay);
            }
            Passage::Lost => self.lost(client, packet),
        }
        if let Some(later) = fate.copy {
            self.plan(after(now, later), Event::Copy { client, packet: packet.clone() });
        }
        if fate.then == Then::Breaks {
            self.break_link(client, Purpose::Commands, Cause::Cut);
        }
        let Some(member) = self.members.get_mut(&client) else { return Err(packet.fails(&closed(true))) };
        let Some(sent) = member.flights.get_mut(&flight) else { return Err(packet.fails(&closed(true))) };
        if let Answer::Here(answers) = &mut sent.answer
            && let Some(answers) = answers.take()
        {
            member.flights.remove(&flight);
            return Err(answers);
        }
        let due = self.plan(deadline.max(now), Event::Overdue { client, flight });
        if let Some(sent) = self.flight(client, flight) {
            sent.due = Some(due);
        }
        Ok(flight)
    }

    /// Whether nothing befalls this client's next command, which then need not be followed on its way: it is answered at once.
    fn is_plain(&self, client: Uuid) -> bool {
        self.weather_of(client).is_none()
            && self.members.get(&client).is_some_and(|member| {
                let link = &member.commands;
                let is_free = link.stage == Stage::Up && link.there.is_empty() && link.back.is_empty();
                is_free && member.armed.is_nothing() && !member.path.is_blocked()
            })
    }

    /// There and back.
    fn exchange(&mut self, client: Uuid, packet: &Packet) -> Answers {
        let answers = self.execute(client, packet, Road::Link);
        let now = self.now();
        if let Some(member) = self.members.get_mut(&client) {
            member.last_answer = now;
            member.signals.round_trips.note(Duration::ZERO);
        }
        answers
    }

    /// A second copy reaches the store, by a road of its own; nobody waits for its answer.
    pub(super) fn copy(&mut self, client: Uuid, packet: &Packet) {
        drop(self.execute(client, packet, Road::Copy));
    }

    pub(super) fn lost(&mut self, client: Uuid, packet: &Packet) {
        for words in packet.words() {
            self.note(client, || Happening::Lost { script: words.script.path });
        }
    }

    /// What befalls the next command of a client: what a test wants, and what the weather brings.
    fn fate(&mut self, client: Uuid) -> Fate {
        let mut fate = self.weather_of(client).map(|weather| weather.fate(&self.chance)).unwrap_or_default();
        let Some(Member { armed, .. }) = self.members.get_mut(&client) else { return fate };
        if armed.requests > 0 {
            armed.requests -= 1;
            fate.request = Passage::Lost;
        } else if armed.replies > 0 {
            armed.replies -= 1;
            fate.reply = Passage::Lost;
        }
        fate.copy = armed.copies.pop_front().or(fate.copy);
        fate
    }

    /// Sets out for the store, behind whatever is on its way there.
    pub(super) fn send_there(&mut self, client: Uuid, what: Upward, delay: Duration) {
        let now = self.now();
        let Some(member) = self.members.get_mut(&client) else { return };
        let link = member.link(what.purpose());
        let number = link.number;
        match link.there.enter(now, delay) {
            Some(at) => drop(self.plan(at, Event::Arrives { client, link: number, what })),
            None => self.arrive(client, number, what),
        }
    }

    /// Reaches the store, if the way is free.
    pub(super) fn arrive(&mut self, client: Uuid, link: u64, what: Upward) {
        let Some(member) = self.members.get_mut(&client) else {
            // What a client sent before it left runs all the same.
            if let Upward::Run { packet, .. } = what {
                drop(self.execute(client, &packet, Road::OldLink));
            }
            return;
        };
        let is_current = member.link(what.purpose()).is(link);
        let path = &mut member.path;
        match (path.split, path.server) {
            (Split::Parted, _) if !is_current => {
                if let Upward::Run { packet, .. } = what {
                    self.lost(client, &packet);
                }
                return;
            }
            (Split::Whole, Server::Runs) => {}
            _ => return path.held_there.push_back((link, what)),
        }
        match what {
            Upward::Run { flight, packet, reply } => {
                let road = if is_current { Road::Link } else { Road::OldLink };
                let answers = self.execute(client, &packet, road);
                match reply {
                    Passage::Arrives if is_current => self.send_back(client, Downward::Answer { flight, answers }),
                    Passage::Arrives => {}
                    Passage::Lost => self.note(client, || Happening::Unanswered),
                }
            }
            Upward::Listen { channel, ticket } if is_current => self.listen(client, channel, ticket),
            Upward::Unlisten { channel } if is_current => self.unlisten(client, &channel),
            Upward::Listen { .. } | Upward::Unlisten { .. } => {}
        }
    }

    /// Sets out for the client, behind whatever is on its way there.
    pub(super) fn send_back(&mut self, client: Uuid, what: Downward) {
        let now = self.now();
        let delay = self.weather_of(client).map_or(Duration::ZERO, |weather| weather.way_back(&self.chance));
        let Some(member) = self.members.get_mut(&client) else { return };
        let link = member.link(what.purpose());
        let number = link.number;
        match link.back.enter(now, delay) {
            Some(at) => drop(self.plan(at, Event::Returns { client, link: number, what })),
            None => self.come_back(client, number, what),
        }
    }

    /// Reaches the client, if the way is free and the link is the one that it was sent on.
    pub(super) fn come_back(&mut self, client: Uuid, link: u64, what: Downward) {
        let Some(member) = self.members.get_mut(&client) else { return };
        if !member.link(what.purpose()).is(link) {
            return;
        }
        if member.path.is_blocked() {
            return member.path.held_back.push_back((link, what));
        }
        match what {
            Downward::Answer { flight, answers } => self.settle(client, flight, answers),
            Downward::Confirm { channel, ticket } => self.confirm(client, &channel, ticket),
            Downward::Message { channel, bytes } => self.hear(client, &channel, &bytes),
        }
    }

    /// A command was answered.
    fn settle(&mut self, client: Uuid, flight: u64, answers: Answers) {
        let now = self.now();
        let Some(member) = self.members.get_mut(&client) else { return };
        member.last_answer = now;
        if let Some(flight) = member.flights.get(&flight) {
            member.signals.round_trips.note(now.saturating_duration_since(flight.sent));
        }
        self.end_flight(client, flight, answers);
    }

    /// A command is over: its caller gets this.
    pub(super) fn end_flight(&mut self, client: Uuid, flight: u64, answers: Answers) {
        let Some(member) = self.members.get_mut(&client) else { return };
        let Some(known) = member.flights.get_mut(&flight) else { return };
        if let Answer::Here(here) = &mut known.answer {
            // Taken by whoever is sending it right now.
            *here = Some(answers);
            return;
        }
        let Some(over) = member.flights.remove(&flight) else { return };
        if let Some(due) = over.due {
            self.cancel(due);
        }
        if let Answer::Wanted(caller) = over.answer {
            self.news.push_back(News::Answer(caller, answers));
        }
    }

    fn flight(&mut self, client: Uuid, flight: u64) -> Option<&mut Flight> {
        self.members.get_mut(&client)?.flights.get_mut(&flight)
    }

    /// A command has waited for long enough. A link on which nothing came for a whole command timeout is given up; one
    /// that a caller left sooner only if nothing passes.
    pub(super) fn overdue(&mut self, client: Uuid, flight: u64) {
        let now = self.now();
        let Some(member) = self.members.get_mut(&client) else { return };
        let verdict = member.command_timeout;
        let blocked = member.path.is_blocked();
        let Some(known) = member.flights.get_mut(&flight) else { return };
        let verdict = known.sent + verdict;
        let mut waited = false;
        if let Answer::Wanted(caller) = std::mem::replace(&mut known.answer, Answer::TooLate) {
            waited = !caller.is_closed();
            let fault = Fault::of(FaultKind::Timeout, true, "no answer in time");
            let answers = known.packet.fails(&fault);
            self.news.push_back(News::Answer(caller, answers));
        }
        if now < verdict {
            let due = self.plan(verdict, Event::Overdue { client, flight });
            if let Some(known) = self.flight(client, flight) {
                known.due = Some(due);
            }
        } else {
            member.flights.remove(&flight);
            if waited || blocked {
                self.break_link(client, Purpose::Commands, Cause::Silent);
            }
        }
    }

    /// A parked command has waited for long enough.
    pub(super) fn unsent(&mut self, client: Uuid, parked: u64) {
        let Some(mut late) = self.withdraw(client, parked) else { return };
        if let Some(caller) = late.answer.take() {
            let fault = Fault::of(FaultKind::Dropped, false, "no link in time");
            let answers = late.packet.fails(&fault);
            self.news.push_back(News::Answer(caller, answers));
        }
        self.news.push_back(News::Over(late));
    }
}

/// The client was closed.
pub(super) fn closed(may_have_run: bool) -> Fault {
    Fault::of(FaultKind::Closed, may_have_run, "the client was closed")
}

/// The link went away under a command.
pub(super) fn dropped() -> Fault {
    Fault::of(FaultKind::Dropped, true, "the link was dropped")
}

/// The link was given up because nothing came over it any more.
pub(super) fn silent() -> Fault {
    Fault::of(FaultKind::Timeout, true, "the link went silent")
}
