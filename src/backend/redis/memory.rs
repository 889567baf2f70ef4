//! Since when the server behind a node's links remembers everything, as its links come and go. It sends nothing.
//!
//! Whoever wants to know says so: for all others no server is asked. What is known belongs to the present link and is known, or
//! known to be unknown, before a command is sent over it: so no answer is counted under an older process than the one that gave it.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use futures_util::future::join_all;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, timeout},
};

use super::{info::Info, node::Node};
use crate::backend::{Memory, Pending};

/// What is known of the process behind the present link.
#[derive(Debug)]
pub(super) struct ServerMemory {
    /// `None` before there was a link.
    now: watch::Sender<Option<Memory>>,
    wanted: AtomicBool,
    wants: Notify,
    last: Mutex<LastProcess>,
}

/// Who answered last on this way, of those that said who they are.
#[derive(Debug, Default)]
enum LastProcess {
    /// Nobody did yet.
    #[default]
    Nobody,
    /// This one. Where another one answered before it, that was seen at `since`.
    Is { run_id: Arc<str>, since: Option<Instant> },
    /// This one, and it may have taken over what another one had: it was a replica.
    Was { run_id: Arc<str> },
}

impl Default for ServerMemory {
    fn default() -> Self {
        let (now, wanted, wants) = (watch::Sender::new(None), AtomicBool::new(false), Notify::new());
        Self { now, wanted, wants, last: Mutex::default() }
    }
}

impl ServerMemory {
    /// What is known now; if that is too little, it is asked for.
    pub(super) fn now(&self) -> Option<Memory> {
        self.want();
        *self.now.borrow()
    }

