//! Everything about one name in one process: its parts, and what may be asked of it between two events.

use super::{
    deadline::{Instant, LeaseRequest},
    env::{Env, Grants, Settings},
    id::{CommandId, HoldNumber, Id, Link, Owner},
    parts::{
        contender::{Stage, Trouble},
        counting::CountChange,
        hold::Hold,
        list::ThinVec,
        old_copies::OldCopies,
        queue::Queue,
        releases::Releases,
        slice::Slice,
        subscription::Subscription,
        tenant::Tenant,
        ticket::Guard,
        untaken::Untaken,
    },
};

/// One name in one process. `W` is whoever waits for an answer, `S` what the guards of one owner share: neither is ever
/// looked at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Name<W, S> {
    pub(crate) tenant: Tenant<W, S>,
    pub(crate) queue: Queue<W>,
    /// Lost holds that still have tickets.
    pub(crate) lost: ThinVec<Hold<W, S>>,
    /// Releases that are not answered, and what stands beside them.
    pub(crate) releases: Releases<W, S>,
    pub(crate) old: OldCopies,
    pub(crate) slice: Slice,
    /// Whether somebody came for the last turn that was given.
    pub(crate) untaken: Untaken,
    pub(crate) subscription: Subscription,
    pub(crate) trouble: Option<Box<Trouble>>,
    /// When the runtime was asked to wake us.
    pub(crate) armed: Option<Instant>,
    pub(crate) client: Client,
}

impl<W, S> Default for Name<W, S> {
    fn default() -> Self {
        Self {
            tenant: Tenant::Nobody,
            queue: Queue::default(),
            lost: ThinVec::default(),
            releases: Releases::default(),
            old: OldCopies::default(),
            slice: Slice::default(),
            untaken: Untaken::First,
            subscription: Subscription::default(),
            trouble: None,
            armed: None,
            client: Client::Open,
        }
    }
}

impl<W, S> Name<W, S> {
    /// Asked when a command is about to be sent: whether it is still wanted. Its lease counts from now, and what may be on the
    /// server from now on is noted, so a command for which this said yes leaves.
    pub(crate) fn leaves(&mut self, command: CommandId, env: &Env<'_>) -> bool {
        let release = self.releases.iter_mut().find(|release| release.command == Some(command));
        if let Some(release) = release {
            release.copies.leaves(env.server.link());
            return true;
        }
        let forces = self.releases.forced().iter().any(|forcing| forcing.commands.as_slice().contains(&command));
        if forces || self.old.asks(command) {
            return true;
        }
        match &mut self.tenant {
            Tenant::Nobody => false,
            Tenant::Contender(contender) => {
                let Stage::Trying(attempt) = &mut contender.stage else { return false };
                if attempt.command != command {
                    return false;
                }
                let apart = env.settings.grants == Grants::Acknowledged;
                let link = if apart { Link::APART } else { env.server.link() };
                // One that is sent again was refused unseen before: the server lacked its script, or was another one's.
                let again = attempt.request.left;
                if again {
                    contender.copies.leaves(link)
                } else {
                    contender.copies.sent(link)
                }
                attempt.request.leaves(env.now, env.server.era());
                true
            }
            Tenant::Hold(hold) if hold.over(env.now).is_some() => false,
            Tenant::Hold(hold) => hold_command_leaves(hold, command, env),
            Tenant::HandingOver(going) => {
                if going.command == command {
                    going.request.leaves(env.now, env.server.era());
                }
                going.command == command
            }
        }
    }

    /// Takes the newest detached ticket of an owner back: the guard that is made of it has this id.
    pub(crate) fn attach(&mut self, owner: Owner) -> Option<(Id, S)>
    where
        S: Clone,
    {
        self.take_detached(owner, Guard::Kept).map(|(id, share)| (id, share.clone()))
    }

    /// What an owner may unlock who has no guard: its newest detached ticket, or one whose end is under way.
    pub(crate) fn unlockable(&mut self, owner: Owner, now: Instant) -> Unlockable {
        if let Some((id, _)) = self.take_detached(owner, Guard::Unlocked) {
            return Unlockable::Ticket(id);
        }
        let handing = if let Tenant::HandingOver(going) = &self.tenant { Some(&going.ending) } else { None };
        let released = self.releases.iter().map(|release| &release.ending);
        let under_way = handing.into_iter().chain(released).find(|ending| ending.detached_of == Some(owner));
        if let Some(id) = under_way.and_then(|ending| ending.id) {
            return Unlockable::UnderWay(id);
        }
        let hold = self.tenant.hold().filter(|hold| hold.owner == owner && hold.over(now).is_none());
        if hold.and_then(Hold::counted).is_some_and(|counting| counting.unlocked) {
            return Unlockable::Untold;
        }
        Unlockable::Nothing { guards: hold.map_or(0, Hold::granted) }
    }

