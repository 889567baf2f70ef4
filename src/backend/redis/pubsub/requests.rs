//! What was asked over the subscription link and not answered yet. Decides nothing.

use std::{
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use redis::{RedisError, RedisResult};
use tokio::{
    task::{consume_budget, unconstrained},
    time::{Instant, timeout_at},
};

use super::subscriber::Sink;
use crate::backend::redis::link::Answers;

/// What was asked of the server and not answered yet: one request a channel at most, and pings.
pub(super) struct Requests {
    sink: Sink,
    command_timeout: Duration,
    /// Answers come in the order of the requests: as long as earlier ones come, a later one is not missing.
    answers: Arc<Answers>,
    pings: bool,
    under_way: InFlight<RequestAnswer>,
}

/// What is waited for, any number at the same time.
struct InFlight<T>(FuturesUnordered<Pin<Box<dyn Future<Output = T> + Send>>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::backend::redis) enum Verb {
    Subscribe,
    Unsubscribe,
    Ping,
}

pub(super) struct RequestAnswer {
    pub(super) verb: Verb,
    pub(super) channel: Option<Arc<str>>,
    pub(super) outcome: RequestOutcome,
}

pub(super) enum RequestOutcome {
    Done,
    Refused(RedisError),
    Cut,
    Silent,
}

impl Requests {
    pub(super) fn new(sink: Sink, command_timeout: Duration) -> Self {
        let answers = Arc::new(Answers::new());
        Self { sink, command_timeout, answers, pings: false, under_way: InFlight(FuturesUnordered::new()) }
    }

    /// The next answer; none while nothing was asked. Dropped, it takes none away.
    pub(super) async fn next(&mut self) -> Option<RequestAnswer> {
        let answer = self.under_way.next().await;
        self.pings &= !matches!(answer, Some(RequestAnswer { verb: Verb::Ping, .. }));
        if matches!(answer, Some(RequestAnswer { outcome: RequestOutcome::Done | RequestOutcome::Refused(_), .. })) {
            self.answers.note();
        }
        answer
    }

    /// Whether anything is under way.
    pub(super) fn any(&self) -> bool {
        !self.under_way.0.is_empty()
    }

    /// Whether a ping is under way.
    pub(super) fn pings(&self) -> bool {
        self.pings
    }

    /// Sends with the next look at the answers.
    pub(super) fn send(&mut self, verb: Verb, channel: Option<&Arc<str>>) {
        self.pings |= verb == Verb::Ping;
        let mut sink = self.sink.clone();
        let channel = channel.cloned();
        let (answers, within) = (Arc::clone(&self.answers), self.command_timeout);
        self.under_way.push(async move {
            let outcome = outcome(sink.ask(verb, channel.as_deref()), &answers, within).await;
            RequestAnswer { verb, channel, outcome }
        });
    }
}

impl<T> InFlight<T> {
    /// Each looks for its answer whenever one is there: where the task has spent its budget, all that were answered would look in
    /// vain and be woken again, thousands of them for each few that get through.
    fn push(&mut self, waited_for: impl Future<Output = T> + Send + 'static) {
        self.0.push(Box::pin(unconstrained(waited_for)));
    }

    /// The next that comes. The budget is asked once for each, so that others have their turn.
    async fn next(&mut self) -> Option<T> {
        consume_budget().await;
        self.0.next().await
    }
}

async fn outcome(asking: impl Future<Output = RedisResult<()>>, answers: &Answers, within: Duration) -> RequestOutcome {
    let sent = Instant::now();
    let mut asking = pin!(asking);
    loop {
        let until = sent.max(answers.last()) + within;
        return match timeout_at(until, asking.as_mut()).await {
            Ok(Ok(())) => RequestOutcome::Done,
            Ok(Err(error)) if error.code().is_some() => RequestOutcome::Refused(error),
            Ok(Err(_)) => RequestOutcome::Cut,
            Err(_) if answers.last() + within > until => continue,
            Err(_) => RequestOutcome::Silent,
        };
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::poll_fn,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn many_answers_at_once_are_each_looked_for_once_or_twice_and_others_have_their_turn() {
        const MANY: usize = 2000;
        let (looks, turns) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut under_way = InFlight(FuturesUnordered::new());
        let mut answers = Vec::new();
        for number in 0..MANY {
            let (answer, mut answered) = oneshot::channel();
            answers.push(answer);
            let looks = Arc::clone(&looks);
            under_way.push(poll_fn(move |cx| {
                looks.fetch_add(1, Ordering::Relaxed);
                pin!(&mut answered).poll(cx).map(|_| number)
            }));
        }
        let hears = tokio::spawn(async move {
            let mut heard = 0;
            while under_way.next().await.is_some() {
                heard += 1;
            }
            heard
        });
        let turn = Arc::clone(&turns);
        let other = tokio::spawn(async move {
            loop {
                turn.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        });
        tokio::task::yield_now().await;
        answers.into_iter().for_each(|answer| answer.send(()).expect("it is waited for"));
        assert_eq!(hears.await.unwrap(), MANY);
        other.abort();
        assert!((MANY..=2 * MANY).contains(&looks.load(Ordering::Relaxed)), "{looks:?}");
        assert!(turns.load(Ordering::Relaxed) > MANY / 200, "{turns:?}");
    }
}
