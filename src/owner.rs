//! Who may re-enter a lock and release it. An owner is local to this process; it is never sent, and holds nothing.

use std::{
    cell::Cell,
    fmt,
    future::{Future, IntoFuture},
    hash::{Hash, Hasher},
    sync::atomic::{AtomicU64, Ordering},
};

use tokio::{task, task_local};

/// Who holds a lock: whoever is the same owner may take it again, and may release it.
///
/// A lock takes its owner from where it is first polled:
///
/// 1. inside [`scope`](Self::scope), the innermost scope's owner;
/// 2. else, inside a tokio task, the task;
/// 3. else, as in `main`, under `block_on` or in the task of an executor that is not tokio's, the thread.
///
/// So a function may take a lock that its caller already holds, as long as both run in one task. A child that was
/// started with `tokio::spawn` or `spawn_blocking` is a task of its own and another owner: it waits for its parent's
/// lock. To let it act as its parent, spawn it in the parent's scope.
///
/// # Where the task is the wrong owner
///
/// The branches of `join!` and `select!` and the elements of `buffer_unordered` all run in *one* task. So do all messages
/// of an actor and, one after the other, the requests of one HTTP/1 connection: what one of them leaves locked, the next
/// one enters. And the tasks of another executor than tokio's that one thread polls are all that thread. A lock would let them
/// in together where they are meant to take turns. Give each an owner of its own:
///
/// ```
/// use relatch::Owner;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// async fn transfer() -> Owner {
///     // A lock that is taken here is the branch's, not the task's.
///     Owner::current()
/// }
///
/// let (first, second) = tokio::join!(
///     Owner::new().scope(transfer()),
///     Owner::new().scope(transfer()),
/// );
/// assert_ne!(first, second);
/// # }
/// ```
///
/// Where nothing nests at all, a mutex needs no owners and is the shorter remedy. The guide has a
/// [page](crate::guide::owners) about it.
///
/// # Handing an owner on
///
/// An owner is a value: keep it, clone it, send it to another task and act as it there.
///
/// ```
/// use relatch::Owner;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tokio::task::JoinError> {
/// let parent = Owner::current();
/// let child = tokio::spawn(parent.scope(async { Owner::current() })).await?;
/// assert_eq!(child, parent);
/// # Ok(())
/// # }
/// ```
///
/// Two tasks that act as one owner *at the same time* are not kept apart by the lock. And do not keep a task's owner
/// for longer than the task: tokio may give a later task the same identity. [`Owner::new`] makes one that never comes
/// again.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Owner(Kind);

/// Three kinds that can never be equal, whatever their numbers.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Kind {
    Task(task::Id),
    Thread(u64),
    Scope(u64),
}

task_local! {
    static SCOPE: Owner;
}

impl Owner {
    /// The owner that a lock would have if it were taken here and now. Needs no runtime.
    #[must_use]
    pub fn current() -> Self {
        SCOPE
            .try_with(Self::clone)
            .ok()
            .or_else(|| task::try_id().map(|id| Self(Kind::Task(id))))
            .unwrap_or_else(|| Self(Kind::Thread(thread_number())))
    }

    /// An owner that is equal to no other one but its clones.
    #[expect(clippy::new_without_default, reason = "each is another one, so none is the default")]
    #[must_use]
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(Kind::Scope(NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    /// Runs a future as this owner, with everything that it awaits.
    ///
    /// Scopes nest, and the innermost one counts. What the future *spawns* is outside, unless it is put into a scope
    /// as well. The returned future borrows nothing from the owner, so it may be spawned.
    ///
    /// # Cancel safety
    ///
    /// Dropping it drops the inner future, and does nothing else.
    #[must_use = "futures do nothing unless they are awaited"]
    pub fn scope<F: IntoFuture>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        SCOPE.scope(self.clone(), future.into_future())
    }
}

impl Owner {
    /// A number that no other owner of this process has.
    pub(crate) fn number(&self) -> u64 {
        let (kind, number) = match &self.0 {
            Kind::Task(id) => (0, task_number(*id)),
            Kind::Thread(number) => (1, *number),
            Kind::Scope(number) => (2, *number),
        };
        number << 2 | kind
    }
}

/// A task's own number, which tokio shows and does not tell: what it hashes is that.
fn task_number(id: task::Id) -> u64 {
    struct Number(u64);

    impl Hasher for Number {
        fn write(&mut self, bytes: &[u8]) {
            bytes.iter().for_each(|byte| self.0 = self.0 << 8 | u64::from(*byte));
        }

        fn write_u64(&mut self, number: u64) {
            self.0 = number;
        }

        fn finish(&self) -> u64 {
            self.0
        }
    }

    let mut number = Number(0);
    id.hash(&mut number);
    number.finish()
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Task(id) => write!(f, "task {id}"),
            Kind::Thread(number) => write!(f, "thread {number}"),
            Kind::Scope(number) => write!(f, "scope {number}"),
        }
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({self})")
    }
}

