//! May a copy of a command still run?

use super::super::{command::Fault, id::Link};

/// Copies that left and will never be answered: they may run whenever they like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Lost {
    #[default]
    None,
    /// All of them left on this link.
    On(Link),
    Anywhere,
}

impl Lost {
    pub(crate) fn is_none(self) -> bool {
        self == Self::None
    }

    fn add(&mut self, link: Link) {
        *self = match *self {
            Self::None => Self::On(link),
            Self::On(known) if known == link => Self::On(link),
            Self::On(_) | Self::Anywhere => Self::Anywhere,
        };
    }
}

/// The copies of one command. One may be lost while another is on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Copies {
    /// One is on its way on this link: what is sent on it later runs later.
    on: Option<Link>,
    lost: Lost,
}

impl Copies {
    /// One more is to leave. The answer of one before it may come or not, and is not waited for.
    pub(crate) fn sent(&mut self, link: Link) {
        if let Some(before) = self.on.replace(link) {
            self.lost.add(before);
        }
    }

    /// The one that was to leave leaves now, perhaps on another link than it was meant for.
    pub(crate) fn leaves(&mut self, link: Link) {
        self.on = Some(link);
    }

    /// The one on its way was answered: on which link it was.
    pub(crate) fn answered(&mut self) -> Option<Link> {
        self.on.take()
    }

    pub(crate) fn unanswered(&mut self, fault: Fault) {
        if let Some(link) = self.on.take().filter(|_| fault.may_have_run) {
            self.lost.add(link);
        }
    }

    pub(crate) fn is_on(self, link: Link) -> bool {
        self.on == Some(link)
    }

    pub(crate) fn lost(self) -> Lost {
        self.lost
    }

    /// The same, where nobody wants an answer to the one on its way.
    pub(crate) fn given_up(self) -> Lost {
        let mut lost = self.lost;
        self.on.into_iter().for_each(|link| lost.add(link));
        lost
    }
}
