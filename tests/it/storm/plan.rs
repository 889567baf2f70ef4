//! What happens when, drawn from a seed: the same seed gives the same faults at the same times. It does none of them.

use std::time::Duration;

use crate::harness::proxy::{
    Action, Door,
    matching::{Match, any, command, push, script},
};
pub(super) use crate::harness::random::Random;

use super::{LONGEST_LEASE, VOTED_LEASE};

/// How long a master that forgot counts for nothing, and as much as finding that out may take.
const BETWEEN_RESTARTS: Duration = VOTED_LEASE.saturating_add(Duration::from_millis(1_500));

/// A fault, and when it comes after the one before it.
#[derive(Clone, Debug)]
pub(super) struct Step<F> {
    pub(super) after: Duration,
    pub(super) fault: F,
}

/// What may happen to one process or to its links.
#[derive(Clone, Debug)]
pub(super) enum ProcessFault {
    /// SIGSTOP, and SIGCONT that much later.
    Freeze(Duration),
    /// SIGKILL, and a new process in its place.
    Kill,
    /// The proxy does this to traffic that matches, and lets go what it held that much later.
    Rule(Target, Action, Duration),
    Cut,
    Silence,
    /// So it is with new connections for so long.
    Door(Door, Duration),
    /// Nothing comes through for so long, on old connections nor on new ones.
    Partition(Duration),
    /// So many bytes a second for so long.
    Throttle(u64, Duration),
}

/// The nth of one kind of traffic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) what: &'static str,
    nth: usize,
}

/// What may happen to the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ServerFault {
    Harm(Harm),
    RestartEmpty,
    /// Somebody frees this name whoever holds it.
    Force(usize),
}

/// What costs a server none of its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Harm {
    FlushScripts,
    KillClients(&'static str),
    /// It answers nobody for so long, and takes no connection.
    Sleep(Duration),
    /// SIGSTOP, and SIGCONT that much later.
    Freeze(Duration),
}

/// What may happen to one of several masters that know nothing of each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MasterFault {
    Harm(Harm),
    /// It is killed, and there again that much later with no data.
    RestartEmpty(Duration),
}

/// What may happen to servers that belong together. Each is about those of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NodeFault {
    FlushScripts,
    KillClients(&'static str),
    /// SIGSTOP of the master or of a replica, and SIGCONT before anybody can take it for dead.
    Stumble {
        master: bool,
        pause: Duration,
    },
    /// The master is killed, and there again before anybody takes its place.
    RestartEmpty(Duration),
    /// A replica is killed, and there again that much later.
    LoseReplica(Duration),
    /// The master is killed, or stands still, until another has taken its place and for so long after that.
    FailOver {
        freezes: bool,
        lags: bool,
        back_after: Duration,
    },
    /// Somebody orders that another takes the master's place; without asking the master, or as is usual.
    HandOver {
        by_force: bool,
    },
    /// A sentinel stands still for so long, or a slot goes to another node and is half moved for so long.
    Apart(Duration),
    /// Somebody frees the name whoever holds it.
    Force,
}

/// Mostly short, sometimes longer than any lease.
fn pause(random: &mut Random) -> Duration {
    if random.once_in_a_while(350) { LONGEST_LEASE + random.millis(50, 700) } else { random.millis(5, 300) }
}

const SCRIPTS: &[&str] =
    &["acquire", "acquire", "release", "release", "renew", "hand_over", "inspect", "force_release"];
const ACTIONS: &[Action] = &[
    Action::HoldRequest,
    Action::HoldReply,
    Action::SwallowRequest,
    Action::SwallowReply,
    Action::Duplicate,
    Action::DuplicateLater,
    Action::DuplicateLater,
    Action::FlushScriptsFirst,
    Action::CutBefore,
    Action::CutAfter,
    Action::CutMidRequest,
    Action::CutMidReply,
    Action::Silence,
];

impl Target {
    /// For a proxy, from now on.
    pub(super) fn matches(self) -> Match {
        let what = match self.what {
            "any" => any(),
            "message" => push("message"),
            "SUBSCRIBE" | "UNSUBSCRIBE" => command(self.what),
            verb => script(verb),
        };
        what.nth(self.nth)
    }
}

impl ProcessFault {
    /// Who has several ways to masters is to go on with one less for a while: a hold of the others alone is what a restart may harm.
    fn draw_on(random: &mut Random, sheltered: bool, ways: usize) -> Self {
        if ways > 1 && random.once_in_a_while(250) {
            return Self::Partition(random.millis(300, 3_000));
        }
        Self::draw(random, sheltered)
    }

