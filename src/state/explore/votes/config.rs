//! What a world of votes may do.

/// A rule that a world does without, to see that it is missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// A lost round is followed by one with another number.
    FreshNumbers,
    /// A majority is one of all that are configured.
    MajorityOfAll,
    /// A lease counts from the first sending.
    LeaseFromSending,
    /// What is mended does not count in the round that finds it missing.
    MendingCountsLater,
}

#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// How often each client asks.
    pub(crate) asks: Vec<u8>,
    /// In ticks, for everybody.
    pub(crate) lease: u8,
    /// A master's yes counts for nothing for so many ticks after it has lost its data.
    pub(crate) quarantine: u8,
    pub(crate) ticks: u8,
    /// So many masters start again without their data; so many links are replaced; so many renewals are asked for.
    pub(crate) restarts: u8,
    pub(crate) cuts: u8,
    pub(crate) renewals: u8,
    /// So often somebody waits no longer for those that say nothing.
    pub(crate) impatience: u8,
    /// An answer is heard in the step that makes it: belief begins as early as it can.
    pub(crate) at_once: bool,
    /// Numbers of which an old copy of an acquire may run are released again. Else what it leaves ends with its lease.
    pub(crate) reaps: bool,
    pub(crate) without: Option<Rule>,
    /// So many states are enough.
    pub(crate) cap: usize,
}

impl Default for Config {
    /// Two clients that ask once; nothing fails, no time passes.
    fn default() -> Self {
        Self {
            asks: vec![1, 1],
            lease: 3,
            quarantine: 3,
            ticks: 0,
            restarts: 0,
            cuts: 0,
            renewals: 0,
            impatience: 0,
            at_once: true,
            reaps: false,
            without: None,
            cap: usize::MAX,
        }
    }
}

impl Config {
    /// Whether the library does as this rule says.
    pub(crate) fn has(&self, rule: Rule) -> bool {
        self.without != Some(rule)
    }
}
