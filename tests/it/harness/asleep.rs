//! When somebody sleeps who polled until it knew that it listens.
//!
//! Nobody sees from outside when a client has read that its subscription is there. Until then it polls, and then it asks once more.
//! So on a slow machine the first question after the confirmation is not always the last one: only time shows which one was.

use std::{mem, time::Duration};

use tokio::time::sleep;

use super::{
    eventually_async,
    monitor::{Monitor, Ran},
    proxy::{Entry, Event, Proxy, matching},
};

/// Who polls asks again within this time.
const LONGEST_POLL: Duration = Duration::from_millis(250);

/// From one look to the next. Where the machine stands still a look is late, but only that one: what was due meanwhile is asked before
/// the next ones.
const STEP: Duration = Duration::from_millis(125);

/// So many looks in a row take two of the longest polls, and see the same where nobody polls.
const LOOKS: u128 = 2 * LONGEST_POLL.as_millis() / STEP.as_millis();

/// How long that may be waited for.
const WITHIN: Duration = Duration::from_secs(20);

/// Waits until who asks for this script through the proxy sleeps: it listens, has asked since, was answered, and asks no more.
pub(crate) async fn asleep(proxy: &Proxy, verb: &str) {
    settled(async || asked_since_it_listens(proxy, verb)).await;
}

/// [`asleep`], by what a server ran; the caller says which of that are the questions.
pub(crate) async fn asleep_by(monitor: &Monitor<'_>, channel: &str, asks: impl Fn(&Ran) -> bool) {
    let asked = |ran: &[Ran]| {
        let listens = ran.iter().rposition(|ran| ran.name() == "SUBSCRIBE" && ran.mentions(channel))?;
        Some(ran[listens..].iter().filter(|ran| asks(ran)).count()).filter(|asked| *asked > 0)
    };
    settled(async || asked(&monitor.ran())).await;
}

/// Waits until nobody asks any more, where all that is seen is how often somebody did; that number. Who is to sleep listens before.
pub(crate) async fn nobody_asks(mut asked: impl AsyncFnMut() -> u64) -> u64 {
    settled(async || Some(asked().await)).await
}

/// How often this script was asked for through the proxy, once all of that is answered and some of it was asked after the newest
/// confirmation of a subscription.
pub(crate) fn asked_since_it_listens(proxy: &Proxy, verb: &str) -> Option<usize> {
    let log = proxy.log();
    let confirms = |event: &Event| matches!(event, Event::Push { words, .. } if words[0] == b"subscribe");
    let listens = log.iter().rposition(|entry| confirms(&entry.event))?;
    let asked = |log: &[Entry]| log.iter().filter(|entry| entry.script().as_deref() == Some(verb)).count();
    let answers =
        |event: &Event| matches!(event, Event::Reply { to, .. } if matching::verb(to).as_deref() == Some(verb));
    let answered = log.iter().filter(|entry| answers(&entry.event)).count();
    (asked(&log[listens..]) > 0 && asked(&log) == answered).then_some(answered)
}

/// What is seen once it has been the same for so many looks; `None` is nothing yet.
async fn settled<T: PartialEq>(mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let (mut seen, mut same) = (look().await, 0);
    eventually_async(WITHIN, async || {
        sleep(STEP).await;
        let before = mem::replace(&mut seen, look().await);
        same = if seen.is_some() && seen == before { same + 1 } else { 0 };
        same == LOOKS
    })
    .await;
    seen.expect("it was seen at each of them")
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn whoever_polls_with_the_longest_pauses_is_not_asleep_until_its_last_question_is_long_over() {
        const POLLS: u32 = 8;
        let began = Instant::now();
        let asked = || began.elapsed().div_duration_f64(LONGEST_POLL).min(f64::from(POLLS)) as u64;
        assert_eq!(nobody_asks(async || asked()).await, u64::from(POLLS));
        assert!(began.elapsed() >= (POLLS + 2) * LONGEST_POLL);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_has_not_asked_since_it_listens_is_not_asleep() {
        let began = Instant::now();
        let asked = settled(async || (began.elapsed() > 9 * LONGEST_POLL).then_some(1)).await;
        assert!(asked == 1 && began.elapsed() >= 11 * LONGEST_POLL);
    }
}
