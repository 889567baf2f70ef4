//! What a diagnosis says. It asks nobody.

use std::fmt;

/// One thing that was looked at in a deployment: [`Client::diagnose`](crate::Client::diagnose).
///
/// Its texts are for people, and may change; [`code`](Self::code), [`Severity::code`] and [`Subject::code`] are for programs, and stay.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What it is about.
    pub subject: Subject,
    /// What was found, in words for programs, such as `eviction.allkeys`: the subject's code, a dot, and what it is.
    pub code: &'static str,
    /// The server that it is about; `None` where it is about the deployment.
    pub server: Option<String>,
    /// What was found.
    pub found: String,
    /// What may happen; empty where all is well.
    pub may_happen: String,
    /// What to do about it; empty where there is nothing to do.
    pub to_do: String,
}

/// How bad a finding is. A worse one is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Severity {
    /// As it should be.
    Ok,
    /// Good to know; also what could not be checked.
    Notice,
    /// Locks may be lost, or late, when something happens.
    Warning,
    /// Locks do not work, or will be lost.
    Error,
}

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Subject {
    /// Whether the server answers.
    Reachable,
    /// How long an answer takes.
    Latency,
    /// The server's version.
    Version,
    /// What the server does when its memory is full.
    Eviction,
    /// Whether locks outlive a restart of the server.
    Persistence,
    /// Whether writes reach replicas.
    Replicas,
    /// What kind of deployment it is, and how many watch over it.
    Deployment,
    /// Whether a cluster serves all names.
    Cluster,
    /// How releases are told to those who wait.
    PubSub,
    /// Whether scripts run.
    Scripts,
    /// What the user may do.
    Rights,
}

impl Severity {
    /// A word that stays as it is: `ok`, `notice`, `warning` or `error`.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl Subject {
    /// A word that stays as it is, such as `eviction`.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Reachable => "reachable",
            Self::Latency => "latency",
            Self::Version => "version",
            Self::Eviction => "eviction",
            Self::Persistence => "persistence",
            Self::Replicas => "replicas",
            Self::Deployment => "deployment",
            Self::Cluster => "cluster",
            Self::PubSub => "pubsub",
            Self::Scripts => "scripts",
            Self::Rights => "rights",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}
