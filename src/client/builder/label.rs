//! What connections are called, so that an operator knows whose they are. It opens none.

use std::process;

use uuid::Uuid;

use crate::{
    error::{Error, Result},
    name::Shown,
};

/// In bytes. A server takes far more, which nobody wants to read.
const LONGEST: usize = 64;

/// The longest part of a host's name that stands in the label by default: room is left for the process's id.
const LONGEST_HOST: usize = 50;

/// The label that was given, if a server takes it, or the one by default.
pub(super) fn checked(given: Option<Box<str>>) -> Result<Box<str>> {
    let Some(label) = given else { return Ok(by_default(&host())) };
    match label.len() {
        1..=LONGEST if label.bytes().all(is_taken) => Ok(label),
        _ => {
            Err(Error::invalid("label", format!("must be 1 to {LONGEST} characters from ! to ~, is {}", Shown(&label))))
        }
    }
}

/// How the connections of this client are called.
pub(super) fn of_connections(label: &str, client: Uuid) -> String {
    format!("relatch:{label}:{client}")
}

fn by_default(host: &str) -> Box<str> {
    let host = host.bytes().take(LONGEST_HOST).map(|byte| if is_taken(byte) { char::from(byte) } else { '-' });
    format!("{}:{}", host.collect::<String>(), process::id()).into()
}

/// Whether a server takes it in a name.
fn is_taken(byte: u8) -> bool {
    byte.is_ascii_graphic()
}

#[cfg(target_os = "linux")]
fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(not(target_os = "linux"))]
fn host() -> String {
    ["HOSTNAME", "COMPUTERNAME"].into_iter().find_map(|name| std::env::var(name).ok()).unwrap_or_else(|| "host".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_of_any_name_gives_a_label_that_is_taken() {
        for host in [host(), String::new(), "a b\nc\u{e9}".into(), "h".repeat(300)] {
            let label = by_default(&host);
            assert_eq!(checked(Some(label.clone())).expect("it is taken"), label);
        }
    }
}
