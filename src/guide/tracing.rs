//! What the library tells `tracing`.
//!
//! Events go to [`tracing`](https://docs.rs/tracing). On a good path nothing is above `debug`, so a service can leave `info` on.
//!
//! | level | what | fields |
//! | --- | --- | --- |
//! | `debug` | span `acquire`, around each acquisition | `lock`, `owner` |
//! | `debug` | `acquired` | `lock`, `owner`, `waited_ms` |
//! | `debug` | `contended`, once an acquisition that finds somebody else | `lock`, `owner` |
//! | `debug` | `nested`: the owner entered again | `lock`, `owner`, `holds` |
//! | `debug` | `released` | `lock`, `owner`, `held_ms` |
//! | `debug` | `forced release` | `lock`, `freed` |
//! | `debug` | `its lease is over`: a detached hold ended with its fixed lease, as it was meant to | `lock`, `owner`, `held_ms` |
//! | `debug` | links that do not come or are over, and renewals without an answer | `error`, `cause` |
//! | `debug` | `the server denies INFO: nobody notices that it drops locks when it is full`, once a client | `server`, `error` |
//! | `trace` | `renewed` | `lock`, `owner` |
//!
//! # Warnings, and what ends them
//!
//! Every event above `debug`, with its whole message, to search a log for. *Once a* says for what it is told once, however often
//! it happens; where there is nothing in it, it is told each time.
//!
//! | level | message | when, and what to do | once a | fields |
//! | --- | --- | --- | --- | --- |
//! | `warn` | `lost` | a hold ended before its holder was done: [`losing_a_lock`](super::losing_a_lock) | | `lock`, `owner`, `cause`, `held_ms` |
//! | `warn` | `guards are dropped at once, again and again: the guard is the lock; keep it for as long as the work takes` | `try_lock().await?.is_some()`, or `let _ =` in front of an acquisition: bind the guard | name | `lock`, `owner` |
//! | `warn` | `the task that waits for this mutex took it: if it still has the guard, it waits for itself for ever; use that guard, or client.lock, which its own task may take again` | after a second of waiting | name | `lock`, `owner` |
//! | `warn` | `owners of these locks wait for one another, it seems for ever: take locks in one order everywhere, or wait with a bound` | they are tasks of one client, and it looks every 10 s: [`two_locks`](super::two_locks) | circle | `locks` |
//! | `warn` | `an inner guard outlives an outer one: branches of one task share their owner's hold; see client.mutex` | guards of one hold are released out of order: [`owners`](super::owners) | name | `lock`, `owner` |
//! | `warn` | `an even number of masters bears no more failures than one less` | take one more, or one less: see [`red_lock`](super::red_lock) | `RedLock` | `masters` |
//! | `warn` | `a master refuses INFO: each new connection to it counts as a restart, after which it grants nothing for the restart_quarantine` | allow `INFO`: see [`red_lock`](super::red_lock) | `RedLock` and master | `master` |
//! | `warn` | `an acquisition is neither polled nor dropped: when its turn came others waited, and now go first` | await it, drop it, or spawn it | name | `lock`, `owner` |
//! | `warn` | `a key that somebody left without a TTL was given one` | find who takes the lock by two commands, `SETNX` and `EXPIRE`: [`token_lock`](super::token_lock#keys-without-a-ttl) | key | `lock`, `ttl_ms` |
//! | `warn` | `a periodic job could not be asked for` | of a schedule: it asks again; nothing was begun | | `job`, `error` |
//! | `warn` | `an attempt at a periodic job failed` | of a schedule: another one follows where any is left. What the work said is for the work to log: [`once_an_hour`](super::once_an_hour) | | `job`, `attempt` |
//! | `warn` | `an attempt at a periodic job was lost` | the same | | `job`, `attempt`, `error` |
//! | `warn` | `a periodic job was given up for this period` | of a schedule: its attempts are spent, or it is too late to begin. Every process says so | | `job` |
//! | `warn` | `a periodic job was done, and may be done again` | of a schedule: its success was not answered | | `job`, `error` |
//! | `warn` | `a lease is shorter than four round trips to the server` | take a longer one | client | `lock`, `lease_ms`, `round_trip_ms` |
//! | `warn` | `a release was given up: its lease ends the hold` | no answer, or a refusal, for as long as the hold may last | | `lock`, `error` |
//! | `warn` | `released a hold that an old copy of a command left` | nothing to do | | `lock`, `hold` |
//! | `warn` | `the link to the server is lost; connecting again until it is back` | until a link is back that lasts for a second | outage | `server`, `cause` |
//! | `warn` | `the link for subscriptions is lost; waiting for locks by polling until it is back` | the same, where the link for commands is well; if that is lost later, it is said, too | outage | `server`, `cause` |
//! | `info` | `the server is back` | the end of that, and of the other where both links are back | outage | `server`, `away_ms` |
//! | `info` | `other nodes have what the server had; it is not waited for any more` | the end of that on a cluster, after a failover | outage | `server` |
//! | `info` | `the link for subscriptions is back` | the end of that where the server was there | outage | `server`, `away_ms` |
//! | `warn` | `no second link to the server, on which replicas are waited for: no lock is granted until there is one` | the server, or something in the way, takes no more connections; where no link can be opened, that is said instead | outage | `server`, `error` |
//! | `info` | `the second link to the server is there again` | the end of that | outage | `server`, `away_ms` |
//! | `info` | `the sentinels have another server for the master` | a failover: [`deployments`](super::deployments) | | `master`, `at` |
//! | `warn` | `no sentinel answers; the master is followed again when one does` | locks go on at the server that was the master | outage | `master` |
//! | `info` | `a sentinel answers again` | the end of that | outage | `master` |
//! | `warn` | `not all nodes of the cluster know sharded channels: releases are told to all nodes` | have all nodes of one version, and restart the clients then | client | `known`, `unknown` |
//! | `warn` | `all nodes of the cluster know sharded channels by now: clients that connect from now on use them, and hear nothing from those that connected before, such as this one, which should be restarted` | restart all clients | client | |
//! | `warn` | `a node of the cluster is older than sharded channels, which this client uses since it was not told so when it connected: clients that connect now hear nothing of its releases, which fail at that node; restart this client` | the node did not answer when the client connected, or came later | client | `server` |
//! | `warn` | `a sentinel does not tell of failovers by itself; it is asked each second` | grant it `+subscribe` and its channels | client | `sentinel`, `error` |
//! | `warn` | `that server cannot be spoken to` | what the sentinels name is no address for the driver | | `error` |
//! | `warn` | `the server refuses subscriptions: waiting for locks by polling` | grant the channel: [`operating`](super::operating) | client | – |
//! | `warn` | `the server denies a right to a channel` | which one, says `error`; the channel's own right is missing where it names no command: [`operating`](super::operating#rights) | client | `channel`, `error` |
//! | `warn` | `the server runs no scripts: token locks do without, and all others are refused` | said at connect: [`token_lock`](super::token_lock#servers-without-eval) | client | `server` |
//! | `warn` | `the server refuses to publish releases: whoever waits for a lock elsewhere finds it free only by looking again` | grant `+publish`, or `+spublish` on a cluster, and the channel: [`operating`](super::operating#rights) | client | – |
//! | `info` | `the server takes subscriptions that it refused before` | the end of that | | – |
//! | `warn` | `a full server drops locks that are held: their keys have a TTL; set maxmemory-policy to noeviction` | said at connect, of a `volatile-*` or `allkeys-*` policy | client | `server`, `policy` |
//! | `warn` | `no thread: calls from elsewhere wait for the client's own runtime without a bound` | the system gives no thread | | `error` |
//!
//! Passwords are in no event and no error. Names of locks are, escaped and shortened.
