//! What tasks of ours send to a node: a command that another node sent on, and questions that are no script. None of it is
//! polled by a caller, who may stop: whoever waits for a link holds up all behind it.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::future::join;
use redis::{Cmd, Value};
use tokio::time::Instant;

use crate::{
    backend::{
        Fault,
        dispatch::Dispatches,
        redis::{
            codec,
            command::{LinkAccess, Timer},
            current::SendTurn,
            faults,
            link::Link,
            many::pipeline_of,
            node::Node,
            rights::Version,
        },
    },
    script::Script,
};

impl Node {
    /// Whether others know where it leads if this one does not answer any more.
    pub(in crate::backend::redis) fn is_of_cluster(&self) -> bool {
        self.routes().is_some()
    }

    /// Another node has what this one had: nothing is sent here any more, and what is under way ends now.
    pub(super) fn retire(&self) {
        self.current.retire();
        self.closed.cancel();
    }

    /// The answer to a command that another node did not want, or this one not yet. `asking`: this one has the key, and not
    /// the slot.
    pub(super) async fn again(
        &self,
        cmd: &Cmd,
        asking: bool,
        script: &'static Script,
        timer: &mut Timer,
        dispatches: &Dispatches,
    ) -> Result<Value, Fault> {
        let (link, turn) = self.linked(timer).await?;
        timer.sent = Instant::now();
        let mut reply = self.sent_as(&link, cmd, asking, turn, *timer, dispatches).await?;
        if codec::is_unknown_script(&reply) {
            timer.sent = Instant::now();
            // The word that let it pass is used up.
            reply = self.sent_as(&link, &codec::eval(cmd, script), asking, None, *timer, dispatches).await?;
        }
        self.look_for_replica(&link, [&reply]);
        Ok(reply)
    }

    /// The answer to a command that is no script.
    pub(in crate::backend::redis) async fn ask(&self, cmd: &Cmd, within: Duration) -> Result<Value, Fault> {
        let mut timer = Timer::started(Instant::now(), within);
        let (link, turn) = self.linked(&mut timer).await?;
        self.sent(&link, cmd, turn, timer, &Dispatches::of([])).await
    }

    /// The same, and the version of whoever answers is known by then.
    pub(super) async fn greet_and_ask(&self, cmd: &Cmd, within: Duration) -> Result<Value, Fault> {
        let greeting = redis::cmd("HELLO");
        let (greeting, answer) = join(self.ask(&greeting, within), self.ask(cmd, within)).await;
        self.known.greeted(greeting.ok().as_ref().and_then(Version::of));
        answer
    }

    async fn linked(&self, timer: &mut Timer) -> Result<(Arc<Link>, Option<SendTurn>), Fault> {
        match self.link_access()? {
            LinkAccess::Open(link, turn) => Ok((link, turn)),
            LinkAccess::Wait(wait) => self.link(wait, timer).await.map(|(link, turn)| (link, Some(turn))),
        }
    }

    /// By itself, or in one pipeline with the word that lets it pass at a node which does not have its slot yet.
    async fn sent_as(
        &self,
        link: &Link,
        cmd: &Cmd,
        asking: bool,
        turn: Option<SendTurn>,
        timer: Timer,
        dispatches: &Dispatches,
    ) -> Result<Value, Fault> {
        if !asking {
            return self.sent(link, cmd, turn, timer, dispatches).await;
        }
        let pipeline = pipeline_of([redis::cmd("ASKING"), cmd.clone()].into_iter());
        let mut connection = link.connection();
        let send = pin!(connection.send_packed_commands(&pipeline, 0, 2));
        dispatches.leave(link.number())?;
        let (replies, _) = self.answer(link, send, turn, timer).await?;
        match <[Value; 2]>::try_from(replies) {
            Ok([refusal @ Value::ServerError(_), _] | [_, refusal]) => Ok(refusal),
            Err(_) => Err(faults::dropped()),
        }
    }
}