    /// The newest detached ticket of an owner, of a live hold before a lost one. Nobody else gets it, too. A hold whose time is
    /// over, and that nobody has looked at since, is as good as a lost one: the next event finds it so.
    fn take_detached(&mut self, owner: Owner, by: Guard) -> Option<(Id, &S)> {
        let latest = self.tenant.hold_mut();
        latest.into_iter().chain(self.lost.iter_mut()).filter(|hold| hold.owner == owner).find_map(|hold| {
            let mut newest = hold.tickets.as_mut_slice().iter_mut().rev();
            let ticket = newest.find(|ticket| ticket.guard == Guard::Detached)?;
            ticket.guard = by;
            Some((ticket.id, &hold.share))
        })
    }

    /// Whether this acquisition's hold is to be believed in.
    pub(crate) fn is_held(&self, id: Id, now: Instant) -> bool {
        self.tenant.hold().is_some_and(|hold| hold.has(id) && hold.over(now).is_none())
    }

    /// Somebody waits under this id, and will be told.
    pub(crate) fn waits(&self, id: Id) -> bool {
        let tenant = match &self.tenant {
            Tenant::Nobody => false,
            Tenant::Contender(contender) => contender.who.id == id,
            Tenant::Hold(hold) => hold.counted().is_some_and(|counting| counting.nests(id)),
            Tenant::HandingOver(going) => going.is_for(id),
        };
        tenant || self.queue.waits(id)
    }

    /// Somebody here waits for the name.
    pub(crate) fn is_wanted(&self) -> bool {
        matches!(self.tenant, Tenant::Contender(_) | Tenant::HandingOver(_)) || !self.queue.is_empty()
    }

    /// A release of this number was decided, and is not answered.
    pub(crate) fn is_released(&self, number: HoldNumber) -> bool {
        self.releases.iter().any(|release| release.names(number))
    }

    /// Nothing is left to send: what the end of a client waits for.
    pub(crate) fn is_settled(&self) -> bool {
        let asks = matches!(self.tenant, Tenant::Contender(_) | Tenant::HandingOver(_));
        !asks && self.releases.is_empty() && !self.old.holds_back() && self.releases.forced().is_empty()
    }

    /// Nothing is left to do.
    pub(crate) fn is_done(&self) -> bool {
        let nobody = self.tenant.is_nobody() && self.queue.is_empty() && self.lost.is_empty();
        nobody && self.releases.unclaimed().is_empty() && self.is_settled() && self.old.is_empty()
    }

    /// Until when it remembers whose turn it was, unless an answer tells more of that.
    pub(crate) fn remembers_until(&self, settings: &Settings) -> Option<Instant> {
        self.slice.remembers_until(settings)
    }

    /// Nor to remember: the registry may forget it.
    pub(crate) fn is_idle(&self, env: &Env<'_>) -> bool {
        self.is_done() && self.slice.is_idle(env.now, env.settings)
    }
}

/// How far the client has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Client {
    Open,
    /// Nobody is let in any more, but for nested acquisitions.
    Ending,
    Closed,
}

/// What an owner may unlock who has no guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unlockable {
    /// This ticket, by `Event::Unlock`.
    Ticket(Id),
    /// Nothing more, but what becomes of this one can be asked by the same event.
    UnderWay(Id),
    /// The same, by `Event::Recount`: others of its tickets stay, and the server may not know of the last that was unlocked.
    Untold,
    /// It has so many guards all the same.
    Nothing { guards: u32 },
}

/// A command of the live hold is about to leave: a renewal, an extension or one that changes its count.
fn hold_command_leaves<W, S>(hold: &mut Hold<W, S>, command: CommandId, env: &Env<'_>) -> bool {
    let leaves = |request: &mut LeaseRequest| {
        request.leaves(env.now, env.server.era());
        *request
    };
    let request = if let Some(renewing) = hold.renewal.sent_mut().filter(|renewing| renewing.command == command) {
        leaves(&mut renewing.request)
    } else if let Some(extension) = hold.extension_mut(|extension| extension.command == command) {
        leaves(&mut extension.request)
    } else {
        let counting = hold.counted_mut().and_then(|counting| counting.command.as_mut());
        match counting.filter(|count| count.id == command).map(|count| &mut count.what) {
            Some(CountChange::Up { request, .. }) => leaves(request),
            Some(CountChange::Down { .. }) => return true,
            None => return false,
        }
    };
    hold.leaves(request);
    true
}
