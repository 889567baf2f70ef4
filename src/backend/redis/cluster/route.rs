//! What an answer says of the way of its command: whether it is one, or who is to be asked instead. Pure: it sends nothing,
//! and knows nobody's slots.

use std::{fmt, net::Ipv6Addr, time::Duration};

use crate::backend::{redis::words, slot::SLOTS};

/// A command goes to no more than so many other nodes, or to the same one again.
pub(super) const HOPS: u32 = 5;

/// The first pause before a command is sent to the same node again; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(20);

/// Where a node takes connections.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Endpoint {
    pub(super) host: String,
    pub(super) port: u16,
}

/// Where a command goes next. Nothing ran, unless it is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NextHop {
    /// Nowhere: this is its answer, a refusal perhaps.
    Done,
    /// Nowhere, though others were named: it was sent on too often, or its time is over. That is no answer.
    Astray,
    /// To the node that has the slot from now on.
    Moved(u16, Endpoint),
    /// To the node that has what there is of this key; the slot is still that of whoever said so.
    Ask(u16, Endpoint),
    /// To whoever has the slot by then.
    Again(Duration),
    /// The same; not before its keys are together is there anything new to be known of the slot.
    Parted(Duration),
    /// To the same node, with the script itself.
    BySource,
}

/// How far a command that is sent on has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hop<'a> {
    /// Who answered.
    pub(super) asked: &'a Endpoint,
    /// How often it was sent to somebody else, or again.
    pub(super) hops: u32,
    /// How much of its time is left.
    pub(super) left: Duration,
}

/// What these words of refusal mean for a command.
pub(super) fn next(words: &str, hop: Hop<'_>) -> NextHop {
    let mut parts = words.split(' ');
    let code = parts.next().unwrap_or_default();
    if code == "NOSCRIPT" {
        return NextHop::BySource;
    }
    let is_over = hop.hops >= HOPS || hop.left.is_zero();
    match code {
        "MOVED" | "ASK" => {
            let told = parts.next().and_then(|slot| slot.parse().ok()).filter(|slot| usize::from(*slot) < SLOTS);
            let told = told.zip(parts.next().and_then(|address| Endpoint::parse(address, hop.asked)));
            match told {
                Some(_) if is_over => NextHop::Astray,
                // It does not know the other one's address, which is no other port of its own.
                Some((_, node)) if node == *hop.asked => again(hop).map_or(NextHop::Astray, NextHop::Again),
                Some((slot, node)) if code == "MOVED" => NextHop::Moved(slot, node),
                Some((slot, node)) => NextHop::Ask(slot, node),
                None => NextHop::Done,
            }
        }
        _ if is_over => NextHop::Done,
        "TRYAGAIN" => again(hop).map_or(NextHop::Done, NextHop::Parted),
        "CLUSTERDOWN" => again(hop).map_or(NextHop::Done, NextHop::Again),
        _ if is_a_replicas(words) => again(hop).map_or(NextHop::Done, NextHop::Again),
        _ => NextHop::Done,
    }
}

/// How long to wait before a command goes to a node that it visited: those who send it to and fro do not agree yet.
pub(super) fn pause(visited: &[Endpoint], to: &Endpoint, hops: u32) -> Duration {
    if visited.contains(to) { FIRST_PAUSE * (1 << hops.min(HOPS)) } else { Duration::ZERO }
}

/// After how long; `None` where its time is over by then.
fn again(hop: Hop<'_>) -> Option<Duration> {
    Some(FIRST_PAUSE * (1 << hop.hops)).filter(|pause| *pause < hop.left)
}

/// Whether a replica would not run it, and ran nothing of it.
fn is_a_replicas(words: &str) -> bool {
    words::are_of_a_replica(words) && !words::meaning(words).may_have_run
}

impl Endpoint {
    /// An address as one node tells that of another: what it does not know, or leaves out, is its own.
    pub(super) fn parse(address: &str, asked: &Self) -> Option<Self> {
        let (host, port) = address.rsplit_once(':')?;
        Some(Self::of(host, port.parse().ok().filter(|port| *port > 0)?, asked))
    }

