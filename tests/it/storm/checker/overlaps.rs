//! No two owners believe in a hold of one name at the same time, but for holds that the server itself had lost.

use super::{Chronicle, Claim, Complaint, Findings};

pub(super) fn check(chronicle: &Chronicle, name: usize, claims: &[Claim], findings: &mut Findings) {
    let mut claims: Vec<&Claim> = claims.iter().collect();
    claims.sort_by_key(|claim| claim.from);
    let mut open: Vec<&Claim> = Vec::new();
    for claim in claims {
        open.retain(|earlier| earlier.to > claim.from);
        for earlier in open.iter().filter(|earlier| earlier.is_of_another_owner(claim)) {
            let (from, to) = (claim.from, claim.to.min(earlier.to));
            if chronicle.are_excused([earlier, claim], from, to) {
                findings.excused += 1;
                continue;
            }
            let what = format!("two believe to hold name {name} for {:?}:\n  {earlier}\n  {claim}", to - from);
            findings.complaints.push(Complaint { what, excerpt: chronicle.excerpt(name, from, to) });
        }
        open.push(claim);
    }
}
