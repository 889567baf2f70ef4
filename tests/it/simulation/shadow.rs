//! What the store's trace tells of its keys: which hold took a name last, when, and how often it was asked for. It knows
//! nothing of expiry, and nothing of what anybody believes.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use relatch::{
    Uuid,
    embedded::{Happening, Ran, Road, Traced},
};

use super::{NAMES, fences::Drawn, referee::LONGEST};

/// A hold's field on the server: whose, and which.
pub(super) type Field = String;

/// The keys, as far as answers told.
#[derive(Debug, Default)]
pub(super) struct Shadow {
    /// Who took each name last, unless it was freed since.
    pub(super) holders: [Option<Field>; NAMES.len()],
    births: BTreeMap<Field, Birth>,
    /// Holds that a copy of their own release freed, or one of their hand-over moved: that itself finds nothing any more.
    pub(super) freed_by_copy: BTreeSet<Field>,
    newest: BTreeMap<(Uuid, usize), Field>,
    /// Who took each name last.
    takers: [Option<Uuid>; NAMES.len()],
    /// When whoever listens was told of each name last.
    told: [Duration; NAMES.len()],
    /// Each client's last turn at a name.
    turns: BTreeMap<(Uuid, usize), Turn>,
    /// Of each client's newest try that was answered busy, whose field it met.
    pub(super) met: BTreeMap<(Uuid, usize), (Duration, Option<Field>)>,
    /// Holds that a try made.
    pub(super) tried: BTreeSet<Field>,
    /// Numbers that were let go of for good over their client's link.
    ended: BTreeSet<Field>,
    /// The newest token that was drawn for each name, as far as the store knows.
    pub(super) counted: [u64; NAMES.len()],
    /// Which client's tokens begin with these digits.
    pub(super) token_clients: BTreeMap<String, Uuid>,
    /// Tokens of which the store said that nobody has the lock, and when last.
    pub(super) ran_out: BTreeMap<Field, Duration>,
    /// When the store's clock was set forward last, or another server took over: what was there then may have run out.
    pub(super) unsure: [Duration; NAMES.len()],
    /// Something that must not be, whoever asked: the rule, and what happened.
    pub(super) wrong: Option<(&'static str, String)>,
}

/// How long a client had a name with nobody else between, as far as it knows.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    since: Duration,
    until: Duration,
    /// How long the one before lasted: who gave up what it was granted still goes by that.
    before: Duration,
}

/// How a hold came to be.
#[derive(Clone, Debug)]
pub(super) struct Birth {
    /// The newest time; an old copy may have made it again.
    pub(super) at: Duration,
    pub(super) first: Duration,
    /// How often it was made: what was lost in the very instant in which it was made anew was the one before.
    pub(super) times: u32,
    /// The road of the old acquire that made it, or what was moved to it: nobody may be behind it.
    pub(super) ghost: Option<Road>,
    /// An old copy of its acquire found it, or made it.
    pub(super) copied: bool,
    /// The highest count that anybody asked for.
    pub(super) most: u32,
    /// An old copy of a release ran: the count may be too low until the next command sets it.
    pub(super) lowered: bool,
    /// When its time is over, by the newest call that gave it more.
    pub(super) until: Duration,
    /// That came when its time was over, and may have made it anew.
    pub(super) ran_out: bool,
    /// It was made at a master that had been replaced.
    pub(super) at_rival: bool,
    /// Every token that was drawn for it.
    pub(super) fences: Vec<u64>,
}

impl Shadow {
    pub(super) fn birth(&self, field: &str) -> Option<&Birth> {
        self.births.get(field)
    }

    /// How often this hold came to be.
    pub(super) fn times(&self, field: &str) -> u32 {
        self.births.get(field).map_or(0, |birth| birth.times)
    }

    /// The hold of a name that a client was given last.
    pub(super) fn newest(&self, client: Uuid, name: usize) -> Option<&Field> {
        self.newest.get(&(client, name))
    }