    fn draw(random: &mut Random, sheltered: bool) -> Self {
        if sheltered {
            return Self::Freeze(pause(random));
        }
        match random.below(100) {
            0..12 => Self::Freeze(pause(random)),
            12..16 => Self::Kill,
            16..21 => Self::Cut,
            21..24 => Self::Silence,
            24..28 => Self::Door(random.pick(&[Door::Refusing, Door::Silent]), random.millis(20, 600)),
            28..32 => Self::Throttle(random.pick(&[500, 2_000, 10_000]), random.millis(50, 600)),
            32..37 => Self::Partition(pause(random)),
            _ => Self::rule(random),
        }
    }

    fn rule(random: &mut Random) -> Self {
        let what = match random.below(10) {
            0 => "any",
            1 => "SUBSCRIBE",
            2 => "UNSUBSCRIBE",
            3 => "message",
            _ => random.pick(SCRIPTS),
        };
        let action = match random.below(ACTIONS.len() + 4) {
            0 | 1 => Action::DelayRequest(random.millis(1, 500)),
            2 | 3 => Action::DelayReply(random.millis(1, 500)),
            other => ACTIONS[other - 4],
        };
        let target = Target { what, nth: 1 + random.below(3) };
        Self::Rule(target, action, pause(random))
    }

    /// For the count of what happened.
    pub(super) fn kind(&self) -> String {
        match self {
            Self::Freeze(_) => "freeze process".to_owned(),
            Self::Kill => "kill process".to_owned(),
            Self::Rule(_, action, _) => {
                let action = format!("{action:?}");
                action.split('(').next().unwrap_or_default().to_owned()
            }
            Self::Cut => "cut all".to_owned(),
            Self::Silence => "silence all".to_owned(),
            Self::Door(door, _) => format!("door {door:?}"),
            Self::Throttle(..) => "throttle".to_owned(),
            Self::Partition(_) => "partition".to_owned(),
        }
    }
}

impl ServerFault {
    fn draw(random: &mut Random, names: usize) -> Self {
        match random.below(100) {
            0..76 => Self::Harm(Harm::draw(random)),
            76..86 => Self::RestartEmpty,
            _ => Self::Force(random.below(names)),
        }
    }

    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Harm(harm) => harm.kind(),
            Self::RestartEmpty => "restart empty",
            Self::Force(_) => "force from outside",
        }
    }
}

impl Harm {
    fn draw(random: &mut Random) -> Self {
        match random.below(76) {
            0..20 => Self::FlushScripts,
            20..34 => Self::KillClients("normal"),
            34..48 => Self::KillClients("pubsub"),
            48..62 => Self::Sleep(pause(random)),
            _ => Self::Freeze(pause(random)),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::FlushScripts => "flush scripts",
            Self::KillClients("normal") => "kill client links",
            Self::KillClients(_) => "kill pubsub links",
            Self::Sleep(_) => "server sleeps",
            Self::Freeze(_) => "freeze server",
        }
    }
}

impl MasterFault {
    fn draw(random: &mut Random, may_restart: bool) -> Self {
        if may_restart && !random.once_in_a_while(300) {
            // There again before a hold ends that it has forgotten, or while that ends.
            let longest = random.pick(&[1, 1, 1_000]);
            return Self::RestartEmpty(random.millis(0, longest));
        }
        Self::Harm(Harm::draw(random))
    }

    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Harm(harm) => harm.kind(),
            Self::RestartEmpty(_) => "restart empty",
        }
    }
}

impl NodeFault {
    fn draw(random: &mut Random) -> Self {
        match random.below(100) {
            0..6 => Self::FlushScripts,
            6..12 => Self::KillClients("normal"),
            12..18 => Self::KillClients("pubsub"),
            18..26 => Self::Stumble { master: random.below(2) == 0, pause: random.millis(20, 600) },
            26..37 => Self::RestartEmpty(random.millis(0, 500)),
            37..42 => Self::LoseReplica(random.millis(0, 2_000)),
            42..68 => Self::FailOver {
                freezes: random.below(2) == 0,
                lags: random.below(3) == 0,
                back_after: random.millis(0, 2_000),
            },
            68..82 => Self::HandOver { by_force: random.below(3) == 0 },
            82..94 => Self::Apart(random.millis(0, 1_000)),
            _ => Self::Force,
        }
    }

    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::FlushScripts => "flush scripts",
            Self::KillClients("normal") => "kill client links",
            Self::KillClients(_) => "kill pubsub links",
            Self::Stumble { .. } => "server stands still",
            Self::RestartEmpty(_) => "restart empty",
            Self::LoseReplica(_) => "restart replica",
            Self::FailOver { lags: true, .. } => "fail over behind the times",
            Self::FailOver { freezes: true, .. } => "fail over frozen",
            Self::FailOver { .. } => "fail over killed",
            Self::HandOver { by_force: true } => "hand over by force",
            Self::HandOver { .. } => "hand over",
            Self::Apart(_) => "apart",
            Self::Force => "force from outside",
        }
    }
}

