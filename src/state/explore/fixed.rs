//! A server of which the same is known all through an event.

use std::time::Duration;

use crate::state::{Era, Instant, Link, Server};

pub(crate) struct Fixed {
    pub(crate) link: Link,
    pub(crate) era: Era,
    pub(crate) last_answer: Instant,
    pub(crate) grace: Duration,
    pub(crate) round_trip: Duration,
}

impl Server for Fixed {
    fn link(&self) -> Link {
        self.link
    }

    fn era(&self) -> Era {
        self.era
    }

    fn last_answer(&self) -> Instant {
        self.last_answer
    }

    fn grace(&self) -> Duration {
        self.grace
    }

    fn round_trip(&self) -> Duration {
        self.round_trip
    }
}