/// This thread's number. The standard library's own id cannot be shown as one, and a name need not be unique.
fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        // Without a destructor, so that it can still be read while the thread ends.
        static NUMBER: Cell<u64> = const { Cell::new(0) };
    }
    NUMBER.with(|number| {
        if number.get() == 0 {
            number.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        number.get()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        collections::HashSet,
        task::{Context, Waker},
        thread,
    };
    use tokio::runtime::{Builder, Runtime};

    fn runtime() -> Runtime {
        Builder::new_current_thread().build().unwrap()
    }

    async fn current() -> Owner {
        Owner::current()
    }

    #[test]
    fn outside_a_task_the_thread_is_the_owner() {
        let here = Owner::current();
        assert!(here.to_string().starts_with("thread "), "{here}");
        assert_eq!(Owner::current(), here);
        // The body of `block_on` is no task.
        assert_eq!(runtime().block_on(current()), here);
        assert_ne!(thread::spawn(Owner::current).join().unwrap(), here);
    }

    #[test]
    fn every_owner_has_a_number_of_its_own_and_a_task_s_is_the_one_that_it_shows() {
        let mut owners = vec![Owner::current(), thread::spawn(Owner::current).join().unwrap()];
        owners.extend((0..100).map(|_| Owner::new()));
        let runtime = runtime();
        for _ in 0..100 {
            let (task, id) =
                runtime.block_on(async { tokio::spawn(async { (Owner::current(), task::id()) }).await.unwrap() });
            assert_eq!(task.number() >> 2, id.to_string().parse::<u64>().unwrap());
            owners.push(task);
        }
        let numbers: HashSet<_> = owners.iter().map(Owner::number).collect();
        assert_eq!(numbers.len(), owners.len());
        assert!(owners.iter().all(|owner| owner.clone().number() == owner.number()));
    }

    #[test]
    fn inside_a_task_the_task_is_the_owner_across_awaits() {
        runtime().block_on(async {
            let outside = Owner::current();
            let (before, after, child) = tokio::spawn(async {
                let before = Owner::current();
                let child = tokio::spawn(current()).await.unwrap();
                (before, Owner::current(), child)
            })
            .await
            .unwrap();
            assert!(before.to_string().starts_with("task "), "{before}");
            assert_eq!(before, after);
            assert_ne!(child, before);
            assert_ne!(before, outside);
        });
    }

    #[test]
    fn branches_of_one_task_are_one_owner_unless_scoped() {
        runtime().block_on(async {
            let (left, right) = tokio::join!(current(), current());
            assert_eq!(left, right);
            let (left, right) = (Owner::new(), Owner::new());
            let seen = tokio::join!(left.scope(current()), right.scope(current()));
            assert_eq!(seen, (left, right));
        });
    }

    #[test]
    fn the_innermost_scope_counts_and_ends_with_its_future() {
        runtime().block_on(async {
            let outside = Owner::current();
            let (outer, inner) = (Owner::new(), Owner::new());
            let seen = outer
                .scope(async {
                    let first = Owner::current();
                    let nested = inner.scope(current()).await;
                    (first, nested, Owner::current())
                })
                .await;
            assert_eq!(seen, (outer.clone(), inner, outer));
            assert_eq!(Owner::current(), outside);
        });
    }

    #[test]
    fn a_spawned_child_is_another_owner_unless_it_runs_in_a_scope() {
        runtime().block_on(async {
            let parent = Owner::new();
            let (bare, scoped) = parent
                .scope(async {
                    let bare = tokio::spawn(current());
                    let scoped = tokio::spawn(Owner::current().scope(current()));
                    (bare.await.unwrap(), scoped.await.unwrap())
                })
                .await;
            assert_ne!(bare, parent);
            assert_eq!(scoped, parent);
        });
    }

    #[test]
    fn a_scope_may_move_to_another_thread_between_two_polls() {
        fn spawnable<F: Future + Send + 'static>(future: F) -> F {
            future
        }
        let owner = Owner::new();
        // The owner that starts the scope is gone before it is polled.
        let scope = spawnable(owner.clone().scope(async {
            let before = Owner::current();
            task::yield_now().await;
            (before, Owner::current())
        }));
        let mut scope = Box::pin(scope);
        let first = scope.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(first.is_pending());
        let seen = thread::spawn(move || runtime().block_on(scope));
        assert_eq!(seen.join().unwrap(), (owner.clone(), owner));
    }

    #[test]
    fn kinds_and_numbers_never_meet() {
        let runtime = runtime();
        let mut owners = HashSet::new();
        for _ in 0..100 {
            assert!(owners.insert(Owner::new()));
        }
        let tasks: Vec<_> = (0..100).map(|_| runtime.spawn(current())).collect();
        for task in tasks {
            assert!(owners.insert(runtime.block_on(task).unwrap()));
        }
        assert!(owners.insert(Owner::current()));
        assert_eq!(owners.iter().map(ToString::to_string).collect::<HashSet<_>>().len(), 201);
    }

    #[test]
    fn shows_its_kind_and_number() {
        assert_eq!(Owner(Kind::Scope(5)).to_string(), "scope 5");
        assert_eq!(format!("{:?}", Owner(Kind::Thread(3))), "Owner(thread 3)");
    }
}
