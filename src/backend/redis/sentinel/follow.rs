//! All sentinels of one master at once, and the node that is turned to where they say that it is. What counts is decided in
//! `views.rs`, who is asked in `roster.rs`.

use std::{collections::HashMap, pin::Pin, sync::Arc, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    ask::{Report, Sentinel, SentinelAnswer},
    roster::{Changes, Roster},
    views::{ServerAddr, Views},
};
use crate::backend::{
    Fault, FaultKind,
    redis::{
        address::{Sentinels, Target},
        aim::RefreshTrigger,
        faults,
        node::Node,
        options::{Clients, Options, RespVersion},
        rights::Versions,
    },
};

/// Hears all sentinels, for as long as it is polled.
pub(super) struct Follower {
    sentinels: Sentinels,
    command_timeout: Duration,
    version: RespVersion,
    name: Box<str>,
    closed: CancellationToken,
    missed: RefreshTrigger,
    roster: Roster,
    views: Views,
    versions: Arc<Versions>,
    /// Each of them asks one sentinel, and ends with its guard.
    asking: FuturesUnordered<Pin<Box<dyn Future<Output = ()> + Send>>>,
    guards: HashMap<ServerAddr, DropGuard>,
    tell: mpsc::UnboundedSender<(ServerAddr, SentinelAnswer)>,
    told: mpsc::UnboundedReceiver<(ServerAddr, SentinelAnswer)>,
    /// It was said that none of them answers, and that one will not tell of changes.
    silence_is_known: bool,
    muteness_is_known: bool,
}

impl Follower {
    /// Begins to ask all that are named.
    pub(super) fn start(
        sentinels: &Sentinels,
        options: Options<'_>,
        closed: &CancellationToken,
        missed: RefreshTrigger,
    ) -> Result<Self, Fault> {
        let named = sentinels.sentinels.iter().filter_map(|target| Some((place(target)?, target)));
        let named: Vec<_> = named.collect();
        let (tell, told) = mpsc::unbounded_channel();
        let mut follower = Self {
            sentinels: sentinels.clone(),
            command_timeout: options.command_timeout,
            version: options.version,
            name: options.name.into(),
            closed: closed.clone(),
            missed,
            roster: Roster::of(named.iter().map(|(at, _)| at.clone())),
            views: Views::default(),
            versions: Arc::default(),
            asking: FuturesUnordered::new(),
            guards: HashMap::new(),
            tell,
            told,
            silence_is_known: false,
            muteness_is_known: false,
        };
        for (at, target) in named {
            if !follower.guards.contains_key(&at) {
                let clients = follower.clients(target)?;
                follower.attend(at, clients);
            }
        }
        Ok(follower)
    }

    /// Those of all that are asked.
    pub(super) fn versions(&self) -> Arc<Versions> {
        Arc::clone(&self.versions)
    }

    pub(super) fn within(&self) -> Duration {
        self.command_timeout
    }

    /// Where the master is, as soon as most sentinels have been heard. Those that keep everybody waiting are waited for until
    /// half of the time is over, as long as anybody has answered.
    pub(super) async fn find(&mut self, end: Instant) -> Result<ServerAddr, Fault> {
        let patience = Instant::now() + end.saturating_duration_since(Instant::now()) / 2;
        loop {
            let is_late = Instant::now() >= patience;
            let all_are_heard = self.roster.all_are_heard();
            if (is_late || all_are_heard || self.roster.most_have_answered())
                && let Some(place) = self.views.decide(self.roster.known(), Instant::now())
            {
                return Ok(place);
            }
            if all_are_heard || is_late && self.roster.anybody_is_ignorant() {
                return Err(self.why_nowhere());
            }
            tokio::select! {
                biased;
                () = sleep_until(end) => return Err(self.why_nowhere()),
                () = sleep_until(patience), if !is_late => {}
                () = self.hear() => {}
            }
        }
    }

    /// Where the master is, once that is somewhere else.
    pub(super) async fn moved(&mut self) -> ServerAddr {
        loop {
            self.hear().await;
            self.say_whether_any_answers();
            if let Some(place) = self.views.decide(self.roster.known(), Instant::now()) {
                return place;
            }
        }
    }

    /// Turns the node to where the master is, until it is closed.
    pub(super) async fn follow(mut self, node: Arc<Node>) {
        let closed = node.closed.clone();
        let turns = async {
            loop {
                let place = self.moved().await;
                tracing::info!(master = %self.sentinels.master, at = %place, "the sentinels have another server for the master");
                match self.clients_at(&place) {
                    Ok(clients) => node.turn(clients),
                    Err(fault) => tracing::warn!(error = %fault.source, "that server cannot be spoken to"),
                }
            }
        };
        closed.run_until_cancelled(turns).await;
    }

    /// How the master is spoken to if it is there.
    pub(super) fn clients_at(&self, place: &ServerAddr) -> Result<Clients, Fault> {
        let clients = self.clients(&self.sentinels.like.at(&place.host, place.port))?;
        Ok(Clients { of_a_master: true, ..clients })
    }

