//! Credentials that stand where an address is looked for: addresses are shown. What is wrong is named, and nothing of it
//! repeated.

use std::net::Ipv6Addr;

use redis::ConnectionAddr;

use super::url::Kind;

/// What must be said of a password in a URL.
pub(super) const ESCAPE: &str =
    "in a user's name and in a password \"/\", \"?\", \"#\" and \"@\" must be escaped: %2F, %3F, %23, %40";

const HOST: &str = "one of its hosts has a character that no host has; the \"@\" before the first host, and the \":\", \"/\" and \
                    \"?\" behind it, are not escaped";

const SOCKET: &str = "what a socket's path ends with is no path: its user and password are parameters, as in \
                      redis+unix:///path?user=name&pass=word, and \"&\" and \"=\" in a path are escaped: %26, %3D";

const FRAGMENT: &str = "nothing but what the sentinels call their master comes behind the \"#\": parameters come before it, \
                        and \"?\", \"&\" and \"=\" in that name are escaped: %3F, %26, %3D";

/// By what a path is known that was to be something else.
const PARAMETERS: [&str; 5] = ["pass=", "word=", "user=", "name=", "auth="];

/// What is wrong with a URL, by what comes behind its scheme.
pub(super) fn in_url(kind: Kind, rest: &str) -> Option<&'static str> {
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, behind) = rest.split_at(end);
    if is_misread(authority, behind) {
        return Some(ESCAPE);
    }
    let hosts = authority.rsplit_once('@').map_or(authority, |(_, hosts)| hosts);
    let path = behind.split(['?', '#']).next().unwrap_or_default();
    let fragment = behind.split_once('#').map_or("", |(_, fragment)| fragment);
    match kind {
        Kind::Socket => (authority.contains('@') || path.contains(['&', '='])).then_some(SOCKET),
        Kind::Sentinel if fragment.contains(['?', '&', '=']) => Some(FRAGMENT),
        Kind::Server | Kind::Sentinel | Kind::Cluster => (!hosts.chars().all(is_of_hosts)).then_some(HOST),
    }
}

/// What is wrong with an address, whoever read it from what.
pub(super) fn in_address(addr: &ConnectionAddr) -> Option<&'static str> {
    match addr {
        ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => (!is_host(host)).then_some(HOST),
        ConnectionAddr::Unix(path) => {
            let path = path.to_string_lossy().to_ascii_lowercase();
            let credentials = path.rsplit_once('@').is_some_and(|(credentials, _)| credentials.contains(':'));
            (credentials || PARAMETERS.iter().any(|word| path.contains(word))).then_some(SOCKET)
        }
        _ => None,
    }
}

/// Whether a part of the credentials stands where the address ends: nothing else there has an `@`. Some of these would
/// parse, with the password's beginning for a port.
fn is_misread(authority: &str, behind: &str) -> bool {
    // A socket's path may have one, its query may, and an end that is cut off by a `#` is nobody's wish.
    if authority.is_empty() { behind.contains('#') } else { behind.contains('@') }
}

/// Of a name, a number, or several with their ports; or what the driver takes out.
fn is_of_hosts(letter: char) -> bool {
    letter.is_alphanumeric() || letter <= ' ' || "-._:[],".contains(letter)
}

fn is_host(host: &str) -> bool {
    let address = host.split_once('%').map_or(host, |(address, _zone)| address);
    let is_of_name = |letter: char| letter.is_alphanumeric() || "-._".contains(letter);
    address.parse::<Ipv6Addr>().is_ok() || host.chars().all(is_of_name)
}
