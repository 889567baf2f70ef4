//! A server that is asked nothing but since when it remembers.

use std::{sync::Arc, time::Duration};

use tokio::{sync::watch, time::Instant};

use crate::{
    backend::{
        Abilities, Acknowledged, Answer, Backend, Call, Fault, Line, Listener, Memory, Pending, Publish, Replicas,
        Rights, RoundTrip, Subscription, Value,
    },
    quorum::master::Master,
};

/// Since when it remembers, if there was ever a link to it.
pub(super) struct Nobody(pub(super) Option<Instant>);

pub(super) fn master(since: Option<Instant>) -> Arc<Master> {
    Arc::new(Master::new(Arc::new(Nobody(since)), "nobody".to_owned(), Arc::new(())))
}

const ASKED: &str = "nobody is asked for that";

impl Line for Nobody {
    fn subscribe(&self, _: &str, _: Arc<str>, _: Arc<dyn Listener>) -> Subscription {
        unreachable!("{ASKED}")
    }

    fn link(&self, _: &str) -> u64 {
        unreachable!("{ASKED}")
    }

    fn last_answer(&self, _: &str) -> Instant {
        unreachable!("{ASKED}")
    }

    fn round_trip(&self, _: &str) -> Option<RoundTrip> {
        None
    }

    fn place(&self, _: &str) -> u32 {
        0
    }

    fn era(&self, _: &str) -> u64 {
        0
    }

    fn eras(&self) -> watch::Receiver<u64> {
        watch::Sender::new(0).subscribe()
    }

    fn close(&self) {}
}

impl Backend for Nobody {
    fn run(&self, _: &Call<'_>) -> Answer {
        unreachable!("{ASKED}")
    }

    fn run_many(&self, _: &[Call<'_>], _: Duration) -> Pending<Vec<Result<Value, Fault>>> {
        unreachable!("{ASKED}")
    }

    fn run_acknowledged(&self, _: &Call<'_>, _: Replicas) -> Pending<Result<(Value, Acknowledged), Fault>> {
        unreachable!("{ASKED}")
    }

    fn address(&self) -> Option<String> {
        None
    }

    fn publish_kind(&self) -> Publish {
        Publish::Classic
    }

    fn counts(&self, _: &str) -> bool {
        true
    }

    fn same_slot(&self, _: &str, _: &str) -> bool {
        true
    }

    fn abilities(&self) -> Abilities {
        unreachable!("{ASKED}")
    }

    fn rights(&self) -> Rights {
        unreachable!("{ASKED}")
    }

    fn remembers_since(&self, _: &str) -> Option<Memory> {
        self.0.map(Memory::Since)
    }

    fn ask_memory(&self) -> Pending<()> {
        unreachable!("{ASKED}")
    }

    fn identities(&self) -> Vec<Arc<str>> {
        Vec::new()
    }
}