    pub(super) fn of(host: &str, port: u16, asked: &Self) -> Self {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let host = if matches!(bare, "" | "?") { &asked.host } else { bare };
        Self { host: host.to_owned(), port }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.parse::<Ipv6Addr>() {
            Ok(host) => write!(f, "[{host}]:{}", self.port),
            Err(_) => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn endpoint(host: &str, port: u16) -> Endpoint {
        Endpoint { host: host.to_owned(), port }
    }

    fn after(words: &str, hops: u32, left: Duration) -> NextHop {
        next(words, Hop { asked: &endpoint("asked", 1), hops, left })
    }

    #[test]
    fn a_redirect_leads_to_the_node_that_it_names() {
        let rows = [
            ("10.0.0.1:7000", endpoint("10.0.0.1", 7000)),
            ("node-2.example:7000", endpoint("node-2.example", 7000)),
            // Of an address of version 6 the last colon splits, with brackets and without.
            ("::1:7000", endpoint("::1", 7000)),
            ("2001:db8::7:7000", endpoint("2001:db8::7", 7000)),
            ("[::1]:7000", endpoint("::1", 7000)),
            // What a node does not know of another is as it was where it was asked itself.
            (":7000", endpoint("asked", 7000)),
            ("?:7000", endpoint("asked", 7000)),
        ];
        for (told, node) in rows {
            assert_eq!(after(&format!("MOVED 3999 {told}"), 0, MS), NextHop::Moved(3999, node.clone()), "{told}");
            assert_eq!(after(&format!("ASK 0 {told}"), 0, MS), NextHop::Ask(0, node), "{told}");
        }
    }

    #[test]
    fn a_redirect_to_nowhere_is_an_answer() {
        for words in [
            "MOVED",
            "MOVED 1",
            "MOVED x h:1",
            "MOVED 1 h",
            "MOVED 1 h:",
            "MOVED 1 h:0",
            "MOVED 1 h:65536",
            "MOVED 16384 h:1",
            "ASK -1 h:1",
        ] {
            assert_eq!(after(words, 0, MS), NextHop::Done, "{words}");
        }
    }

    #[test]
    fn what_ran_nowhere_is_sent_again_after_pauses_that_grow() {
        let inside = "ERR Error running script (call to f_1): @user_script:1: -READONLY You can't write against a read only replica.";
        for words in
            ["TRYAGAIN Multiple keys", "CLUSTERDOWN Hash slot not served", "READONLY no", "MASTERDOWN Link", inside]
        {
            let pauses: Vec<_> = (0..6).map(|hops| after(words, hops, 3000 * MS)).collect();
            let is_parted = words.starts_with("TRYAGAIN");
            let next = if is_parted { NextHop::Parted } else { NextHop::Again };
            let expected = [20, 40, 80, 160, 320].map(|ms| next(ms * MS));
            assert_eq!(pauses[..5], expected, "{words}");
            assert_eq!(pauses[5], NextHop::Done, "{words}");
        }
    }

    #[test]
    fn a_command_goes_on_at_once_and_back_after_pauses_that_grow() {
        let visited = [endpoint("a", 1), endpoint("b", 1)];
        for (to, hops, ms) in [("c", 1, 0), ("a", 1, 40), ("b", 2, 80), ("a", 3, 160), ("b", 4, 320), ("a", 9, 640)] {
            assert_eq!(pause(&visited, &endpoint(to, 1), hops), ms * MS, "{to} after {hops}");
        }
    }

    #[test]
    fn nothing_is_sent_again_past_its_hops_or_its_time() {
        for hops in 0..8 {
            let expected = if hops < HOPS { NextHop::Moved(1, endpoint("h", 2)) } else { NextHop::Astray };
            assert_eq!(after("MOVED 1 h:2", hops, MS), expected, "{hops} hops");
            assert_eq!(after("ASK 1 h:2", hops, Duration::ZERO), NextHop::Astray);
            assert_eq!(after("TRYAGAIN x", hops, Duration::ZERO), NextHop::Done);
        }
        assert_eq!(after("MOVED nowhere", HOPS, Duration::ZERO), NextHop::Done, "it says nothing");
        assert_eq!(after("TRYAGAIN x", 0, 20 * MS), NextHop::Done, "the pause would outlast it");
        assert_eq!(after("TRYAGAIN x", 0, 21 * MS), NextHop::Parted(20 * MS));
    }

    /// One that has no name to be told by is told as if it were where the other is.
    #[test]
    fn a_redirect_to_whoever_was_asked_says_that_others_know_better() {
        for words in ["MOVED 7 ?:1", "ASK 7 :1", "MOVED 7 asked:1"] {
            assert_eq!(after(words, 1, 3000 * MS), NextHop::Again(40 * MS), "{words}");
            assert_eq!(after(words, HOPS, 3000 * MS), NextHop::Astray, "{words}");
            assert_eq!(after(words, 0, 20 * MS), NextHop::Astray, "{words}");
        }
    }

    #[test]
    fn a_script_that_is_not_known_is_sent_whole_however_far_the_command_came() {
        for hops in [0, HOPS, HOPS + 1] {
            assert_eq!(after("NOSCRIPT No matching script.", hops, Duration::ZERO), NextHop::BySource);
        }
    }

    #[test]
    fn every_other_refusal_is_an_answer() {
        for words in [
            "WRONGTYPE no",
            "OOM no",
            "NOPERM no",
            "NOAUTH no",
            "LOADING no",
            "BUSY no",
            "MISCONF no",
            "NOREPLICAS no",
            "CROSSSLOT no",
            "ERR unknown command 'EVALSHA'",
            "ERR user_script:1: MOVED 1 h:2",
            "",
        ] {
            assert_eq!(after(words, 0, 3000 * MS), NextHop::Done, "{words}");
        }
    }

    #[test]
    fn an_endpoint_is_shown_as_an_address() {
        assert_eq!(endpoint("h", 1).to_string(), "h:1");
        assert_eq!(endpoint("::1", 1).to_string(), "[::1]:1");
    }
}
