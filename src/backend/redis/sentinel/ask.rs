//! One sentinel: what it is asked, and what it says by itself. Decides nothing.

use std::{sync::Arc, time::Duration};

use redis::{RedisError, Value};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    roster::Other,
    views::{ServerAddr, View},
};
use crate::{
    backend::{
        Fault, FaultKind, Publish,
        backoff::{self, Backoff},
        redis::{
            codec, faults,
            link::Link,
            options::Clients,
            pubsub::{
                Verb,
                subscriber::{self, Sink, Subscriber},
            },
            rights::Version,
        },
    },
    chance::Chance,
};

/// It is asked this often, whatever it says by itself.
const EACH: Duration = Duration::from_secs(1);

/// What it says by itself, at the moment of a failover and when it meets another sentinel.
const EVENTS: [&str; 2] = ["+switch-master", "+sentinel"];

/// One sentinel, and how it is spoken to.
pub(super) struct Sentinel {
    pub(super) clients: Clients,
    /// What it calls its master.
    pub(super) master: Arc<str>,
    /// How long an answer may take.
    pub(super) within: Duration,
    /// Ends its links.
    pub(super) ended: CancellationToken,
}

/// What came of a question.
#[derive(Debug)]
pub(super) enum SentinelAnswer {
    Report(Report),
    /// There may be no answer to the next one either.
    Failed(Fault),
    /// It answers, and will not tell of changes by itself.
    Mute(Fault),
}

/// What a sentinel answers to all questions.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Report {
    /// Its own name for itself, where it says that.
    pub(super) id: Option<Arc<str>>,
    pub(super) version: Option<Version>,
    /// `None` where it knows no such master.
    pub(super) view: Option<View>,
    /// The others that it knows.
    pub(super) others: Vec<Other>,
}

impl Sentinel {
    /// Asks it each second, and whenever it says that something changed or a link to the master is `missed`. Every answer is
    /// told.
    pub(super) async fn attend(self, mut missed: watch::Receiver<()>, tell: impl Fn(SentinelAnswer)) {
        let mut backoff = Backoff::default();
        loop {
            sleep(backoff.pause(&Chance::System)).await;
            let opened = Instant::now();
            let fault = match Link::open(&self.clients, &self.ended, self.within).await {
                Ok(link) => self.serve(&link, &mut missed, &tell).await,
                Err(fault) => fault,
            };
            if opened.elapsed() > backoff::CAP {
                backoff.reset();
            }
            tell(SentinelAnswer::Failed(fault));
        }
    }

    /// Until the link is over.
    async fn serve(&self, link: &Link, missed: &mut watch::Receiver<()>, tell: &impl Fn(SentinelAnswer)) -> Fault {
        let mut events = Events::default();
        loop {
            match self.ask(link).await {
                Ok(report) => tell(SentinelAnswer::Report(report)),
                Err(fault) => return fault,
            }
            match events.listen(self).await {
                Ok(true) => continue, // What happened before that was heard by nobody.
                Ok(false) => {}
                Err(fault) => tell(SentinelAnswer::Mute(fault)),
            }
            tokio::select! {
                () = link.gone() => return faults::dropped(),
                () = sleep(EACH) => {}
                () = events.next() => {}
                Ok(()) = missed.changed() => {}
            }
        }
    }

    async fn ask(&self, link: &Link) -> Result<Report, Fault> {
        let mut questions = redis::pipe();
        // The epoch before the address: if a failover comes between the two, the new address has the old epoch, which counts for
        // little, and not the other way round.
        for question in ["MASTER", "GET-MASTER-ADDR-BY-NAME", "SENTINELS"] {
            questions.cmd("SENTINEL").arg(question).arg(&*self.master);
        }
        questions.cmd("SENTINEL").arg("MYID");
        // Only where the driver has asked the same: something in the way may end the connection for it.
        if self.clients.resp3.is_some() {
            questions.cmd("HELLO");
        }
        let mut connection = link.connection();
        let asked = connection.send_packed_commands(&questions, 0, questions.len());
        match timeout(self.within, asked).await {
            Ok(Ok(replies)) => report(&replies, &self.clients),
            Ok(Err(error)) => Err(faults::unconnected(&error, &self.clients)),
            Err(_) => Err(faults::too_slow(self.within, &self.clients)),
        }
    }
}