    /// From now on every new link asks.
    pub(super) fn want(&self) {
        if !self.is_wanted() && !self.wanted.swap(true, Ordering::Relaxed) {
            // There is one keeper: if it does not wait yet, it finds this.
            self.wants.notify_one();
        }
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Comes back when it is. Only the node's keeper waits here.
    pub(super) async fn wanted(&self) {
        while !self.is_wanted() {
            self.wants.notified().await;
        }
    }

    /// Comes back when the server behind the present link was heard, or did not tell.
    pub(super) async fn heard_once(&self) {
        let is_heard = |now: &Option<Memory>| matches!(now, Some(Memory::Since(_) | Memory::SinceLink(_)));
        // An error would mean that nobody can tell any more, and we can.
        let _ = self.now.subscribe().wait_for(is_heard).await;
    }

    pub(super) fn is_heard(&self) -> bool {
        !matches!(*self.now.borrow(), None | Some(Memory::NotHeard(_)))
    }

    /// Which process it is, if one ever told.
    pub(super) fn run_id(&self) -> Option<Arc<str>> {
        match &*self.last() {
            LastProcess::Nobody => None,
            LastProcess::Is { run_id, .. } | LastProcess::Was { run_id } => Some(Arc::clone(run_id)),
        }
    }

    /// The first link of all was opened then.
    pub(super) fn begins(&self, opened: Instant) {
        // Its keeper may have replaced it already.
        self.now.send_if_modified(|now| {
            let is_first = now.is_none();
            *now = now.or(Some(Memory::NotHeard(opened)));
            is_first
        });
    }

    /// A link that was opened then comes into use.
    pub(super) fn linked(&self, opened: Instant) {
        self.now.send_replace(Some(Memory::NotHeard(opened)));
    }

    /// Whoever answers on the way said that it is a replica: what it has is another's by now.
    pub(super) fn demoted(&self) {
        let mut last = self.last();
        if let LastProcess::Is { run_id, .. } = &*last {
            *last = LastProcess::Was { run_id: Arc::clone(run_id) };
        }
    }

    /// What whoever is behind the present link says of itself, at this moment; over that link and no other.
    pub(super) fn told(&self, info: &Info) {
        let Some(process) = &info.process else { return self.not_told() };
        let (now, mut last) = (Instant::now(), self.last());
        let seen = match &*last {
            LastProcess::Nobody => None,
            LastProcess::Is { run_id, since } if *run_id == process.run_id => *since,
            LastProcess::Is { .. } | LastProcess::Was { .. } => Some(now),
        };
        *last = LastProcess::Is { run_id: Arc::clone(&process.run_id), since: seen };
        drop(last);
        // A clock that began after the process did knows no such instant.
        let Some(began) = process.age.and_then(|age| now.checked_sub(age)) else { return self.not_told() };
        self.now.send_replace(Some(Memory::Since(seen.map_or(began, |seen| seen.max(began)))));
    }

    /// It does not tell.
    pub(super) fn not_told(&self) {
        self.now.send_modify(|now| *now = now.map(|now| Memory::SinceLink(now.since())));
    }

    fn last(&self) -> MutexGuard<'_, LastProcess> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks behind all of these, and waits until each has told or refused to: for no longer than a command may take.
pub(super) fn asked(nodes: Vec<Arc<Node>>) -> Pending<()> {
    nodes.iter().for_each(|node| node.known.memory.want());
    Box::pin(async move {
        let Some(first) = nodes.first() else { return };
        let heard = join_all(nodes.iter().map(|node| async move {
            tokio::select! {
                biased;
                () = node.closed.cancelled() => {}
                () = node.known.memory.heard_once() => {}
            }
        }));
        let heard = {
            let _entered = first.runtime.enter();
            timeout(first.command_timeout, heard)
        };
        // Whoever was not heard by then counts by its link.
        let _ = heard.await;
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::*;
    use crate::backend::redis::info::Process;

    const SECOND: Duration = Duration::from_secs(1);

    fn of(run_id: &str, age: Option<u64>) -> Info {
        let age = age.map(Duration::from_secs);
        Info { process: Some(Process { run_id: run_id.into(), age }), ..Info::default() }
    }

    /// Another link comes, a second after all that was before, and over it this is told.
    async fn told(memory: &ServerMemory, info: &Info) -> Option<Memory> {
        advance(SECOND).await;
        memory.linked(Instant::now());
        assert_eq!(memory.now(), Some(Memory::NotHeard(Instant::now())));
        advance(SECOND).await;
        memory.told(info);
        memory.now()
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_process_counts_since_it_began_and_each_later_one_since_it_was_seen() {
        let (memory, start) = (ServerMemory::default(), Instant::now());
        assert_eq!((memory.now(), memory.run_id()), (None, None));
        let since = |told: u32| Some(Memory::Since(start + told * SECOND));
        advance(98 * SECOND).await;
        assert_eq!(told(&memory, &of("a", Some(60))).await, since(40));
        assert_eq!(told(&memory, &of("a", Some(62))).await, since(40));
        assert_eq!(told(&memory, &of("b", Some(90))).await, since(104));
        assert_eq!(told(&memory, &of("b", Some(92))).await, since(104));
        assert_eq!(told(&memory, &of("a", Some(68))).await, since(108), "it was not there all the while");
        assert_eq!(told(&memory, &of("c", Some(0))).await, since(110));
        assert_eq!(memory.run_id().as_deref(), Some("c"));
        memory.demoted();
        assert_eq!(told(&memory, &of("c", Some(4))).await, since(112));
        assert_eq!(told(&memory, &of("c", Some(6))).await, since(112));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_tells_too_little_counts_since_the_link_was_opened() {
        let (memory, start) = (ServerMemory::default(), Instant::now());
        let since_link = |opened: u32| Some(Memory::SinceLink(start + opened * SECOND));
        assert_eq!(told(&memory, &Info::default()).await, since_link(1));
        assert_eq!(told(&memory, &of("a", None)).await, since_link(3));
        assert_eq!(memory.run_id().as_deref(), Some("a"));
        // No clock of ours went so far back.
        assert_eq!(told(&memory, &of("a", Some(u64::MAX))).await, since_link(5));
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_link_of_all_does_not_hide_one_that_came_after_it() {
        let (memory, start) = (ServerMemory::default(), Instant::now());
        memory.begins(start);
        assert_eq!(memory.now(), Some(Memory::NotHeard(start)));
        let later = ServerMemory::default();
        later.linked(start + SECOND);
        later.begins(start);
        assert_eq!(later.now(), Some(Memory::NotHeard(start + SECOND)));
    }
}
