//! A command that another node is to answer: it is sent on, for a few hops and within its own time. Nothing ran before each
//! of them, so none is a repetition; what had no answer is never sent again here.

use std::{sync::Arc, time::Duration};

use redis::{Cmd, Value};
use smallvec::SmallVec;
use tokio::time::{Instant, sleep};

use super::{
    Routes,
    nodes::Member,
    route::{self, Endpoint, HOPS, Hop, NextHop, next},
};
use crate::{
    backend::{
        Fault, Publish, Replicas, UNCOUNTED,
        dispatch::Dispatches,
        redis::{
            acks::{AckRequest, Counted},
            codec,
            command::Timer,
            faults,
            node::Node,
            task::Task,
        },
        slot::slot,
    },
    script::Script,
};

/// What a release publishes, once more.
const UNLOCK_MESSAGE: &str = "0";

/// A command on its way from node to node.
struct Journey {
    routes: Arc<Routes>,
    slot: u16,
    cmd: Cmd,
    script: &'static Script,
    timer: Timer,
    dispatches: Dispatches,
    /// No other command shares them.
    alone: bool,
    hops: u32,
    /// Who answered last, and who did before.
    asked: Endpoint,
    visited: SmallVec<[Endpoint; HOPS as usize]>,
    /// Another than the slot's owner has the key already.
    asking: bool,
    /// That owner, if it is known.
    source: Option<Arc<Member>>,
    /// Of whoever answers, if they are to have what it writes.
    replicas: Option<Replicas>,
    counted: Option<Counted>,
}

