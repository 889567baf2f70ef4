//! The signals that we are sent: which there are, and which are left to the command alone.

use std::{
    fs,
    future::poll_fn,
    io,
    task::{Context, Poll},
};

#[cfg(target_os = "linux")]
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::process::Signal;
#[cfg(target_os = "linux")]
use tokio::io::unix::AsyncFd;
use tokio::signal::unix::{self, SignalKind};

use super::{interrupt, masks, terminal};
use crate::status::ON_REQUEST;

/// They are passed on to the command.
const PASSED: [Signal; 6] = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];

/// What is heard from now on.
#[derive(Debug)]
pub(crate) struct Signals {
    passed: Vec<(Signal, unix::Signal)>,
    children: unix::Signal,
    going_on: unix::Signal,
    stop: Option<Stop>,
    /// How often we were asked to end since the command was over.
    asked: u32,
    /// One of those that end whoever hears them came.
    was_ended: bool,
}

/// One that was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// For the command.
    Passed(Signal),
    /// Something has become of the command.
    Child,
    /// We were stopped, and may go on.
    GoOn,
    /// All of us are to stop.
    Stop,
}

impl Signals {
    /// What the process that started us ignores stays ignored, here and by the command: so it is with `nohup`.
    pub(crate) fn listen() -> io::Result<Self> {
        let ignored = ignored();
        let heard = PASSED.into_iter().filter(|signal| !is_in(ignored, *signal));
        let listen = |signal: Signal| unix::signal(SignalKind::from_raw(signal.as_raw()));
        let passed = heard.clone().map(|signal| Ok((signal, listen(signal)?))).collect::<io::Result<_>>()?;
        let children = listen(Signal::CHILD)?;
        let going_on = listen(Signal::CONT)?;
        // Not before they are listened to: one that waits for it would end us.
        masks::unblock(heard.chain([Signal::CHILD, Signal::CONT]).map(Signal::as_raw))?;
        let stop = if is_in(ignored, Signal::TSTP) { None } else { Stop::listen()? };
        Ok(Self { passed, children, going_on, stop, asked: 0, was_ended: false })
    }

    /// The next one. Dropped, none is missed.
    pub(crate) async fn next(&mut self) -> Heard {
        poll_fn(|cx| {
            for (signal, stream) in &mut self.passed {
                if stream.poll_recv(cx).is_ready() {
                    self.was_ended |= ON_REQUEST.contains(signal);
                    return Poll::Ready(Heard::Passed(*signal));
                }
            }
            if self.children.poll_recv(cx).is_ready() {
                return Poll::Ready(Heard::Child);
            }
            if self.going_on.poll_recv(cx).is_ready() {
                return Poll::Ready(Heard::GoOn);
            }
            if self.stop.as_ref().is_some_and(|stop| stop.poll(cx).is_ready()) {
                return Poll::Ready(Heard::Stop);
            }
            Poll::Pending
        })
        .await
    }

    /// The next one that asks us to end, while there is no command.
    pub(crate) async fn asked_to_end(&mut self) -> Signal {
        loop {
            match self.next().await {
                Heard::Passed(signal) => {
                    if signal == Signal::INT {
                        interrupt::note(true);
                    }
                    return signal;
                }
                Heard::Stop => terminal::stop(),
                Heard::Child | Heard::GoOn => {}
            }
        }
    }

    /// Whether one came by now that is for all that we do, whoever it was passed on to.
    pub(crate) fn were_to_end(&self) -> bool {
        self.was_ended
    }

    /// One that came when the command was over already was for us.
    pub(crate) fn count_one(&mut self) {
        self.asked += 1;
    }

    /// Whether we were asked to end twice since the command was over.
    pub(crate) fn is_asked_twice(&self) -> bool {
        self.asked >= 2
    }

    /// Once we were asked to end for the second time since the command was over. Dropped, it goes on counting where it was.
    pub(crate) async fn asked_twice(&mut self) {
        while !self.is_asked_twice() {
            self.asked_to_end().await;
            self.count_one();
        }
    }
}

/// The stop of a terminal, which does not stop us by itself any more.
#[cfg(target_os = "linux")]
#[derive(Debug)]
struct Stop(AsyncFd<SignalFd>);

#[cfg(target_os = "linux")]
impl Stop {
    #[allow(deprecated, reason = "what is to be taken instead is newer than the oldest tokio that will do")]
    fn listen() -> io::Result<Option<Self>> {
        let set = masks::block_stop()?;
        let heard = SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(Some(Self(AsyncFd::new(heard)?)))
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let Poll::Ready(Ok(mut ready)) = self.0.poll_read_ready(cx) else { return Poll::Pending };
            if let Ok(Some(_)) = self.0.get_ref().read_signal() {
                return Poll::Ready(());
            }
            ready.clear_ready();
        }
    }
}

/// Elsewhere it stops us, and the command goes on until its lock is lost.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
enum Stop {}

#[cfg(not(target_os = "linux"))]
impl Stop {
    fn listen() -> io::Result<Option<Self>> {
        Ok(None)
    }

    fn poll(&self, _: &mut Context<'_>) -> Poll<()> {
        match *self {}
    }
}

/// The signals that are ignored, as bits; none where that cannot be known.
fn ignored() -> u64 {
    fs::read_to_string("/proc/self/status").ok().and_then(|status| ignored_by(&status)).unwrap_or_default()
}

/// Whether this process ignores it, which it does only if it was ignored around us.
pub(super) fn is_ignored(signal: Signal) -> bool {
    is_in(ignored(), signal)
}

fn ignored_by(status: &str) -> Option<u64> {
    let bits = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(bits.trim(), 16).ok()
}

fn is_in(bits: u64, signal: Signal) -> bool {
    u32::try_from(signal.as_raw() - 1).is_ok_and(|bit| bits.checked_shr(bit).is_some_and(|bits| bits & 1 == 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ignored_is_read_from_the_systems_list() {
        let bits = ignored_by("Name:\tx\nSigBlk:\t0\nSigIgn:\t0000000000001001\n").expect("it is there");
        assert!(is_in(bits, Signal::HUP));
        assert!(!is_in(bits, Signal::INT) && !is_in(bits, Signal::TERM));
        assert_eq!(ignored_by("Name:\tx"), None);
    }
}
