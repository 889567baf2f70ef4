//! Lists for what a name mostly has one of, or none: neither takes memory of its own then.

/// One more often than not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum OneOrMany<T> {
    #[default]
    None,
    One(T),
    /// Two or more.
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    pub(crate) fn as_slice(&self) -> &[T] {
        match self {
            Self::None => &[],
            Self::One(item) => std::slice::from_ref(item),
            Self::Many(items) => items,
        }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [T] {
        match self {
            Self::None => &mut [],
            Self::One(item) => std::slice::from_mut(item),
            Self::Many(items) => items,
        }
    }

    pub(crate) fn push(&mut self, item: T) {
        *self = match std::mem::take(self) {
            Self::None => Self::One(item),
            Self::One(first) => Self::Many(vec![first, item]),
            Self::Many(mut items) => {
                items.push(item);
                Self::Many(items)
            }
        };
    }

    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Self::None)
    }

    /// All of them, in their order.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = T> + use<T> {
        let (one, many) = match std::mem::take(self) {
            Self::None => (None, Vec::new()),
            Self::One(item) => (Some(item), Vec::new()),
            Self::Many(items) => (None, items),
        };
        one.into_iter().chain(many)
    }

    /// Takes out the first for which it is true; the others stay in their order.
    pub(crate) fn take_first(&mut self, is_it: impl FnMut(&T) -> bool) -> Option<T> {
        let at = self.as_slice().iter().position(is_it)?;
        self.take_at(at)
    }

    /// Takes out the one at this place, if there is one.
    pub(crate) fn take_at(&mut self, at: usize) -> Option<T> {
        if self.as_slice().len() <= at {
            return None;
        }
        match std::mem::take(self) {
            Self::None => None,
            Self::One(item) => Some(item),
            Self::Many(mut items) => {
                let taken = items.remove(at);
                *self = if items.len() > 1 { Self::Many(items) } else { items.pop().map_or(Self::None, Self::One) };
                Some(taken)
            }
        }
    }
}

/// None more often than not.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ThinVec<T>(
    #[expect(clippy::box_collection, reason = "a word where there is none")] Option<Box<Vec<T>>>,
);

impl<T> From<Vec<T>> for ThinVec<T> {
    fn from(items: Vec<T>) -> Self {
        Self((!items.is_empty()).then(|| Box::new(items)))
    }
}

impl<T> Default for ThinVec<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> ThinVec<T> {
    pub(crate) fn as_slice(&self) -> &[T] {
        self.0.as_ref().map_or(&[], |items| items.as_slice())
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [T] {
        self.0.as_mut().map_or(&mut [], |items| items.as_mut_slice())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.as_slice().iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.as_mut_slice().iter_mut()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub(crate) fn push(&mut self, item: T) {
        self.0.get_or_insert_default().push(item);
    }

    pub(crate) fn take(&mut self) -> Vec<T> {
        self.0.take().map(|items| *items).unwrap_or_default()
    }

    /// Takes out the first for which it is true; the others stay in their order.
    pub(crate) fn take_first(&mut self, is_it: impl FnMut(&T) -> bool) -> Option<T> {
        let at = self.iter().position(is_it)?;
        let taken = self.0.as_mut().map(|items| items.remove(at));
        self.0.take_if(|items| items.is_empty());
        taken
    }

    pub(crate) fn retain(&mut self, stays: impl FnMut(&mut T) -> bool) {
        if let Some(items) = &mut self.0 {
            items.retain_mut(stays);
        }
        self.0.take_if(|items| items.is_empty());
    }
}
