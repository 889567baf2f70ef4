//! How a link to a server is set up. Opens nothing.

use std::{sync::Arc, time::Duration};

use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ProtocolVersion,
    io::tcp::{TcpSettings, socket2::TcpKeepalive},
};

use super::{address::Target, secrets::Secrets};

/// Commands that may stand in a link's send queue. Callers past it wait their turn, within their deadlines.
const QUEUE: usize = 16 * 1024;

/// The longest time that a socket takes between two signs of life, in whole seconds.
const LONGEST_KEEPALIVE: Duration = Duration::from_secs(32_767);

/// The longest time that a socket lets something stand unacknowledged, in milliseconds.
#[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
const LONGEST_USER_TIMEOUT: Duration = Duration::from_millis(0x7fff_ffff);

/// How a backend behaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options<'a> {
    pub(crate) command_timeout: Duration,
    pub(crate) version: RespVersion,
    /// Asked for when connecting, and never there: a proxy that routes commands by their keys must know where to.
    pub(crate) probe_key: &'a str,
    /// Of a cluster.
    pub(crate) sharded: ShardedPubSub,
    /// How all connections are called in the servers' lists of them; empty: not at all.
    pub(crate) name: &'a str,
}

impl<'a> Options<'a> {
    /// For links to one of several servers, beside what holds for all of them.
    pub(super) fn of_a_node(command_timeout: Duration, version: RespVersion, name: &'a str) -> Self {
        Self { command_timeout, version, probe_key: "", sharded: ShardedPubSub::default(), name }
    }
}

/// Whether the releases on a cluster are told over sharded channels, which one node carries, or over those that all nodes carry.
///
/// All clients of a cluster must do it in one way: who listens to the one kind does not hear the other. Redisson decides as the
/// [`Default`] does. It is decided when a client connects, and stays: before the nodes of a cluster are upgraded from 6.2 one by
/// one, set [`Off`](Self::Off), or restart all clients when the last of them is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ShardedPubSub {
    /// Sharded if all masters know it, as they do from version 7.0 on. Where one does not answer the others decide, and an event
    /// tells if it turns out to be older.
    #[default]
    Auto,
    /// Sharded, and no client where a master does not know it, or does not answer.
    On,
    /// To all nodes, whatever they know.
    Off,
}

/// Which version of the server's protocol a client speaks.
///
/// Its [`Default`] is right wherever a server answers that it does not know `HELLO`. Some proxies end the connection
/// instead: for those there is [`Resp2`](Self::Resp2), which a URL can also ask for with `?protocol=resp2`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RespVersion {
    /// RESP3 if the server knows it, else RESP2; what the URL asks for, if it does.
    #[default]
    Auto,
    /// RESP2, and nothing is asked: a link that was cut is noticed when something is sent, or by a ping.
    Resp2,
    /// RESP3, and no link where the server refuses it.
    Resp3,
}

impl Target {
    /// The driver's clients for links under these options.
    pub(super) fn clients(&self, options: Options<'_>) -> Result<Clients, redis::RedisError> {
        #[cfg(any(feature = "rustls", feature = "native-tls"))]
        if let ConnectionAddr::TcpTls { .. } = self.info.addr() {
            have_cryptography();
        }
        let tcp = tcp_settings(self.info.tcp_settings(), options.command_timeout);
        let info = self.info.clone().set_tcp_settings(tcp);
        let speaking = |protocol| {
            let redis = info.redis_settings().clone().set_protocol(protocol);
            Client::open(info.clone().set_redis_settings(redis))
        };
        let version = if options.version == RespVersion::Auto { self.version } else { options.version };
        // Whoever has the driver not send `CLIENT` has a reason to.
        let is_named = !options.name.is_empty() && !info.redis_settings().skip_set_lib_name();
        Ok(Clients {
            resp2: speaking(ProtocolVersion::RESP2)?,
            resp3: (version != RespVersion::Resp2).then(|| speaking(ProtocolVersion::RESP3)).transpose()?,
            falls_back: version != RespVersion::Resp3,
            of_a_master: false,
            secrets: Secrets::of(info.redis_settings()),
            name: is_named.then(|| options.name.into()),
        })
    }
}

/// The driver takes what the process has chosen, and panics if that is nothing. It uses rustls wherever some crate of the
/// program has switched that on, whatever we asked for.
#[cfg(any(feature = "rustls", feature = "native-tls"))]
fn have_cryptography() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // An error means that somebody else chose meanwhile.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

