//! An acquisition of several locks as its caller has it. It runs at home, whoever polls: what it has is not kept for long by
//! somebody who does not go on. How the locks are come by is in `gather.rs`.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::task;
use tracing::Instrument;

use super::{
    caller::Caller,
    elsewhere::{Away, Silence},
    gather::Gather,
    handle::Nesting,
    many::Many,
    plan::{Options, Waits},
    several::Several,
    slot::{Wanted, endable},
};
use crate::error::{Error, Op, Result};

/// An acquisition of several locks: nothing until its first poll.
pub(super) struct Gathering {
    several: Arc<Several>,
    options: Options,
    progress: Progress,
}

enum Progress {
    Planned,
    UnderWay(Begun),
    Done,
}

/// One that runs at home. Dropped, nothing of it is left: its owner may ask for the same locks again at once.
struct Begun {
    since: std::time::Instant,
    caller: Arc<Caller>,
    answer: Away<Option<Result<Option<Many>>>>,
    _wanted: Wanted<Result<Option<Many>>>,
}

impl Gathering {
    pub(super) fn new(several: Arc<Several>) -> Self {
        Self { several, options: Options::default(), progress: Progress::Planned }
    }

    pub(super) fn change(&mut self, change: impl FnOnce(&mut Options)) {
        if let Progress::Planned = self.progress {
            change(&mut self.options);
        }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>, waits: Waits) -> Poll<Option<Result<Option<Many>>>> {
        if let Progress::Planned = self.progress {
            let begun = self.begin(waits);
            self.progress = Progress::Done;
            match begun {
                Ok(under_way) => self.progress = under_way,
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
        loop {
            let Progress::UnderWay(begun) = &mut self.progress else { return Poll::Ready(None) };
            begun.caller.polls(cx);
            let answer = ready!(Pin::new(&mut begun.answer).poll(cx));
            let waited = begun.since.elapsed();
            self.progress = Progress::Done;
            let silent = |silence: Silence| Some(Err(silence.error(&self.several.name, Op::Acquire)));
            // Nobody else ends it.
            let answer = answer.unwrap_or_else(silent).unwrap_or(Err(Error::Closed));
            if let Ok(Some(many)) = &answer
                && !many.take()
            {
                // Nobody took it for as long as it lasted: that is nobody's fault, so start over.
                self.options.wait = self.options.wait.map(|wait| wait.saturating_sub(waited));
                match self.begin(waits) {
                    Ok(under_way) => self.progress = under_way,
                    Err(error) => return Poll::Ready(Some(Err(error))),
                }
            } else {
                return Poll::Ready(Some(answer));
            }
        }
    }

    /// Checks everything that needs no server. Whoever polls first is the owner, of all of them.
    fn begin(&mut self, waits: Waits) -> Result<Progress> {
        let said = |error: Error| error.for_lock(&self.several.name);
        let parts = self.several.ready()?;
        let home = &parts[0].engine;
        // What one of them does not bear none of them has.
        let mut terms = self.options.terms(home.settings()).map_err(said)?;
        for part in &parts[1..] {
            terms = self.options.terms(part.engine.settings()).map_err(said)?;
        }
        let owner = self.options.whose(self.several.nesting).map_err(said)?;
        if self.several.nesting == Nesting::Current {
            self.options.owner = Some(owner.clone());
        }
        let task = task::try_id();
        let caller = Arc::new(Caller::default());
        let waits_for = Arc::clone(&caller);
        let (several, wait, lives) = (Arc::clone(&self.several), self.options.wait, Arc::clone(home));
        let gather = async move {
            let patience = waits.patience(wait, &lives);
            Gather { several, home: lives, caller: waits_for, owner, task, terms, patience }.all().await
        };
        let (wanted, worker) = endable(gather.in_current_span());
        let since = std::time::Instant::now();
        Ok(Progress::UnderWay(Begun { since, caller, answer: home.away(worker), _wanted: wanted }))
    }
}
