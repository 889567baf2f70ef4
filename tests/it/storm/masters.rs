//! Does to masters that know nothing of each other what the plan says. What they lose is nobody's excuse, so it is not written
//! down.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use super::{
    chaos::{Done, harm_server, wait_for},
    plan::{MasterFault, Step},
};
use crate::harness::Server;

/// The faults of the masters, until that instant; all of them end with it.
pub(super) fn harass(
    masters: &[Server],
    plan: impl Iterator<Item = Step<(usize, MasterFault)>>,
    until: Instant,
) -> Done {
    let mut done = Done::default();
    let mut due = Instant::now();
    for Step { after, fault: (master, fault) } in plan {
        due += after;
        wait_for(due.min(until));
        if due >= until {
            break;
        }
        *done.faults.entry(fault.kind().to_owned()).or_default() += 1;
        strike(&masters[master], &fault);
        // What one fault took longer than planned does not bring the next ones all at once.
        due = due.max(Instant::now());
    }
    done
}

fn strike(master: &Server, fault: &MasterFault) {
    match fault {
        MasterFault::Harm(harm) => harm_server(master, harm),
        MasterFault::RestartEmpty(away) => restart_empty(master, *away),
    }
}

fn restart_empty(master: &Server, away: Duration) {
    master.kill();
    sleep(away);
    master.restart_empty();
}
