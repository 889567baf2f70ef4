//! Where a server is and how a link to it is set up: from a URL or from the driver's own client. Opens nothing.

use std::{fmt, time::Duration};

use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion,
    io::tcp::{TcpSettings, socket2::TcpKeepalive},
};

use super::secrets::Secrets;
use crate::error::Error;

/// Commands that may stand in a link's send queue. Callers past it wait their turn, within their deadlines.
const QUEUE: usize = 16 * 1024;

/// The longest time that a socket takes between two signs of life, in whole seconds.
const LONGEST_KEEPALIVE: Duration = Duration::from_secs(32_767);

/// The longest time that a socket lets something stand unacknowledged, in milliseconds.
#[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
const LONGEST_USER_TIMEOUT: Duration = Duration::from_millis(0x7fff_ffff);

/// What must be said of a password in a URL.
const ESCAPE: &str =
    "in a user's name and in a password \"/\", \"?\", \"#\" and \"@\" must be escaped: %2F, %3F, %23, %40";

/// How a backend behaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options<'a> {
    pub(crate) command_timeout: Duration,
    pub(crate) version: RespVersion,
    /// Asked for when connecting, and never there: a proxy that routes commands by their keys must know where to.
    pub(crate) probe_key: &'a str,
}

/// Which version of the server's protocol the link for commands speaks.
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

/// One server, as the user named it.
#[derive(Clone)]
pub(crate) struct Target {
    info: ConnectionInfo,
    /// What the URL asks for.
    version: RespVersion,
    option: &'static str,
}

impl Target {
    /// From a URL. No message repeats any part of it: it may hold a password.
    pub(crate) fn parse(url: &str) -> Result<Self, Error> {
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(invalid("it has no scheme such as redis://"));
        };
        match scheme.to_ascii_lowercase().as_str() {
            "redis" | "valkey" | "redis+unix" | "valkey+unix" | "unix" => {}
            "rediss" | "valkeys" if cfg!(any(feature = "rustls", feature = "native-tls")) => {}
            "rediss" | "valkeys" => {
                return Err(invalid("TLS needs one of the features \"rustls\" and \"native-tls\""));
            }
            "redis-sentinel" => {
                return Err(invalid("the feature \"sentinel\" is not in this version"));
            }
            "redis-cluster" => {
                return Err(invalid("the feature \"cluster\" is not in this version"));
            }
            _ => {
                return Err(invalid("its scheme is none of redis://, rediss:// and redis+unix://"));
            }
        }
        if is_misread(rest) {
            return Err(invalid(ESCAPE));
        }
        let info = url.into_connection_info().map_err(|error| match rest.contains('@') {
            true => invalid(format!("{}; {ESCAPE}", reason(&error))),
            false => invalid(reason(&error)),
        })?;
        let redis = info.redis_settings().clone().set_lib_name(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
        let version = if asks_for_resp2(url) { RespVersion::Resp2 } else { RespVersion::Auto };
        Ok(Self { info: info.set_redis_settings(redis), version, option: "url" })
    }

    /// From the driver's client: its address, TLS, credentials and database stay as they are. Of its TCP settings only
    /// the keepalive and a shorter user timeout are kept, since what was sent on a link must die with it.
    pub(crate) fn from_client(client: &Client) -> Self {
        let info = client.get_connection_info().clone();
        Self { info, version: RespVersion::Auto, option: "redis_client" }
    }

    /// Which option named it.
    pub(crate) fn option(&self) -> &'static str {
        self.option
    }

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
        Ok(Clients {
            resp2: speaking(ProtocolVersion::RESP2)?,
            resp3: (version != RespVersion::Resp2).then(|| speaking(ProtocolVersion::RESP3)).transpose()?,
            falls_back: version != RespVersion::Resp3,
            secrets: Secrets::of(info.redis_settings()),
        })
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("addr", &self.info.addr().to_string()).finish_non_exhaustive()
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
    pub(super) secrets: Secrets,
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

