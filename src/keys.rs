//! Names of keys and channels, most as Redisson builds them, and what a hold is called there. It checks no name and knows no
//! cluster.

use std::{ops::Deref, sync::Arc};

use smallvec::SmallVec;

use crate::glob::Part;

/// The key of a lock: whatever else belongs to the lock is derived from it. Without a prefix it is the name itself.
pub(crate) fn lock_key(prefix: &str, name: &Arc<str>) -> Arc<str> {
    if prefix.is_empty() { Arc::clone(name) } else { [prefix, name].concat().into() }
}

/// A key that a lock of this client could have, and none has.
pub(crate) fn probe_key(prefix: &str) -> String {
    format!("{prefix}relatch:probe")
}

/// Where the release of a lock is told.
pub(crate) fn lock_channel(key: &str) -> Built {
    prefixed(LOCK_CHANNEL, key)
}

/// Where the release of a token lock is told.
pub(crate) fn token_channel(key: &str) -> Built {
    prefixed(TOKEN_CHANNEL, key)
}

/// What is known of a periodic job.
pub(crate) fn job_record(key: &str) -> Built {
    prefixed(JOB_RECORD, key)
}

/// Of which keys this may be the record of a job: the first is the likelier one.
#[cfg(feature = "operate")]
pub(crate) fn of_job_record(record: &str) -> impl Iterator<Item = &str> {
    let of = record.strip_prefix(JOB_RECORD).and_then(|rest| rest.strip_prefix(':'));
    let bare = of.and_then(|of| of.strip_prefix('{')?.strip_suffix('}'));
    bare.into_iter().chain(of).filter(move |of| *job_record(of) == *record)
}

/// Where the end of an attempt at a periodic job is told.
pub(crate) fn job_channel(key: &str) -> Built {
    prefixed(JOB_CHANNEL, key)
}

/// Where the fencing tokens of a lock are counted.
pub(crate) fn fence_counter(key: &str) -> Built {
    prefixed(FENCE_COUNTER, key)
}

/// Where the releases of locks are told whose keys are of this pattern: patterns, for an access list. `parts` is what it is made of.
pub(crate) fn lock_channels(pattern: &str, parts: &[Part]) -> Vec<String> {
    [LOCK_CHANNEL, TOKEN_CHANNEL, JOB_CHANNEL]
        .iter()
        .flat_map(|prefix| prefixed_patterns(prefix, pattern, parts))
        .collect()
}

/// The keys that are made of those of this pattern, and are not of it themselves: the counters of fencing tokens, and what is known
/// of jobs.
pub(crate) fn made_keys(pattern: &str, parts: &[Part]) -> Vec<String> {
    let is_of_it = parts.first() == Some(&Part::Any) && parts.last() == Some(&Part::Any);
    let prefixes: &[&str] = if is_of_it { &[] } else { &[FENCE_COUNTER, JOB_RECORD] };
    prefixes.iter().flat_map(|prefix| prefixed_patterns(prefix, pattern, parts)).collect()
}

fn prefixed_patterns(prefix: &str, pattern: &str, parts: &[Part]) -> Vec<String> {
    let tagged = || format!("{prefix}:{{{pattern}}}");
    let bare = || format!("{prefix}:{pattern}");
    let has_braces = parts.contains(&Part::Byte(b'{'));
    let names_many = parts.iter().any(|part| !matches!(part, Part::Byte(_)));
    match (has_braces, names_many) {
        (true, _) => vec![bare()],
        (false, false) => vec![tagged()],
        // Whatever stands around it is of the pattern, too.
        (false, true) if parts.first() == Some(&Part::Any) && parts.last() == Some(&Part::Any) => vec![bare()],
        (false, true) => vec![tagged(), bare()],
    }
}

/// What the channels of all locks begin with.
const LOCK_CHANNEL: &str = "redisson_lock__channel";
/// What the channels of all token locks begin with.
const TOKEN_CHANNEL: &str = "relatch_token__channel";
/// What the counters of all fenced locks begin with.
const FENCE_COUNTER: &str = "redisson_lock_token";
/// What the records of all periodic jobs begin with.
const JOB_RECORD: &str = "relatch_job";
/// What the channels of all periodic jobs begin with.
const JOB_CHANNEL: &str = "relatch_job__channel";

