//! Random steps with the scripts of locks, and what others may do to their keys meanwhile.

use proptest::{
    collection::vec,
    prelude::{Strategy, prop_oneof},
    sample::select,
    strategy::BoxedStrategy,
};

use super::steps::{KEYS, Step, templates, word};
use crate::script::{Script, fenced, reentrant, token};

/// What is done to locks besides the scripts.
const DISTURBANCES: &[&str] = &[
    "DEL <h>",
    "PERSIST <h>",
    "PEXPIRE <h> <ms>",
    "PEXPIREAT <h> <at> <cond>",
    "HSET <h> <hold> <v>",
    "HSET <h> <hold> <i>",
    "HSET <h> <f> <i>",
    "HDEL <h> <hold>",
    "HGETALL <h>",
    "PTTL <h>",
    "SET <h> <v>",
    "RPUSH <h> <v>",
    "ZADD <h> 1 <v>",
    "SET <s> <i>",
    "SET <s> <hold> NX PX <ms>",
    "SET <s> <hold>",
    "PEXPIRE <s> <ms>",
    "PERSIST <s>",
    "GET <s>",
    "DEL <s>",
    "PUBLISH <channel> <v>",
];

pub(super) fn scripts() -> impl Strategy<Value = Vec<Step>> {
    let expire = select(KEYS).prop_map(|key| Step::Expire(key.into()));
    let step = prop_oneof![280 => script(), 120 => templates(DISTURBANCES), 1 => expire];
    vec(step, 1..30)
}

fn script() -> BoxedStrategy<Step> {
    let declared = |script: &'static Script, args: &'static str| {
        let args: Vec<_> = args.split_whitespace().map(word).collect();
        let keys: Vec<_> = keys_of(script)[..script.keys.len()].iter().copied().map(word).collect();
        (keys, args).prop_map(move |(keys, args)| Step::Script { script, keys, args }).boxed()
    };
    let renew = |script: &'static Script| {
        let renewed = vec((word(keys_of(script)[0]), word("<hold>")), 1..4);
        (word("<lease>"), renewed).prop_map(move |(lease, renewed)| {
            let (keys, fields): (Vec<_>, Vec<_>) = renewed.into_iter().unzip();
            let args = std::iter::once(lease).chain(fields).collect();
            Step::Script { script, keys, args }
        })
    };
    prop_oneof![
        3 => declared(&reentrant::ACQUIRE, "<hold> <lease>"),
        2 => declared(&reentrant::ACQUIRE, "<hold> <lease> <count>"),
        2 => declared(&reentrant::RELEASE, "<hold> <publish> <channel>"),
        2 => declared(&reentrant::RELEASE, "<hold> <publish> <channel> <count>"),
        2 => renew(&reentrant::RENEW),
        2 => declared(&reentrant::HAND_OVER, "<hold> <hold> <lease> <publish> <channel>"),
        3 => declared(&fenced::ACQUIRE, "<hold> <lease>"),
        2 => declared(&fenced::ACQUIRE, "<hold> <lease> <count>"),
        2 => declared(&fenced::HAND_OVER, "<hold> <hold> <lease> <publish> <channel>"),
        1 => declared(&reentrant::FORCE_RELEASE, "<publish> <channel> <hold> <hold>"),
        1 => declared(&reentrant::INSPECT, ""),
        3 => declared(&token::ACQUIRE, "<hold> <lease>"),
        1 => declared(&token::ACQUIRE, "<hold> <lease> <lease>"),
        1 => declared(&token::RELEASE, "<hold>"),
        2 => declared(&token::RELEASE, "<hold> <publish> <channel>"),
        2 => renew(&token::RENEW),
        1 => declared(&token::HAND_OVER, "<hold> <hold> <lease>"),
        2 => declared(&token::HAND_OVER, "<hold> <hold> <lease> <publish> <channel>"),
        1 => declared(&token::INSPECT, ""),
    ]
    .boxed()
}

/// The first is a lock, the second what is counted beside it: pools.
fn keys_of(script: &Script) -> [&'static str; 2] {
    if script.path.starts_with("lua/token/") { ["<s>", "<h>"] } else { ["<h>", "<s>"] }
}