    fn clients(&self, target: &Target) -> Result<Clients, Fault> {
        let options = Options::of_a_node(self.command_timeout, self.version, &self.name);
        target.clients(options).map_err(|error| faults::unopened(&error))
    }

    fn attend(&mut self, at: ServerAddr, clients: Clients) {
        let ended = self.closed.child_token();
        let (master, within) = (self.sentinels.master.clone(), self.command_timeout);
        let sentinel = Sentinel { clients, master, within, ended: ended.clone() };
        let (missed, tell, from) = (self.missed.times(), self.tell.clone(), at.clone());
        // Whoever hears it is gone only together with this.
        let tell = move |answer| drop(tell.send((from.clone(), answer)));
        self.guards.insert(at, ended.clone().drop_guard());
        self.asking.push(Box::pin(async move {
            ended.run_until_cancelled(sentinel.attend(missed, tell)).await;
        }));
    }

    /// One answer.
    async fn hear(&mut self) {
        loop {
            tokio::select! {
                Some((at, answer)) = self.told.recv() => return self.heard(&at, answer),
                Some(()) = self.asking.next() => {}
            }
        }
    }

    fn heard(&mut self, at: &ServerAddr, answer: SentinelAnswer) {
        if !self.roster.is_known(at) {
            return;
        }
        let changes = match answer {
            SentinelAnswer::Report(Report { id, version, view, others }) => {
                self.versions.note(at.to_string(), version);
                let changes = self.roster.answered(at, id, others, view.is_some());
                let key = self.roster.key(at);
                match view {
                    Some(view) => self.views.note(key, view),
                    None => self.views.forget(&key),
                }
                changes
            }
            SentinelAnswer::Failed(fault) => {
                tracing::debug!(sentinel = %at, error = %fault.source, "a sentinel does not answer");
                let key = self.roster.key(at);
                let changes = self.roster.failed(at, fault);
                if !self.roster.answers(&key) {
                    self.views.forget(&key);
                }
                changes
            }
            SentinelAnswer::Mute(fault) => {
                if !std::mem::replace(&mut self.muteness_is_known, true) {
                    tracing::warn!(
                        sentinel = %at,
                        error = %fault.source,
                        "a sentinel does not tell of failovers by itself; it is asked each second"
                    );
                }
                return;
            }
        };
        self.apply(changes);
    }

    fn apply(&mut self, changes: Changes) {
        for at in changes.gone {
            self.versions.forget(&at.to_string());
            self.guards.remove(&at);
        }
        for at in changes.come {
            // As the first of those that were named.
            let clients = self.sentinels.sentinels.first().map(|first| self.clients(&first.at(&at.host, at.port)));
            match clients {
                Some(Ok(clients)) => self.attend(at, clients),
                Some(Err(fault)) => tracing::debug!(error = %fault.source, "that sentinel cannot be spoken to"),
                None => {}
            }
        }
    }

    fn say_whether_any_answers(&mut self) {
        let silent = !self.roster.anybody_answers() && self.roster.all_are_heard();
        if std::mem::replace(&mut self.silence_is_known, silent) == silent {
            return;
        }
        let master = &self.sentinels.master;
        match silent {
            true => tracing::warn!(%master, "no sentinel answers; the master is followed again when one does"),
            false => tracing::info!(%master, "a sentinel answers again"),
        }
    }

    /// Why no sentinel says where the master is: the one of all that they said which a person has to do something about.
    fn why_nowhere(&self) -> Fault {
        let master = &self.sentinels.master;
        if self.roster.anybody_is_ignorant() {
            return faults::of_a_sentinel(FaultKind::Invalid, format!("the sentinels know no master \"{master}\""));
        }
        let mut words = String::from("no sentinel says where the master is");
        let mut kind = FaultKind::Timeout;
        for (at, fault) in self.roster.failures() {
            let why = fault.map_or_else(|| "no answer in time".to_owned(), |fault| fault.source.to_string());
            let why = why.strip_prefix(&format!("{at}: ")).unwrap_or(&why);
            words += &format!("; {at}: {why}");
            kind = fault.map_or(kind, |fault| graver(kind, fault.kind));
        }
        faults::of_a_sentinel(kind, words)
    }
}

/// Whichever a person has to do something about.
fn graver(one: FaultKind, other: FaultKind) -> FaultKind {
    use FaultKind::{Certificate, Credentials, Dropped, Invalid, Permission, Timeout};
    let ranks = [Timeout, Dropped, Invalid, Certificate, Permission, Credentials];
    // What is not among them is a refusal of another kind.
    let rank = |kind: &FaultKind| ranks.iter().position(|ranked| ranked == kind).unwrap_or(1);
    if rank(&other) > rank(&one) { other } else { one }
}

fn place(target: &Target) -> Option<ServerAddr> {
    target.host().map(|(host, port)| ServerAddr { host: host.into(), port })
}
