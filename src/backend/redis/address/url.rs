//! URLs, of one server or of a deployment with several. No message repeats any part of one: it may hold a password.

use std::sync::Arc;

use redis::IntoConnectionInfo;

use super::{
    Address, NO_MASTER, Sentinels, Target,
    misplaced::{self, ESCAPE},
};
use crate::{backend::redis::options::RespVersion, error::Error};

/// Where a sentinel listens, unless somebody says otherwise.
const SENTINEL_PORT: u16 = 26_379;

const NO_SCHEME: &str = "its scheme is none of redis://, rediss://, redis+unix://, redis-sentinel://, rediss-sentinel://, \
                         redis-cluster:// and rediss-cluster://";

impl Address {
    /// From a URL.
    pub(crate) fn parse(url: &str) -> Result<Self, Error> {
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(invalid("it has no scheme such as redis://"));
        };
        let Some((kind, tls)) = scheme_of(&scheme.to_ascii_lowercase()) else { return Err(invalid(NO_SCHEME)) };
        if tls {
            has_tls()?;
        }
        if let Some(mistake) = misplaced::in_url(kind, rest) {
            return Err(invalid(mistake));
        }
        match kind {
            Kind::Server | Kind::Socket => Target::parse(url).map(Self::Server),
            Kind::Sentinel => Parts::of(rest)?.sentinels(tls).map(Self::Sentinel),
            Kind::Cluster => Parts::of(rest)?.nodes(tls).map(Self::Cluster),
        }
    }
}

impl Target {
    /// From a URL for one server.
    pub(in crate::backend::redis) fn parse(url: &str) -> Result<Self, Error> {
        let rest = url.split_once("://").map_or("", |(_, rest)| rest);
        if Hosts::of(rest).0.contains(',') {
            return Err(invalid("several hosts are for the schemes redis-sentinel:// and redis-cluster://"));
        }
        let info = url.into_connection_info().map_err(|error| match rest.contains('@') {
            true => invalid(format!("{}; {ESCAPE}", reason(&error))),
            false => invalid(reason(&error)),
        })?;
        let redis = info.redis_settings().clone().set_lib_name(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
        let version = if asks_for_resp2(url) { RespVersion::Resp2 } else { RespVersion::Auto };
        Self { info: info.set_redis_settings(redis), version, option: "url" }.shown()
    }
}

/// What a URL leads to, by its scheme.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Server,
    /// A server by its unix socket.
    Socket,
    Sentinel,
    Cluster,
}

/// What is there, and whether it speaks TLS.
fn scheme_of(word: &str) -> Option<(Kind, bool)> {
    Some(match word {
        "redis" | "valkey" => (Kind::Server, false),
        "redis+unix" | "valkey+unix" | "unix" => (Kind::Socket, false),
        "rediss" | "valkeys" => (Kind::Server, true),
        "redis-sentinel" | "valkey-sentinel" => (Kind::Sentinel, false),
        "rediss-sentinel" | "valkeys-sentinel" => (Kind::Sentinel, true),
        "redis-cluster" | "valkey-cluster" => (Kind::Cluster, false),
        "rediss-cluster" | "valkeys-cluster" => (Kind::Cluster, true),
        _ => return None,
    })
}

fn has_tls() -> Result<(), Error> {
    match cfg!(any(feature = "rustls", feature = "native-tls")) {
        true => Ok(()),
        false => Err(invalid("TLS needs one of the features \"rustls\" and \"native-tls\"")),
    }
}

/// Hosts as a URL lists them.
struct Hosts<'a>(&'a str);

impl<'a> Hosts<'a> {
    /// Of what comes behind the scheme.
    fn of(rest: &'a str) -> Self {
        let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
        Self(authority.rsplit_once('@').map_or(authority, |(_, hosts)| hosts))
    }

    /// Each with a port.
    fn each(&self, port: u16) -> Result<Vec<String>, Error> {
        self.0.split(',').map(|host| with_port(host, port)).collect()
    }
}

fn with_port(host: &str, port: u16) -> Result<String, Error> {
    let (name, given) = match host.rsplit_once(':') {
        // The colon is one of an address in brackets.
        Some((_, given)) if given.ends_with(']') => (host, None),
        Some((name, given)) => (name, Some(given)),
        None => (host, None),
    };
    if name.is_empty() {
        return Err(invalid("one of its hosts is empty"));
    }
    if name.contains(':') && !(name.starts_with('[') && name.ends_with(']')) {
        return Err(invalid("an IPv6 address stands in brackets, as in [::1]:6379"));
    }
    let port = match given {
        None => port,
        Some(given) => match given.parse() {
            Ok(0) | Err(_) => return Err(invalid("one of its ports is no number from 1 to 65535")),
            Ok(given) => given,
        },
    };
    Ok(format!("{name}:{port}"))
}

