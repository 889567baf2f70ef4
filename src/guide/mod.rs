//! The guide: how to use these locks in a service, page by page. It holds documentation only.
//!
//! The README is the five-minute version. Each page here answers one question, with code that is compiled and, where the
//! embedded store can show it, run.
//!
//! | page | read it when |
//! | --- | --- |
//! | [`first_steps`] | you write your first lock, or want to know why no server answers |
//! | [`owners`] | a function locks what its caller holds, or one task does several things at once |
//! | [`losing_a_lock`] | work must stop when its lock is gone |
//! | [`fencing`] | a late write would do harm |
//! | [`token_lock`] | services in Python, Go or Node use the same locks, or another process goes on with one |
//! | [`shutting_down`] | a process gets SIGTERM while it holds locks |
//! | [`once_an_hour`] | one of many replicas shall do a job, once a period |
//! | [`command_line`] | a crontab or a script needs a lock, or you look who holds one |
//! | [`two_locks`] | one piece of work needs two locks |
//! | [`several_locks`] | it shall have all of several locks, or none |
//! | [`dropped_requests`] | a section ends with a COMMIT, and its caller may go away |
//! | [`runtimes`] | you use actix-web, `#[tokio::test]`, a static, or several runtimes |
//! | [`testing`] | you test a service without a server |
//! | [`options`] | you choose timeouts, or wonder what may be set |
//! | [`errors`] | you handle an error |
//! | [`big_fleets`] | a hundred processes want one lock |
//! | [`operating`] | you run the server: rights, eviction, failover |
//! | [`deployments`] | there are sentinels, or you ask what a failover loses |
//! | [`red_lock`] | a lock shall outlive the loss of a server, by a majority of several |
//! | [`tracing`] | you want to see what happens |
//! | [`guarantees`] | you want to know what is promised, and what is not |
//! | [`redisson`] | Java services use the same locks, or you come from there |
//! | [`performance`] | you want figures |
//! | [`how_it_works`] | you want to know what is sent when |
//!
//! # Six words
//!
//! - A **process** is one [`Client`](crate::Client), wherever it lives. Two clients in one program are two processes to
//!   each other.
//! - An **owner** is who may take a lock again while holding it: usually the running task. See [`owners`].
//! - A **hold** is one lock in the hands of one owner, from the first acquisition to the last release. Taking the lock
//!   again inside adds to the same hold.
//! - A **lease** is how long the server keeps a hold for us without hearing from us. The **watchdog** renews it in the
//!   background, unless you ask for a fixed lease.
//! - A **slice** is how long one process may pass a lock around among its own tasks while other processes wait: 10 ms by
//!   default, but two round trips at least, and up to 500 ms while not all of those that wait come.

pub mod big_fleets;
pub mod command_line;
pub mod deployments;
pub mod dropped_requests;
pub mod errors;
pub mod fencing;
pub mod first_steps;
pub mod guarantees;
pub mod how_it_works;
pub mod losing_a_lock;
pub mod once_an_hour;
pub mod operating;
pub mod options;
pub mod owners;
pub mod performance;
pub mod red_lock;
pub mod redisson;
pub mod runtimes;
pub mod several_locks;
pub mod shutting_down;
pub mod testing;
pub mod token_lock;
pub mod tracing;
pub mod two_locks;
