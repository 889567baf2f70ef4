//! A command that ran, as a trace keeps it: shared with whoever sent it, and text only for whoever reads it.

use std::{fmt, slice};

use super::{
    frame::{Frame, OwnedCall},
    server::Reply,
};

/// A command that ran at a store, in a [`Happening`](crate::embedded::Happening). Its text is one line.
#[derive(Clone)]
pub struct Ran {
    frame: Frame,
    /// Which one of the frame.
    place: usize,
    reply: Reply,
    road: Road,
    at_rival: bool,
}

/// By which road a command came to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Road {
    /// Over the client's link.
    Link,
    /// Over a link that had ended meanwhile: nobody waits for the answer.
    OldLink,
    /// As a second copy.
    Copy,
}

impl Ran {
    pub(super) fn new(frame: &Frame, place: usize, reply: &Reply, road: Road) -> Self {
        Self { frame: frame.clone(), place, reply: reply.clone(), road, at_rival: false }
    }

    /// The same, where it ran at a master that had been replaced.
    pub(super) fn at_rival(self, at_rival: bool) -> Self {
        Self { at_rival, ..self }
    }

    /// The script's file, or the words of a command that is none.
    #[must_use]
    pub fn script(&self) -> &'static str {
        self.words().script.path
    }

    /// Its keys.
    #[must_use]
    pub fn keys(&self) -> &[String] {
        &self.words().keys
    }

    /// Its arguments; numbers as text, as a server gets them.
    #[must_use]
    pub fn args(&self) -> &[String] {
        &self.words().args
    }

    /// What it answered, as text.
    #[must_use]
    pub fn reply(&self) -> String {
        Shown(&self.reply).to_string()
    }

    /// The whole numbers of what it answered, in order: one alone is what a lock's scripts answer where all went as expected, and
    /// of several the first says what came of it. They cost less than the text.
    ///
    /// # Examples
    ///
    /// ```
    /// # use relatch::{Client, EmbeddedStore, embedded::Happening};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> relatch::Result<()> {
    /// let store = EmbeddedStore::new();
    /// let client = Client::builder().embedded(&store).connect().await?;
    /// store.start_trace();
    /// let guard = client.lock("report").lock().await?;
    /// let trace = store.take_trace();
    /// let Some(Happening::Ran(ran)) = trace.first().map(|traced| &traced.what) else { panic!("it ran") };
    /// assert_eq!((ran.keys(), ran.numbers().next()), (&["report".to_owned()][..], Some(1)));
    /// # guard.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn numbers(&self) -> impl Iterator<Item = i64> {
        let parts = match &self.reply {
            Reply::Array(parts) => parts,
            other => slice::from_ref(other),
        };
        parts.iter().filter_map(|part| if let Reply::Int(int) = part { Some(*int) } else { None })
    }

    /// By which road it came.
    #[must_use]
    pub fn road(&self) -> Road {
        self.road
    }

    /// Whether it ran at a master that had been [replaced](crate::EmbeddedStore::fail_over), for somebody who did not know of
    /// that yet.
    #[must_use]
    pub fn is_at_rival(&self) -> bool {
        self.at_rival
    }

    fn words(&self) -> &OwnedCall {
        &self.frame.calls()[self.place]
    }
}

impl PartialEq for Ran {
    fn eq(&self, other: &Self) -> bool {
        (self.script(), self.keys(), self.args()) == (other.script(), other.keys(), other.args())
            && (&self.reply, self.road, self.at_rival) == (&other.reply, other.road, other.at_rival)
    }
}

impl Eq for Ran {}

impl fmt::Debug for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ran")
            .field("script", &self.script())
            .field("keys", &self.keys())
            .field("args", &self.args())
            .field("reply", &self.reply())
            .field("road", &self.road)
            .field("at_rival", &self.at_rival)
            .finish()
    }
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} {:?} -> {}", self.script(), self.keys(), self.args(), Shown(&self.reply))?;
        match self.road {
            Road::Link => {}
            Road::OldLink => f.write_str(" over an old link")?,
            Road::Copy => f.write_str(" as a copy")?,
        }
        if self.at_rival { f.write_str(" at an old master") } else { Ok(()) }
    }
}

/// A reply as a line of a trace has it.
struct Shown<'a>(&'a Reply);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Reply::Nil => f.write_str("nil"),
            Reply::Int(int) => int.fmt(f),
            Reply::Status(text) => f.write_str(text),
            Reply::Bulk(bytes) => write!(f, "{:?}", String::from_utf8_lossy(bytes)),
            Reply::Error(said) => write!(f, "({said})"),
            Reply::Array(parts) => {
                f.write_str("[")?;
                for (at, part) in parts.iter().enumerate() {
                    write!(f, "{}{}", if at == 0 { "" } else { ", " }, Shown(part))?;
                }
                f.write_str("]")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        backend::{Arg, Call, Polled},
        script::reentrant,
    };

    #[test]
    fn a_command_reads_as_one_line_and_its_answer_as_text_and_as_numbers() {
        let args = [Arg::Text("x"), Arg::Int(30_000), Arg::Int(1)];
        let call =
            Call { script: &reentrant::ACQUIRE, keys: &["a"], args: &args, dispatch: None, polled: Polled::ByCaller };
        let frame = Frame::of(&[call, call]);
        let parts = vec![Reply::Int(-1), Reply::Bulk(b"a\"b".to_vec()), Reply::Nil, Reply::Array(vec![Reply::Int(2)])];
        let ran = |reply, road| Ran::new(&frame, 1, &reply, road);
        let whole = ran(Reply::Array(parts), Road::Copy);
        assert_eq!(whole.reply(), r#"[-1, "a\"b", nil, [2]]"#);
        assert_eq!(whole.numbers().collect::<Vec<_>>(), [-1]);
        assert_eq!((whole.keys(), whole.args().len()), (&["a".to_owned()][..], 3));
        let line = format!(r#"lua/reentrant/acquire.lua ["a"] ["x", "30000", "1"] -> {} as a copy"#, whole.reply());
        assert_eq!(whole.to_string(), line);
        let alone = ran(Reply::Int(7), Road::OldLink);
        assert!(alone.to_string().ends_with("-> 7 over an old link") && alone.numbers().eq([7]));
        assert_eq!(ran(Reply::Status("OK".into()), Road::Link).reply(), "OK");
        let old = alone.clone().at_rival(true);
        assert!(
            old.to_string().ends_with("-> 7 over an old link at an old master") && old.is_at_rival() && old != alone
        );
        let refused = ran(Reply::Error("ERR no".into()), Road::Link);
        assert_eq!((refused.reply(), refused.numbers().count()), ("(ERR no)".to_owned(), 0));
        assert!(refused == refused.clone() && refused != ran(Reply::Error("ERR no".into()), Road::Copy));
        assert_ne!(refused, alone);
    }
}
