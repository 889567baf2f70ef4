//! Wakes callers that wait elsewhere than in a task of the runtime that their client lives on, and so cannot trust its timers:
//! at a time of their own, or when that runtime has made no progress for too long. It has a thread while anybody waits, one a client, and
//! knows no lock.

use std::{
    collections::{BTreeSet, HashMap},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    task::{Context, Waker},
    thread,
    time::{Duration, Instant},
};

use tokio::runtime::Handle;

/// The thread stays so long when nobody waits: who calls once mostly calls again.
const LINGERS: Duration = Duration::from_secs(1);

/// How often within its time a call that waits for home is worth a look whether that makes progress.
const LOOKS: u32 = 4;

/// The alarms of one client. Dropped, the thread ends.
pub(super) struct Alarms(Arc<Shared>);

struct Shared {
    home: Handle,
    board: Mutex<Board>,
    sooner: Condvar,
}

/// Who waits for what.
#[derive(Default)]
struct Board {
    drawn: u64,
    calls: HashMap<u64, AlarmCall>,
    /// Those that have not rung, by when they may have to.
    order: BTreeSet<(Instant, u64)>,
    /// So many of them wait for home.
    on_home: usize,
    /// The shortest pause between two looks that any of them ever asked for.
    pause: Option<Duration>,
    /// Since when home has been asked to run something, and has not.
    asked: Option<Instant>,
    /// When the thread looks again; `None` where there is no thread.
    looks: Option<Instant>,
    ended: bool,
}

struct AlarmCall {
    since: Instant,
    due: Instant,
    /// It waits for home, which may stand still for so long.
    patience: Option<Duration>,
    rung: bool,
    waker: Option<Waker>,
}

impl Alarms {
    pub(super) fn new(home: Handle) -> Self {
        Self(Arc::new(Shared { home, board: Mutex::default(), sooner: Condvar::new() }))
    }

    /// Rings then.
    pub(super) fn after(&self, time: Duration) -> Alarm {
        self.set(time, None)
    }

    /// Rings once home has made no progress for so long.
    pub(super) fn when_home_stalls(&self, patience: Duration) -> Alarm {
        self.set(patience, Some(patience))
    }

    fn set(&self, time: Duration, patience: Option<Duration>) -> Alarm {
        let since = Instant::now();
        let due = later(since, time);
        let mut board = self.0.lock();
        let id = board.drawn;
        board.drawn += 1;
        board.calls.insert(id, AlarmCall { since, due, patience, rung: false, waker: None });
        board.order.insert((due, id));
        let mut look = due;
        if let Some(patience) = patience {
            board.on_home += 1;
            let pause = patience / LOOKS;
            board.pause = Some(board.pause.map_or(pause, |shortest| shortest.min(pause)));
            look = later(since, pause);
        }
        let (starts, sooner) = (board.looks.is_none(), board.looks.is_some_and(|looks| look < looks));
        if starts {
            board.looks = Some(since);
        }
        drop(board);
        if starts {
            start(&self.0);
        } else if sooner {
            self.0.sooner.notify_one();
        }
        Alarm { shared: Arc::clone(&self.0), id }
    }
}

impl Drop for Alarms {
    fn drop(&mut self) {
        self.0.lock().ended = true;
        self.0.sooner.notify_one();
    }
}

/// One that is set. Dropped, it is not any more.
pub(super) struct Alarm {
    shared: Arc<Shared>,
    id: u64,
}

impl Alarm {
    /// Whether it has rung. If not, whoever polls is woken when it does.
    pub(super) fn has_rung(&self, cx: &Context<'_>) -> bool {
        // Wakers are somebody else's code: made and dropped with no mutex held.
        let mut waker = Some(cx.waker().clone());
        let mut board = self.shared.lock();
        let Some(call) = board.calls.get_mut(&self.id) else { return true };
        let rung = call.rung;
        std::mem::swap(&mut call.waker, &mut waker);
        drop(board);
        rung
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        let mut board = self.shared.lock();
        let call = board.calls.remove(&self.id);
        if let Some(call) = &call {
            board.order.remove(&(call.due, self.id));
            board.on_home -= usize::from(call.patience.is_some());
        }
        drop(board);
        drop(call);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the system gives no thread the next one to wait tries again.
fn start(shared: &Arc<Shared>) {
    let looking = Arc::clone(shared);
    if let Err(error) = thread::Builder::new().name("relatch-alarm".into()).spawn(move || look(&looking)) {
        shared.lock().looks = None;
        tracing::warn!(%error, "no thread: calls from elsewhere wait for the client's own runtime without a bound");
    }
}

/// The thread's life.
fn look(shared: &Arc<Shared>) {
    let mut idle_since = None;
    let mut board = shared.lock();
    while !board.ended {
        let now = Instant::now();
        let wakers = board.ring(now);
        let asks = board.on_home > 0 && board.asked.is_none();
        if asks {
            board.asked = Some(now);
        }
        if asks || !wakers.is_empty() {
            drop(board);
            for waker in wakers {
                // Somebody else's code; what it does is no reason to wake nobody any more.
                let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
            }
            if asks {
                let asking = Arc::clone(shared);
                shared.home.spawn(async move { asking.lock().asked = None });
            }
            board = shared.lock();
            continue;
        }
        let next = board.next_look(now);
        idle_since = if next.is_some() { None } else { idle_since.or(Some(now)) };
        let next = match (next, idle_since) {
            (Some(next), _) => next,
            (None, Some(since)) if now < since + LINGERS => since + LINGERS,
            (None, _) => break,
        };
        board.looks = Some(next);
        let slept = shared.sooner.wait_timeout(board, next.saturating_duration_since(now));
        board = slept.map_or_else(|poisoned| poisoned.into_inner().0, |(board, _)| board);
    }
    board.looks = None;
}

impl Board {
    /// Lets those ring that are due.
    fn ring(&mut self, now: Instant) -> Vec<Waker> {
        let mut wakers = Vec::new();
        while let Some(&(due, id)) = self.order.first()
            && due <= now
        {
            self.order.pop_first();
            let Some(call) = self.calls.get_mut(&id) else { continue };
            // Home has stood still since it was asked, but for this caller no longer than the caller has waited.
            let stalls = |patience| later(self.asked.map_or(now, |asked| asked.max(call.since)), patience);
            match call.patience.map(stalls) {
                Some(due) if now < due => {
                    call.due = due;
                    self.order.insert((due, id));
                }
                _ => {
                    call.rung = true;
                    wakers.extend(call.waker.take());
                }
            }
        }
        wakers
    }

    /// When there is something to see; `None` while nobody waits.
    fn next_look(&self, now: Instant) -> Option<Instant> {
        let (first, _) = *self.order.first()?;
        let pause = self.pause.filter(|_| self.on_home > 0);
        Some(pause.map_or(first, |pause| first.min(later(now, pause))))
    }
}

/// A time that no clock reaches is a year from now.
fn later(now: Instant, time: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(365 * 24 * 3600);
    now.checked_add(time).unwrap_or(now + FAR)
}
