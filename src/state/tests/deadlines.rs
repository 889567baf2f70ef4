//! What a lease gives up at its end, and how long an answer is waited for.

use super::*;
use crate::state::margin;

#[test]
fn the_margin_is_a_256th_and_a_millisecond() {
    assert_eq!(margin(Duration::ZERO), MS);
    assert_eq!(margin(MS * 256), MS * 2);
    assert_eq!(margin(Duration::from_secs(30)), Duration::from_nanos(118_187_500));
}

#[test]
fn the_deadline_lies_within_the_lease_and_never_before_the_send() {
    let sent = Story::new().now();
    let deadline = |lease| LeaseRequest::first(lease, None, sent).deadline();
    assert_eq!(deadline(MS * 256), sent + MS * 254);
    assert_eq!(deadline(MS), sent);
    assert_eq!(deadline(Duration::ZERO), sent);
    let year = Duration::from_secs(365 * 24 * 3600);
    assert!(deadline(year) > sent + (year - year / 255));
}

/// A way may have just become longer, and a count in doubt is one more for the hold to settle.
#[test]
fn whoever_nests_waits_for_its_answer_as_if_the_server_were_far() {
    let mut it = Story::new();
    let over = it.with(|_, env| env.cut_off_nested(env.now, env.now) - env.now);
    assert_eq!(over, MS * 300);
    it.settings.command_timeout = MS * 100;
    let over = it.with(|_, env| env.cut_off_nested(env.now, env.now) - env.now);
    assert_eq!(over, MS * 100);
}
