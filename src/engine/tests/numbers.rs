//! The number of a hold is never used again.

use super::*;

/// What every sent number was for.
#[derive(Default)]
struct Seen {
    /// The largest number that an attempt ever had.
    largest: u64,
    /// The attempt that asks now: only it may repeat its number.
    asking: u64,
    /// The latest number that was let go.
    released: u64,
    attempts: u64,
    reused: Vec<u64>,
}

impl Seen {
    fn attempt(&mut self, number: u64) {
        if number == self.asking && number != self.released {
            return;
        }
        if number <= self.largest {
            self.reused.push(number);
        }
        self.attempts += 1;
        self.asking = number;
        self.largest = self.largest.max(number);
    }
}

#[tokio::test(start_paused = true)]
async fn no_two_acquisitions_ever_have_the_same_number() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    let seen = Arc::new(std::sync::Mutex::new(Seen::default()));
    let watched = Arc::clone(&seen);
    let mut calls = 0_u64;
    world.policy(move |sent| {
        calls += 1;
        let mut seen = watched.lock().unwrap();
        match sent.verb {
            Verb::Acquire => seen.attempt(sent.numbers[0]),
            Verb::HandOver => seen.attempt(sent.numbers[1]),
            Verb::Release => seen.released = seen.released.max(sent.numbers[0]),
            _ => {}
        }
        match (sent.verb, calls % 50) {
            (Verb::Acquire | Verb::HandOver, 7) => Fate::Lost,
            (Verb::Acquire | Verb::HandOver, 17) => Fate::Never,
            (Verb::Acquire | Verb::HandOver, 27) => Fate::Refused(FaultKind::Unready),
            (Verb::Acquire | Verb::HandOver, 37) => Fate::Broken,
            (Verb::Release, 47) => Fate::Lost,
            _ => Fate::Prompt,
        }
    });
    // Every round is an attempt at least.
    for round in 0..MANY {
        if seen.lock().unwrap().attempts >= MANY {
            break;
        }
        match round % 5 {
            0 => drop(lock.lock().await.unwrap()),
            1 => drop(lock.lock().lease(SECOND).await.unwrap().unlock().await),
            2 => {
                let mut dropped = lock.lock();
                let _ = polled(&mut dropped, 1).await;
            }
            3 => drop(lock.try_lock().wait(10 * MS).await),
            _ => {
                // Passed on, then handed over; and once given up while it was on its way.
                let mut first = lock.lock();
                let guard = (&mut first).await.unwrap();
                let mut passed = lock.lock();
                let mut handed = lock.lock().lease(5 * SECOND);
                assert!(polled(&mut passed, 1).await.is_none());
                assert!(polled(&mut handed, 1).await.is_none());
                drop(guard);
                drop(passed.await.unwrap());
                if round % 10 == 4 {
                    turn().await;
                    drop(handed);
                } else {
                    drop(handed.await.unwrap());
                }
            }
        }
        world.forget_record();
    }
    let seen = seen.lock().unwrap();
    let some: Vec<_> = seen.reused.iter().take(10).collect();
    assert!(some.is_empty(), "{} numbers were used again, as {some:?}", seen.reused.len());
    assert!(seen.attempts >= MANY, "{} attempts had a number of their own", seen.attempts);
}
