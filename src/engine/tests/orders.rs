//! A thousand histories of one owner in which commands are held back or sent twice, and then let through in any order under
//! its next hold: that one is left alone by all of them. A history is told by its seed.

use super::{copies::Copies, *};

const HISTORIES: u64 = 1000;

/// As random as the seed, and the same again with it.
struct Dice(u64);

impl Dice {
    fn throw(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }

    fn span(&mut self, longest: Duration) -> Duration {
        longest * u32::try_from(self.throw(1000)).unwrap() / 1000
    }
}

/// Says which history it was, when one fails.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the seed is {}", self.0);
        }
    }
}

/// How many copies were kept of what, over all histories.
type Kept = Arc<std::sync::Mutex<std::collections::HashMap<Verb, usize>>>;

/// A third of the commands are held back on a link that breaks, or run and are sent once more.
fn unruly(seed: u64, old: &Copies, kept: &Kept) -> impl FnMut(&Sent) -> Fate + Send + use<> {
    let (mut dice, old, kept) = (Dice(!seed), old.clone(), Arc::clone(kept));
    move |sent| {
        let fate = match dice.throw(6) {
            0 => Fate::Withheld(old.clone()),
            1 => Fate::Doubled(old.clone()),
            _ => return Fate::Prompt,
        };
        *kept.lock().unwrap().entry(sent.verb).or_default() += 1;
        fate
    }
}

/// One hold of the owner, from its acquisition to its end, with something of everything.
async fn hold(lock: &Lock, owner: &Owner, dice: &mut Dice) {
    let fixed = dice.throw(3) == 0;
    let guard = lock.lock_as(owner).lease(if fixed { Lease::Fixed(LEASE) } else { Lease::Watchdog }).await.unwrap();
    for _ in 0..dice.throw(3) {
        match dice.throw(5) {
            0 => drop(lock.lock_as(owner).await.unwrap()),
            1 => drop(guard.extend(LEASE * 2).await),
            2 => sleep(LEASE / 3 + dice.span(SECOND)).await,
            3 => drop(lock.0.force_unlock().await),
            _ => {
                let mut given_up = lock.lock();
                assert!(polled(&mut given_up, 1).await.is_none());
            }
        }
    }
    // There and back, if there is still something to hand over.
    let next = if dice.throw(2) == 0 { Some(start(lock.lock()).await) } else { None };
    if dice.throw(2) == 0 {
        drop(guard)
    } else {
        drop(guard.unlock().await)
    }
    if let Some(next) = next {
        let guard = next.await.unwrap().unwrap();
        let back = start(lock.lock_as(owner)).await;
        drop(guard);
        drop(back.await.unwrap().unwrap());
    }
}

/// A hold that was another task's for a while. What became of the way there is in the policy's hands.
async fn there_and_back(world: &World, lock: &Lock, owner: &Owner) -> LockGuard {
    let guard = lock.lock_as(owner).await.unwrap();
    let next = start(lock.lock()).await;
    drop(guard);
    let guard = next.await.unwrap().unwrap();
    world.heal();
    let back = start(lock.lock_as(owner)).await;
    drop(guard);
    back.await.unwrap().unwrap()
}

async fn history(seed: u64, kept: &Kept) {
    let (_seed, mut dice) = (Seed(seed), Dice(seed));
    let bench = Bench::new();
    let passes = dice.throw(2) == 0;
    let lock = if passes { bench.lock("a") } else { bench.unpassable("a") };
    let (world, owner, old) = (&bench.world, Owner::new(), Copies::default());
    world.policy(unruly(seed, &old, kept));
    for _ in 0..=dice.throw(3) {
        hold(&lock, &owner, &mut dice).await;
    }
    // A hold that was only passed around is still the one of before, whose own copies may refresh it.
    let guard = if passes || dice.throw(2) == 0 {
        world.heal();
        lock.lock_as(&owner).await.unwrap()
    } else {
        there_and_back(world, &lock, &owner).await
    };
    let number = number_of(world, "a");
    let mut outer = None;
    while old.len() > 0 {
        match dice.throw(6) {
            0 => sleep(dice.span(LEASE / 2)).await,
            1 if outer.is_none() => outer = Some(lock.lock_as(&owner).await.unwrap()),
            1 => drop(outer.take()),
            2 => guard.extend(LEASE + dice.span(LEASE)).await.unwrap(),
            _ => {
                let count = u64::try_from(old.len()).unwrap();
                let before = (world.holder("a"), world.ttl("a"), guard.expires_in());
                old.run_one(world, usize::try_from(dice.throw(count)).unwrap());
                let after = (world.holder("a"), world.ttl("a"), guard.expires_in());
                assert_eq!(after, before, "an old copy touched a newer hold");
            }
        }
        turn().await;
        assert!(guard.is_held());
    }
    assert_eq!(number_of(world, "a"), number);
    drop(outer);
    assert_eq!(guard.unlock().await.unwrap(), Released::Freed);
    assert_eq!(world.holder("a"), None);
    drop(guard);
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn old_copies_of_whatever_command_in_whatever_order_leave_the_next_hold_of_their_owner_alone() {
    let kept = Kept::default();
    for seed in 0..HISTORIES {
        history(seed, &kept).await;
    }
    let kept = kept.lock().unwrap();
    for verb in [Verb::Acquire, Verb::Release, Verb::HandOver, Verb::Renew, Verb::ForceRelease] {
        assert!(kept.get(&verb).is_some_and(|copies| *copies >= 100), "too few copies to say so: {kept:?}");
    }
}
