//! One proxied connection: two pumps each way, joined by queues, and what rules make of what passes.
//!
//! The reading pumps judge and record; the writing pumps wait for gates. So a held frame holds up its direction and
//! nothing else, and a request that is held outlives the client that sent it.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::{
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
        watch,
    },
};

use super::{
    Shared,
    endpoint::{Address, Reader, Writer},
    log::Event,
    matching::Seen,
    resp::{Frame, Malformed},
    rule::{Action, Gate, Verdict},
};

/// A writer under a throttle pauses this often a second.
const PAUSES: u64 = 20;

/// The request by which a server forgets its scripts.
const FLUSH: &[u8] = b"*2\r\n$6\r\nSCRIPT\r\n$5\r\nFLUSH\r\n";

/// What is sent instead of a request that the proxy answers, so that its reply comes in its turn.
const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

/// One connection from a client and the one to the server that belongs to it.
#[derive(Debug)]
pub(super) struct Link {
    number: u64,
    pub(super) server: Address,
    shared: Arc<Shared>,
    /// What the server still has to answer, in order.
    owed: Mutex<VecDeque<Owed>>,
    subscribing: AtomicBool,
    /// Nothing reaches the server any more.
    up_is_lost: AtomicBool,
    /// Nothing reaches the client any more.
    down_is_lost: AtomicBool,
    cut: watch::Sender<bool>,
}

/// An answer that the server owes.
#[derive(Debug)]
struct Owed {
    to: Vec<Vec<u8>>,
    verdict: Verdict,
    kind: Answer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Reply,
    /// The reply to something that the client knows nothing of.
    Unasked,
    /// So many confirmations, which come as pushes, or one error.
    Confirmations(usize),
}

/// A request between its reading and its writing.
#[derive(Debug)]
struct Request {
    frame: Frame,
    words: Vec<Vec<u8>>,
    verdict: Verdict,
    gate: Gate,
}

/// A frame from the server between its reading and its writing.
#[derive(Debug)]
struct Answered {
    frame: Frame,
    action: Action,
    gate: Gate,
}

impl Link {
    pub(super) fn new(number: u64, server: Address, shared: Arc<Shared>) -> Arc<Self> {
        Arc::new(Self {
            number,
            server,
            shared,
            owed: Mutex::default(),
            subscribing: AtomicBool::new(false),
            up_is_lost: AtomicBool::new(false),
            down_is_lost: AtomicBool::new(false),
            cut: watch::Sender::new(false),
        })
    }

    /// Passes frames both ways until the server closes or the link is cut.
    pub(super) async fn run(self: Arc<Self>, client: (Reader, Writer), server: (Reader, Writer)) {
        let (up, requests) = unbounded_channel();
        let (down, answers) = unbounded_channel();
        let mut cut = self.cut.subscribe();
        let upwards = async { tokio::join!(self.read_client(client.0, up), self.write_server(requests, server.1)) };
        // When the client closes, what it had sent still goes up; when the server closes, all is over.
        let downwards = async { tokio::join!(self.read_server(server.0, down), self.write_client(answers, client.1)) };
        let passing = async {
            tokio::pin!(upwards);
            tokio::pin!(downwards);
            tokio::select! {
                _ = &mut downwards => {}
                _ = &mut upwards => { downwards.await; }
            }
        };
        tokio::select! {
            () = passing => {}
            _ = cut.wait_for(|cut| *cut) => {}
        }
    }

    /// Closes both sides at once.
    pub(super) fn cut(&self) {
        // In the log before anybody can notice.
        if !self.cut.send_replace(true) {
            self.note(Event::Cut);
        }
    }

    /// From now on nothing passes either way.
    pub(super) fn go_silent(&self) {
        self.up_is_lost.store(true, Ordering::Release);
        self.down_is_lost.store(true, Ordering::Release);
    }

    async fn read_client(&self, mut client: Reader, up: UnboundedSender<Request>) {
        let mut buffer = Vec::new();
        loop {
            loop {
                match Frame::take(&mut buffer) {
                    // The other pump is gone only when the link is.
                    Ok(Some(frame)) => drop(up.send(self.judge_request(frame))),
                    Ok(None) => break,
                    Err(Malformed) => return self.malformed().await,
                }
            }
            if !matches!(client.read_buf(&mut buffer).await, Ok(1..)) {
                return self.note(Event::ClientClosed);
            }
        }
    }

