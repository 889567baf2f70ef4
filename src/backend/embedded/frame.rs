//! Calls as words that may wait, replies as the seam's values. Sends nothing.

use std::{sync::Arc, time::Duration};

use super::server::{Reply, Server};
use crate::backend::redis::words;
use crate::{
    backend::{Arg, Call, Fault, FaultKind, Value},
    script::{Script, Word},
};

/// What goes over a link at once: one call, or the calls of a pipeline. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    calls: Arc<[OwnedCall]>,
    pub(super) order: FrameOrder,
}

/// What a frame may overtake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameOrder {
    /// Nothing that left before it on its link.
    OfLink,
    /// Whatever is not such a one, too.
    Apart,
}

/// A call that outlives its caller's borrows.
#[derive(Debug)]
pub(super) struct OwnedCall {
    pub(super) script: &'static Script,
    pub(super) keys: Box<[String]>,
    pub(super) args: Box<[String]>,
}

/// One answer for each call, in order.
pub(super) type Answers = Vec<Result<Value, Fault>>;

impl Frame {
    pub(super) fn of(calls: &[Call<'_>]) -> Self {
        Self { calls: calls.iter().map(OwnedCall::of).collect(), order: FrameOrder::OfLink }
    }

    pub(super) fn apart(self) -> Self {
        Self { order: FrameOrder::Apart, ..self }
    }

    pub(super) fn calls(&self) -> &[OwnedCall] {
        &self.calls
    }

    pub(super) fn is_single(&self) -> bool {
        self.calls.len() == 1
    }

    /// The same fault for each call.
    pub(super) fn fails(&self, fault: &Fault) -> Answers {
        vec![Err(fault.clone()); self.calls.len()]
    }
}

impl OwnedCall {
    fn of(call: &Call<'_>) -> Self {
        debug_assert!(
            call.script.takes(call.keys.len(), call.args.len()),
            "{} declares other inputs",
            call.script.path
        );
        let text = |arg: &Arg<'_>| match *arg {
            Arg::Text(text) => text.to_owned(),
            Arg::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Arg::Int(int) => int.to_string(),
        };
        Self {
            script: call.script,
            keys: call.keys.iter().map(|key| (*key).to_owned()).collect(),
            args: call.args.iter().map(text).collect(),
        }
    }

    pub(super) fn run(&self, server: &mut Server, now: Duration) -> Reply {
        if !self.script.words.is_empty() {
            return server.execute(now, &self.command());
        }
        let words: Vec<&[u8]> = self.keys.iter().chain(&self.args).map(String::as_bytes).collect();
        let (keys, args) = words.split_at(self.keys.len());
        server.run(now, self.script, keys, args)
    }

    /// The same, word for word.
    fn command(&self) -> Vec<&[u8]> {
        let word = |word: &Word| match *word {
            Word::Is(word) => Some(word),
            Word::Key => self.keys.first().map(String::as_str),
            Word::Arg(at) => self.args.get(at).map(String::as_str),
        };
        self.script.words.iter().filter_map(word).map(str::as_bytes).collect()
    }
}

/// A reply as the seam has it.
pub(super) fn value(reply: Reply) -> Result<Value, Fault> {
    match reply {
        Reply::Error(said) => {
            let words::Meaning { kind, may_have_run } = words::meaning(&said);
            Err(Fault::of(kind, may_have_run, said))
        }
        other => inner(other),
    }
}

/// A part of a reply: if that is a refusal, the script ran.
fn inner(reply: Reply) -> Result<Value, Fault> {
    match reply {
        Reply::Nil => Ok(Value::Nil),
        Reply::Int(int) => Ok(Value::Int(int)),
        Reply::Status(text) => Ok(Value::Bytes(text.into_bytes())),
        Reply::Bulk(bytes) => Ok(Value::Bytes(bytes)),
        Reply::Array(parts) => match Value::of_numbers(&parts, number) {
            Some(numbers) => Ok(numbers),
            None => parts.into_iter().map(inner).collect::<Result<_, _>>().map(Value::Array),
        },
        Reply::Error(said) => Err(Fault::of(FaultKind::Other, true, said)),
    }
}
fn number(part: &Reply) -> Option<i64> {
    if let Reply::Int(int) = part { Some(*int) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_become_values_and_refusals_what_they_mean() {
        let bytes = |text: &str| Value::Bytes(text.into());
        assert_eq!(value(Reply::Nil).unwrap(), Value::Nil);
        assert_eq!(value(Reply::Status("OK".into())).unwrap(), bytes("OK"));
        let parts = Reply::Array(vec![Reply::Int(1), Reply::Bulk(b"a".to_vec()), Reply::Array(Vec::new())]);
        assert_eq!(value(parts).unwrap(), Value::Array(vec![Value::Int(1), bytes("a"), Value::Array(Vec::new())]));
        let parts = Reply::Array(vec![Reply::Int(1), Reply::Int(-2)]);
        assert_eq!(value(parts).unwrap().numbers(), [1, -2]);
        for (said, kind) in
            [("WRONGTYPE no", FaultKind::WrongType), ("OOM no", FaultKind::OutOfMemory), ("ERR no", FaultKind::Other)]
        {
            let fault = value(Reply::Error(said.into())).unwrap_err();
            assert_eq!((fault.kind, fault.may_have_run, &*fault.source.to_string()), (kind, false, said));
        }
        let part = Reply::Array(vec![Reply::Error("WRONGTYPE no".into())]);
        let fault = value(part).unwrap_err();
        assert_eq!((fault.kind, fault.may_have_run), (FaultKind::Other, true));
    }
}