/// What it says by itself, over a connection that only listens.
#[derive(Default)]
struct Events {
    stream: Option<(Sink, Subscriber)>,
    /// When it was tried last to listen.
    tried: Option<Instant>,
    /// It will not have it.
    refused: bool,
}

impl Events {
    /// Listens unless it does already, or did not get it a moment ago; whether it began to right now.
    async fn listen(&mut self, to: &Sentinel) -> Result<bool, Fault> {
        let is_early = self.tried.is_some_and(|tried| tried.elapsed() < EACH);
        if self.stream.is_some() || self.refused || is_early {
            return Ok(false);
        }
        self.tried = Some(Instant::now());
        let opened = async {
            let (mut sink, subscriber) = subscriber::open(&to.clients, Publish::Classic).await?;
            for event in EVENTS {
                sink.ask(Verb::Subscribe, Some(event)).await?;
            }
            Ok::<_, RedisError>((sink, subscriber))
        };
        match timeout(to.within, opened).await {
            Ok(Ok(stream)) => {
                self.stream = Some(stream);
                Ok(true)
            }
            Ok(Err(error)) if error.code().is_some() => {
                self.refused = true;
                Err(faults::unconnected(&error, &to.clients))
            }
            // If it is away, the next question finds out.
            Ok(Err(_)) | Err(_) => Ok(false),
        }
    }

    /// Comes back when something happened: something was said, or nothing will be any more.
    async fn next(&mut self) {
        let Some((_, subscriber)) = &mut self.stream else { return std::future::pending().await };
        if subscriber.next().await.is_none() {
            self.stream = None;
        }
    }
}

/// Reads the answers to all questions.
fn report(replies: &[Value], clients: &Clients) -> Result<Report, Fault> {
    let [master, address, others, id, greeting @ ..] = replies else {
        return Err(faults::of_a_sentinel(FaultKind::Unexpected, "it did not answer every question".to_owned()));
    };
    for reply in [master, address] {
        if let Value::ServerError(error) = reply {
            let fault = faults::refused(error, &clients.secrets);
            return match is_of_another_name(&fault) {
                true => Ok(Report {
                    id: id_of(id),
                    version: greeting.first().and_then(Version::of),
                    view: None,
                    others: Vec::new(),
                }),
                false => Err(refused(fault)),
            };
        }
    }
    let others = if let Value::Array(all) = others { all.iter().filter_map(other).collect() } else { Vec::new() };
    let view = match (number(field(master, "config-epoch")), place_of(address)) {
        (Some(epoch), Some(at)) => Some(View { epoch, at }),
        _ if *address == Value::Nil => None,
        _ => {
            let why = "it did not say where the master is in words that are known".to_owned();
            return Err(faults::of_a_sentinel(FaultKind::Unexpected, why));
        }
    };
    Ok(Report { id: id_of(id), version: greeting.first().and_then(Version::of), view, others })
}

/// Whether it watches over no master of that name.
fn is_of_another_name(fault: &Fault) -> bool {
    fault.source.to_string().to_lowercase().contains("no such master")
}

/// Any other server refuses the question as such.
fn refused(fault: Fault) -> Fault {
    let words = fault.source.to_string();
    match words.to_lowercase().contains("unknown command") {
        true => faults::of_a_sentinel(FaultKind::Invalid, "it is no sentinel".to_owned()),
        false => fault,
    }
}

/// One that is down for whoever names it is not worth a question: when it is back it is named without that.
fn other(reply: &Value) -> Option<Other> {
    if field(reply, "flags").is_some_and(|flags| flags.split(',').any(|flag| flag == "s_down")) {
        return None;
    }
    let at = place(field(reply, "ip")?, number(Some(field(reply, "port")?))?)?;
    Some(Other { id: field(reply, "runid").filter(|id| !id.is_empty()).map(Arc::from), at })
}

fn place_of(address: &Value) -> Option<ServerAddr> {
    let Value::Array(parts) = address else { return None };
    let [host, port] = &parts[..] else { return None };
    place(codec::text(host)?, number(codec::text(port))?)
}

fn place(host: &str, port: u64) -> Option<ServerAddr> {
    let port = u16::try_from(port).ok().filter(|port| *port != 0)?;
    Some(ServerAddr { host: host.into(), port }).filter(|_| !host.is_empty())
}

