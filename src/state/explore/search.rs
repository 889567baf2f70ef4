//! Breadth first, on several threads: the way to what is found is one of the shortest.

use std::{
    hash::Hash,
    panic::{self, AssertUnwindSafe},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
    vec::IntoIter,
};

use super::{fingerprint::fingerprint, seen::Seen};

/// Worlds of one kind: how they come about, and what is promised of each.
pub(crate) trait Worlds: Sync {
    type World: Hash + Send;
    type Step: Copy + Send;
    type Promise: Copy + Send;
    /// What a step is taken with.
    type Run<'a>
    where
        Self: 'a;

    fn first(&self) -> Self::World;
    fn run(&self) -> Self::Run<'_>;
    fn choices(&self, world: &Self::World, out: &mut Vec<Self::Step>);
    fn after(&self, world: &Self::World, step: Self::Step, run: &mut Self::Run<'_>) -> Self::World;
    fn breaks(&self, world: &Self::World, run: &Self::Run<'_>) -> Option<Self::Promise>;
    fn panicked(text: &'static str) -> Self::Promise;
}

/// So many worlds a thread takes at once.
const BLOCK: usize = 128;

/// When a search ends that has found nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) states: usize,
    pub(crate) time: Option<Duration>,
    pub(crate) threads: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// There is no other world.
    Exhaustive,
    EnoughStates,
    OutOfTime,
    Broken,
}

pub(crate) struct Outcome<W: Worlds + ?Sized> {
    pub(crate) states: usize,
    pub(crate) transitions: usize,
    /// So many steps lead to the last world that was met.
    pub(crate) depth: usize,
    pub(crate) end: End,
    pub(crate) took: Duration,
    /// What is broken, and the steps that break it.
    pub(crate) broken: Option<(W::Promise, Vec<W::Step>)>,
}

/// Worlds that follow one another: the first has this number.
struct Block<W: Worlds> {
    first: usize,
    worlds: Vec<W::World>,
}

/// How a world came about: out of which one, by which step.
type Origin<W> = (u32, <W as Worlds>::Step);

/// What is broken, and where.
type Found<W> = (<W as Worlds>::Promise, Origin<W>);

struct Search<'a, W: Worlds> {
    config: &'a W,
    limits: Limits,
    began: Instant,
    seen: Seen,
    states: AtomicUsize,
    stop: AtomicBool,
    over: Mutex<Option<(End, Option<Found<W>>)>>,
}

/// What a thread makes of its share of a level.
struct Grown<W: Worlds> {
    origins: Vec<Origin<W>>,
    worlds: Vec<W::World>,
    transitions: usize,
}

pub(crate) fn search<W: Worlds>(config: &W, limits: Limits) -> Outcome<W> {
    let search = Search {
        config,
        limits,
        began: Instant::now(),
        seen: Seen::new(),
        states: AtomicUsize::new(1),
        stop: AtomicBool::new(false),
        over: Mutex::new(None),
    };
    let first = config.first();
    search.seen.insert(fingerprint(&first));
    // The first world came of nothing, and has no origin.
    let mut origins: Vec<Origin<W>> = Vec::new();
    let mut level = vec![Block { first: 0, worlds: vec![first] }];
    let (mut transitions, mut depth) = (0, 0);
    while !level.is_empty() && !search.stop.load(Ordering::Relaxed) {
        let grown = search.grow(level);
        level = Vec::new();
        for grown in grown {
            transitions += grown.transitions;
            let mut first = origins.len() + 1;
            origins.extend(grown.origins);
            let mut worlds = grown.worlds.into_iter();
            while worlds.len() > 0 {
                let block = Block { first, worlds: worlds.by_ref().take(BLOCK).collect() };
                first += block.worlds.len();
                level.push(block);
            }
        }
        depth += usize::from(!level.is_empty());
    }
    let over = search.over.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (end, found) = over.unwrap_or((End::Exhaustive, None));
    Outcome {
        states: search.states.into_inner(),
        transitions,
        depth,
        end,
        took: search.began.elapsed(),
        broken: found.map(|(promise, last)| (promise, way(&origins, last))),
    }
}

impl<W: Worlds> Search<'_, W> {
    /// The worlds one step further.
    fn grow(&self, level: Vec<Block<W>>) -> Vec<Grown<W>> {
        let threads = self.limits.threads.min(level.len());
        let blocks = Mutex::new(level.into_iter());
        if threads <= 1 {
            return vec![self.work(&blocks)];
        }
        thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| self.work(&blocks))).collect();
            workers.into_iter().map(|worker| worker.join().expect("what panics in a step is caught")).collect()
        })
    }

    fn work(&self, blocks: &Mutex<IntoIter<Block<W>>>) -> Grown<W> {
        let mut grown = Grown { origins: Vec::new(), worlds: Vec::new(), transitions: 0 };
        let mut run = self.config.run();
        let mut choices = Vec::new();
        let next = || blocks.lock().unwrap_or_else(PoisonError::into_inner).next();
        while let Some(Block { first, worlds }) = next() {
            if self.limits.time.is_some_and(|time| self.began.elapsed() >= time) {
                self.end(End::OutOfTime, None);
            }
            for (at, world) in worlds.into_iter().enumerate() {
                choices.clear();
                self.config.choices(&world, &mut choices);
                grown.transitions += choices.len();
                for step in &choices {
                    if self.stop.load(Ordering::Relaxed) {
                        return grown;
                    }
                    self.take(&world, ((first + at) as u32, *step), &mut run, &mut grown);
                }
            }
        }
        grown
    }

    fn take(&self, world: &W::World, origin: Origin<W>, run: &mut W::Run<'_>, grown: &mut Grown<W>) {
        let after = match step(self.config, world, origin.1, run) {
            Ok(after) => after,
            Err(promise) => return self.end(End::Broken, Some((promise, origin))),
        };
        if !self.seen.insert(fingerprint(&after)) {
            return;
        }
        if let Some(promise) = self.config.breaks(&after, run) {
            return self.end(End::Broken, Some((promise, origin)));
        }
        if self.states.fetch_add(1, Ordering::Relaxed) + 1 >= self.limits.states {
            self.end(End::EnoughStates, None);
        }
        grown.origins.push(origin);
        grown.worlds.push(after);
    }

    /// The first reason is the one.
    fn end(&self, end: End, found: Option<Found<W>>) {
        self.over.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert((end, found));
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// The world after a step; a panic of the state breaks a promise like everything else.
pub(crate) fn step<W: Worlds>(
    config: &W,
    world: &W::World,
    step: W::Step,
    run: &mut W::Run<'_>,
) -> Result<W::World, W::Promise> {
    panic::catch_unwind(AssertUnwindSafe(|| config.after(world, step, run))).map_err(|payload| {
        let text = payload.downcast_ref::<String>().cloned();
        let text = text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        // It happens once, and then the search is over.
        W::panicked(Box::leak(text.unwrap_or_default().replace('\n', " ").into_boxed_str()))
    })
}

/// The steps from the first world on.
fn way<S: Copy>(origins: &[(u32, S)], last: (u32, S)) -> Vec<S> {
    let mut steps = vec![last.1];
    let mut from = last.0 as usize;
    while from != 0 {
        steps.push(origins[from - 1].1);
        from = origins[from - 1].0 as usize;
    }
    steps.reverse();
    steps
}

#[cfg(test)]
mod tests {
    use super::{
        super::{config::Config, configs::all, promise::Promise, story::Story},
        *,
    };

    const ONE: Limits = Limits { states: usize::MAX, time: None, threads: 1 };

    fn config(id: &str) -> Config {
        all().into_iter().find(|named| named.id == id).expect("there is such a world").config
    }

    #[test]
    fn as_many_worlds_are_met_on_one_thread_as_on_two() {
        let config = config("t1");
        let (one, two) = (search(&config, ONE), search(&config, Limits { threads: 2, ..ONE }));
        assert_eq!((one.end, two.end), (End::Exhaustive, End::Exhaustive));
        assert_eq!((one.states, one.transitions, one.depth), (two.states, two.transitions, two.depth));
    }

    #[test]
    fn enough_states_end_a_search() {
        let outcome = search(&config("t1"), Limits { states: 100, ..ONE });
        assert_eq!((outcome.end, outcome.states), (End::EnoughStates, 100));
    }

    #[test]
    fn the_story_of_what_is_found_breaks_the_same_promise_at_its_last_step() {
        // No key may be free for a moment: the end of a lease breaks that.
        let config = Config { free_ticks: 0, ..config("k1") };
        let (promise, steps) = search(&config, ONE).broken.expect("something is found");
        assert_eq!(promise, Promise::NobodySleepsLongOnAFreeKey);
        assert_eq!(Story::of(&config, &steps).broken, Some(promise));
        assert_eq!(Story::of(&config, &steps[..steps.len() - 1]).broken, None);
    }
}
