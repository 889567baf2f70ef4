//! What is wrong with a deployment, as one that has locks: all of its servers at once, and what only holds for them together. What is
//! asked of one server is in `check.rs`.

use futures_util::future::join_all;

use super::{
    Finding, Looker, Severity, Subject,
    check::{Checked, finding},
};
use crate::{
    Client,
    backend::{Deployment, Publish},
    error::{Error, Result},
};

/// So many sentinels can agree on a failover while one of them is away.
const FEW_SENTINELS: usize = 3;

impl Looker {
    async fn diagnose(&self) -> Result<Vec<Finding>> {
        let backend = self.scope.backend();
        let (deployment, servers) = (backend.deployment(), backend.servers());
        if self.engine.is_closed() {
            return Err(Error::Closed);
        }
        if deployment == Deployment::Embedded {
            return Ok(vec![self.deployment(&deployment, 1)]);
        }
        let mut findings = vec![self.deployment(&deployment, servers.len())];
        findings.extend(self.told(&deployment));
        let checks = servers.iter().map(|server| self.check(server, &deployment));
        let (mut clusters, mut checked) = (Vec::new(), Vec::new());
        for Checked { findings, cluster } in join_all(checks).await {
            clusters.extend(cluster);
            checked.extend(findings);
        }
        // The worst of what its nodes say of it all.
        findings.extend(clusters.into_iter().max_by_key(|finding| finding.severity));
        findings.extend(checked);
        if self.engine.is_closed() { Err(Error::Closed) } else { Ok(findings) }
    }

    fn deployment(&self, deployment: &Deployment, servers: usize) -> Finding {
        let ok = |code, found: String| finding(Severity::Ok, Subject::Deployment, code, found, "", "");
        match deployment {
            Deployment::Standalone => ok("deployment.standalone", "one server".into()),
            Deployment::Sentinel(count) if *count < FEW_SENTINELS => finding(
                Severity::Warning,
                Subject::Deployment,
                "deployment.few-sentinels",
                format!("a master that {count} sentinels are known to watch over"),
                "where one of them is away, no other master is chosen, and no lock can be had while the master is down",
                "run three sentinels, on hosts of their own",
            ),
            Deployment::Sentinel(count) => {
                ok("deployment.sentinel", format!("a master that {count} sentinels are known to watch over"))
            }
            Deployment::Cluster if servers == 0 => finding(
                Severity::Error,
                Subject::Deployment,
                "deployment.nobody",
                "a cluster of which no node is known to have names".into(),
                "no lock can be had",
                "look whether its nodes run, and whether all slots are assigned",
            ),
            Deployment::Cluster => ok("deployment.cluster", format!("a cluster with {servers} masters")),
            Deployment::Embedded => ok("deployment.embedded", "a store in this process".into()),
        }
    }

    /// How releases are told.
    fn told(&self, deployment: &Deployment) -> Option<Finding> {
        let (severity, code, found, may_happen, to_do) = match (deployment, self.scope.backend().publish_kind()) {
            (Deployment::Cluster, Publish::Classic) => (
                Severity::Notice,
                "pubsub.classic",
                "releases are told to all nodes of the cluster",
                "each release costs every node a message",
                "on servers from 7.0 on, take sharded channels with all clients at once",
            ),
            (Deployment::Cluster, Publish::Sharded) => {
                (Severity::Ok, "pubsub.sharded", "releases are told over sharded channels", "", "")
            }
            _ => return None,
        };
        Some(finding(severity, Subject::PubSub, code, found.to_owned(), may_happen, to_do))
    }
}

impl Client {
    /// Looks at the deployment as a server of locks: whether its servers answer and how fast, their versions, eviction, persistence,
    /// replicas, the state of a cluster, scripts, channels, and what this user may do. What is well is told, too.
    ///
    /// What cannot be checked for want of a right is a finding that names the right ([`Severity::Notice`]), and a server that does
    /// not answer is one ([`Severity::Error`]). All servers that have keys are asked at once; replicas and sentinels are not asked. It
    /// writes nothing. A message is published on a channel of a key that no lock has, where the server cannot say otherwise whether that is allowed.
    ///
    /// Of an embedded store it says that it is one.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`]; [`Error::Invalid`] for a client without a runtime.
    ///
    /// # Cancel safety
    ///
    /// Changes nothing.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
    /// use relatch::operate::Severity;
    ///
    /// for finding in client.diagnose().await? {
    ///     if finding.severity >= Severity::Warning {
    ///         println!("{}: {}. {}", finding.found, finding.may_happen, finding.to_do);
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[cfg_attr(docsrs, doc(cfg(feature = "operate")))]
    pub async fn diagnose(&self) -> Result<Vec<Finding>> {
        Looker::of(self).diagnose().await
    }
}
