//! What befalls the nodes of a store: masters that are replaced and forget, old ones that go on, slots that go elsewhere, nodes
//! that stand still; and what the referee excuses because of it. Drawn from a sequence of its own, so that the seeds of one
//! server stay what they are.

use std::time::Duration;

use relatch::{
    EmbeddedStore, Uuid,
    embedded::{Forget, Happening, Purpose, Rival, Traced},
};
use tokio::time::{Instant, sleep};

use super::{
    NAMES,
    crew::{Crew, Mix},
    referee::{Book, Doomed, Kept, Loss, Referee, Seat},
    shadow::Field,
};
use crate::harness::random::Random;

/// Whoever has a link to another master is told within this what that does not have, while nothing else befalls anybody: all
/// holds are asked for within a second, and then an answer is waited for.
const TOLD: Duration = Duration::from_millis(1_500);
/// No old master goes on for longer, and no slot is on its way for longer, in milliseconds.
const LONGEST: u64 = 1_500;

/// What a failover did to a name.
#[derive(Clone, Debug)]
pub(super) struct Replaced {
    node: usize,
    /// The old master goes on until then.
    until: Duration,
    /// How much had happened by then.
    since: usize,
}

/// A store of several nodes, and what its seed is like.
pub(super) fn draw(seed: u64, mut mix: Mix) -> (EmbeddedStore, Mix) {
    let mut random = Random::new(seed, &[1]);
    let nodes = random.pick(&[1, 2, 3]);
    // What lasts for long is what a failover is to be told of.
    mix.long = mix.long.max(random.pick(&[0, 700]));
    (mix.nodes, mix.parked) = (nodes, random.pick(&[0, 50, 200]));
    (EmbeddedStore::seeded(seed).with_nodes(nodes), mix)
}

impl Crew {
    /// Nothing befalls anybody but that nodes fail over, for so long.
    pub(super) async fn fail_over(&mut self, long: Duration) {
        if self.mix.nodes == 0 {
            return;
        }
        self.clear_up().await;
        self.referee.befalls_nodes_only(true);
        self.referee.tell("only nodes fail".to_owned());
        let until = Instant::now() + long;
        let busy = self.random.pick(&[100, 400, 1_200]);
        while Instant::now() < until {
            let kind = self.befall_a_node();
            self.count(kind);
            sleep(self.random.millis(1, busy)).await;
        }
        self.referee.befalls_nodes_only(false);
        self.thaw();
    }

    /// Something may befall a node, beside all that befalls clients.
    pub(super) fn befall_nodes(&mut self) {
        if self.mix.nodes > 0 && self.random.once_in_a_while(300) {
            let kind = self.befall_a_node();
            self.count(kind);
        }
    }

    /// All nodes do what they are asked.
    pub(super) fn thaw(&self) {
        (0..self.mix.nodes).for_each(|node| drop(self.store.thaw_node(node)));
    }

    fn befall_a_node(&mut self) -> &'static str {
        let (node, name) = (self.random.below(self.mix.nodes), NAMES[self.random.below(self.mix.names)]);
        let kind = match self.random.below(100) {
            0..50 => {
                let forget = match self.random.below(3) {
                    0 => Forget::Nothing,
                    _ => Forget::Since(self.random.millis(0, 900)),
                };
                let rival = match self.random.below(2) {
                    0 => Rival::Dead,
                    _ => Rival::Lives(self.random.millis(10, LONGEST)),
                };
                self.referee.tell(format!("failover of node {node}: {forget:?}, {rival:?}"));
                self.referee.fails_over(node, forget, rival);
                if rival == Rival::Dead { "failover" } else { "rival" }
            }
            50..70 => {
                // Somebody hears of a new master, if there is one.
                let which = self.random.below(self.boats.len().max(1));
                if let Some(boat) = self.boats.get(which) {
                    drop(self.store.cut(&boat.sailor.client));
                }
                "cut of all links"
            }
            70..90 => {
                let takes = self.random.millis(0, LONGEST);
                let moved = self.store.migrate(name, takes);
                if moved.is_err() != (self.mix.nodes == 1) {
                    self.referee.complain(
                        "a slot does not move",
                        None,
                        format!("{moved:?} of {} nodes", self.mix.nodes),
                    );
                }
                if moved.is_ok() { "migration" } else { "no other node" }
            }
            _ => {
                let (store, long) = (self.store.clone(), self.random.millis(10, 500));
                drop(store.freeze_node(node));
                tokio::spawn(async move {
                    sleep(long).await;
                    drop(store.thaw_node(node));
                });
                "node frozen"
            }
        };
        self.referee.tell(format!("{kind} (node {node}, name {name:?})"));
        kind
    }
}

impl Referee {
    fn befalls_nodes_only(&self, only: bool) {
        let now = self.now();
        self.book().only_nodes = only.then_some(now);
    }

