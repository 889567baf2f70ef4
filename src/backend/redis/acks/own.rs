//! The link on which replicas are waited for: it leads where the node's link for everything else does, and ends with it.

use std::sync::Arc;

use tokio::time::{Instant, timeout_at};

use crate::backend::{
    Befell, Fault,
    redis::{
        command::{LinkAccess, Timer},
        info::Info,
        link::{Cause, Link},
        node::Node,
    },
};

/// The two links.
pub(super) struct Own {
    pub(super) link: Link,
    /// The node's link for everything else: this one leads where that did when it was opened, and ends with it.
    pub(super) beside: Arc<Link>,
}

/// Where it is had: one at a time.
pub(super) struct OwnLinks {
    node: Arc<Node>,
    own: Option<Own>,
    /// It was said that there is none, though there is one for everything else.
    says_so: Option<Instant>,
}

impl OwnLinks {
    pub(super) fn of(node: &Arc<Node>) -> Self {
        Self { node: Arc::clone(node), own: None, says_so: None }
    }

    /// The link, which nobody has meanwhile: it is not given back where its answers are in doubt.
    pub(super) async fn take(&mut self, until: Instant) -> Result<Own, Fault> {
        loop {
            let beside = self.beside(until).await?;
            let own = self.own.take().filter(|own| own.is_beside(&beside));
            if let Some(own) = own {
                return Ok(own);
            }
            let within = until.saturating_duration_since(Instant::now()).min(self.node.command_timeout);
            let clients = self.node.aim.now();
            let opened = async {
                let link = Link::open(&clients, &self.node.closed, within).await?;
                let leads_there = leads_where(&link, &beside, Instant::now() + within).await;
                Ok((link, leads_there))
            };
            let opened: Result<_, Fault> = tokio::select! {
                biased;
                () = beside.gone() => continue,
                opened = opened => opened,
            };
            let (link, leads_there) = opened.map_err(|fault| self.is_away(&beside, fault))?;
            self.is_back();
            if leads_there {
                link.set_number(beside.number());
                return Ok(Own { link, beside });
            }
            // Its name leads elsewhere by now. Who acquires there must let go there.
            beside.end(Cause::Elsewhere);
        }
    }

    pub(super) fn give_back(&mut self, own: Own) {
        self.own = Some(own);
    }

    /// No link could be opened. Said once, unless the one for everything else is over, too: others say that.
    fn is_away(&mut self, beside: &Link, fault: Fault) -> Fault {
        if beside.is_gone() {
            return Fault { befell: Befell::Opening, ..fault };
        }
        if self.says_so.is_none() {
            self.says_so = Some(Instant::now());
            tracing::warn!(
                server = %self.node.aim.name(),
                error = %fault.source,
                "no second link to the server, on which replicas are waited for: no lock is granted until there is one"
            );
        }
        Fault { befell: Befell::OpeningApart, ..fault }
    }

    fn is_back(&mut self) {
        if let Some(since) = self.says_so.take() {
            let away_ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
            tracing::info!(server = %self.node.aim.name(), away_ms, "the second link to the server is there again");
        }
    }

    /// The node's link for everything else, once there is one.
    async fn beside(&self, until: Instant) -> Result<Arc<Link>, Fault> {
        match self.node.link_access()? {
            LinkAccess::Open(link, _) => Ok(link),
            LinkAccess::Wait(wait) => {
                let now = Instant::now();
                let mut timer = Timer::started(now, until.saturating_duration_since(now));
                self.node.link(wait, &mut timer).await.map(|(link, _)| link)
            }
        }
    }
}

impl Own {
    fn is_beside(&self, beside: &Arc<Link>) -> bool {
        Arc::ptr_eq(&self.beside, beside) && !self.link.is_gone()
    }
}

/// Whether the one leads to the server to which the other does, as far as that says which it is. Each time that it is asked, where
/// several answer behind one address.
async fn leads_where(link: &Link, beside: &Link, until: Instant) -> bool {
    let mut question = redis::cmd("INFO");
    question.arg("server");
    let run_id = async |link: &Link| {
        let mut connection = link.connection();
        let reply = timeout_at(until, connection.send_packed_command(&question)).await.ok()?.ok()?;
        Info::of(&reply).process.map(|process| process.run_id)
    };
    let (here, there, again) = tokio::join!(run_id(link), run_id(beside), run_id(beside));
    here.is_none() || there.is_none() || there != again || here == there
}