/// A key with any opening brace counts as tagged, even where a cluster sees no tag in it: a Java peer reckons so too, and
/// with another channel neither would wake the other.
fn prefixed(prefix: &str, key: &str) -> Built {
    let parts = if key.contains('{') { [prefix, ":", key, ""] } else { [prefix, ":{", key, "}"] };
    let len = parts.iter().map(|part| part.len()).sum();
    // Room for all of it at once: what grows part by part asks each time whether it fits.
    let mut built =
        if len <= USUAL { SmallVec::from_buf_and_len([0; USUAL], len) } else { SmallVec::from_elem(0, len) };
    let mut rest = &mut built[..];
    for part in parts {
        let (here, behind) = rest.split_at_mut(part.len());
        here.copy_from_slice(part.as_bytes());
        rest = behind;
    }
    Built(built)
}

/// So many bytes has what is built of a key of usual length.
const USUAL: usize = 96;

/// What is built for one command: of a key of usual length it takes no memory of its own.
pub(crate) struct Built(SmallVec<[u8; USUAL]>);

impl Built {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Deref for Built {
    type Target = str;

    fn deref(&self) -> &str {
        text(self.bytes())
    }
}

/// What was put together of texts.
fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap_or_default()
}

/// A hold's field, `clientId:holdNumber`, built without memory of its own.
#[derive(Clone, Copy)]
pub(crate) struct HoldField {
    bytes: [u8; Self::LONGEST],
    len: usize,
}

impl HoldField {
    /// A UUID, a colon, and as many digits as the largest number has.
    const LONGEST: usize = 36 + 1 + 20;

