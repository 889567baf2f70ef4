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
//! | `debug` | links that do not come, and renewals without an answer | `error` |
//! | `trace` | `renewed` | `lock`, `owner` |
//! | `info` | the server takes subscriptions that it refused before | – |
//! | `warn` | `lost` | `lock`, `owner`, `cause`, `held_ms` |
//! | `warn` | an acquisition is neither polled nor dropped: when its turn came, others who waited went first; once a name | `lock`, `owner` |
//! | `warn` | guards of one hold released out of order: branches that share an owner, most likely; once a name | `lock`, `owner` |
//! | `warn` | the system gives no thread, so that calls from other runtimes wait without a bound | `error` |
//! | `warn` | a link to the server is lost: once, until one is back that lasts for a second | `server`, `cause` |
//! | `info` | the server is back, after so long | `server`, `away_ms` |
//! | `warn` | the server may drop locks when its memory is full; once a client | `server`, `policy` |
//! | `warn` | polling instead of listening; once a client | – |
//! | `warn` | a release that was given up, a stray hold that was cleaned up | `lock`, and `error` or `hold` |
//!
//! Passwords are in no event and no error. Names of locks are, escaped and shortened.