/// A URL of a deployment with several servers, behind its scheme.
struct Parts<'a> {
    /// With the `@` behind them.
    credentials: &'a str,
    hosts: Hosts<'a>,
    /// From the slash on.
    path: &'a str,
    query: Vec<(&'a str, &'a str)>,
    fragment: Option<&'a str>,
}

impl<'a> Parts<'a> {
    fn of(rest: &'a str) -> Result<Self, Error> {
        let (rest, fragment) = match rest.split_once('#') {
            Some((rest, fragment)) => (rest, Some(fragment)),
            None => (rest, None),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let credentials = &authority[..authority.rfind('@').map_or(0, |at| at + 1)];
        if credentials.matches('@').count() > 1 {
            return Err(invalid(format!("its credentials stand once, before the first of its hosts; {ESCAPE}")));
        }
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let query = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).collect();
        Ok(Self { credentials, hosts: Hosts::of(authority), path, query, fragment })
    }

    fn sentinels(&self, tls: bool) -> Result<Sentinels, Error> {
        let known = ["protocol", "sentinel_username", "sentinel_password", "sentinel_tls"];
        self.has_no_parameter_but(&known)?;
        let master = decoded(self.fragment.unwrap_or_default())?;
        if master.is_empty() {
            return Err(invalid(NO_MASTER));
        }
        let sentinel_tls = match self.parameter("sentinel_tls") {
            None => tls,
            Some("true") => has_tls().map(|()| true)?,
            Some("false") => false,
            Some(_) => return Err(invalid("sentinel_tls is true or false")),
        };
        let (name, password) = (self.parameter("sentinel_username"), self.parameter("sentinel_password"));
        if name.is_some() && password.is_none() {
            return Err(invalid("sentinel_username comes with a sentinel_password"));
        }
        let hosts = self.hosts.each(SENTINEL_PORT)?;
        let like = self.target(tls, self.credentials, &hosts[0], self.path, "")?;
        let asked = hosts.iter().map(|host| {
            let sentinel = self.target(sentinel_tls, "", host, "", "")?;
            let mut redis = sentinel.info.redis_settings().clone();
            if let Some(name) = name {
                redis = redis.set_username(decoded(name)?);
            }
            if let Some(password) = password {
                redis = redis.set_password(decoded(password)?);
            }
            Ok(Target { info: sentinel.info.set_redis_settings(redis), ..sentinel })
        });
        Ok(Sentinels { master: master.into(), sentinels: asked.collect::<Result<_, Error>>()?, like })
    }

    fn nodes(&self, tls: bool) -> Result<Vec<Target>, Error> {
        self.has_no_parameter_but(&["protocol"])?;
        let fragment = match self.fragment {
            Some("insecure") if tls => "#insecure",
            Some(_) => {
                return Err(invalid("only rediss-cluster:// may end in #insecure, and nothing in another fragment"));
            }
            None => "",
        };
        let hosts = self.hosts.each(6379)?;
        let node = |host: &String| self.target(tls, self.credentials, host, self.path, fragment);
        let nodes = hosts.iter().map(node).collect::<Result<Vec<_>, _>>()?;
        nodes.iter().try_for_each(Target::is_of_a_cluster)?;
        Ok(nodes)
    }

    /// One of its servers, as if it were alone.
    fn target(&self, tls: bool, credentials: &str, host: &str, path: &str, fragment: &str) -> Result<Target, Error> {
        let scheme = if tls { "rediss" } else { "redis" };
        let query = self.parameter("protocol").map(|version| format!("?protocol={version}")).unwrap_or_default();
        let path = if path.is_empty() { "/" } else { path };
        Target::parse(&format!("{scheme}://{credentials}{host}{path}{query}{fragment}"))
    }

    /// The last one counts, as the driver has it.
    fn parameter(&self, name: &str) -> Option<&'a str> {
        self.query.iter().rev().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    fn has_no_parameter_but(&self, known: &[&str]) -> Result<(), Error> {
        match self.query.iter().all(|(name, _)| known.contains(name)) {
            true => Ok(()),
            false => Err(invalid(format!("with this scheme there is no parameter but {}", known.join(", ")))),
        }
    }
}

/// Without the percent signs that stand for something else.
fn decoded(text: &str) -> Result<String, Error> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let digits = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = digits.filter(|digits| *first == b'%' && digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).map_err(|_| invalid("what it escapes is no text in UTF-8"))
}

fn asks_for_resp2(url: &str) -> bool {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let query = query.split('#').next().unwrap_or_default();
    query.split('&').any(|pair| matches!(pair, "protocol=resp2" | "protocol=2"))
}

/// The driver's reason without the kind that it appends.
fn reason(error: &redis::RedisError) -> String {
    let text = error.to_string();
    text.split(" - ").next().unwrap_or(&text).to_owned()
}

fn invalid(why: impl Into<Arc<str>>) -> Error {
    Error::invalid("url", why)
}