    pub(crate) fn new(client_id: &str, number: u64) -> Self {
        debug_assert_eq!(client_id.len(), Self::LONGEST - 21, "{client_id:?} is no UUID");
        let mut bytes = [0; Self::LONGEST];
        let mut len = 0;
        // The standard library's way to digits costs several times as much, for every renewal.
        let mut digits = itoa::Buffer::new();
        for part in [client_id.as_bytes(), b":", digits.format(number).as_bytes()] {
            // A longer one than a UUID is none, and no field of ours.
            let end = (len + part.len()).min(Self::LONGEST);
            bytes[len..end].copy_from_slice(&part[..end - len]);
            len = end;
        }
        Self { bytes, len }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Deref for HoldField {
    type Target = str;

    fn deref(&self) -> &str {
        text(self.bytes())
    }
}

/// What a hold of a token lock is called: the client in 32 hexadecimal digits, and the number in 16, built without memory of its
/// own.
#[derive(Clone, Copy)]
pub(crate) struct TokenText([u8; Self::LENGTH]);

impl TokenText {
    const LENGTH: usize = 32 + 16;

    /// Of the client that drew `of`.
    pub(crate) fn new(of: u128, number: u64) -> Self {
        let mut text = [0; Self::LENGTH];
        let bytes = of.to_be_bytes().into_iter().chain(number.to_be_bytes());
        for (digits, byte) in text.chunks_exact_mut(2).zip(bytes) {
            digits.copy_from_slice(&[digit(byte >> 4), digit(byte & 0xf)]);
        }
        Self(text)
    }

    /// The number in a token of the client that drew `of`.
    pub(crate) fn number(of: u128, token: &str) -> Option<u64> {
        let digits = token.get(32..).filter(|digits| digits.len() == 16)?;
        let number = u64::from_str_radix(digits, 16).ok()?;
        (Self::new(of, number).bytes() == token.as_bytes()).then_some(number)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

fn digit(of: u8) -> u8 {
    if of < 10 { b'0' + of } else { b'a' + of - 10 }
}

impl AsRef<[u8]> for HoldField {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

impl AsRef<[u8]> for TokenText {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

impl Deref for TokenText {
    type Target = str;

    fn deref(&self) -> &str {
        text(self.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::glob;

    #[test]
    fn a_token_is_the_client_and_the_number_and_no_other_text_is_one() {
        for (of, number) in [(0, 0), (7, u64::MAX), (u128::MAX, 0x0123_4567_89ab_cdef)] {
            let token = TokenText::new(of, number);
            assert_eq!(&*token, format!("{of:032x}{number:016x}"));
            assert_eq!(TokenText::number(of, &token), Some(number));
            assert_eq!(TokenText::number(of ^ 1, &token), None);
        }
        let token = format!("{:032x}{:016x}", 0xab, 1);
        let strange = [
            "",
            "x",
            &token[1..],
            &format!("{token}0"),
            &token.to_uppercase(),
            &format!("{}+{}", &token[..32], &token[33..]),
        ];
        for text in strange {
            assert_eq!(TokenText::number(0xab, text), None, "{text}");
        }
        assert_eq!(TokenText::number(0xab, &"é".repeat(24)), None);
    }

    #[test]
    fn a_field_is_the_client_and_the_number_whatever_their_digits() {
        let client = "0f8fad5b-d9cb-469f-a165-70867728950e";
        for number in [0, 7, 10, 99, 100, 1_234_567_890, u64::MAX - 1, u64::MAX] {
            assert_eq!(&*HoldField::new(client, number), format!("{client}:{number}"));
        }
    }

    #[test]
    fn the_channels_of_a_pattern_are_those_of_all_its_keys_and_of_no_others() {
        let patterns =
            ["*", "app:*", "*:app", "*app*", "app", "{app}:*", "a?b", r"a\*b", r"a\{b*", "a[{x]b", "app:{*}"];
        let keys =
            ["app", "app:", "app:a", "app:{a}", "x:app", "{x}:app", "xappx", "{app}:x", "axb", "a{b", "a*b", "a{bc"];
        for pattern in patterns {
            let channels = lock_channels(pattern, &glob::parts(pattern.as_bytes()).unwrap());
            let channels_of =
                |key| [lock_channel(key), token_channel(key), job_channel(key)].map(|channel| (key, channel));
            for (key, channel) in keys.into_iter().flat_map(channels_of) {
                let is_told = channels.iter().any(|pattern| glob::matches(pattern.as_bytes(), channel.bytes()));
                assert_eq!(
                    is_told,
                    glob::matches(pattern.as_bytes(), key.as_bytes()),
                    "{key} of {pattern}: {channels:?}"
                );
            }
            // What is made is a key, too, and may be of the pattern itself.
            let made = made_keys(pattern, &glob::parts(pattern.as_bytes()).unwrap());
            for key in keys.into_iter().filter(|key| glob::matches(pattern.as_bytes(), key.as_bytes())) {
                for one in [fence_counter(key), job_record(key)] {
                    let mut all = made.iter().map(String::as_str).chain([pattern]);
                    let is_allowed = all.any(|all| glob::matches(all.as_bytes(), one.bytes()));
                    assert!(is_allowed, "{key} of {pattern}: {made:?}");
                }
            }
        }
        let number = |pattern: &str| lock_channels(pattern, &glob::parts(pattern.as_bytes()).unwrap()).len();
        assert_eq!(["*", "app:*", "app", "{app}:*"].map(number), [3, 6, 3, 3]);
        let number = |pattern: &str| made_keys(pattern, &glob::parts(pattern.as_bytes()).unwrap()).len();
        assert_eq!(["*", "app:*", "app", "{app}:*"].map(number), [0, 4, 2, 2]);
    }

    #[test]
    fn everything_is_derived_from_prefix_and_name() {
        let rows = [
            ("", "job", "job", "redisson_lock__channel:{job}"),
            ("app:", "job", "app:job", "redisson_lock__channel:{app:job}"),
            ("{app}:", "job", "{app}:job", "redisson_lock__channel:{app}:job"),
            ("app:", "{job}", "app:{job}", "redisson_lock__channel:app:{job}"),
            ("", "{a}k", "{a}k", "redisson_lock__channel:{a}k"),
            ("", "k{", "k{", "redisson_lock__channel:k{"),
            ("", "{}k", "{}k", "redisson_lock__channel:{}k"),
            ("", "a}b", "a}b", "redisson_lock__channel:{a}b}"),
            ("", "two words\n", "two words\n", "redisson_lock__channel:{two words\n}"),
            ("", "Schlüssel", "Schlüssel", "redisson_lock__channel:{Schlüssel}"),
        ];
        for (prefix, name, key, channel) in rows {
            assert_eq!(&*lock_key(prefix, &Arc::from(name)), key);
            assert_eq!(&*lock_channel(key), channel);
            assert_eq!(&*token_channel(key), channel.replace("redisson_lock__channel:", "relatch_token__channel:"));
            assert_eq!(&*fence_counter(key), channel.replace("redisson_lock__channel:", "redisson_lock_token:"));
            assert_eq!(&*job_record(key), channel.replace("redisson_lock__channel:", "relatch_job:"));
            assert_eq!(&*job_channel(key), channel.replace("redisson_lock__channel:", "relatch_job__channel:"));
        }
    }
}
