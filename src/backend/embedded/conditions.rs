//! What befalls commands by chance: how long they take, and how often they are lost, doubled or cut off. It draws, and does
//! nothing to any command itself.

use std::{ops::RangeInclusive, time::Duration};

use crate::chance::Chance;

/// What befalls the commands of a store's clients by chance, for [`EmbeddedStore::set_weather`] and
/// [`set_weather_of`](crate::EmbeddedStore::set_weather_of).
///
/// Probabilities are drawn once a command; one outside of 0 to 1 is the nearer of the two. Delays are drawn evenly from
/// their range; a command never overtakes an earlier one on its link, and tokio's timers round up to whole milliseconds.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use relatch::embedded::Weather;
///
/// let storm = Weather::fair()
///     .request_delay(Duration::ZERO..=Duration::from_millis(40))
///     .reply_delay(Duration::ZERO..=Duration::from_millis(40))
///     .lost_requests(0.01)
///     .lost_replies(0.01)
///     .copies(0.05, Duration::ZERO..=Duration::from_secs(40))
///     .cuts(0.002);
/// assert_ne!(storm, Weather::fair());
/// ```
///
/// [`EmbeddedStore::set_weather`]: crate::EmbeddedStore::set_weather
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use = "a weather does nothing until a store has it"]
pub struct Weather {
    request_delay: Span,
    reply_delay: Span,
    lost_requests: f64,
    lost_replies: f64,
    lost_messages: f64,
    copies: f64,
    copy_delay: Span,
    cuts: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Span {
    shortest: Duration,
    longest: Duration,
}

/// What was drawn for one command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CommandFaults {
    pub(super) delay: Duration,
    pub(super) request: Arrival,
    pub(super) reply: Arrival,
    /// A second copy runs so much later.
    pub(super) copy: Option<Duration>,
    /// The link breaks as soon as the command is on its way.
    pub(super) link: LinkEffect,
}

/// Whether something arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Arrival {
    #[default]
    Arrives,
    Lost,
}

/// What becomes of the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum LinkEffect {
    #[default]
    Stays,
    Breaks,
}

impl Weather {
    /// Nothing happens: no delay, no loss.
    pub fn fair() -> Self {
        Self::default()
    }

    /// How long a command is on its way to the store.
    pub fn request_delay(mut self, range: RangeInclusive<Duration>) -> Self {
        self.request_delay = Span::of(&range);
        self
    }

    /// How long an answer or a message is on its way back.
    pub fn reply_delay(mut self, range: RangeInclusive<Duration>) -> Self {
        self.reply_delay = Span::of(&range);
        self
    }

    /// How probable it is that a command never arrives.
    pub fn lost_requests(mut self, probability: f64) -> Self {
        self.lost_requests = probability;
        self
    }

    /// How probable it is that a command runs and its answer never arrives.
    pub fn lost_replies(mut self, probability: f64) -> Self {
        self.lost_replies = probability;
        self
    }

    /// How probable it is that a message to a subscriber never arrives, though its link stays: a release that nobody hears of.
    pub fn lost_messages(mut self, probability: f64) -> Self {
        self.lost_messages = probability;
        self
    }

    /// How probable it is that a command runs once more, and how much later: a copy that an old link still delivered.
    pub fn copies(mut self, probability: f64, later: RangeInclusive<Duration>) -> Self {
        self.copies = probability;
        self.copy_delay = Span::of(&later);
        self
    }

    /// How probable it is that the link breaks under a command, which may arrive all the same; for the link of the
    /// subscriptions, under a message.
    pub fn cuts(mut self, probability: f64) -> Self {
        self.cuts = probability;
        self
    }

    pub(super) fn is_fair(&self) -> bool {
        *self == Self::fair()
    }

    pub(super) fn draw_faults(&self, chance: &Chance) -> CommandFaults {
        let request = arrival(chance, self.lost_requests);
        CommandFaults {
            delay: self.request_delay.draw(chance),
            request,
            reply: arrival(chance, self.lost_replies),
            copy: happens(chance, self.copies).then(|| self.copy_delay.draw(chance)),
            link: self.draw_link_effect(chance),
        }
    }

    /// What a message does to its link.
    pub(super) fn draw_link_effect(&self, chance: &Chance) -> LinkEffect {
        if happens(chance, self.cuts) { LinkEffect::Breaks } else { LinkEffect::Stays }
    }

    /// Whether a message arrives. Nothing is drawn where all of them do.
    pub(super) fn draw_message(&self, chance: &Chance) -> Arrival {
        if self.lost_messages > 0.0 { arrival(chance, self.lost_messages) } else { Arrival::Arrives }
    }

    pub(super) fn draw_request_delay(&self, chance: &Chance) -> Duration {
        self.request_delay.draw(chance)
    }

    pub(super) fn draw_reply_delay(&self, chance: &Chance) -> Duration {
        self.reply_delay.draw(chance)
    }
}

impl Span {
    fn of(range: &RangeInclusive<Duration>) -> Self {
        Self { shortest: *range.start(), longest: *range.end().max(range.start()) }
    }

    fn draw(self, chance: &Chance) -> Duration {
        self.shortest + chance.part_of(self.longest.saturating_sub(self.shortest))
    }
}

fn arrival(chance: &Chance, lost: f64) -> Arrival {
    if happens(chance, lost) { Arrival::Lost } else { Arrival::Arrives }
}

fn happens(chance: &Chance, probability: f64) -> bool {
    chance.share() < probability
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_certain_happens_and_what_is_impossible_does_not() {
        let chance = Chance::seeded(1);
        let (short, long) = (Duration::from_millis(3), Duration::from_millis(9));
        let fair = Weather::fair();
        let foul =
            fair.clone().request_delay(short..=long).lost_requests(1.0).lost_replies(2.0).copies(1.0, long..=short);
        for _ in 0..100 {
            assert_eq!(fair.draw_faults(&chance), CommandFaults::default());
            let faults = foul.clone().cuts(1.0).draw_faults(&chance);
            assert!((short..=long).contains(&faults.delay));
            assert_eq!((faults.request, faults.reply, faults.link), (Arrival::Lost, Arrival::Lost, LinkEffect::Breaks));
            assert_eq!(faults.copy, Some(long), "a range that is the wrong way round has its start");
            assert_eq!(foul.draw_reply_delay(&chance), Duration::ZERO);
        }
    }
}
