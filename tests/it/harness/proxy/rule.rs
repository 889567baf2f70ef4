//! What happens to traffic that matches, and the handle by which a test watches it and lets it go.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{sync::watch, time::Instant};

use super::matching::{Match, Seen};
use crate::harness::eventually;

/// How long a match may be waited for.
const SEEN: Duration = Duration::from_secs(20);

/// What happens to a request that matches, or to its reply.
///
/// A stream of bytes has no holes: what is held or delayed holds up everything behind it in its direction, and where
/// something is lost, everything behind it is lost too. Only a push can be lost alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Nothing: for counting and awaiting matches.
    Pass,
    /// The request reaches the server that much later.
    DelayRequest(Duration),
    /// The reply, or the push that matched, reaches the client that much later.
    DelayReply(Duration),
    /// The request reaches the server when the rule lets it go, even if the client closed the connection meanwhile.
    HoldRequest,
    /// The reply, or the push that matched, reaches the client when the rule lets it go.
    HoldReply,
    /// The request and all later ones never reach the server; the connection stays open.
    SwallowRequest,
    /// The script runs, but its reply and all later ones never reach the client; the connection stays open and later
    /// requests run. A push that matched is lost alone.
    SwallowReply,
    /// The request runs twice, at once; the client sees the first reply.
    Duplicate,
    /// The request runs, and when the rule lets it go a copy of it runs on a connection of its own.
    DuplicateLater,
    /// The server forgets its scripts, then the request runs.
    FlushScriptsFirst,
    /// The connection is cut instead of the request reaching the server.
    CutBefore,
    /// The connection is cut when the server has answered, instead of the reply (or the push) reaching the client.
    CutAfter,
    /// Half of the request reaches the server, then the connection is cut.
    CutMidRequest,
    /// Half of the reply, or of the push that matched, reaches the client, then the connection is cut.
    CutMidReply,
    /// From this request (or push) on nothing passes either way; the connection stays open.
    Silence,
    /// The request never reaches the server, and the client gets this reply for it: a whole frame, like `-LOADING no\r\n`.
    Answer(&'static str),
}

/// A rule that a proxy follows. Dropping it leaves the rule in force.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    matches: Match,
    action: Action,
    removed: AtomicBool,
    /// How many matches were seen, whatever became of them.
    seen: watch::Sender<usize>,
    /// How many of those that the rule applied to may go, in order.
    let_go: watch::Sender<usize>,
    applied: Mutex<usize>,
}

impl Rule {
    pub(super) fn new(matches: Match, action: Action) -> Self {
        let (seen, let_go) = (watch::Sender::new(0), watch::Sender::new(0));
        let (removed, applied) = (AtomicBool::new(false), Mutex::new(0));
        Self { state: Arc::new(State { matches, action, removed, seen, let_go, applied }) }
    }

    /// How many matches came by, also those whose turn it was not.
    pub(crate) fn seen(&self) -> usize {
        *self.state.seen.borrow()
    }

    /// Waits until the nth match has come by.
    pub(crate) async fn nth(&self, nth: usize) {
        let mut seen = self.state.seen.subscribe();
        let waited = tokio::time::timeout(SEEN, seen.wait_for(|seen| *seen >= nth)).await;
        assert!(waited.is_ok(), "match {nth} of {:?} did not come within {SEEN:?}", self.state.matches);
    }

    /// [`Rule::nth`] for tests without a runtime.
    #[track_caller]
    pub(crate) fn nth_blocking(&self, nth: usize) {
        eventually(SEEN, || self.seen() >= nth);
    }

    /// Lets everything go that is or will be held.
    pub(crate) fn let_go(&self) {
        self.state.let_go.send_replace(usize::MAX);
    }

    /// Lets one more go, in the order they came.
    pub(crate) fn let_one_go(&self) {
        self.state.let_go.send_modify(|number| *number = number.saturating_add(1));
    }

    /// The rule is no more for what comes now. What it holds stays held.
    pub(crate) fn remove(&self) {
        self.state.removed.store(true, Ordering::Release);
    }

    /// Counts what came by, and says whether it is this rule's turn.
    fn sees(&self, seen: &Seen<'_>) -> bool {
        if self.state.removed.load(Ordering::Acquire) || !self.state.matches.is_about(seen) {
            return false;
        }
        let mut occurrence = 0;
        self.state.seen.send_modify(|number| {
            *number += 1;
            occurrence = *number;
        });
        self.state.matches.applies_to(occurrence)
    }

    fn verdict(&self) -> Verdict {
        let mut applied = self.state.applied.lock().unwrap_or_else(PoisonError::into_inner);
        *applied += 1;
        let turn = Turn { nth: *applied, let_go: self.state.let_go.subscribe() };
        Verdict { action: self.state.action, turn: Some(turn) }
    }
}

/// All rules of a proxy, in the order they were given.
#[derive(Debug, Default)]
pub(super) struct Rules(Mutex<Vec<Rule>>);

impl Rules {
    pub(super) fn add(&self, rule: Rule) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(rule);
    }

    /// Every rule counts what it is about; the first whose turn it is decides.
    pub(super) fn judge(&self, seen: &Seen<'_>) -> Verdict {
        let rules = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut decides = None;
        for rule in rules.iter() {
            if rule.sees(seen) && decides.is_none() {
                decides = Some(rule);
            }
        }
        decides.map_or(Verdict { action: Action::Pass, turn: None }, Rule::verdict)
    }
}

/// What shall happen to one frame.
#[derive(Clone, Debug)]
pub(super) struct Verdict {
    pub(super) action: Action,
    turn: Option<Turn>,
}

#[derive(Clone, Debug)]
pub(super) struct Turn {
    nth: usize,
    let_go: watch::Receiver<usize>,
}

impl Verdict {
    /// When a request may go on.
    pub(super) fn request_gate(&self) -> Gate {
        match self.action {
            Action::DelayRequest(delay) => Gate::At(Instant::now() + delay),
            Action::HoldRequest => self.held(),
            _ => Gate::Open,
        }
    }

    /// When a reply or a push that arrives now may go on.
    pub(super) fn reply_gate(&self) -> Gate {
        match self.action {
            Action::DelayReply(delay) => Gate::At(Instant::now() + delay),
            Action::HoldReply => self.held(),
            _ => Gate::Open,
        }
    }

    /// Until the rule lets it go.
    pub(super) fn held(&self) -> Gate {
        self.turn.clone().map_or(Gate::Open, Gate::Turn)
    }
}

/// What a frame waits for before it goes on.
#[derive(Debug)]
pub(super) enum Gate {
    Open,
    At(Instant),
    Turn(Turn),
}

impl Gate {
    pub(super) async fn pass(self) {
        match self {
            Self::Open => {}
            Self::At(when) => tokio::time::sleep_until(when).await,
            Self::Turn(mut turn) => {
                // A rule that is gone, proxy and all, lets nothing go.
                if turn.let_go.wait_for(|number| *number >= turn.nth).await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        }
    }
}
