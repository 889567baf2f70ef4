//! Many scripts in one pipeline: they leave together, and each has an answer of its own. How a single one is sent is in
//! `node.rs`.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::future::join_all;
use redis::Cmd;
use tokio::time::Instant;

use super::{
    codec,
    command::{LinkAccess, Timer},
    faults,
    node::Node,
    task::Task,
};
use crate::{
    backend::{Fault, Value, dispatch::Dispatches},
    script::Script,
};

impl Node {
    pub(super) async fn run_many(
        self: Arc<Self>,
        pipeline: redis::Pipeline,
        scripts: Vec<&'static Script>,
        within: Duration,
        dispatches: Dispatches,
    ) -> Vec<Result<Value, Fault>> {
        if scripts.is_empty() {
            return Vec::new();
        }
        let (started, count) = (Instant::now(), scripts.len());
        let replies = match self.link_access() {
            Ok(access @ LinkAccess::Open(..)) => {
                self.run_many_by(access, started, &pipeline, &scripts, within, &dispatches).await
            }
            Ok(access @ LinkAccess::Wait(_)) => {
                let runtime = self.runtime.clone();
                let task =
                    async move { self.run_many_by(access, started, &pipeline, &scripts, within, &dispatches).await };
                Task::spawn(&runtime, task).answer().await
            }
            Err(fault) => Err(fault),
        };
        replies.unwrap_or_else(|fault| vec![Err(fault); count])
    }

    async fn run_many_by(
        &self,
        access: LinkAccess,
        started: Instant,
        pipeline: &redis::Pipeline,
        scripts: &[&'static Script],
        within: Duration,
        dispatches: &Dispatches,
    ) -> Result<Vec<Result<Value, Fault>>, Fault> {
        let mut timer = Timer::started(started, within);
        let (link, turn) = match access {
            LinkAccess::Open(link, turn) => (link, turn),
            LinkAccess::Wait(wait) => {
                let (link, turn) = self.link(wait, &mut timer).await?;
                (link, Some(turn))
            }
        };
        let mut connection = link.connection();
        let send = pin!(connection.send_packed_commands(pipeline, 0, scripts.len()));
        dispatches.leave(link.number())?;
        let (replies, _) = self.answer(&link, send, turn, timer).await?;
        self.look_for_replica(&link, &replies);
        let mut replies: Vec<_> = replies.into_iter().map(Ok).collect();

        let mut unknown = Vec::new();
        let mut again = redis::Pipeline::new();
        for (at, cmd) in pipeline.cmd_iter().enumerate() {
            if replies[at].as_ref().is_ok_and(codec::is_unknown_script) {
                unknown.push(at);
                again.add_command(codec::eval(cmd, scripts[at]));
            }
        }
        if !unknown.is_empty() {
            timer.sent = Instant::now();
            let mut connection = link.connection();
            let send = pin!(connection.send_packed_commands(&again, 0, unknown.len()));
            let healed = match dispatches.leave(link.number()) {
                Ok(()) => self.answer(&link, send, None, timer).await.map(|(healed, _)| healed),
                Err(fault) => Err(fault),
            };
            // The answers that did come stay, whatever becomes of the others.
            let healed = match healed {
                Ok(healed) => {
                    self.look_for_replica(&link, &healed);
                    healed.into_iter().map(Ok).collect()
                }
                Err(fault) => vec![Err(fault); unknown.len()],
            };
            for (at, reply) in unknown.into_iter().zip(healed) {
                replies[at] = reply;
            }
        }
        if replies.iter().flatten().any(codec::is_of_two_slots) {
            link.parts_slots();
        }
        let commands = || pipeline.cmd_iter().zip(scripts.iter().copied());
        let replies = match self.routes() {
            Some(routes) if replies.iter().flatten().any(codec::is_refusal) => {
                let sent_on = replies.into_iter().zip(commands()).map(|(reply, command)| {
                    let routes = &routes;
                    async move { routes.redirected(self, reply?, command, timer, (dispatches, scripts.len())).await }
                });
                join_all(sent_on).await
            }
            _ => replies,
        };
        let answer = |(reply, (cmd, script)): (Result<_, Fault>, (&Cmd, _))| {
            codec::value(reply?, self.secrets())
                .map_err(|fault| faults::denied(fault, script, &codec::keys(cmd, script)))
        };
        Ok(replies.into_iter().zip(commands()).map(answer).collect())
    }
}

pub(super) fn pipeline_of(cmds: impl Iterator<Item = Cmd>) -> redis::Pipeline {
    let mut pipeline = redis::Pipeline::new();
    cmds.for_each(|cmd| {
        pipeline.add_command(cmd);
    });
    pipeline
}
