//! The table of mutants. One at a time, for the thread that asks: a simulation runs on one.

mod jobs;

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
};

use self::jobs::OF_JOBS;
use super::Rule;
use crate::script::{Script, fenced, reentrant, token};

/// One fault that the simulation must find.
#[derive(Clone, Copy)]
pub struct Mutant {
    /// Its name in the table.
    pub name: &'static str,
    /// What it does wrong.
    pub fault: &'static str,
    change: Change,
}

#[derive(Clone, Copy)]
enum Change {
    Engine(Rule),
    /// In this script the first text becomes the second.
    Lua(&'static Script, &'static str, &'static str),
}

thread_local! {
    static NOW: Cell<Option<&'static Mutant>> = const { Cell::new(None) };
    static CHANGED: RefCell<HashMap<&'static str, &'static Script>> = RefCell::default();
}

/// Those that the simulation must find.
pub fn all() -> &'static [Mutant] {
    ALL
}

/// Those that show only where processes are at different distances.
pub fn of_turns() -> &'static [Mutant] {
    OF_TURNS
}

/// Those that show only where a fleet does a periodic job.
pub fn of_jobs() -> &'static [Mutant] {
    OF_JOBS
}

/// From now on this thread's clients and stores have this fault, or none.
pub fn become_one(mutant: Option<&'static Mutant>) {
    NOW.set(mutant);
}

pub(crate) fn without(rule: Rule) -> bool {
    NOW.get().is_some_and(|mutant| matches!(mutant.change, Change::Engine(left_out) if left_out == rule))
}

/// The script as the mutant has it. Made once, and kept: stores know a script by its place.
pub(crate) fn as_it_runs(script: &'static Script) -> &'static Script {
    let Some(Mutant { name, change: Change::Lua(of, from, to), .. }) = NOW.get() else { return script };
    if !std::ptr::eq(*of, script) {
        return script;
    }
    CHANGED.with_borrow_mut(|changed| {
        let make = || -> &'static Script {
            let source = script.source.replacen(from, to, 1).leak();
            Box::leak(Box::new(Script { source, ..*script }))
        };
        *changed.entry(*name).or_insert_with(make)
    })
}

const fn engine(name: &'static str, rule: Rule, fault: &'static str) -> Mutant {
    Mutant { name, fault, change: Change::Engine(rule) }
}

const fn lua(
    name: &'static str,
    script: &'static Script,
    from: &'static str,
    to: &'static str,
    fault: &'static str,
) -> Mutant {
    Mutant { name, fault, change: Change::Lua(script, from, to) }
}

