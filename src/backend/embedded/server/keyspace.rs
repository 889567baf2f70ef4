//! Keys, what they hold, and until when. It knows no command; the time is what it was told last.

use std::collections::HashMap;

use super::{
    errors::{ErrorText, WRONG_TYPE},
    sizes::KEY,
    value::{Container, Value},
};

#[derive(Clone, Debug, Default)]
pub(super) struct Keyspace {
    entries: HashMap<Vec<u8>, Entry>,
    /// Milliseconds of the server's clock.
    now: i64,
    used: usize,
    /// No key expires before this.
    next_expiry: Option<i64>,
}

/// What a key holds, and until when.
#[derive(Clone, Debug)]
pub(in crate::backend::embedded) struct Entry {
    value: Value,
    expires: Option<i64>,
}

impl Entry {
    fn weight(&self, key: &[u8]) -> usize {
        KEY + key.len() + self.value.weight()
    }
}

/// How long a key is to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// As long as it was to live before.
    Kept,
    Endless,
    Until(i64),
}

impl Keyspace {
    pub(super) fn at(&mut self, now: i64) {
        self.now = now;
    }

    pub(super) fn now(&self) -> i64 {
        self.now
    }

    /// About how many bytes are in use. What has expired does not count, but is only looked for where there are more
    /// than `enough`.
    pub(super) fn used(&mut self, enough: usize) -> usize {
        if self.used > enough {
            self.sweep();
        }
        self.used
    }

    pub(super) fn len(&mut self) -> usize {
        self.sweep();
        self.entries.len()
    }

    pub(super) fn clear(&mut self) {
        *self = Self { now: self.now, ..Self::default() };
    }

    /// Every key, sorted: two runs are alike.
    pub(super) fn keys(&mut self) -> Vec<&[u8]> {
        self.sweep();
        let mut keys: Vec<_> = self.entries.keys().map(Vec::as_slice).collect();
        keys.sort_unstable();
        keys
    }

    /// What a key has, expired or not, to be put back.
    pub(super) fn copy_of(&self, key: &[u8]) -> Option<Entry> {
        self.entries.get(key).cloned()
    }

    /// A key has what it had once, or nothing.
    pub(super) fn put_back(&mut self, key: &[u8], entry: Option<Entry>) {
        self.remove(key);
        if let Some(entry) = entry {
            self.used += entry.weight(key);
            self.note(entry.expires);
            self.entries.insert(key.to_vec(), entry);
        }
    }

    pub(super) fn value(&mut self, key: &[u8]) -> Option<&Value> {
        self.live(key).map(|entry| &entry.value)
    }

    pub(super) fn text(&mut self, key: &[u8]) -> Result<Option<&[u8]>, ErrorText> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(_) => Err(WRONG_TYPE),
        }
    }

    pub(super) fn container<C: Container>(&mut self, key: &[u8]) -> Result<Option<&C>, ErrorText> {
        self.value(key).map(|value| C::of(value).ok_or(WRONG_TYPE)).transpose()
    }

    /// Changes a container; a missing one is empty, and an empty one does not stay.
    pub(super) fn edit<C: Container, T>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut C) -> T,
    ) -> Result<T, ErrorText> {
        let Some(entry) = self.live(key) else {
            let mut container = C::default();
            let done = change(&mut container);
            if !container.is_empty() {
                self.put(key, container.into_value(), Life::Endless);
            }
            return Ok(done);
        };
        let before = entry.value.weight();
        let container = C::of_mut(&mut entry.value).ok_or(WRONG_TYPE)?;
        let done = change(container);
        let is_empty = container.is_empty();
        let after = entry.value.weight();
        self.used = self.used + after - before;
        if is_empty {
            self.remove(key);
        }
        Ok(done)
    }

    pub(super) fn put(&mut self, key: &[u8], value: Value, life: Life) {
        let expires = match life {
            Life::Kept => self.live(key).and_then(|entry| entry.expires),
            Life::Endless => None,
            Life::Until(end) => Some(end),
        };
        let entry = Entry { value, expires };
        self.used += entry.weight(key);
        if let Some(old) = self.entries.get_mut(key) {
            let old = std::mem::replace(old, entry);
            self.used -= old.weight(key);
        } else {
            self.entries.insert(key.to_vec(), entry);
        }
        self.note(expires);
    }

    /// What was there, and how long it was to live.
    pub(super) fn take(&mut self, key: &[u8]) -> Option<(Value, Life)> {
        self.live(key)?;
        let entry = self.remove(key)?;
        Some((entry.value, entry.expires.map_or(Life::Endless, Life::Until)))
    }

    /// How long a key is to live; `None` where there is no key.
    pub(super) fn life(&mut self, key: &[u8]) -> Option<Life> {
        self.live(key).map(|entry| entry.expires.map_or(Life::Endless, Life::Until))
    }

    /// Changes how long a key is to live, if there is one.
    pub(super) fn set_life(&mut self, key: &[u8], expires: Option<i64>) {
        if let Some(entry) = self.live(key) {
            entry.expires = expires;
            self.note(expires);
        }
    }

    fn live(&mut self, key: &[u8]) -> Option<&mut Entry> {
        let now = self.now;
        // Nothing has expired, mostly.
        if self.next_expiry.is_some_and(|next| next < now) {
            let expired = self.entries.get(key)?.expires.is_some_and(|end| end < now);
            if expired {
                self.remove(key);
                return None;
            }
        }
        self.entries.get_mut(key)
    }

    fn remove(&mut self, key: &[u8]) -> Option<Entry> {
        let entry = self.entries.remove(key)?;
        self.used -= entry.weight(key);
        Some(entry)
    }

    fn note(&mut self, expires: Option<i64>) {
        if let Some(end) = expires {
            self.next_expiry = Some(self.next_expiry.map_or(end, |next| next.min(end)));
        }
    }

    /// Removes what has expired.
    fn sweep(&mut self) {
        let now = self.now;
        if self.next_expiry.is_none_or(|next| next >= now) {
            return;
        }
        let (mut freed, mut next) = (0, None::<i64>);
        self.entries.retain(|key, entry| match entry.expires {
            Some(end) if end < now => {
                freed += entry.weight(key);
                false
            }
            expires => {
                next = next.into_iter().chain(expires).min();
                true
            }
        });
        self.used -= freed;
        self.next_expiry = next;
    }
}
