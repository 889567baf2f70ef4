//! Several servers that belong together, started by `tests/servers.sh`, on the CPU that is left to servers. Gone when this is
//! dropped or the process ends.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader},
    process::{Child, ChildStdin, Command, Stdio},
};

use crate::{Result, server::move_over};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers.sh");

/// All servers share one CPU: none of them is to be taken for a dead one meanwhile.
const PATIENCE_MS: &str = "20000";

pub(crate) struct Deployment {
    script: Child,
    orders: Option<ChildStdin>,
    said: HashMap<String, String>,
}

impl Deployment {
    /// `kind` is one that the script knows.
    pub(crate) fn start(kind: &str) -> Result<Self> {
        let mut command = Command::new(SCRIPT);
        command.args([kind, "redis70"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut script =
            command.env("DOWN_AFTER", PATIENCE_MS).env("NODE_TIMEOUT", PATIENCE_MS).env("TLS", "0").spawn()?;
        let orders = script.stdin.take();
        let output = script.stdout.take().ok_or("the script has no output")?;
        let mut deployment = Self { script, orders, said: HashMap::new() };
        for line in BufReader::new(output).lines() {
            let line = line?;
            if line == "ready" {
                let mut pids = deployment.said.iter().filter(|(what, _)| what.starts_with("PID_"));
                pids.try_for_each(|(_, pid)| move_over(pid))?;
                return Ok(deployment);
            }
            let (what, value) = line.split_once('=').ok_or_else(|| format!("the script says {line:?}"))?;
            deployment.said.insert(what.to_owned(), value.to_owned());
        }
        Err(format!("{SCRIPT} {kind} does not start").into())
    }

    /// Where one of its servers is.
    pub(crate) fn url(&self, name: &str) -> String {
        format!("redis://127.0.0.1:{}/", self.said(&format!("PORT_{name}")))
    }

    /// Where all of these are, as a list in an address.
    pub(crate) fn all(&self, what: &str) -> String {
        self.said(what).replace(' ', ",")
    }

    fn said(&self, what: &str) -> &str {
        self.said.get(what).map_or("", String::as_str)
    }
}

impl Drop for Deployment {
    fn drop(&mut self) {
        // The end of its input tells the script.
        drop(self.orders.take());
        let _ = self.script.wait();
    }
}
