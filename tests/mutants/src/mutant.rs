//! One rule that is taken out.

/// A rule that is taken out, by a patch of text.
pub(crate) struct Mutant {
    pub(crate) name: &'static str,
    /// What it does wrong.
    pub(crate) fault: &'static str,
    /// In the repository.
    pub(crate) file: &'static str,
    /// Stands there exactly once.
    pub(crate) old: &'static str,
    pub(crate) new: &'static str,
    pub(crate) by: By,
}

/// Who must find it.
#[derive(Clone, Copy)]
pub(crate) enum By {
    /// One of these worlds of the explorer.
    Explorer(&'static [&'static str]),
    Simulation(Simulation),
    /// The tests of processes at different distances.
    Distances,
}

/// What the clients of a simulation work on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Simulation {
    /// A server that nobody ever replaces.
    One,
    /// The nodes of a cluster, whose masters are replaced.
    Nodes,
    /// A server that a fleet does a job by.
    Fleet,
}

impl Simulation {
    /// The test that is this simulation.
    pub(crate) fn test(self) -> &'static str {
        match self {
            Self::One => "it::simulation::whatever_befalls_the_clients_of_a_store_nothing_is_seen_that_must_not_be",
            Self::Nodes => "it::simulation::whatever_befalls_the_nodes_of_a_store_too_nothing_is_seen_that_must_not_be",
            Self::Fleet => {
                "it::simulation::jobs::whatever_befalls_a_fleet_that_does_a_job_nothing_is_seen_that_must_not_be"
            }
        }
    }

    pub(crate) fn called(self) -> &'static str {
        match self {
            Self::One => "simulation",
            Self::Nodes => "simulation of nodes",
            Self::Fleet => "simulation of fleets",
        }
    }
}

impl Mutant {
    /// Whether it needs no compiler.
    pub(crate) fn is_of_script(&self) -> bool {
        self.file.starts_with("lua/")
    }

    /// The text without the rule.
    pub(crate) fn apply(&self, text: &str) -> Result<String, String> {
        match text.matches(self.old).count() {
            1 if self.old != self.new => Ok(text.replace(self.old, self.new)),
            1 => Err(format!("{}: it changes nothing", self.name)),
            count => Err(format!("{}: its text stands {count} times in {}, and should once", self.name, self.file)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_that_applies_twice_or_never_or_changes_nothing_is_none() {
        let mutant = Mutant { name: "it", fault: "", file: "a.rs", old: "rule", new: "", by: By::Distances };
        assert_eq!(mutant.apply("the rule stands").as_deref(), Ok("the  stands"));
        assert!(mutant.apply("the rule is a rule").is_err());
        assert!(mutant.apply("no such thing").is_err());
        assert!(Mutant { new: "rule", ..mutant }.apply("the rule stands").is_err());
    }
}
