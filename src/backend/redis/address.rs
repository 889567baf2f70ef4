//! Where servers are, as the user named them: a URL of any scheme, or the driver's own clients. Opens nothing.

mod misplaced;
mod url;

use std::{fmt, sync::Arc};

use redis::{Client, ConnectionAddr, ConnectionInfo};

use super::options::RespVersion;
use crate::error::Error;

/// Where the locks are.
#[derive(Clone, Debug)]
pub(crate) enum Address {
    /// In one server.
    Server(Target),
    /// In whichever server is the master of these sentinels.
    Sentinel(Sentinels),
    /// In the nodes that these ones know; there is at least one of them.
    Cluster(Vec<Target>),
}

/// Sentinels, and what they watch over.
#[derive(Clone, Debug)]
pub(crate) struct Sentinels {
    /// What they call their master.
    pub(super) master: Arc<str>,
    /// Those that are known from the start; there is at least one.
    pub(super) sentinels: Vec<Target>,
    /// How the master is spoken to, wherever it is: see [`Target::at`].
    pub(super) like: Target,
}

/// One server, and how it is spoken to.
#[derive(Clone)]
pub(crate) struct Target {
    pub(super) info: ConnectionInfo,
    /// What the URL asks for.
    pub(super) version: RespVersion,
    option: &'static str,
}

/// A client object of the user's, of which nothing is shown: a credential may stand in its address.
#[derive(Clone)]
pub(crate) struct Unshown(pub(crate) Client);

impl fmt::Debug for Unshown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

impl Address {
    /// From the driver's client for the one server.
    pub(crate) fn of_client(client: &Client) -> Result<Self, Error> {
        Target::of_client(client, "redis_client").shown().map(Self::Server)
    }

    /// From the driver's clients for some nodes of a cluster.
    pub(crate) fn of_nodes(clients: &[Client]) -> Result<Self, Error> {
        let nodes = Target::of_clients(clients, "cluster_nodes")?;
        nodes.iter().try_for_each(Target::is_of_a_cluster)?;
        Ok(Self::Cluster(nodes))
    }

    /// From the driver's clients for some sentinels of this master, which is spoken to as the first of them is.
    pub(crate) fn of_sentinels(master: &str, clients: &[Client]) -> Result<Self, Error> {
        let option = "sentinels";
        if master.is_empty() {
            return Err(Error::invalid(option, NO_MASTER));
        }
        let sentinels = Target::of_clients(clients, option)?;
        let like = sentinels[0].clone();
        let sentinels = sentinels.into_iter().map(Target::without_database).collect();
        Ok(Self::Sentinel(Sentinels { master: master.into(), sentinels, like }))
    }

    /// The same with another way to speak to the nodes that are found: as this client would.
    pub(crate) fn with_nodes_like(self, client: &Client) -> Result<Self, Error> {
        let option = "nodes_like";
        let like = Target::of_client(client, option).shown()?;
        match self {
            Self::Server(_) => Err(Error::invalid(option, "one server alone has no other nodes")),
            Self::Sentinel(_) | Self::Cluster(_) if like.host().is_none() => Err(Error::invalid(option, NO_SOCKET)),
            Self::Sentinel(sentinels) => Ok(Self::Sentinel(Sentinels { like, ..sentinels })),
            Self::Cluster(nodes) => {
                like.is_of_a_cluster()?;
                let at = nodes.iter().filter_map(Target::host).map(|(host, port)| like.at(host, port));
                Ok(Self::Cluster(at.collect()))
            }
        }
    }

    /// Which option named it.
    pub(crate) fn option(&self) -> &'static str {
        match self {
            Self::Server(target) => target.option,
            Self::Sentinel(Sentinels { sentinels: all, .. }) | Self::Cluster(all) => {
                all.first().map_or("url", |first| first.option)
            }
        }
    }
}

const NO_MASTER: &str = "what the sentinels call their master is missing, as in redis-sentinel://host/0#name";
const NO_SOCKET: &str = "a unix socket leads to one server alone";
const ONE_DATABASE: &str = "a cluster has its locks in database 0";

impl Target {
    /// From the driver's client: its address, TLS, credentials and database stay as they are. Of its TCP settings only
    /// the keepalive and a shorter user timeout are kept, since what was sent on a link must die with it.
    pub(super) fn of_client(client: &Client, option: &'static str) -> Self {
        Self { info: client.get_connection_info().clone(), version: RespVersion::Auto, option }
    }