    /// Another master takes over at a node. It may lack what the old one had, and what that does from now on.
    fn fails_over(&self, node: usize, forget: Forget, rival: Rival) {
        let there = |name: &usize| self.store.node_of(NAMES[*name]) == node;
        let before: Vec<_> = (0..NAMES.len()).filter(there).map(|name| (name, self.peek(name))).collect();
        let since = self.up_to_date().trace.len();
        if self.store.fail_over(node, forget, rival).is_err() {
            return self.complain("a node is not known", None, node);
        }
        let at = self.now();
        let lives = match rival {
            Rival::Lives(long) => Some(long),
            _ => None,
        };
        let mut book = self.up_to_date();
        for (name, before) in before {
            let after = self.peek(name);
            let same = lives.is_none() && before == after;
            let (had, kept) = (before.map(|kept| kept.field), after.map(|kept| kept.field));
            book.shadow.takes_over(name, kept.as_ref(), same);
            book.begins_anew(name, self.counted(name));
            book.shadow.unsure[name] = at;
            if lives.is_none() && forget == Forget::Nothing {
                continue;
            }
            // What comes back was not lost.
            book.doomed.retain(|doomed| kept.as_ref() != Some(&doomed.field));
            // One that is gone as well does nothing for those who still ask an older one.
            let all_gone =
                lives.is_none() && book.losses.iter().all(|loss| loss.name != Some(name) || loss.until() < at);
            if let Some(field) = had.filter(|had| all_gone && kept.as_ref() != Some(had)) {
                let times = book.shadow.times(&field);
                book.doomed.push(Doomed { field, at, times });
            }
            let until = at + lives.unwrap_or_default();
            // Of what is still there a renewal may be missing.
            book.losses.push(Loss { name: Some(name), at, replaced: Some(Replaced { node, until, since }) });
        }
    }
}

impl Loss {
    /// Nothing of it is lost later.
    pub(super) fn until(&self) -> Duration {
        self.replaced.as_ref().map_or(self.at, |replaced| replaced.until)
    }
}

impl Book {
    pub(super) fn hears_of_links(&mut self, traced: &Traced) {
        if let Happening::Replaced { link: Purpose::Commands, node, .. } = traced.what {
            self.links.entry((traced.client, node)).or_default().push((self.trace.len(), traced.at));
        }
    }

    /// Whether a hold may be one of those that the store lost then. It came to be at `born`.
    pub(super) fn covers(&self, loss: &Loss, seat: &Seat, hold: Option<&Field>, born: Duration) -> bool {
        if loss.name.is_some_and(|name| name != seat.name) {
            return false;
        }
        let Some(replaced) = &loss.replaced else { return born <= loss.at };
        let at_rival = || hold.and_then(|hold| self.shadow.birth(hold)).is_none_or(|birth| birth.at_rival);
        born <= loss.at || born <= replaced.until && at_rival()
    }

    /// A try was granted by a server that answers no more, the one that does has nothing of it, and whoever asked could know.
    pub(super) fn is_outdated(
        &self,
        seat: &Seat,
        kept: Option<&Kept>,
        since: Duration,
        now: Duration,
    ) -> Option<(&'static str, String)> {
        let hold = seat.hold.as_ref().filter(|hold| kept.is_none_or(|kept| kept.field != **hold))?;
        let born = self.shadow.birth(hold).filter(|born| since <= born.at && self.shadow.tried.contains(hold))?;
        let loss = self.losses.iter().rfind(|loss| loss.name.is_none_or(|name| name == seat.name))?;
        let replaced = loss.replaced.as_ref().filter(|_| self.covers(loss, seat, Some(hold), born.first))?;
        let mut links = self.links_since(seat.id, replaced.node, replaced.since);
        let calm = self.only_nodes?;
        let link = links.find(|link| born.at < *link && calm <= *link && *link < now)?;
        let what = format!("{hold} was made at {:?}, there is another server since {link:?}", born.at);
        Some(("what an old server granted is believed", what))
    }

    /// When whoever had a hold that the store lost then must have been told.
    pub(super) fn told_of_by(&self, loss: &Loss, seat: &Seat) -> Duration {
        let Some(replaced) = &loss.replaced else { return loss.at + seat.longest };
        let mut links = self.links_since(seat.id, replaced.node, replaced.since);
        // As long as it asks an old master it is told that all is well.
        let first = links.next();
        let lease_over = first.map_or(replaced.until, |first| first.min(replaced.until)) + seat.longest;
        let last = links.last().or(first);
        let asked = last.filter(|last| self.only_nodes.is_some_and(|since| since <= *last));
        asked.map_or(lease_over, |asked| lease_over.min(asked + TOLD))
    }

    fn links_since(&self, client: Uuid, node: usize, since: usize) -> impl Iterator<Item = Duration> {
        let links = self.links.get(&(client, node)).map_or(&[][..], Vec::as_slice);
        links.iter().filter(move |(number, _)| since <= *number).map(|(_, at)| *at)
    }
}
