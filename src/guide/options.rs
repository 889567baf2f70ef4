//! Everything that can be set, with defaults and bounds.
//!
//! # Of a client
//!
//! By [`Client::builder()`](crate::Client::builder):
//!
//! | option | default | bounds | what it is |
//! | --- | --- | --- | --- |
//! | `url`, or `redis_client` | – | `redis://`, `redis+unix://`, `redis-sentinel://`, `redis-cluster://`, with TLS `rediss://`, `rediss-sentinel://`, `rediss-cluster://` | where the server is; or the driver's own client object, with its TLS and credentials |
//! | `sentinels` | – | one or more | where sentinels are, as the driver's client objects, and what they call their master: [`deployments`](super::deployments) |
//! | `cluster_nodes` | – | one or more | where some nodes of a cluster are, as the driver's client objects |
//! | `nodes_like` | the first of them | – | how the servers that are found are spoken to, as a client object |
//! | `label` | `host:pid` | 1 to 64 characters from `!` to `~` | how an operator knows this client's connections: `relatch:LABEL:CLIENT` in `CLIENT LIST` |
//! | `protocol` | the newest | RESP2, RESP3 | which protocol is spoken; goes before the URL's `?protocol=` |
//! | `sharded_pubsub` | `Auto` | `Auto`, `On`, `Off` | whether a cluster tells of releases over sharded channels; all its clients must do the same: [`deployments`](super::deployments#cluster) |
//! | `embedded` (feature) | – | – | a store in this process instead; of several targets the last one counts |
//! | `watchdog_timeout` | 30 s | 100 ms to 365 days | the lease of a hold that is renewed, and how long the locks of a dead process stay |
//! | `command_timeout` | 3 s | 1 ms to 365 days | how long one command may take |
//! | `unreachable_after` | 9 s | 1 ms to 365 days | how long `lock()` puts up with a server that does not answer |
//! | `handover_slice` | 10 ms | 0 to 60 s | how long a process may keep a lock among its own tasks while others wait; two round trips at least, and up to 500 ms while not all of them come; zero: not at all |
//! | `replica_acks` | none | 1 to 100 replicas, within 1 ms to half of `watchdog_timeout` | how many replicas are to know of a lock before anybody has it: [`deployments`](super::deployments#acknowledged-by-replicas) |
//! | `own_thread` | off | – | the client lives on a thread and a runtime of its own: see [`runtimes`](super::runtimes) |
//! | `name_prefix` | empty | – | put before every name; Redisson's name mapper |
//!
//! In a URL, `/`, `?`, `#`, `@` and `%` of a password must be percent-encoded.
//!
//! # Of an acquisition
//!
//! On `lock()` and `try_lock()`:
//!
//! | option | default | bounds | what it is |
//! | --- | --- | --- | --- |
//! | `lease` | `Lease::Watchdog` | 10 ms to 365 days | how long the hold lasts; a fixed one is not renewed |
//! | `wait` (`try_lock` only) | none | any; `Duration::MAX` is for ever | how long to wait until it is free |
//! | `max_hold` | none | 10 ms to 365 days | when the hold ends, renewals and all |
//! | `owner` (not on a mutex) | the current one | – | who acquires |
//!
//! Every duration is rounded up to a whole millisecond. What is out of bounds is refused before anything is sent. Names are
//! 1 to 65536 bytes, and compared byte by byte.
//!
//! # Cargo features
//!
//! None is on by default.
//!
//! | feature | what it does |
//! | --- | --- |
//! | `rustls` | `rediss://` by rustls, with the roots of webpki |
//! | `native-tls` | `rediss://` by the system's TLS |
//! | `embedded` | `Client::embedded()` and `EmbeddedStore`: no server, for tests and for trying it out; needs a C compiler, and excludes another version of Lua in the same program |
//! | `sentinel`, `cluster` | empty names: sentinels and clusters are always served |
//! | `cli` | a reserved name; it switches nothing on in this version |