/// The driver's clients for one server.
#[derive(Clone)]
pub(super) struct Clients {
    pub(super) resp2: Client,
    /// RESP3 is how a link learns that it was cut without sending anything; some proxies do not speak it. Absent where the
    /// user asked for RESP2.
    pub(super) resp3: Option<Client>,
    /// Whether RESP2 will do where RESP3 is refused.
    pub(super) falls_back: bool,
    /// Whether the server has to say that it is a master.
    pub(super) of_a_master: bool,
    pub(super) secrets: Secrets,
    /// How its connections are called.
    pub(super) name: Option<Arc<str>>,
}

impl Clients {
    pub(super) fn address(&self) -> &ConnectionAddr {
        self.resp2.get_connection_info().addr()
    }
}

/// Our own deadlines rule, so the driver's are off.
pub(super) fn link_config() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None).set_pipeline_buffer_size(QUEUE)
}

/// Linger zero: what stands unsent in a socket that is given up must not arrive later. The user timeout ends what was
/// sent and never acknowledged.
fn tcp_settings(given: &TcpSettings, command_timeout: Duration) -> TcpSettings {
    let settings = given.clone().set_nodelay(true).set_linger_time(Duration::ZERO);
    let settings = match settings.keepalive() {
        Some(_) => settings,
        None => settings.set_keepalive(keepalive(command_timeout)),
    };
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    let settings = {
        let ours = command_timeout.clamp(Duration::from_millis(1), LONGEST_USER_TIMEOUT);
        let timeout = given.user_timeout().map_or(ours, |theirs| theirs.min(ours));
        settings.set_user_timeout(timeout)
    };
    settings
}

/// Sockets count keepalive in whole seconds and refuse zero, and what is too long.
fn keepalive(command_timeout: Duration) -> TcpKeepalive {
    let time = command_timeout.clamp(Duration::from_secs(1), LONGEST_KEEPALIVE);
    let keepalive = TcpKeepalive::new().with_time(time);
    #[cfg(target_os = "linux")]
    let keepalive = keepalive.with_interval(time);
    keepalive
}

#[cfg(test)]
mod tests {
    use redis::RedisConnectionInfo;

    use super::*;
    use crate::backend::redis::testing::options;

    #[test]
    fn a_url_may_ask_for_the_older_protocol() {
        let clients = |url| Target::parse(url).unwrap().clients(options(3000)).unwrap();
        assert!(clients("redis://h").resp3.is_some() && clients("redis://h").falls_back);
        assert!(clients("redis://h/?protocol=resp2").resp3.is_none());
        assert!(clients("redis+unix:///s?db=1&protocol=2").resp3.is_none());
    }

    #[test]
    fn an_option_says_so_for_whatever_names_the_server_and_over_its_head() {
        let own = Client::open("redis://h/?protocol=resp2").unwrap();
        for target in [Target::of_client(&own, "redis_client"), Target::parse("redis://h/?protocol=resp2").unwrap()] {
            let speaking = |version| target.clients(Options { version, ..options(3000) }).unwrap();
            assert!(speaking(RespVersion::Resp2).resp3.is_none());
            let strict = speaking(RespVersion::Resp3);
            assert!(strict.resp3.is_some() && !strict.falls_back);
        }
    }

    #[test]
    fn a_links_socket_dies_with_what_it_sent() {
        let given = TcpSettings::default();
        let settings = tcp_settings(&given, Duration::from_millis(300));
        assert!(settings.nodelay() && settings.keepalive().is_some());
        #[cfg(target_os = "linux")]
        {
            assert_eq!(settings.user_timeout(), Some(Duration::from_millis(300)));
            let shorter = given.set_user_timeout(Duration::from_millis(20));
            let settings = tcp_settings(&shorter, Duration::from_millis(300));
            assert_eq!(settings.user_timeout(), Some(Duration::from_millis(20)));
        }
    }

    #[test]
    fn a_socket_takes_the_settings_of_any_command_timeout() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        for seconds in [1, 32_767, 32_768, 36_000, 2_147_483, 2_147_484, 31_536_000] {
            let clients = Target::parse(&url).unwrap().clients(options(seconds * 1000)).unwrap();
            // Like this nothing is asked of a server: it connects, or its socket refuses.
            let quiet = RedisConnectionInfo::default().set_skip_set_lib_name();
            let info = clients.resp2.get_connection_info().clone().set_redis_settings(quiet);
            let connected = Client::open(info).and_then(|client| client.get_connection());
            assert!(connected.is_ok(), "{seconds} s: {:?}", connected.err());
        }
    }
}