static ALL: &[Mutant] = &[
    engine(
        "cool-down-ends",
        Rule::CoolDownEnds,
        "after its slice a process waits for somebody else's message, however long that takes",
    ),
    engine(
        "behind-missing-is-let-go",
        Rule::BehindMissingIsLetGo,
        "what comes behind the first lock that is missing is kept for nobody",
    ),
    engine("confirmation-wakes", Rule::ConfirmationWakes, "a confirmed subscription is no reason to try again"),
    engine("deadline-from-sending", Rule::DeadlineFromSending, "a deadline is counted from the answer"),
    engine("deadline-has-margin", Rule::DeadlineHasMargin, "a hold is believed in for a quarter longer than its lease"),
    engine(
        "deadline-moves-with-answer",
        Rule::DeadlineMovesWithAnswer,
        "a renewal and an extension count when they are sent",
    ),
    engine(
        "dropped-contender-has-successor",
        Rule::DroppedContenderHasSuccessor,
        "a contender that is dropped leaves the queue to itself",
    ),
    engine(
        "forced-is-released",
        Rule::ForcedIsReleased,
        "a holder that is forced out is told, and its field is left to a command that may never run",
    ),
    engine("first-come-first-served", Rule::FirstComeFirstServed, "the last of the local queue is served first"),
    engine(
        "given-up-is-let-go",
        Rule::GivenUpIsLetGo,
        "an acquisition of several that is given up keeps what it had got",
    ),
    engine("gone-is-lost", Rule::GoneIsLost, "a renewal that finds no hold counts as one that found it"),
    engine(
        "grant-of-old-server-is-asked-for",
        Rule::GrantOfOldServerIsAskedFor,
        "what a server granted that answers no more is believed when its caller looks late",
    ),
    engine(
        "hand-over-needs-answer",
        Rule::HandOverNeedsAnswer,
        "a hand-over without an answer is taken for one that was done",
    ),
    engine(
        "hand-over-undone-in-order",
        Rule::HandOverUndoneInOrder,
        "an abandoned hand-over is undone at its new number first",
    ),
    engine(
        "late-answer-ends-number",
        Rule::LateAnswerEndsNumber,
        "after an answer that came too late the number that is released is tried again",
    ),
    engine("loss-at-deadline", Rule::LossAtDeadline, "a hold that was not renewed in time is still believed in"),
    engine("loss-of-part-ends-all", Rule::LossOfPartEndsAll, "several are held as long as the first of them is"),
    engine("loss-of-part-is-told", Rule::LossOfPartIsTold, "whoever has several is told when the first is lost"),
    engine("lost-is-released", Rule::LostIsReleased, "a hold that was lost by its deadline is never released"),
    engine(
        "lost-released-before-try",
        Rule::LostReleasedBeforeTry,
        "an owner that lost its hold waits for its own field",
    ),
    engine(
        "max-hold-ends-with-ticket",
        Rule::MaxHoldEndsWithTicket,
        "the bound of an owner survives the pass to the next",
    ),
    engine("message-wakes", Rule::MessageWakes, "a message is no reason to try again"),
    engine("nested-needs-outer", Rule::NestedNeedsOuter, "a nested acquisition that finds no outer hold is granted"),
    engine("new-server-is-asked", Rule::NewServerIsAsked, "another server answers, and no hold is asked for there"),
    engine(
        "no-life-after-deadline",
        Rule::NoLifeAfterDeadline,
        "a hold lives on past its deadline while a renewal is under way",
    ),
    engine("number-per-hold", Rule::NumberPerHold, "all holds of a client have the same field"),
    engine(
        "old-copies-are-reaped",
        Rule::OldCopiesAreReaped,
        "what an old copy of an acquire leaves stays for its whole lease",
    ),
    engine("parts-in-one-order", Rule::PartsInOneOrder, "several are taken in the order in which they were named"),
    engine(
        "pass-keeps-deadline",
        Rule::PassKeepsDeadline,
        "a pass begins a new lease that the server knows nothing of",
    ),
    engine(
        "pass-reaches-somebody",
        Rule::PassReachesSomebody,
        "a hold that is passed to a waiter that was dropped stays for nobody",
    ),
    engine("pending-is-ticket", Rule::PendingIsTicket, "a nested acquisition under way does not keep its hold"),
    engine("release-before-try", Rule::ReleaseBeforeTry, "a try does not wait for the process's own release"),
    engine("release-is-repeated", Rule::ReleaseIsRepeated, "a release without an answer is given up"),
    engine("slice-ends", Rule::SliceEnds, "a process keeps a lock among its own tasks for ever"),
    engine("subscription-ends", Rule::SubscriptionEnds, "a name is listened to after everybody left"),
    engine(
        "uncertain-is-released",
        Rule::UncertainIsReleased,
        "an acquisition that is dropped while it is under way leaves what it made",
    ),
    engine(
        "watchdog-for-any-ticket",
        Rule::WatchdogForAnyTicket,
        "a fixed lease inside ends the watchdog's work outside",
    ),
    engine("withdrawn-stays", Rule::WithdrawnStays, "a command whose caller has left is sent all the same"),
    lua(
        "renewal-finds-hold",
        &reentrant::RENEW,
        "  if there == 1 then\n",
        "  if there == 0 then\n    redis.call('HINCRBY', lock, field, 1)\n    there = 1\n  end\n  if there == 1 then\n",
        "a renewal makes the hold that it does not find",
    ),
    lua(
        "renewal-of-own",
        &reentrant::RENEW,
        "redis.pcall('HEXISTS', lock, field)",
        "redis.pcall('EXISTS', lock)",
        "a renewal lengthens whatever hold is there",
    ),
    lua(
        "release-of-own",
        &reentrant::RELEASE,
        "if not holds then",
        "if not holds and redis.call('DEL', lock) == 0 then",
        "a release frees the lock whoever holds it",
    ),
    lua(
        "release-sets-count",
        &reentrant::RELEASE,
        "if holds_left == 0 then",
        "if redis.call('HINCRBY', lock, field, -1) == 0 then",
        "a release counts down by one",
    ),
    lua(
        "release-tells",
        &reentrant::RELEASE,
        "redis.pcall(publish, channel, '0')",
        "0",
        "a release is published to nobody",
    ),
    lua(
        "nested-makes-nothing",
        &reentrant::ACQUIRE,
        "if holds_after > 1 then",
        "if holds_after < 1 then",
        "a nested acquisition on a free key takes it",
    ),
    lua(
        "acquire-raises-count-once",
        &reentrant::ACQUIRE,
        "if holds < holds_after then",
        "if holds >= 1 then\n  holds_after = holds + 1",
        "an acquire that runs twice counts twice",
    ),
    lua(
        "acquire-raises-ttl",
        &reentrant::ACQUIRE,
        "if ttl_ms < tonumber(lease_ms) then",
        "if ttl_ms < 0 then",
        "an acquire that runs again leaves the time as it is",
    ),
    lua(
        "acquire-never-lowers-ttl",
        &reentrant::ACQUIRE,
        "if ttl_ms < tonumber(lease_ms) then",
        "if ttl_ms ~= tonumber(lease_ms) then",
        "a nested acquisition shortens the time of the outer",
    ),
    lua(
        "acquire-respects-others",
        &reentrant::ACQUIRE,
        "if not holds then\n",
        "if not holds and ttl_ms < 20 then\n  redis.call('DEL', lock)\n  redis.call('HINCRBY', lock, field, 1)\n  \
         redis.call('PEXPIRE', lock, lease_ms)\n  return 1\nend\nif not holds then\n",
        "a lock that is about to expire is taken",
    ),
    lua(
        "hand-over-sets-ttl",
        &reentrant::HAND_OVER,
        "redis.pcall('PEXPIRE', lock, lease_ms)",
        "1",
        "a hand-over gives the new hold no time at all",
    ),
    lua(
        "hand-over-needs-hold",
        &reentrant::HAND_OVER,
        "if redis.call('HEXISTS', lock, from) == 1 then",
        "if redis.call('EXISTS', lock) == 0 or redis.call('HEXISTS', lock, from) == 1 then",
        "a hand-over makes what it was to move",
    ),
    lua(
        "hand-over-tells",
        &reentrant::HAND_OVER,
        "local listeners = redis.pcall(publish, channel, '0')",
        "local listeners = -1",
        "nobody is told that a hand-over leaves the lock a shorter life",
    ),
    lua(
        "forced-release-of-seen",
        &reentrant::FORCE_RELEASE,
        "if redis.call('HEXISTS', lock, field) == 1 then",
        "if redis.call('EXISTS', lock) == 1 then",
        "a forced release frees a hold that it never saw",
    ),
    lua(
        "hand-over-draws-token",
        &fenced::HAND_OVER,
        "local fence = redis.pcall('INCR', counter)",
        "local fence = tonumber(redis.pcall('GET', counter))",
        "a hand-over leaves the token that the hold before had",
    ),
    lua(
        "acquire-draws-once",
        &fenced::ACQUIRE,
        "tonumber(redis.call('GET', counter)) or redis.call('INCR', counter)",
        "redis.call('INCR', counter)",
        "an acquire that runs twice, or nests, draws another token",
    ),
    lua(
        "token-is-holders",
        &fenced::ACQUIRE,
        "if not holds then\n",
        "if not holds then\n  redis.call('INCR', counter)\n",
        "a try draws a token that finds the lock taken",
    ),
    lua(
        "token-is-compared-to-release",
        &token::RELEASE,
        "if holder == token then",
        "if holder then",
        "a release by a token frees the lock whoever has it",
    ),
    lua(
        "token-is-compared-to-renew",
        &token::RENEW,
        "if holder == token then",
        "if type(holder) == 'string' then",
        "a renewal by a token lengthens whatever hold is there",
    ),
    lua(
        "token-moves-what-is-there",
        &token::HAND_OVER,
        "if holder == from then",
        "if not holder or holder == from then",
        "a hand-over makes the token that it was to move",
    ),
    lua(
        "taken-is-not-expired",
        &token::RELEASE,
        "if holder then\n  return {-1, 0, -1}",
        "if holder then\n  return {-2, 0, -1}",
        "a hold that ran out counts as released though somebody has the lock",
    ),
];

static OF_TURNS: &[Mutant] = &[
    engine(
        "others-are-given-more",
        Rule::OthersAreGivenMore,
        "those who listen and do not come are given no more for it",
    ),
    engine("growth-falls-slowly", Rule::GrowthFallsSlowly, "what was added is gone as soon as all came once"),
    engine("turns-after-rest-count", Rule::TurnsAfterRestCount, "whoever is far counts no turn of those that are near"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_has_the_line_that_a_mutant_changes() {
        for mutant in ALL.iter().chain(OF_JOBS) {
            if let Change::Lua(script, from, to) = mutant.change {
                assert!(script.source.contains(from) && from != to, "{}", mutant.name);
            }
        }
    }

    #[test]
    fn no_two_mutants_have_one_name() {
        let all: Vec<_> = ALL.iter().chain(OF_TURNS).chain(OF_JOBS).collect();
        for (at, mutant) in all.iter().enumerate() {
            assert!(all[..at].iter().all(|other| other.name != mutant.name), "{}", mutant.name);
        }
    }
}