/// Whether a part of the credentials stands where the address ends: nothing else there has an `@`. Some of these would
/// parse, with the password's beginning for a port.
fn is_misread(rest: &str) -> bool {
    let authority = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    // A socket's path may have one, its query may, and an end that is cut off by a `#` is nobody's wish.
    if authority == 0 { rest.contains('#') } else { rest[authority..].contains('@') }
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

fn invalid(why: impl Into<std::sync::Arc<str>>) -> Error {
    Error::invalid("url", why)
}

#[cfg(test)]
mod tests {
    use redis::RedisConnectionInfo;

    use super::*;
    use crate::backend::redis::testing::options;

    fn refusal(url: &str) -> String {
        Target::parse(url).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn urls_name_a_server() {
        for url in
            ["redis://h", "redis://:pw@h:1/2", "valkey://u:pw@h", "redis+unix:///s?db=1", "unix:///s", "REDIS://h"]
        {
            assert!(Target::parse(url).is_ok(), "{url}");
        }
        let target = Target::parse("redis://u:pw@h:1/2").unwrap();
        assert!(matches!(target.info.addr(), ConnectionAddr::Tcp(host, 1) if host == "h"));
        assert_eq!(target.info.redis_settings().db(), 2);
    }

    #[test]
    fn what_is_not_served_is_named() {
        assert!(refusal("redis-sentinel://a,b/0#m").contains("sentinel"));
        assert!(refusal("redis-cluster://a,b").contains("cluster"));
        assert!(refusal("http://h").contains("redis://"));
        assert!(refusal("h:6379").contains("redis://"));
        assert!(refusal("redis://h/x").contains("database"));
        assert!(refusal("redis+unix://").to_lowercase().contains("path"));
    }

    #[cfg(not(any(feature = "rustls", feature = "native-tls")))]
    #[test]
    fn tls_names_its_features() {
        let refusal = refusal("rediss://h");
        assert!(refusal.contains("rustls") && refusal.contains("native-tls"));
    }

    #[cfg(any(feature = "rustls", feature = "native-tls"))]
    #[test]
    fn tls_is_served() {
        assert!(Target::parse("rediss://h").is_ok());
    }

    #[test]
    fn a_password_is_in_no_message() {
        for url in [
            "redis://u:s3cret@",
            "redis://u:s3cret@h/x",
            "redis://u:s3cret@h:port",
            "redis://u:%ffs3cret@h",
            "redis://:s3/cret@h#s3cret",
            "redis:s3cret@h",
            "s3cret://h",
            "redis+unix://?pass=s3cret",
            "redis+unix:///s?pass=s3cret&db=x",
            "redis-sentinel://:s3cret@h",
            "rediss://:s3cret@h/#x",
        ] {
            if let Err(error) = Target::parse(url) {
                let shown = format!("{error} {error:?}");
                assert!(!shown.contains("s3cret") && !shown.contains("cret@"), "{url}: {shown}");
            }
        }
        let target = Target::parse("redis://u:s3cret@h").unwrap();
        assert!(!format!("{target:?}").contains("s3cret"));
    }

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
        for target in [Target::from_client(&own), Target::parse("redis://h/?protocol=resp2").unwrap()] {
            let speaking = |version| target.clients(Options { version, ..options(3000) }).unwrap();
            assert!(speaking(RespVersion::Resp2).resp3.is_none());
            let strict = speaking(RespVersion::Resp3);
            assert!(strict.resp3.is_some() && !strict.falls_back);
        }
    }

    #[test]
    fn what_must_be_escaped_and_is_not_is_named() {
        for url in [
            "redis://:s3/cret@h",
            "redis://ann:s3cret/a@h/0",
            "redis://ann:17/cret@h",
            "redis://ann:17?cret@h/0",
            "redis://ann:17#cret@h/0",
            "redis://ann:s3@c/ret@h/0",
            "redis://ann:@s3:cret@h:x",
            "redis+unix:///s?user=ann&pass=s3#cret",
        ] {
            let refusal = refusal(url);
            assert!(refusal.contains("%2F, %3F, %23, %40") && !refusal.contains("cret"), "{url}: {refusal}");
        }
        // One that cannot be misunderstood is not, and what is no credential need not be escaped.
        let target = Target::parse("redis://ann:s3@cret@h/0").unwrap();
        assert_eq!(target.info.redis_settings().password(), Some("s3@cret"));
        assert!(Target::parse("redis+unix:///run/ann@1000/s?pass=s3@cret").is_ok());
        assert!(Target::parse("redis://ann:s3%2Fcre%23t@h/0").is_ok());
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