/// The faults of one process, and which of its ways to servers each is about. A sheltered one only stands still, and that seldom.
pub(super) fn for_process(
    seed: u64,
    process: u64,
    sheltered: bool,
    ways: usize,
) -> impl Iterator<Item = Step<(usize, ProcessFault)>> {
    let mut random = Random::new(seed, &[1, process]);
    let longest = if sheltered { 10_000 } else { 1_300 };
    std::iter::repeat_with(move || Step {
        after: random.millis(30, longest),
        fault: (random.below(ways), ProcessFault::draw_on(&mut random, sheltered, ways)),
    })
}

/// The faults of the server.
pub(super) fn for_server(seed: u64, names: usize) -> impl Iterator<Item = Step<ServerFault>> {
    let mut random = Random::new(seed, &[2]);
    std::iter::repeat_with(move || Step {
        after: random.millis(100, 2_000),
        fault: ServerFault::draw(&mut random, names),
    })
}

/// The faults of masters that know nothing of each other, and which of them each befalls. After one was restarted a majority
/// is old again before the next is.
pub(super) fn for_masters(seed: u64, masters: usize) -> impl Iterator<Item = Step<(usize, MasterFault)>> {
    let mut random = Random::new(seed, &[5]);
    let mut quiet = Duration::ZERO;
    std::iter::repeat_with(move || {
        let (after, master) = (random.millis(100, 1_500), random.below(masters));
        quiet += after;
        let fault = MasterFault::draw(&mut random, quiet > BETWEEN_RESTARTS);
        if matches!(fault, MasterFault::RestartEmpty(_)) {
            quiet = Duration::ZERO;
        }
        Step { after, fault: (master, fault) }
    })
}

/// The faults of servers that belong together, and which name each is about. However few there are, by the first something is lost
/// that must be told.
pub(super) fn for_nodes(seed: u64, names: usize) -> impl Iterator<Item = Step<(usize, NodeFault)>> {
    let mut random = Random::new(seed, &[4]);
    let first = (0, NodeFault::RestartEmpty(random.millis(0, 500)));
    let first = Step { after: random.millis(1_000, 2_000), fault: first };
    std::iter::once(first).chain(std::iter::repeat_with(move || Step {
        after: random.millis(100, 2_000),
        fault: (random.below(names), NodeFault::draw(&mut random)),
    }))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_seed_gives_the_same_faults_at_the_same_times_again_and_another_seed_others() {
        let of_servers = |seed| {
            let one: Vec<_> = for_server(seed, 3).take(40).collect();
            let nodes: Vec<_> = for_nodes(seed, 3).take(40).collect();
            let masters: Vec<_> = for_masters(seed, 3).take(40).collect();
            (one, nodes, masters)
        };
        let first = |seed| format!("{:?}{:?}", plan(seed), of_servers(seed));
        assert_eq!(first(7), first(7));
        assert_ne!(first(7), first(8));
        assert_ne!(format!("{:?}", plan(7)[0]), format!("{:?}", plan(7)[1]));
    }

    fn plan(seed: u64) -> Vec<Vec<Step<(usize, ProcessFault)>>> {
        (0..6).map(|process| for_process(seed, process, false, 3).take(40).collect()).collect()
    }

    #[test]
    fn every_kind_of_fault_comes() {
        let kinds: BTreeSet<String> = for_process(1, 0, false, 3).take(2000).map(|step| step.fault.1.kind()).collect();
        assert_eq!(kinds.len(), 8 + ACTIONS.len() - 1 + 2, "{kinds:?}");
        let kinds: BTreeSet<&str> = for_server(1, 3).take(500).map(|step| step.fault.kind()).collect();
        assert_eq!(kinds.len(), 7, "{kinds:?}");
        let kinds: BTreeSet<&str> = for_nodes(1, 3).take(500).map(|step| step.fault.1.kind()).collect();
        assert_eq!(kinds.len(), 13, "{kinds:?}");
        let kinds: BTreeSet<(usize, &str)> =
            for_masters(1, 3).take(500).map(|step| (step.fault.0, step.fault.1.kind())).collect();
        assert_eq!(kinds.len(), 3 * 6, "{kinds:?}");
    }

    #[test]
    fn no_second_master_is_restarted_while_the_first_counts_for_nothing() {
        let (mut now, mut restarts) = (Duration::ZERO, Vec::new());
        for Step { after, fault: (_, fault) } in for_masters(1, 3).take(500) {
            now += after;
            if matches!(fault, MasterFault::RestartEmpty(_)) {
                restarts.push(now);
            }
        }
        assert!(restarts.len() > 50, "{restarts:?}");
        assert!(restarts.windows(2).all(|pair| pair[1] - pair[0] > VOTED_LEASE), "{restarts:?}");
    }
}
