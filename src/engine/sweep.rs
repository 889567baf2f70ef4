//! Several locks that are asked for at once: what is granted before the first that is missing counts, and nothing behind it.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use super::{many::Shares, share::Share};
use crate::error::{Error, Result};

/// Why the first one that is missing is.
pub(super) enum Missing {
    Busy,
    Unanswered(Error),
}

/// One that was asked for with others.
enum Asked<F> {
    UnderWay(F),
    Granted(Share),
    Missing,
}

/// Those that were asked for together. Dropped, the last one goes first.
pub(super) struct Sweep<F> {
    asked: Vec<Asked<F>>,
    /// The first that is known to be missing, and why it is.
    missing: Option<(usize, Missing)>,
}

impl<F: Future<Output = Result<Option<Share>>> + Unpin> Future for Sweep<F> {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let mut under_way = false;
        for (at, one) in this.asked.iter_mut().enumerate() {
            let Asked::UnderWay(ask) = one else { continue };
            let answer = match Pin::new(ask).poll(cx) {
                Poll::Pending => {
                    under_way = true;
                    continue;
                }
                Poll::Ready(answer) => answer,
            };
            let (now, why) = match answer {
                Ok(Some(share)) => (Asked::Granted(share), None),
                Ok(None) => (Asked::Missing, Some(Missing::Busy)),
                Err(error) if error.is_transient() => (Asked::Missing, Some(Missing::Unanswered(error))),
                // Whoever waits for others first hears of it no later.
                Err(error) => return Poll::Ready(Err(error)),
            };
            *one = now;
            if let Some(why) = why
                && this.missing.as_ref().is_none_or(|(first, _)| at < *first)
            {
                this.missing = Some((at, why));
            }
        }
        this.let_go_behind();
        if under_way { Poll::Pending } else { Poll::Ready(Ok(())) }
    }
}

impl<F> Sweep<F> {
    pub(super) fn new(asks: impl Iterator<Item = F>) -> Self {
        Self { asked: asks.map(Asked::UnderWay).collect(), missing: None }
    }

    /// Of what was granted behind the first that is missing, though others have not answered.
    fn let_go_behind(&mut self) {
        let Some((first, _)) = self.missing else { return };
        for one in self.asked[first..].iter_mut().rev() {
            if let Asked::Granted(_) = one {
                *one = Asked::Missing;
            }
        }
    }

    /// What was granted before the first that is missing, and why that is.
    pub(super) fn end(mut self, held: &mut Shares) -> Option<Missing> {
        for one in std::mem::take(&mut self.asked) {
            if let Asked::Granted(share) = one {
                held.0.push(share);
            }
        }
        self.missing.take().map(|(_, why)| why)
    }
}

impl<F> Drop for Sweep<F> {
    fn drop(&mut self) {
        while self.asked.pop().is_some() {}
    }
}
