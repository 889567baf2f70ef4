//! The nodes of a cluster that have slots, or are asked for some: each with links of its own. It knows no slot.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use super::route::Endpoint;
use crate::backend::{
    Publish,
    redis::{node::Node, pubsub::PubSub},
};

/// A node that has no slot yet, and to which others sent us, is kept for so long after the last time; and one that gave all of its
/// slots away, to say so to whoever has not heard of it.
const GUEST: Duration = Duration::from_secs(10);

/// One node, and where it is among ours.
pub(super) struct Member {
    pub(super) place: u16,
    pub(super) endpoint: Endpoint,
    pub(super) node: Arc<Node>,
    /// Those who listen here, once there are any.
    listeners: OnceLock<PubSub>,
    /// It had slots at some time.
    pub(super) ever_owned: AtomicBool,
    /// When a command was last sent on to it, or it lost a slot.
    asked: Mutex<Instant>,
}

impl Member {
    pub(super) fn new(place: u16, endpoint: Endpoint, node: Arc<Node>) -> Self {
        let (listeners, asked) = (OnceLock::new(), Mutex::new(Instant::now()));
        Self { place, endpoint, node, listeners, ever_owned: AtomicBool::new(false), asked }
    }

    pub(super) fn listeners(&self, kind: Publish) -> &PubSub {
        self.listeners.get_or_init(|| PubSub::start(&self.node, kind))
    }

    /// Whether anybody ever listened here.
    #[cfg(test)]
    pub(super) fn is_listened_to(&self) -> bool {
        self.listeners.get().is_some()
    }

    /// A command is sent on to it, or some that are on their way there will be sent on by it.
    pub(super) fn is_asked(&self) {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Whether it is of no use any more, if it has no slot now.
    fn is_over(&self) -> bool {
        let asked = *self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let is_lost = self.ever_owned.load(Ordering::Relaxed) && self.node.is_suspect();
        is_lost || asked.elapsed() > GUEST
    }
}

/// All of them, by their places and by every address under which one is known.
#[derive(Default)]
pub(super) struct Nodes {
    members: Vec<Option<Arc<Member>>>,
    by_endpoint: HashMap<Endpoint, u16>,
    /// By which address one is to be used that may be told by this one; of those too that are none of ours yet.
    used: HashMap<Endpoint, Endpoint>,
}

impl Nodes {
    pub(super) fn at(&self, place: u16) -> Option<&Arc<Member>> {
        self.members.get(usize::from(place))?.as_ref()
    }

    pub(super) fn find(&self, endpoint: &Endpoint) -> Option<&Arc<Member>> {
        self.at(*self.by_endpoint.get(endpoint)?)
    }

    /// The one whose links lead to the first of these addresses to which any do. What else an address was known for may be
    /// past: a name goes along with whoever has it.
    pub(super) fn leading_to(&self, endpoints: &[Endpoint]) -> Option<&Arc<Member>> {
        endpoints.iter().find_map(|at| self.find(at).filter(|member| member.endpoint == *at))
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Member>> {
        self.members.iter().flatten()
    }

    /// The first place that is free; `None` where there are more nodes than a cluster can have.
    pub(super) fn free(&self) -> Option<u16> {
        let free = self.members.iter().position(Option::is_none).unwrap_or(self.members.len());
        u16::try_from(free).ok().filter(|place| *place < super::slots::NOBODY)
    }

    pub(super) fn add(&mut self, member: Arc<Member>) {
        let place = usize::from(member.place);
        if self.members.len() <= place {
            self.members.resize_with(place + 1, || None);
        }
        self.by_endpoint.insert(member.endpoint.clone(), member.place);
        self.members[place] = Some(member);
    }

    /// The address to be used where this one is told.
    pub(super) fn to_be_used(&self, endpoint: Endpoint) -> Endpoint {
        self.used.get(&endpoint).cloned().unwrap_or(endpoint)
    }

    pub(super) fn are_used_by(&mut self, used: HashMap<Endpoint, Endpoint>) {
        self.used = used;
    }

    /// It is known under this address, too, unless another's links lead there.
    pub(super) fn also(&mut self, endpoint: &Endpoint, place: u16) {
        if self.leading_to(std::slice::from_ref(endpoint)).is_none() {
            self.by_endpoint.insert(endpoint.clone(), place);
        }
    }

    /// Takes out those that have no slot and are of no use otherwise.
    pub(super) fn take_idle(&mut self, has_slots: impl Fn(u16) -> bool) -> Vec<Arc<Member>> {
        let idle = |member: &Arc<Member>| !has_slots(member.place) && member.is_over();
        let taken: Vec<_> =
            self.members.iter_mut().filter_map(|member| member.take_if(|member| idle(member))).collect();
        let there = &self.members;
        self.by_endpoint.retain(|_, place| there.get(usize::from(*place)).is_some_and(Option::is_some));
        taken
    }
}
