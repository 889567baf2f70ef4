//! What a client needs of the tokio runtime that it lives on. It knows no client.

use std::{
    cell::Cell,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    task::{Context, Wake, Waker},
    thread,
    time::Duration,
};

use tokio::{
    runtime::{Builder, Handle, Id, RuntimeFlavor},
    sync::Notify,
    task::{self, AbortHandle, JoinHandle},
    time::sleep,
};

use crate::error::{Error, Result};

/// The runtime that this runs on, if it has timers.
pub(crate) fn here() -> Result<Handle> {
    let here = Handle::try_current().map_err(|_| {
        invalid("there is no tokio runtime here: make the client inside the one that it is to live on, or give it own_thread()")
    })?;
    has("timers", "enable_time", || drop(sleep(Duration::ZERO)))?;
    Ok(here)
}

/// The runtime that this runs on, if it has timers and sockets.
pub(crate) fn with_sockets() -> Result<Handle> {
    let here = here()?;
    has("I/O", "enable_io", || drop(socket()))?;
    Ok(here)
}

/// Whether that runtime has threads of its own, which do its work whoever waits for it.
pub(crate) fn has_workers(runtime: &Handle) -> bool {
    runtime.runtime_flavor() == RuntimeFlavor::MultiThread
}

/// Whether it is that runtime, whose handle this thread has, that polls here. A thread that has only entered it polls by other
/// means, also inside of a blocking task: it waits for others to do the runtime's work.
pub(crate) fn is_polled_by(runtime: &Handle) -> bool {
    thread_local! {
        /// The runtime whose tasks this thread was last seen to poll: there a task is asked no more.
        static POLLS_FOR: Cell<Option<Id>> = const { Cell::new(None) };
    }
    let in_task = task::try_id().is_some();
    if in_task && POLLS_FOR.get() == Some(runtime.id()) {
        return true;
    }
    // Whoever blocks on one that has workers is polled by none of them.
    let is_polled = (in_task || !has_workers(runtime)) && polls();
    POLLS_FOR.set(is_polled.then(|| runtime.id()));
    is_polled
}

/// Whether a runtime polls here. One that does wakes who yields to it when it has done the rest of its work; where there is
/// none nothing is to be waited for, and who yields is woken at once.
fn polls() -> bool {
    struct Woken(AtomicBool);
    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.wake_by_ref();
        }

        fn wake_by_ref(self: &Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    thread_local! {
        static YIELDS: (Arc<Woken>, Waker) = {
            let woken = Arc::new(Woken(AtomicBool::new(false)));
            (Arc::clone(&woken), Waker::from(woken))
        };
    }
    let woken = YIELDS.try_with(|(woken, waker)| {
        woken.0.store(false, Ordering::Relaxed);
        let _ = pin!(task::yield_now()).poll(&mut Context::from_waker(waker));
        woken.0.load(Ordering::Relaxed)
    });
    !woken.unwrap_or(false)
}

/// Nothing tells what a runtime has but the panic over what it has not. The program's hook hears of that panic; nobody else
/// does, and it is the first and the last one.
fn has(what: &str, enabled_by: &str, takes_it: impl FnOnce()) -> Result<()> {
    catch_unwind(AssertUnwindSafe(takes_it)).map_err(|_| {
        invalid(format!(
            "the tokio runtime here has no {what}: build it with enable_all(), or {enabled_by}() at least, or give the \
             client own_thread()"
        ))
    })
}

fn invalid(why: impl Into<Arc<str>>) -> Error {
    Error::invalid("runtime", why)
}

/// Any socket. That the system gives none says nothing about the runtime.
#[cfg(unix)]
fn socket() -> io::Result<impl Sized> {
    tokio::net::UnixStream::pair()
}

#[cfg(not(unix))]
fn socket() -> io::Result<impl Sized> {
    let socket = std::net::UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
    socket.set_nonblocking(true)?;
    tokio::net::UdpSocket::from_std(socket)
}

/// What a task makes; it ends with whoever waits for it. `None`: its runtime ended.
pub(crate) async fn attended<T>(task: JoinHandle<T>) -> Option<T> {
    struct AbortOnDrop(AbortHandle);
    impl Drop for AbortOnDrop {
        fn drop(&mut self) {
            self.0.abort();
        }
    }
    let _ends = AbortOnDrop(task.abort_handle());
    task.await.ok()
}

/// A thread with a runtime, which ends when it is told to or this is dropped. It ends by itself, so that may be anywhere.
#[derive(Debug)]
pub(crate) struct OwnThread {
    runtime: Handle,
    over: Arc<Notify>,
}

impl OwnThread {
    pub(crate) fn start() -> Result<Self> {
        let failed =
            |error: io::Error| Error::invalid("own_thread", format!("the system gives no thread for it: {error}"));
        let (tell, told) = mpsc::sync_channel(1);
        let over = Arc::new(Notify::new());
        let until = Arc::clone(&over);
        let lives = move || match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => {
                let _ = tell.send(Ok(runtime.handle().clone()));
                runtime.block_on(until.notified());
                // A name that is just being looked up is not waited for.
                runtime.shutdown_background();
            }
            Err(error) => drop(tell.send(Err(error))),
        };
        thread::Builder::new().name("relatch".into()).spawn(lives).map_err(failed)?;
        let runtime = told.recv().map_err(|_| failed(io::ErrorKind::Other.into()))?.map_err(failed)?;
        Ok(Self { runtime, over })
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// What is under way there goes with it.
    pub(crate) fn end(&self) {
        self.over.notify_one();
    }
}

impl Drop for OwnThread {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::runtime::Runtime;

    fn is_polled_here() -> bool {
        is_polled_by(&Handle::current())
    }

    /// By a task, by the future that it drives, in a blocking task before and after that, and by a thread that has entered it.
    fn seen_by(runtime: &Runtime) -> [bool; 5] {
        let polled = async || is_polled_here();
        let blocks = || is_polled_here() || Handle::current().block_on(async { is_polled_here() });
        let task = || runtime.spawn(async { is_polled_here() });
        let before = runtime.block_on(runtime.spawn_blocking(blocks)).unwrap();
        let (task, driven) = (runtime.block_on(task()).unwrap(), runtime.block_on(polled()));
        let after = runtime.block_on(runtime.spawn_blocking(blocks)).unwrap();
        let _entered = runtime.enter();
        [task, driven, before, after, is_polled_here()]
    }

    #[test]
    fn a_runtime_polls_its_tasks_and_what_it_is_driven_by_if_it_has_one_thread_and_nothing_else() {
        let current_thread = Builder::new_current_thread().build().unwrap();
        let with_workers = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        assert!(has_workers(with_workers.handle()) && !has_workers(current_thread.handle()));
        for _ in 0..3 {
            assert_eq!(seen_by(&current_thread), [true, true, false, false, false]);
            assert_eq!(seen_by(&with_workers), [true, false, false, false, false]);
        }
    }
}