    /// The same for some of a deployment with several, which therefore are reached by a host and a port.
    fn of_clients(clients: &[Client], option: &'static str) -> Result<Vec<Self>, Error> {
        let targets = clients.iter().map(|client| Self::of_client(client, option).shown());
        let targets = targets.collect::<Result<Vec<_>, _>>()?;
        match targets.iter().all(|target| target.host().is_some()) {
            _ if targets.is_empty() => Err(Error::invalid(option, "at least one is needed")),
            true => Ok(targets),
            false => Err(Error::invalid(option, NO_SOCKET)),
        }
    }

    /// The same, which may be shown: no credential stands in its address.
    fn shown(self) -> Result<Self, Error> {
        match misplaced::in_address(self.info.addr()) {
            None => Ok(self),
            Some(mistake) => Err(Error::invalid(self.option, mistake)),
        }
    }

    /// The same way to speak, to a server at another place.
    pub(super) fn at(&self, host: &str, port: u16) -> Self {
        let addr = match self.info.addr() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => ConnectionAddr::TcpTls {
                host: host.to_owned(),
                port,
                insecure: *insecure,
                tls_params: tls_params.clone(),
            },
            _ => ConnectionAddr::Tcp(host.to_owned(), port),
        };
        Self { info: self.info.clone().set_addr(addr), ..self.clone() }
    }

    /// Where it is; `None` for a unix socket.
    pub(super) fn host(&self) -> Option<(&str, u16)> {
        match self.info.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => Some((host, *port)),
            _ => None,
        }
    }

    /// A sentinel has none that could be chosen.
    fn without_database(self) -> Self {
        let redis = self.info.redis_settings().clone().set_db(0);
        Self { info: self.info.set_redis_settings(redis), ..self }
    }

    fn is_of_a_cluster(&self) -> Result<(), Error> {
        match self.info.redis_settings().db() {
            0 => Ok(()),
            _ => Err(Error::invalid(self.option, ONE_DATABASE)),
        }
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("addr", &self.info.addr().to_string()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::*;

    fn refusal(url: &str) -> String {
        Address::parse(url).map(|_| ()).unwrap_err().to_string()
    }

    fn server(url: &str) -> Target {
        match Address::parse(url).unwrap() {
            Address::Server(target) => target,
            other => panic!("{url}: {other:?}"),
        }
    }

    fn sentinels(url: &str) -> Sentinels {
        match Address::parse(url).unwrap() {
            Address::Sentinel(sentinels) => sentinels,
            other => panic!("{url}: {other:?}"),
        }
    }

    fn nodes(url: &str) -> Vec<Target> {
        match Address::parse(url).unwrap() {
            Address::Cluster(nodes) => nodes,
            other => panic!("{url}: {other:?}"),
        }
    }

    fn places(targets: &[Target]) -> Vec<String> {
        targets.iter().map(|target| target.info.addr().to_string()).collect()
    }

    /// User, password and database.
    fn settings(target: &Target) -> (Option<&str>, Option<&str>, i64) {
        let redis = target.info.redis_settings();
        (redis.username(), redis.password(), redis.db())
    }

    #[test]
    fn urls_name_a_server() {
        for url in
            ["redis://h", "redis://:pw@h:1/2", "valkey://u:pw@h", "redis+unix:///s,t?db=1", "unix:///s", "REDIS://h"]
        {
            server(url);
        }
        let target = server("redis://u:p,w@h:1/2");
        assert_eq!(target.host(), Some(("h", 1)));
        assert_eq!(settings(&target), (Some("u"), Some("p,w"), 2));
        assert_eq!(server("redis+unix:///s").host(), None);
    }

    #[test]
    fn urls_name_sentinels_and_what_they_call_their_master() {
        let all = sentinels("redis-sentinel://u:p%40w@h1,h2:7,[::1],[::2]:8/3#my%20master");
        assert_eq!(places(&all.sentinels), ["h1:26379", "h2:7", "::1:26379", "::2:8"]);
        assert_eq!(&*all.master, "my master");
        assert_eq!(settings(&all.like), (Some("u"), Some("p@w"), 3));
        assert!(all.sentinels.iter().all(|sentinel| settings(sentinel) == (None, None, 0)));
        let all = sentinels("VALKEY-Sentinel://h1?sentinel_username=a%26b&sentinel_password=c+d%25&protocol=resp2#m");
        assert_eq!(settings(&all.sentinels[0]), (Some("a&b"), Some("c+d%"), 0));
        assert_eq!(settings(&all.like), (None, None, 0));
        assert!(all.like.version == RespVersion::Resp2 && all.sentinels[0].version == RespVersion::Resp2);
    }

    #[test]
    fn urls_name_nodes_of_a_cluster() {
        assert_eq!(places(&nodes("redis-cluster://h1,h2:7,[::1]:8")), ["h1:6379", "h2:7", "::1:8"]);
        for node in nodes("valkey-cluster://u:p,w@h1,h2/0") {
            assert_eq!(settings(&node), (Some("u"), Some("p,w"), 0));
        }
    }

    #[test]
    fn another_place_is_spoken_to_in_the_same_way() {
        let target = server("redis://u:pw@h:1/2?protocol=2").at("::1", 7);
        assert_eq!((target.host(), settings(&target)), (Some(("::1", 7)), (Some("u"), Some("pw"), 2)));
        assert_eq!(target.version, RespVersion::Resp2);
    }

    #[test]
    fn what_is_not_served_is_named() {
        let rows = [
            ("http://h", "redis://"),
            ("redis-sentinels://h#m", "redis-sentinel://"),
            ("h:6379", "redis://"),
            ("redis://h/x", "database"),
            ("redis://h1,h2", "redis-cluster://"),
            ("redis-sentinel://h1/0", "master"),
            ("redis-sentinel://h1/0#", "master"),
            ("redis-sentinel://h1/x#m", "database"),
            ("redis-sentinel://h1?sentinel_pasword=x#m", "sentinel_password"),
            ("redis-sentinel://h1?sentinel_username=x#m", "sentinel_password"),
            ("redis-sentinel://h1?sentinel_tls=yes#m", "true or false"),
            ("redis-sentinel://h1#%ff", "UTF-8"),
            ("redis-sentinel://u:p@h1,u:p@h2#m", "before the first"),
            ("redis-cluster://h1,,h2", "empty"),
            ("redis-cluster://", "empty"),
            ("redis-cluster://h1,", "empty"),
            ("redis-cluster://h1,:7", "empty"),
            ("redis-cluster://h1:0", "65535"),
            ("redis-cluster://h1:65536", "65535"),
            ("redis-cluster://h1:7x,h2", "65535"),
            ("redis-cluster://::1", "brackets"),
            ("redis-cluster://h1/1", "database 0"),
            ("redis-cluster://h1/x", "database"),
            ("redis-cluster://h1?db=1", "protocol"),
            ("redis-cluster://h1?protocol=4", "protocol"),
            ("redis-cluster://h1#insecure", "rediss-cluster://"),
        ];
        for (url, named) in rows {
            assert!(refusal(url).contains(named), "{url}: {}", refusal(url));
        }
        assert!(refusal("redis+unix://").to_lowercase().contains("path"));
    }

    #[cfg(not(any(feature = "rustls", feature = "native-tls")))]
    #[test]
    fn tls_names_its_features() {
        for url in
            ["rediss://h", "rediss-cluster://h", "rediss-sentinel://h#m", "redis-sentinel://h?sentinel_tls=true#m"]
        {
            assert!(refusal(url).contains("rustls") && refusal(url).contains("native-tls"));
        }
    }

    #[cfg(any(feature = "rustls", feature = "native-tls"))]
    #[test]
    fn tls_is_served() {
        /// Whether it is TLS, and whether without a look at certificates.
        fn tls(target: &Target) -> Option<bool> {
            if let ConnectionAddr::TcpTls { insecure, .. } = target.info.addr() { Some(*insecure) } else { None }
        }
        assert_eq!(tls(&server("rediss://h")), Some(false));
        let rows = [
            ("redis-sentinel://h#m", None, None),
            ("redis-sentinel://h?sentinel_tls=true#m", None, Some(false)),
            ("rediss-sentinel://h?sentinel_tls=false#m", Some(false), None),
            ("rediss-sentinel://h#insecure", Some(false), Some(false)),
        ];
        for (url, master, sentinel) in rows {
            let all = sentinels(url);
            assert_eq!((tls(&all.like), tls(&all.sentinels[0])), (master, sentinel), "{url}");
        }
        assert_eq!(tls(&nodes("rediss-cluster://h")[0]), Some(false));
        let insecure = &nodes("valkeys-cluster://h/#insecure")[0];
        assert_eq!((tls(insecure), tls(&insecure.at("i", 1))), (Some(true), Some(true)));
    }

    #[test]
    fn a_password_is_in_no_message() {
        for url in [
            "redis://u:s3cret@",
            "redis://u:s3cret@h/x",
            "redis://u:s3cret@h:port",
            "redis://u:%ffs3cret@h",
            "redis://u:s3cret@h,i",
            "redis://:s3/cret@h#s3cret",
            "redis:s3cret@h",
            "s3cret://h",
            "redis+unix://?pass=s3cret",
            "redis+unix:///s?pass=s3cret&db=x",
            "redis-sentinel://:s3cret@h",
            "redis-sentinel://:s3cret@h:x#m",
            "redis-sentinel://:%ffs3cret@h#m",
            "redis-sentinel://:s3cret@h,:s3cret@i#m",
            "redis-sentinel://h?sentinel_username=s3cret#m",
            "redis-sentinel://h?sentinel_password=%ffs3cret#m",
            "redis-sentinel://h?sentinel_pasword=s3cret#m",
            "redis-sentinel://h?sentinel_password=s3@cret#m",
            "redis-sentinel://h?sentinel_password=s3&cret#m",
            "redis-sentinel://h?sentinel_tls=s3cret#m",
            "redis-cluster://:s3cret@h/1",
            "redis-cluster://:s3cret@h,,i",
            "redis-cluster://:s3/cret@h",
            "redis-cluster://:s3cret@h/?s3cret=1",
            "redis-cluster://:s3cret@h/#s3cret",
            "rediss://:s3cret@h/#x",
        ] {
            let error = Address::parse(url).expect_err(url);
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("s3cret") && !shown.contains("cret@"), "{url}: {shown}");
        }
        let urls = [
            "redis://u:s3cret@h",
            "redis-sentinel://u:s3cret@h?sentinel_username=s3cret&sentinel_password=s3cret#m",
            "redis-cluster://u:s3cret@h",
        ];
        for address in urls.map(|url| Address::parse(url).unwrap()) {
            assert!(!format!("{address:?}").contains("s3cret"));
        }
    }

    /// A credential in the place of an address would be shown with it.
    #[test]
    fn what_stands_in_an_address_and_is_none_is_named_and_not_shown() {
        let rows = [
            ("redis+unix:///s&pass=s3cret", "?user=name&pass=word"),
            ("redis+unix:///s;password=s3cret", "?user=name&pass=word"),
            ("redis+unix:///s%3Fpass%3Ds3cret", "?user=name&pass=word"),
            ("valkey+unix://ann:s3cret@/s", "?user=name&pass=word"),
            ("unix://:s3cret@localhost/s", "?user=name&pass=word"),
            ("redis+unix:///ann:s3cret@/s", "?user=name&pass=word"),
            ("redis://ann:17%40s3cret", "are not escaped"),
            ("redis://ann%3As3cret%40h", "are not escaped"),
            ("redis://s3cret%40h:1/0", "are not escaped"),
            ("redis://h%2F0%3Fpass%3Ds3cret", "are not escaped"),
            ("redis://h&password=s3cret", "are not escaped"),
            ("redis://h;s3cret", "are not escaped"),
            ("redis-cluster://h,s3cret%40i", "are not escaped"),
            ("redis-sentinel://h%3Fsentinel_password=s3cret#m", "are not escaped"),
            ("redis-sentinel://s3cret%40h,i#m", "are not escaped"),
            ("redis-sentinel://h#m?sentinel_password=s3cret", "before it"),
            ("redis-sentinel://h/0#m&sentinel_password=s3cret", "before it"),
        ];
        for (url, named) in rows {
            let error = Address::parse(url).map(|address| format!("{address:?}")).expect_err(url);
            let shown = format!("{error} {error:?}");
            assert!(shown.contains(named) && !shown.contains("s3cret"), "{url}: {shown}");
            let Ok(client) = Client::open(url) else { continue };
            let by_client = [
                Address::of_client(&client),
                Address::of_nodes(from_ref(&client)),
                Address::of_sentinels("m", from_ref(&client)),
                Address::of_nodes(&[Client::open("redis://h").unwrap()]).unwrap().with_nodes_like(&client),
            ];
            for address in by_client {
                // Who is known only by a parameter of a socket's URL, or by what comes before its host, is not shown.
                let shown = address.map_or_else(|error| format!("{error} {error:?}"), |address| format!("{address:?}"));
                assert!(!shown.contains("s3cret"), "{url}: {shown}");
            }
        }
        assert!(Address::of_client(&Client::open("redis+unix:///s&pass=s3cret").unwrap()).is_err());
        assert!(Address::of_client(&Client::open("redis://s3cret%40h").unwrap()).is_err());
        for url in ["redis://a-b_c.d.:7", "redis://[::1]:7", "redis+unix:///a%26b/c%3Dd?pass=s3=cr&et", "redis://h\n"] {
            server(url);
        }
        assert_eq!(&*sentinels("redis-sentinel://h#a%26b%3D").master, "a&b=");
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
            "redis-cluster://ann:s3/cret@h,i",
            "redis-cluster://ann:s3@cret@h,i",
            "redis-sentinel://ann:s3#cret@h#m",
            "redis-sentinel://h?sentinel_password=s3@cret#m",
        ] {
            let refusal = refusal(url);
            assert!(refusal.contains("%2F, %3F, %23, %40") && !refusal.contains("cret"), "{url}: {refusal}");
        }
        // One that cannot be misunderstood is not, and what is no credential need not be escaped.
        assert_eq!(settings(&server("redis://ann:s3@cret@h/0")).1, Some("s3@cret"));
        server("redis+unix:///run/ann@1000/s?pass=s3@cret");
        server("redis://ann:s3%2Fcre%23t@h/0");
    }

    #[test]
    fn clients_of_the_driver_name_what_urls_name() {
        let client = |url: &str| Client::open(url).unwrap();
        let address = Address::of_nodes(&[client("redis://u:pw@h1"), client("redis://h2")]).unwrap();
        let Address::Cluster(all) = address.clone() else { panic!("{address:?}") };
        assert_eq!((places(&all), address.option()), (vec!["h1:6379".into(), "h2:6379".into()], "cluster_nodes"));
        assert_eq!(settings(&all[0]), (Some("u"), Some("pw"), 0));
        let Address::Cluster(all) = address.with_nodes_like(&client("redis://v:wp@elsewhere")).unwrap() else {
            panic!()
        };
        assert_eq!(places(&all), ["h1:6379", "h2:6379"]);
        assert!(all.iter().all(|node| settings(node) == (Some("v"), Some("wp"), 0)));

        let address = Address::of_sentinels("m", &[client("redis://:pw@h1:7/2")]).unwrap();
        let Address::Sentinel(all) = address.clone() else { panic!("{address:?}") };
        assert_eq!((places(&all.sentinels), &*all.master, address.option()), (vec!["h1:7".into()], "m", "sentinels"));
        assert_eq!((settings(&all.sentinels[0]), settings(&all.like)), ((None, Some("pw"), 0), (None, Some("pw"), 2)));
        let address = address.with_nodes_like(&client("redis://u:wp@elsewhere/3")).unwrap();
        let Address::Sentinel(all) = address else { panic!("{address:?}") };
        assert_eq!(
            (settings(&all.sentinels[0]), settings(&all.like)),
            ((None, Some("pw"), 0), (Some("u"), Some("wp"), 3))
        );
    }

    #[test]
    fn clients_that_cannot_be_meant_are_refused_with_the_option_that_has_them() {
        let client = |url: &str| Client::open(url).unwrap();
        let (tcp, socket, other) = (client("redis://h"), client("redis+unix:///s"), client("redis://h/1"));
        let nodes = Address::of_nodes(from_ref(&tcp)).unwrap();
        let rows = [
            (Address::of_nodes(&[]), "cluster_nodes", "at least one"),
            (Address::of_nodes(&[tcp.clone(), socket.clone()]), "cluster_nodes", "unix socket"),
            (Address::of_nodes(&[tcp.clone(), other.clone()]), "cluster_nodes", "database 0"),
            (Address::of_sentinels("m", &[]), "sentinels", "at least one"),
            (Address::of_sentinels("", from_ref(&tcp)), "sentinels", "master"),
            (Address::of_sentinels("m", from_ref(&socket)), "sentinels", "unix socket"),
            (Address::of_client(&tcp).unwrap().with_nodes_like(&tcp), "nodes_like", "one server"),
            (nodes.clone().with_nodes_like(&socket), "nodes_like", "unix socket"),
            (nodes.with_nodes_like(&other), "nodes_like", "database 0"),
        ];
        for (address, option, why) in rows {
            let refusal = address.unwrap_err().to_string();
            assert!(refusal.contains(option) && refusal.contains(why), "{option}, {why}: {refusal}");
        }
    }
}
