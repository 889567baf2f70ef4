//! The client of a call: from what was said about the server.

use std::env;

use relatch::{Client, ClientBuilder};

use crate::{
    Failure,
    address::{self, Given},
    args::Server,
};

/// The options that all commands have.
pub(crate) fn builder(server: &Server) -> Result<ClientBuilder, Failure> {
    let given = Given { url: server.url.clone(), file: server.url_file.clone() };
    let url = address::find(given, |name| env::var_os(name)).map_err(Failure::misuse)?;
    let prefix = match &server.prefix {
        Some(prefix) => prefix.clone(),
        None => match env::var_os("RELATCH_PREFIX").map(|prefix| prefix.into_string()) {
            None => String::new(),
            Some(Ok(prefix)) => prefix,
            Some(Err(_)) => return Err(Failure::misuse("RELATCH_PREFIX is no text in UTF-8")),
        },
    };
    Ok(Client::builder().url(url).name_prefix(prefix))
}