fn id_of(reply: &Value) -> Option<Arc<str>> {
    codec::text(reply).filter(|id| !id.is_empty()).map(Arc::from)
}

fn field<'a>(reply: &'a Value, name: &str) -> Option<&'a str> {
    codec::pairs(reply).find(|(what, _)| codec::text(what) == Some(name)).and_then(|(_, value)| codec::text(value))
}

fn number(text: Option<&str>) -> Option<u64> {
    text?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::redis::{address::Target, testing::options};

    fn read(replies: [&str; 4]) -> Result<Report, Fault> {
        let greeting = list(&["server", "redis", "version", "7.0.15"]);
        let replies = replies.into_iter().chain([&*greeting]);
        let replies: Vec<_> = replies.map(|reply| redis::parse_redis_value(reply.as_bytes()).unwrap()).collect();
        report(&replies, &Target::parse("redis://:s3cret@h:1").unwrap().clients(options(3000)).unwrap())
    }

    /// A list of words as a server sends it.
    fn list(words: &[&str]) -> String {
        words.iter().fold(format!("*{}\r\n", words.len()), |all, word| all + &format!("${}\r\n{word}\r\n", word.len()))
    }

    const NOBODY: &str = "*0\r\n";
    const ID: &str = "$2\r\nme\r\n";

    fn at(host: &str, port: u16) -> ServerAddr {
        ServerAddr { host: host.into(), port }
    }

    #[test]
    fn an_answer_is_where_the_master_is_and_who_else_watches_over_it() {
        let master = list(&["name", "m", "ip", "old", "port", "1", "config-epoch", "7"]);
        let address = list(&["::1", "6379"]);
        let one = list(&["name", "x", "ip", "h2", "port", "26379", "runid", "two"]);
        let strange = list(&["ip", "", "port", "1"]);
        let down = list(&["ip", "h4", "port", "2", "flags", "s_down,sentinel,disconnected"]);
        let others = format!("*4\r\n{one}{strange}{}{down}", list(&["ip", "h3", "port", "2", "flags", "sentinel"]));
        let report = read([&master, &address, &others, ID]).unwrap();
        assert_eq!(report.view, Some(View { epoch: 7, at: at("::1", 6379) }));
        assert_eq!((report.id.as_deref(), report.version), (Some("me"), Version::read("7.0")));
        let expected = [Other { id: Some("two".into()), at: at("h2", 26379) }, Other { id: None, at: at("h3", 2) }];
        assert_eq!(report.others, expected);
        // The same as a map, and where it may not be asked for the rest.
        let map = "%1\r\n$12\r\nconfig-epoch\r\n$1\r\n7\r\n";
        let report = read([map, &address, "-NOPERM no\r\n", "-ERR Unknown sentinel subcommand\r\n"]).unwrap();
        assert_eq!((report.view.map(|view| view.epoch), report.id, report.others), (Some(7), None, vec![]));
    }

    #[test]
    fn a_name_that_it_does_not_know_is_an_answer() {
        let unknown = "-ERR No such master with that name\r\n";
        let nobody = Report { id: Some("me".into()), version: Version::read("7.0"), view: None, others: vec![] };
        assert_eq!(read([unknown, "*-1\r\n", unknown, ID]).unwrap(), nobody);
    }

    #[test]
    fn whatever_else_it_says_is_a_fault() {
        let unknown = "-ERR unknown command 'SENTINEL', with args beginning with: 'MASTER' 's3cret' \r\n";
        let master = list(&["config-epoch", "7"]);
        let rows = [
            ([unknown, unknown, unknown, unknown], FaultKind::Invalid),
            (["-NOPERM no\r\n", "*-1\r\n", NOBODY, ID], FaultKind::Permission),
            ([&master, "-NOAUTH no\r\n", NOBODY, ID], FaultKind::Credentials),
            ([&master, &list(&["h"]), NOBODY, ID], FaultKind::Unexpected),
            ([&master, &list(&["h", "0"]), NOBODY, ID], FaultKind::Unexpected),
            ([NOBODY, &list(&["h", "1"]), NOBODY, ID], FaultKind::Unexpected),
        ];
        for (replies, kind) in rows {
            let fault = read(replies).unwrap_err();
            assert_eq!(fault.kind, kind, "{fault:?}");
            assert!(!format!("{fault:?}").contains("s3cret"));
        }
    }
}
