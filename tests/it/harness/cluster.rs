//! The nodes of a cluster: which of them has a name, by its own word, and what an operator does to them.

use std::time::{Duration, Instant};

use redis::Value;

use super::{deployment::Deployment, eventually, unique_name};

/// How long an operator waits for anything.
const LOOK: Duration = Duration::from_secs(20);

/// Of these the first three have the slots as they begin, and each of the others is the replica of one of them.
pub(crate) const NODES: [&str; 6] = ["node0", "node1", "node2", "node3", "node4", "node5"];
pub(crate) const MASTERS: [&str; 3] = ["node0", "node1", "node2"];

/// The first slots of the masters as they begin.
const FIRST: [u16; 3] = [0, 5461, 10_923];

/// The slot of a name without braces.
pub(crate) fn slot(name: &str) -> u16 {
    let crc = name.bytes().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 })
    });
    crc % 16_384
}

/// Which node has this name as they begin.
pub(crate) fn home(name: &str) -> &'static str {
    MASTERS[FIRST.iter().filter(|first| **first <= slot(name)).count() - 1]
}

/// A new name, which this node has as they begin.
pub(crate) fn name_on(node: &str) -> String {
    (0..).map(|_| unique_name()).find(|name| home(name) == node).expect("one in three")
}

/// A new name in this slot.
pub(crate) fn name_in(wanted: u16) -> String {
    let root = unique_name();
    (0_u32..).map(|n| format!("{root}:{n}")).find(|name| slot(name) == wanted).expect("one in 16384")
}

impl Deployment {
    pub(crate) fn id(&self, node: &str) -> String {
        self.ask(node, &["CLUSTER", "MYID"])
    }

    /// A slot goes from one node to another, with the keys that it has by then.
    pub(crate) fn migrate(&self, slot: u16, from: &str, to: &str) {
        self.begin_migration(slot, from, to);
        self.move_keys(slot, from, to);
        self.end_migration(slot, from, to);
    }

    /// New keys of the slot come to the other node from now on.
    pub(crate) fn begin_migration(&self, slot: u16, from: &str, to: &str) {
        let slot = slot.to_string();
        let () = self.ask(to, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &self.id(from)]);
        let () = self.ask(from, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &self.id(to)]);
    }

    pub(crate) fn move_keys(&self, slot: u16, from: &str, to: &str) {
        let (slot, port, host) = (slot.to_string(), self.port(to).to_string(), self.address(to));
        loop {
            let keys: Vec<String> = self.ask(from, &["CLUSTER", "GETKEYSINSLOT", &slot, "100"]);
            if keys.is_empty() {
                return;
            }
            for key in keys {
                let _: Value = self.ask(from, &["MIGRATE", host, &port, &key, "0", "5000"]);
            }
        }
    }

    pub(crate) fn end_migration(&self, slot: u16, from: &str, to: &str) {
        let (words, id) = (slot.to_string(), self.id(to));
        let () = self.ask(to, &["CLUSTER", "SETSLOT", &words, "NODE", &id]);
        let () = self.ask(from, &["CLUSTER", "SETSLOT", &words, "NODE", &id]);
        self.all_agree(slot, to);
    }

    /// Until all nodes have heard that this one has the slot: what is told too soon after that may be taken for older.
    pub(crate) fn all_agree(&self, slot: u16, owner: &str) {
        let port = self.port(owner);
        let agrees = |node: &&str| {
            let rows: Vec<Vec<Value>> = self.ask(node, &["CLUSTER", "SLOTS"]);
            rows.iter().any(|row| {
                let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = &row[..] else { return false };
                (*first..=*last).contains(&slot.into()) && master.get(1) == Some(&Value::Int(port.into()))
            })
        };
        eventually(LOOK, || NODES.iter().all(agrees));
    }

    /// Whether one node has another for a master with slots.
    pub(crate) fn has_slots(&self, asked: &str, node: &str) -> bool {
        let rows: Vec<Vec<Value>> = self.ask(asked, &["CLUSTER", "SLOTS"]);
        let port = Value::Int(self.port(node).into());
        rows.iter().any(|row| matches!(&row[..], [_, _, Value::Array(master), ..] if master.get(1) == Some(&port)))
    }

    /// The replica of this master, once it is in order.
    pub(crate) fn replica_of(&self, master: &str) -> &'static str {
        let (port, mut replica) = (i64::from(self.port(master)), None);
        eventually(LOOK, || {
            replica = NODES.into_iter().filter(|node| *node != master).find(|node| {
                let role = self.ask::<Vec<Value>>(node, &["ROLE"]);
                matches!(&role[..], [Value::BulkString(role), _, Value::Int(of), Value::BulkString(state), ..]
                    if role == b"slave" && state == b"connected" && *of == port)
            });
            replica.is_some()
        });
        replica.expect("it has a replica")
    }

    pub(crate) fn is_master(&self, node: &str) -> bool {
        let role = || redis::cmd("ROLE").query::<Vec<Value>>(&mut self.try_connection(node)?);
        // One that becomes a replica meanwhile ends the connections that it has, those that are being opened as well.
        let role = role().or_else(|_| role()).expect("the server answers");
        matches!(role.first(), Some(Value::BulkString(role)) if role == b"master")
    }

    /// The replica of a master takes its place, and the master agrees. Which one it is, and since when the master knows.
    pub(crate) fn hand_over(&self, master: &str) -> (&'static str, Instant) {
        let replica = self.replica_of(master);
        let () = self.ask(replica, &["CLUSTER", "FAILOVER"]);
        eventually(LOOK, || self.is_master(replica) && !self.is_master(master));
        (replica, Instant::now())
    }

    /// How often a node said that another one has what it was asked for.
    pub(crate) fn redirects(&self, node: &str) -> u64 {
        let info: String = self.ask(node, &["INFO", "errorstats"]);
        let told = info.lines().find_map(|line| line.strip_prefix("errorstat_MOVED:count="));
        told.map_or(0, |count| count.trim().parse().expect("a number"))
    }

    /// How many listen to this channel of this name where the name is.
    pub(crate) fn listeners_on(&self, node: &str, channel: &str, sharded: bool) -> u64 {
        let asked = if sharded { "SHARDNUMSUB" } else { "NUMSUB" };
        self.ask::<(String, u64)>(node, &["PUBSUB", asked, channel]).1
    }
}