    /// How long a client had a name at most, the last time that it had it.
    pub(super) fn had(&self, client: Uuid, name: usize) -> Duration {
        let turn = self.turns.get(&(client, name)).copied().unwrap_or_default();
        turn.before.max(turn.until - turn.since)
    }

    /// From when on a client leaves a name to others: it let it go, or was told that somebody else did.
    pub(super) fn leaves(&self, client: Uuid, name: usize) -> Duration {
        self.turns.get(&(client, name)).map_or(Duration::ZERO, |turn| turn.until).max(self.told[name])
    }

    /// A client took a name, or let it go.
    fn turn(&mut self, client: Uuid, name: usize, at: Duration, takes: bool) {
        let turn = self.turns.entry((client, name)).or_default();
        // Whoever was not told that another had it meanwhile knows of none.
        let told = self.met.get(&(client, name)).is_some_and(|(when, _)| turn.until <= *when);
        let others = takes && self.takers[name].replace(client) != Some(client) && told;
        if takes && (others || turn.until + LONGEST < at) {
            (turn.before, turn.since) = (turn.until - turn.since, at);
        }
        turn.until = at;
    }

    pub(super) fn hear(&mut self, traced: &Traced) {
        let Happening::Ran(ran) = &traced.what else { return };
        let (args, road) = (ran.args(), &ran.road());
        let Some(name) = ran.keys().first().and_then(|key| NAMES.iter().position(|name| name == key)) else { return };
        let verb = match ran.script() {
            "SET NX PX" => "acquire.lua",
            script => script.rsplit('/').next().unwrap_or_default(),
        };
        if verb == "acquire.lua" {
            self.asks_by_token(&args[0], traced.client);
        }
        let (reply, fence) = in_full(verb, ran);
        let reply = &reply[..];
        let done = reply.starts_with(&[1]);
        if reply.starts_with(&[-2]) && matches!(verb, "release.lua" | "hand_over.lua") {
            self.finds_nobody(name, &args[0], traced.at, ran.is_at_rival());
        }
        if ran.is_at_rival() {
            return self.hear_of_rival(traced, name, verb, ran);
        }
        // By a token others free what is not theirs.
        let frees = frees(verb, args) && *road == Road::Link && self.is_of(&args[0], traced.client);
        if frees && self.ended.insert(args[0].clone()) {
            self.turn(traced.client, name, traced.at, false);
        }
        if tells(verb, reply) {
            self.told[name] = traced.at;
        }
        let field = if verb == "hand_over.lua" { args.get(1) } else { args.first() };
        if let (Some(fence), Some(field)) = (fence, field) {
            self.draws(Drawn { name, field, fence, at: traced.at });
        }
        match verb {
            "acquire.lua" => self.acquired(traced, name, (args, asked(ran)), reply, *road),
            "renew.lua" => {
                for (field, _) in args[1..].iter().zip(reply).filter(|(_, status)| **status == 1) {
                    self.lasts(field, traced.at, &args[0]);
                }
            }
            "hand_over.lua" if done => {
                if self.holders[name].is_none() {
                    let what = format!("{} was moved to {}, but the lock was free", args[0], args[1]);
                    self.wrong = Some(("a hand-over makes what it was to move", what));
                }
                let ghost = self.births.get(&args[0]).and_then(|from| from.ghost);
                self.born(traced, name, &args[1], *road, ghost);
                self.lasts(&args[1], traced.at, &args[2]);
                if *road == Road::Link {
                    self.newest.insert((traced.client, name), args[1].clone());
                } else {
                    self.freed_by_copy.insert(args[0].clone());
                }
            }
            "release.lua" if reply.starts_with(&[1, 0]) => {
                self.holders[name] = None;
                if *road != Road::Link {
                    self.freed_by_copy.insert(args[0].clone());
                }
            }
            "release.lua" if done => {
                // It only lowers: what was too low stays so.
                if let Some(birth) = self.births.get_mut(&args[0]) {
                    birth.lowered |= *road != Road::Link;
                }
            }
            "force_release.lua" if done => self.holders[name] = None,
            _ => {}
        }
        self.keeps_token(field, fence);
    }

