//! What a key can hold, and how much it weighs. It knows no key and no command.

use std::collections::{BTreeMap, VecDeque};

use super::{sizes::PART, sorted_set::SortedSet};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Text(Vec<u8>),
    Hash(Hash),
    List(List),
    Sorted(SortedSet),
}

impl Value {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "string",
            Self::Hash(_) => "hash",
            Self::List(_) => "list",
            Self::Sorted(_) => "zset",
        }
    }

    /// About how many bytes it takes.
    pub(super) fn weight(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Hash(hash) => hash.weight,
            Self::List(list) => list.weight,
            Self::Sorted(sorted) => sorted.weight(),
        }
    }
}

/// A value that is made of parts: without any it does not stay.
pub(super) trait Container: Default {
    fn of(value: &Value) -> Option<&Self>;
    fn of_mut(value: &mut Value) -> Option<&mut Self>;
    fn into_value(self) -> Value;
    fn is_empty(&self) -> bool;
}

/// Fields and their values. A small one keeps the order in which the fields came, as the server's does; a large one is
/// sorted, so that two runs are alike.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Hash {
    fields: Fields,
    weight: usize,
}

#[derive(Clone, Debug, PartialEq)]
enum Fields {
    Small(Vec<(Vec<u8>, Vec<u8>)>),
    Large(BTreeMap<Vec<u8>, Vec<u8>>),
}

impl Default for Fields {
    fn default() -> Self {
        Self::Small(Vec::new())
    }
}

impl Hash {
    /// The server's own bounds of a small hash.
    const SMALL: usize = 128;
    const SHORT: usize = 64;

    pub(super) fn len(&self) -> usize {
        match &self.fields {
            Fields::Small(fields) => fields.len(),
            Fields::Large(fields) => fields.len(),
        }
    }

    pub(super) fn value(&self, field: &[u8]) -> Option<&[u8]> {
        match &self.fields {
            Fields::Small(fields) => fields.iter().find(|(known, _)| known == field).map(|(_, value)| value.as_slice()),
            Fields::Large(fields) => fields.get(field).map(Vec::as_slice),
        }
    }

    /// Whether the field is new.
    pub(super) fn set(&mut self, field: &[u8], value: Vec<u8>) -> bool {
        if field.len() > Self::SHORT || value.len() > Self::SHORT {
            self.enlarge();
        }
        let weight = field.len() + value.len() + PART;
        let old = match &mut self.fields {
            Fields::Small(fields) => match fields.iter_mut().find(|(known, _)| known == field) {
                Some((_, old)) => Some(std::mem::replace(old, value)),
                None => {
                    fields.push((field.to_vec(), value));
                    None
                }
            },
            Fields::Large(fields) => fields.insert(field.to_vec(), value),
        };
        self.weight += weight;
        if let Some(old) = &old {
            self.weight -= field.len() + old.len() + PART;
        }
        if self.len() > Self::SMALL {
            self.enlarge();
        }
        old.is_none()
    }

    /// Whether the field was there.
    pub(super) fn remove(&mut self, field: &[u8]) -> bool {
        let old = match &mut self.fields {
            Fields::Small(fields) => {
                let at = fields.iter().position(|(known, _)| known == field);
                at.map(|at| fields.remove(at).1)
            }
            Fields::Large(fields) => fields.remove(field),
        };
        if let Some(old) = &old {
            self.weight -= field.len() + old.len() + PART;
        }
        old.is_some()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let (small, large) = match &self.fields {
            Fields::Small(fields) => (Some(fields), None),
            Fields::Large(fields) => (None, Some(fields)),
        };
        let small = small.into_iter().flatten().map(|(field, value)| (field.as_slice(), value.as_slice()));
        small.chain(large.into_iter().flatten().map(|(field, value)| (field.as_slice(), value.as_slice())))
    }

    fn enlarge(&mut self) {
        if let Fields::Small(fields) = &mut self.fields {
            self.fields = Fields::Large(std::mem::take(fields).into_iter().collect());
        }
    }
}

impl Container for Hash {
    fn of(value: &Value) -> Option<&Self> {
        if let Value::Hash(hash) = value { Some(hash) } else { None }
    }

    fn of_mut(value: &mut Value) -> Option<&mut Self> {
        if let Value::Hash(hash) = value { Some(hash) } else { None }
    }

    fn into_value(self) -> Value {
        Value::Hash(self)
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Container for SortedSet {
    fn of(value: &Value) -> Option<&Self> {
        if let Value::Sorted(sorted) = value { Some(sorted) } else { None }
    }

    fn of_mut(value: &mut Value) -> Option<&mut Self> {
        if let Value::Sorted(sorted) = value { Some(sorted) } else { None }
    }

    fn into_value(self) -> Value {
        Value::Sorted(self)
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Parts in a row.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct List {
    parts: VecDeque<Vec<u8>>,
    weight: usize,
}

impl List {
    pub(super) fn parts(&self) -> &VecDeque<Vec<u8>> {
        &self.parts
    }

    pub(super) fn push(&mut self, end: End, part: Vec<u8>) {
        self.weight += part.len() + PART;
        match end {
            End::Left => self.parts.push_front(part),
            End::Right => self.parts.push_back(part),
        }
    }

    pub(super) fn pop(&mut self, end: End) -> Option<Vec<u8>> {
        let part = match end {
            End::Left => self.parts.pop_front(),
            End::Right => self.parts.pop_back(),
        }?;
        self.weight -= part.len() + PART;
        Some(part)
    }

    /// Puts a part in the place of another one that is there.
    pub(super) fn replace(&mut self, at: usize, part: Vec<u8>) {
        if let Some(old) = self.parts.get_mut(at) {
            self.weight = self.weight + part.len() - old.len();
            *old = part;
        }
    }

    /// Keeps what `keep` says, asked from the one end to the other.
    pub(super) fn retain(&mut self, from: End, mut keep: impl FnMut(&[u8]) -> bool) {
        let mut kept = Self::default();
        while let Some(part) = self.pop(from) {
            if keep(&part) {
                let to = if from == End::Left { End::Right } else { End::Left };
                kept.push(to, part);
            }
        }
        *self = kept;
    }
}

impl Container for List {
    fn of(value: &Value) -> Option<&Self> {
        if let Value::List(list) = value { Some(list) } else { None }
    }

    fn of_mut(value: &mut Value) -> Option<&mut Self> {
        if let Value::List(list) = value { Some(list) } else { None }
    }

    fn into_value(self) -> Value {
        Value::List(self)
    }

    fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Left,
    Right,
}
