//! Whoever holds what the server has lost is told of it in time, where nobody harassed the links.

use std::time::Duration;

use super::{Chronicle, Claim, Complaint, Findings, Loss};

pub(super) fn check(chronicle: &Chronicle, name: usize, claims: &[Claim], findings: &mut Findings) {
    for claim in claims.iter().filter(|claim| chronicle.sheltered.contains(&claim.guard.process)) {
        let losses = chronicle.losses.iter().filter_map(|loss| Some((chronicle.told_by(claim, loss)?, loss.from)));
        let Some((latest, lost)) = losses.min() else { continue };
        if claim.to <= latest {
            findings.lost += 1;
            continue;
        }
        let what = format!("what the server has lost is believed in for {:?} too long:\n  {claim}", claim.to - latest);
        findings.complaints.push(Complaint { what, excerpt: chronicle.excerpt(name, lost, lost) });
    }
}

impl Chronicle {
    /// Until when it may be believed in if this loss took it.
    fn told_by(&self, claim: &Claim, loss: &Loss) -> Option<Duration> {
        let was_there = claim.from < loss.from && loss.from < claim.to;
        let is_of_it = loss.name.is_none_or(|lost| lost == claim.name);
        let told = loss.told.filter(|_| loss.whole && was_there && is_of_it)?;
        Some(loss.until + told + self.frozen(claim.guard.process, loss.from, claim.to))
    }
}