    fn judge_request(&self, frame: Frame) -> Request {
        let words = frame.words();
        if matches!(command(&words).as_slice(), b"SUBSCRIBE" | b"PSUBSCRIBE" | b"SSUBSCRIBE") {
            self.subscribing.store(true, Ordering::Release);
        }
        let verdict = self.judge(&words, false);
        self.note(Event::Request { words: words.clone(), action: verdict.action });
        let gate = verdict.request_gate();
        Request { frame, words, verdict, gate }
    }

    async fn write_server(&self, mut requests: UnboundedReceiver<Request>, mut server: Writer) {
        while let Some(Request { frame, words, verdict, gate }) = requests.recv().await {
            gate.pass().await;
            match verdict.action {
                Action::CutBefore => return self.cut_and_wait().await,
                Action::SwallowRequest => self.up_is_lost.store(true, Ordering::Release),
                Action::Silence => self.go_silent(),
                _ => {}
            }
            if self.up_is_lost.load(Ordering::Acquire) {
                continue;
            }
            if verdict.action == Action::CutMidRequest {
                let _ = self.write(&mut server, half(&frame)).await;
                return self.cut_and_wait().await;
            }
            if verdict.action == Action::FlushScriptsFirst {
                let to = vec![b"SCRIPT".to_vec(), b"FLUSH".to_vec()];
                self.owed().push_back(Owed { to, verdict: verdict.clone(), kind: Answer::Unasked });
                if self.write(&mut server, FLUSH).await.is_err() {
                    return;
                }
            }
            let bytes = if matches!(verdict.action, Action::Answer(_)) { PING } else { frame.bytes() };
            let copies = if verdict.action == Action::Duplicate { 2 } else { 1 };
            if verdict.action == Action::DuplicateLater {
                tokio::spawn(run_apart(self.server.clone(), Arc::clone(&self.shared), frame.clone(), verdict.held()));
            }
            for copy in 0..copies {
                let (to, verdict) = (words.clone(), verdict.clone());
                let kind = if copy > 0 { Answer::Unasked } else { Answer::expected(&words) };
                self.owed().push_back(Owed { to, verdict, kind });
                if self.write(&mut server, bytes).await.is_err() {
                    // The server is gone; the reading pump notices and ends the link.
                    return;
                }
            }
        }
        let _ = server.shutdown().await;
    }

    async fn read_server(&self, mut server: Reader, down: UnboundedSender<Answered>) {
        let mut buffer = Vec::new();
        loop {
            loop {
                match Frame::take(&mut buffer) {
                    Ok(Some(frame)) => self.judge_answer(frame).into_iter().for_each(|it| drop(down.send(it))),
                    Ok(None) => break,
                    Err(Malformed) => return self.malformed().await,
                }
            }
            if !matches!(server.read_buf(&mut buffer).await, Ok(1..)) {
                return self.note(Event::ServerClosed);
            }
        }
    }

    /// Records a frame from the server; `None` for one that the client shall never see.
    fn judge_answer(&self, frame: Frame) -> Option<Answered> {
        let frame = match &self.shared.renamed {
            Some([from, to]) => frame.renaming(from, to),
            None => frame,
        };
        let words = frame.words();
        if self.is_push(&frame, &words) {
            let owed = self.confirmation(&words);
            let mut verdict = self.judge(&words, true);
            if verdict.action == Action::Pass {
                // A rule on the SUBSCRIBE itself is about its confirmations too.
                verdict = owed.unwrap_or(verdict);
            }
            self.note(Event::Push { words, action: verdict.action });
            if verdict.action == Action::Silence {
                self.go_silent();
            }
            let (action, gate) = (verdict.action, verdict.reply_gate());
            return (action != Action::SwallowReply).then_some(Answered { frame, action, gate });
        }
        let Some(Owed { to, verdict, kind }) = self.owed().pop_front() else {
            self.note(Event::Push { words, action: Action::Pass });
            return Some(Answered { frame, action: Action::Pass, gate: Gate::Open });
        };
        let (action, gate) = (verdict.action, verdict.reply_gate());
        let frame = if let Action::Answer(answer) = action { Frame::made(answer) } else { frame };
        self.note(Event::Reply { to, frame: frame.clone() });
        (kind != Answer::Unasked).then_some(Answered { frame, action, gate })
    }