    /// What was drawn for a hold stays known.
    fn keeps_token(&mut self, field: Option<&Field>, fence: Option<u64>) {
        if let (Some(fence), Some(birth)) = (fence, field.and_then(|field| self.births.get_mut(field)))
            && !birth.fences.contains(&fence)
        {
            birth.fences.push(fence);
        }
    }

    fn acquired(&mut self, traced: &Traced, name: usize, (args, asked): (&[String], u32), reply: &[i64], road: Road) {
        let field = &args[0];
        if reply.starts_with(&[0]) && road == Road::Link {
            self.met.insert((traced.client, name), (traced.at, self.holders[name].clone()));
        } else if reply.starts_with(&[1]) && asked == 1 && self.holders[name].as_ref() != Some(field) {
            self.born(traced, name, field, road, Some(road).filter(|road| *road != Road::Link));
        }
        if reply.starts_with(&[1]) && asked == 1 && road == Road::Link {
            self.newest.insert((traced.client, name), field.clone());
            self.tried.insert(field.clone());
        }
        if let Some(birth) = self.births.get_mut(field) {
            birth.most = birth.most.max(asked);
            birth.lowered &= asked == 1;
            if road != Road::Link {
                // It may have made anew what was gone.
                (birth.lowered, birth.copied) = (true, true);
            }
        }
        if reply.starts_with(&[1]) {
            self.lasts(field, traced.at, &args[1]);
        }
    }

    /// What a master does that was replaced: nothing of that is at the present one.
    fn hear_of_rival(&mut self, traced: &Traced, name: usize, verb: &str, ran: &Ran) {
        // What it makes longer there is not longer at the present one.
        self.unsure[name] = traced.at;
        let (args, (reply, fence)) = (ran.args(), in_full(verb, ran));
        let reply = &reply[..];
        let (done, over_link) = (reply.starts_with(&[1]), ran.road() == Road::Link);
        let (made, lease) = match verb {
            "acquire.lua" if done => (&args[0], &args[1]),
            "hand_over.lua" if done => (&args[1], &args[2]),
            "acquire.lua" if over_link && reply.starts_with(&[0]) => {
                self.met.insert((traced.client, name), (traced.at, None));
                return;
            }
            "renew.lua" => {
                for (field, _) in args[1..].iter().zip(reply).filter(|(_, status)| **status == 1) {
                    self.lasts(field, traced.at, &args[0]);
                }
                return;
            }
            _ if frees(verb, args)
                && over_link
                && self.is_of(&args[0], traced.client)
                && self.ended.insert(args[0].clone()) =>
            {
                return self.turn(traced.client, name, traced.at, false);
            }
            _ => return,
        };
        let at = traced.at;
        let birth = self.births.entry(made.clone()).or_insert(Birth {
            at,
            first: at,
            times: 0,
            ghost: None,
            copied: false,
            most: 1,
            lowered: false,
            until: at,
            ran_out: false,
            at_rival: true,
            fences: Vec::new(),
        });
        // What it was before may be gone by then.
        (birth.at, birth.times, birth.at_rival) = (at, birth.times + 1, true);
        if verb == "acquire.lua" {
            birth.most = birth.most.max(asked(ran));
        }
        if over_link && (verb != "acquire.lua" || asked(ran) == 1) {
            self.newest.insert((traced.client, name), made.clone());
            self.turn(traced.client, name, at, true);
            self.tried.extend((verb == "acquire.lua").then(|| made.clone()));
        }
        self.lasts(made, at, lease);
        self.keeps_token(Some(made), fence);
    }