impl Routes {
    /// The answer that a refusal leads to: the same one, unless another node is to be asked, or this one again.
    /// `dispatches` are of so many commands.
    pub(in crate::backend::redis) async fn redirected(
        self: &Arc<Self>,
        node: &Node,
        reply: Value,
        command: (&Cmd, &'static Script),
        timer: Timer,
        dispatches: (&Dispatches, usize),
    ) -> Result<Value, Fault> {
        match self.journey(node, &reply, command, timer, dispatches)? {
            // A caller that is not polled would hold up others where there is no link.
            Some(journey) => Task::spawn(&self.runtime, journey.go(reply)).answer().await.map(|(reply, _)| reply),
            None => Ok(reply),
        }
    }

    /// The same for one whose writes replicas are to have.
    pub(in crate::backend::redis) async fn redirected_acknowledged(
        self: &Arc<Self>,
        node: &Node,
        (reply, counted): (Value, Counted),
        command: (&Cmd, &'static Script),
        timer: Timer,
        (dispatches, replicas): (&Dispatches, Replicas),
    ) -> Result<(Value, Counted), Fault> {
        let Some(journey) = self.journey(node, &reply, command, timer, (dispatches, 1))? else {
            return Ok((reply, counted));
        };
        let journey = Journey { replicas: Some(replicas), ..journey };
        let (reply, there) = Task::spawn(&self.runtime, journey.go(reply)).answer().await?;
        Ok((reply, there.unwrap_or(counted)))
    }

    /// `None`: the answer leads nowhere.
    fn journey(
        self: &Arc<Self>,
        node: &Node,
        reply: &Value,
        (cmd, script): (&Cmd, &'static Script),
        timer: Timer,
        (dispatches, commands): (&Dispatches, usize),
    ) -> Result<Option<Journey>, Fault> {
        let Value::ServerError(error) = reply else { return Ok(None) };
        let Some(key) = codec::key(cmd) else { return Ok(None) };
        let asked = self.endpoint_of(node);
        let left = timer.deadline().saturating_duration_since(Instant::now());
        let words = faults::words_of(error);
        let first = next(&words, Hop { asked: &asked, hops: 0, left });
        match first {
            NextHop::Done | NextHop::BySource => return Ok(None),
            NextHop::Astray => return Err(faults::astray(error, self.secrets())),
            NextHop::Moved(..) | NextHop::Ask(..) | NextHop::Again(_) | NextHop::Parted(_) => {}
        }
        Ok(Some(Journey {
            routes: Arc::clone(self),
            slot: slot(key),
            cmd: cmd.clone(),
            script,
            timer,
            dispatches: dispatches.clone(),
            alone: commands == 1,
            hops: 0,
            asked,
            visited: SmallVec::new(),
            asking: false,
            source: None,
            replicas: None,
            counted: None,
        }))
    }
}

impl Journey {
    async fn go(mut self, mut reply: Value) -> Result<(Value, Option<Counted>), Fault> {
        loop {
            let Value::ServerError(error) = &reply else {
                return Ok((self.arrived(reply), self.counted));
            };
            let left = self.timer.deadline().saturating_duration_since(Instant::now());
            let words = faults::words_of(error);
            let next = next(&words, Hop { asked: &self.asked, hops: self.hops, left });
            let (member, since) = match next {
                NextHop::Done | NextHop::BySource => return Ok((reply, self.counted)),
                NextHop::Astray => return Err(faults::astray(error, self.routes.secrets())),
                NextHop::Moved(slot, endpoint) => {
                    (self.asking, self.source) = (false, None);
                    let endpoint = self.routes.to_be_used(endpoint);
                    self.go_on_to(&endpoint, left).await?;
                    let member = self.routes.moved(slot, &endpoint)?;
                    (member, self.routes.since(self.slot))
                }
                NextHop::Ask(_, endpoint) => {
                    let source = self.routes.member(self.slot);
                    (self.asking, self.source) = (true, source.or_else(|| self.source.take()));
                    let endpoint = self.routes.to_be_used(endpoint);
                    self.go_on_to(&endpoint, left).await?;
                    let member = self.routes.asks(self.slot, &endpoint)?;
                    (member, self.routes.since(self.slot).apart())
                }
                NextHop::Again(pause) | NextHop::Parted(pause) => {
                    if let NextHop::Again(_) = next {
                        self.routes.look();
                    }
                    self.rest(pause).await?;
                    (self.asking, self.source) = (false, None);
                    self.routes.rerouted(self.slot);
                    let member = self.routes.member(self.slot).ok_or_else(faults::nobody)?;
                    (member, self.routes.since(self.slot))
                }
            };
            self.hops += 1;
            self.asked.clone_from(&member.endpoint);
            member.is_asked();
            if self.alone {
                self.dispatches.came_back();
            }
            self.dispatches = self.dispatches.since(since);
            reply = self.sent_to(&member.node).await?;
        }
    }

    async fn sent_to(&mut self, node: &Arc<Node>) -> Result<Value, Fault> {
        let (asking, script, timer) = (self.asking, self.script, &mut self.timer);
        let Some(replicas) = self.replicas else {
            return node.again(&self.cmd, asking, script, timer, &self.dispatches).await;
        };
        let (cmd, dispatches, timer) = (self.cmd.clone(), self.dispatches.clone(), *timer);
        let (reply, counted) =
            node.acknowledged(AckRequest { cmd, asking, script, replicas, dispatches, timer }).await?;
        self.counted = Some(counted);
        Ok(reply)
    }

    /// Leaves whoever was asked, and comes back to nobody at once.
    async fn go_on_to(&mut self, to: &Endpoint, left: Duration) -> Result<(), Fault> {
        self.visited.push(self.asked.clone());
        self.rest(route::pause(&self.visited, to, self.hops).min(left)).await
    }

    async fn rest(&self, pause: Duration) -> Result<(), Fault> {
        if pause.is_zero() {
            return Ok(());
        }
        let rested = self.routes.closed.run_until_cancelled(sleep(pause)).await;
        rested.ok_or_else(|| faults::closed(false))
    }

    /// Whoever listens may not have heard of the move yet that sent a release on, and is not counted. Where another node than the
    /// slot's owner told of it, it told nobody of those who listen to one node: that is the owner.
    fn arrived(&self, mut reply: Value) -> Value {
        let Some(heard) = listeners(&mut reply, self.script) else { return reply };
        let Some((publish, channel)) = codec::publication(&self.cmd, self.script) else { return reply };
        *heard = UNCOUNTED;
        let Some(source) = &self.source else { return reply };
        if publish != Publish::Sharded.command().as_bytes() {
            return reply;
        }
        let mut cmd = Cmd::new();
        cmd.arg(publish).arg(channel).arg(UNLOCK_MESSAGE);
        let (source, within) = (Arc::clone(source), self.routes.command_timeout);
        // Not withdrawn with the command, which has run.
        self.routes.runtime.spawn(async move {
            if let Err(fault) = source.node.ask(&cmd, within).await {
                tracing::debug!(error = %fault.source, "a release was not told to those who listen at another node");
            }
        });
        reply
    }
}

/// How many heard of what a script did; `None` where it told nothing.
fn listeners<'a>(reply: &'a mut Value, script: &Script) -> Option<&'a mut i64> {
    let heard = match reply {
        Value::Int(heard) if script.answer == "listeners" => heard,
        Value::Array(parts) => match &mut parts[..] {
            [Value::Int(1), .., Value::Int(heard)] => heard,
            _ => return None,
        },
        _ => return None,
    };
    Some(heard).filter(|heard| **heard >= 0)
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt;
    use tokio::time::timeout;

    use super::*;
    use crate::{
        backend::{
            Arg, Call, FaultKind, Polled,
            redis::{address::Target, testing::options},
        },
        script::{CATALOGUE, reentrant as scripts},
    };

    const MS: Duration = Duration::from_millis(1);

    /// A command that went from a to b, and from there to others: how it goes on after these words.
    fn journey(routes: &Arc<Routes>, hops: u32) -> Journey {
        let [a, b] = [1, 2].map(|port| Endpoint { host: "127.0.0.1".to_owned(), port });
        Journey {
            routes: Arc::clone(routes),
            slot: 7,
            cmd: Cmd::new(),
            script: CATALOGUE[0],
            timer: Timer::started(Instant::now(), MS * 3000),
            dispatches: Dispatches::of([]),
            alone: true,
            hops,
            asked: b,
            visited: [a].into_iter().collect(),
            asking: false,
            source: None,
            replicas: None,
            counted: None,
        }
    }

    fn refusal(words: &str) -> Value {
        redis::parse_redis_value(format!("-{words}\r\n").as_bytes()).unwrap()
    }

    fn routes() -> Arc<Routes> {
        Routes::new(&[Target::parse("redis://127.0.0.1:1").unwrap()], options(3000)).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_is_sent_back_rests_before_it_goes_there_for_good_or_for_one_key() {
        for code in ["MOVED", "ASK"] {
            for (port, hops, ms) in [(3, 3, 0), (1, 1, 40), (1, 3, 160)] {
                let routes = routes();
                let mut goes = pin!(journey(&routes, hops).go(refusal(&format!("{code} 7 127.0.0.1:{port}"))));
                if ms > 0 {
                    assert!(timeout(MS * (ms - 1), &mut goes).await.is_err());
                    assert_eq!(routes.members().len(), 0, "{code} {port}");
                }
                assert!(timeout(MS * 2, &mut goes).await.is_err(), "nobody is there");
                assert_eq!(routes.members().len(), 1, "{code} {port}");
                routes.close();
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_is_closed_keeps_no_command_that_rests() {
        for words in ["MOVED 7 127.0.0.1:1", "ASK 7 127.0.0.1:1", "TRYAGAIN", "CLUSTERDOWN"] {
            let routes = routes();
            let mut goes = pin!(journey(&routes, 4).go(refusal(words)));
            assert!(timeout(MS, &mut goes).await.is_err());
            let closed = Instant::now();
            routes.close();
            let fault = goes.await.expect_err("nothing ran");
            assert!(fault.kind == FaultKind::Closed && !fault.may_have_run, "{words}: {fault:?}");
            assert_eq!(closed.elapsed(), Duration::ZERO, "{words}");
        }
    }

    /// By reading again and again who has which slot nothing is found out about keys that are on their way.
    #[tokio::test(start_paused = true)]
    async fn nobody_looks_who_has_a_slot_of_which_a_part_is_elsewhere() {
        for (words, looks) in
            [("ASK 7 127.0.0.1:3", false), ("TRYAGAIN", false), ("MOVED 7 127.0.0.1:3", true), ("CLUSTERDOWN", true)]
        {
            let routes = routes();
            let missed = routes.missed.times();
            let mut goes = pin!(journey(&routes, 0).go(refusal(words)));
            assert!(goes.as_mut().now_or_never().is_none());
            assert_eq!(missed.has_changed().unwrap(), looks, "{words}");
            routes.close();
        }
    }

    #[tokio::test]
    async fn of_a_release_that_was_sent_on_nobody_counts_who_heard() {
        let routes = routes();
        let script = &scripts::RELEASE;
        let args = [Arg::Bytes(b"c:1"), Arg::Text("SPUBLISH"), Arg::Text("channel")];
        let call = Call { script, keys: &["a"], args: &args, dispatch: None, polled: Polled::ByCaller };
        let cmd = codec::command_of_many(&codec::Hashes::of_catalogue(), &call);
        let journey = Journey { script, cmd, ..journey(&routes, 1) };
        let numbers = |numbers: &[i64]| Value::Array(numbers.iter().copied().map(Value::Int).collect());
        assert_eq!(journey.arrived(Value::Int(0)), Value::Int(UNCOUNTED));
        assert_eq!(journey.arrived(numbers(&[1, 2, -1])), numbers(&[1, 2, -1]), "it told nobody");
        routes.close();
    }

    #[test]
    fn how_many_heard_is_the_number_of_a_release_and_the_last_one_of_what_is_done() {
        let numbers = |numbers: &[i64]| Value::Array(numbers.iter().copied().map(Value::Int).collect());
        let rows = [
            (&scripts::RELEASE, Value::Int(0), Some(0)),
            (&scripts::RELEASE, Value::Int(3), Some(3)),
            (&scripts::RELEASE, numbers(&[1, 0, -1]), None),
            (&scripts::RELEASE, numbers(&[1, 2, -1]), None),
            (&scripts::RELEASE, numbers(&[-1, 0, -1]), None),
            (&scripts::FORCE_RELEASE, Value::Int(1), Some(1)),
            (&scripts::FORCE_RELEASE, numbers(&[-1, -1]), None),
            (&scripts::HAND_OVER, numbers(&[1, 3]), Some(3)),
            (&scripts::HAND_OVER, numbers(&[1, -1]), None),
            (&scripts::HAND_OVER, Value::Int(1), None),
            (&scripts::ACQUIRE, Value::Int(1), None),
            (&scripts::RENEW, Value::Int(1), None),
            (&scripts::RENEW, numbers(&[1]), None),
        ];
        for (script, mut reply, heard) in rows {
            assert_eq!(listeners(&mut reply, script).copied(), heard, "{script:?} {reply:?}");
        }
    }
}