    async fn write_client(&self, mut answers: UnboundedReceiver<Answered>, mut client: Writer) {
        while let Some(Answered { frame, action, gate }) = answers.recv().await {
            gate.pass().await;
            match action {
                Action::CutAfter | Action::CutBefore => return self.cut_and_wait().await,
                Action::CutMidReply => {
                    let _ = self.write(&mut client, half(&frame)).await;
                    return self.cut_and_wait().await;
                }
                Action::SwallowReply => self.down_is_lost.store(true, Ordering::Release),
                _ => {}
            }
            if !self.down_is_lost.load(Ordering::Acquire) {
                // A client that went away misses its replies, and nothing else: its requests still run.
                let _ = self.write(&mut client, frame.bytes()).await;
            }
        }
        let _ = client.shutdown().await;
    }

    async fn write(&self, writer: &mut Writer, bytes: &[u8]) -> std::io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let throttle = self.shared.throttle_of(self.number);
            if throttle == 0 {
                return writer.write_all(rest).await;
            }
            let piece = usize::try_from(throttle / PAUSES).unwrap_or(usize::MAX).clamp(1, rest.len());
            writer.write_all(&rest[..piece]).await?;
            rest = &rest[piece..];
            tokio::time::sleep(Duration::from_secs_f64(piece as f64 / throttle as f64)).await;
        }
        Ok(())
    }

    fn is_push(&self, frame: &Frame, words: &[Vec<u8>]) -> bool {
        let listens = || {
            let confirms = self.owed().front().is_some_and(|owed| matches!(owed.kind, Answer::Confirmations(_)));
            confirms || self.subscribing.load(Ordering::Acquire)
        };
        frame.kind() == b'>'
            || frame.kind() == b'*' && words.first().is_some_and(|kind| is_push_kind(kind)) && listens()
    }

    /// Counts a confirmation, and says what was decided about the request that it confirms.
    fn confirmation(&self, words: &[Vec<u8>]) -> Option<Verdict> {
        if !words.first().is_some_and(|kind| kind.ends_with(b"subscribe")) {
            return None;
        }
        let mut owed = self.owed();
        let Owed { kind: Answer::Confirmations(left), verdict, .. } = owed.front_mut()? else {
            return None;
        };
        let verdict = verdict.clone();
        *left -= 1;
        if *left == 0 {
            owed.pop_front();
        }
        Some(verdict)
    }

    fn judge(&self, words: &[Vec<u8>], push: bool) -> Verdict {
        let subscribing = self.subscribing.load(Ordering::Acquire);
        self.shared.rules.judge(&Seen { connection: self.number, subscribing, push, words })
    }

    async fn malformed(&self) {
        self.note(Event::Malformed);
        self.cut_and_wait().await;
    }

    /// The cut ends this future too: whatever stands behind it must not go on.
    async fn cut_and_wait(&self) {
        self.cut();
        std::future::pending().await
    }

    pub(super) fn note(&self, event: Event) {
        self.shared.log.note(self.number, event);
    }

    fn owed(&self) -> MutexGuard<'_, VecDeque<Owed>> {
        self.owed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Answer {
    fn expected(words: &[Vec<u8>]) -> Self {
        if command(words).ends_with(b"SUBSCRIBE") {
            Self::Confirmations(words.len().saturating_sub(1).max(1))
        } else {
            Self::Reply
        }
    }
}

/// Runs a copy of a request on a connection of its own, once it may.
async fn run_apart(server: Address, shared: Arc<Shared>, frame: Frame, gate: Gate) {
    gate.pass().await;
    let Ok((mut reader, mut writer)) = server.connect().await else {
        return;
    };
    let number = shared.next_connection();
    shared.log.note(number, Event::Opened);
    shared.log.note(number, Event::Copied { words: frame.words() });
    if writer.write_all(frame.bytes()).await.is_err() {
        return;
    }
    let mut buffer = Vec::new();
    while matches!(reader.read_buf(&mut buffer).await, Ok(1..)) {
        if let Ok(Some(reply)) = Frame::take(&mut buffer) {
            return shared.log.note(number, Event::Reply { to: frame.words(), frame: reply });
        }
    }
}

fn command(words: &[Vec<u8>]) -> Vec<u8> {
    words.first().map(|name| name.to_ascii_uppercase()).unwrap_or_default()
}

fn is_push_kind(kind: &[u8]) -> bool {
    kind.ends_with(b"subscribe") || matches!(kind, b"message" | b"pmessage" | b"smessage")
}

fn half(frame: &Frame) -> &[u8] {
    &frame.bytes()[..frame.bytes().len() / 2]
}