    /// Another master is there, which has this of a name. Unless it is the same that the old one had, nobody need be behind
    /// it, and its count may be of before.
    pub(super) fn takes_over(&mut self, name: usize, kept: Option<&Field>, same: bool) {
        self.holders[name] = kept.cloned();
        let known = kept.and_then(|field| self.births.get_mut(field)).filter(|_| !same);
        if let Some(birth) = known {
            (birth.ghost, birth.copied, birth.lowered) = (Some(Road::Copy), true, true);
        }
    }

    fn lasts(&mut self, field: &str, at: Duration, lease_ms: &str) {
        let lease = Duration::from_millis(lease_ms.parse().unwrap_or_default());
        if let Some(birth) = self.births.get_mut(field) {
            birth.ran_out |= birth.until < at;
            birth.until = birth.until.max(at + lease);
        }
    }

    fn born(&mut self, traced: &Traced, name: usize, field: &str, road: Road, ghost: Option<Road>) {
        if self.holders[name].as_deref() == Some(field) {
            return;
        }
        self.holders[name] = Some(field.to_owned());
        if ghost.is_none() && self.ended.contains(field) {
            let what = format!("{field} was let go of before");
            self.wrong = Some(("a hold begins after its own end", what));
        }
        if road == Road::Link {
            self.turn(traced.client, name, traced.at, true);
        }
        let before = self.births.get(field);
        let most = before.map_or(1, |birth| birth.most);
        let (at, first) = (traced.at, before.map_or(traced.at, |birth| birth.first));
        let copied = road != Road::Link;
        let (times, ran_out) = (self.times(field) + 1, before.is_some_and(|birth| birth.ran_out || birth.until < at));
        let (lowered, at_rival) = (copied, false);
        let fences = before.map_or_else(Vec::new, |birth| birth.fences.clone());
        let birth = Birth { at, first, times, ghost, copied, most, lowered, until: at, ran_out, at_rival, fences };
        self.births.insert(field.to_owned(), birth);
    }
}

/// The numbers of an answer as a status and what belongs to it, where one number was said for all of that too; and the token
/// that was among them.
fn in_full(verb: &str, ran: &Ran) -> (Vec<i64>, Option<u64>) {
    let mut numbers: Vec<i64> = ran.numbers().collect();
    if ran.script() == "SET NX PX" {
        numbers = if ran.reply() == "OK" { vec![1] } else { vec![0, -1, 0, 0] };
    }
    let fence = match (ran.script(), numbers.len()) {
        ("lua/fenced/acquire.lua", 4) => std::mem::take(&mut numbers[3]),
        ("lua/fenced/hand_over.lua", 3) => numbers.remove(1),
        _ => 0,
    };
    let in_full = match (verb, &numbers[..]) {
        ("acquire.lua", &[holds]) => vec![1, 0, holds, 0],
        ("release.lua", &[listeners]) => vec![1, 0, listeners],
        ("hand_over.lua", [1]) => vec![1, -1],
        ("force_release.lua", &[listeners]) => vec![1, listeners],
        ("renew.lua", [1]) => vec![1; ran.keys().len()],
        _ => numbers,
    };
    (in_full, u64::try_from(fence).ok().filter(|fence| *fence > 0))
}

/// How many holds an acquire asked for; by a token it is one.
fn asked(ran: &Ran) -> u32 {
    let holds = ran.args().get(2).filter(|_| ran.script() != "lua/token/acquire.lua");
    holds.map_or(1, |holds| holds.parse().unwrap_or_default())
}

/// Whether whoever listened was told.
fn tells(verb: &str, reply: &[i64]) -> bool {
    match verb {
        "release.lua" => reply.starts_with(&[1, 0]),
        "force_release.lua" => reply.starts_with(&[1]),
        "hand_over.lua" => reply.starts_with(&[1]) && reply.get(1).is_some_and(|heard| *heard >= 0),
        _ => false,
    }
}

/// Whether it lets go of all that a hold counts.
fn frees(verb: &str, args: &[String]) -> bool {
    verb == "release.lua" && args.get(3).is_none_or(|left| left == "0")
}
