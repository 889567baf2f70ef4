//! Locks in crontabs and shell scripts, and what operators ask of a server: the program `relatch`.
//!
//! ```text
//! cargo install relatch --features cli          # and ,rustls for rediss://
//! ```
//!
//! # Instead of `flock`
//!
//! Put the program's name there, and all machines with the same line and the same server share the lock:
//!
//! ```text
//! */5 * * * *  flock       -n     /var/lock/sync.lock  rsync -a /data backup:
//! */5 * * * *  relatch run -n -q  /var/lock/sync.lock  rsync -a /data backup:
//! ```
//!
//! Cron looks for programs in `/usr/bin` and `/bin` alone: write the path there, `~/.cargo/bin/relatch`, or a line `PATH=` above.
//! The address goes into a line `RELATCH_URL=`.
//!
//! The file's name is a name like any other, and no file. Options end at the name. Taken as `flock` has them: `-n`, `-w SECONDS`,
//! `-E STATUS`, `-x`, `-e`, `-o`, `-c STRING` after the name, and their long forms. A busy lock is status 75 rather than 1 (`-E 1` makes
//! it so), with a line unless there is `-q`. What has no counterpart (`-s`, `-u`, `-F`, a descriptor) is refused with a line that says
//! what to write.
//!
//! Unlike with `flock`, the lock ends with the command itself: what that leaves in the background goes on without it. If the command was
//! told to end, though (by INT, TERM, HUP or QUIT), the lock is held until all of its group is over, who may have been told as well and
//! tidy up: of `-c 'a && b'` the shell ends at once, and `a` later. After a second that is said, and two more signals end that wait.
//!
//! # Where the server is
//!
//! `--url`, or else `--url-file`, or else the variables `RELATCH_URL` and `RELATCH_URL_FILE`, or else `redis://127.0.0.1:6379`. All addresses
//! of [`deployments`](super::deployments) will do. What stands on a command line others can see: keep an address with a password in
//! a file. No message shows a password, nor what stands between `://` and `@` in a name. `--prefix` or `RELATCH_PREFIX` is the
//! [`name_prefix`](crate::ClientBuilder::name_prefix).
//!
//! # A command under a lock
//!
//! ```text
//! $ relatch run -w 10m --lease 20s nightly-backup -- backup.sh --all
//! ```
//!
//! It waits for ten minutes at most (without `-w` for ever, with `-n` not at all), runs the command, and frees the lock. Once it is
//! connected it waits on through an outage, too, and says so once; no server at the beginning is status 69. The lock is
//! the one of [`Client::mutex`](crate::Client::mutex), shared with services that use this crate, and with Redisson; with `--fenced` that
//! of [`Client::fenced_lock`](crate::Client::fenced_lock). It is renewed every third of `--lease`, 30 s unless it is said.
//!
//! The command has our input, output and errors (one that is closed is `/dev/null`), and its own process group, which is the terminal's
//! while it runs: Ctrl-C is the command's, and Ctrl-Z stops both of us. If Ctrl-C ends the command, it ends us in the same way, and so
//! the script or the loop around us; Ctrl-\ ends the command alone. In a pipeline, with another input and in the background of a
//! script the terminal stays where it is, until the command asks for it. INT, TERM, HUP, QUIT, USR1 and USR2 that we are sent go on to the group; whoever signals all processes of a
//! service reaches the command twice. What was ignored around us, as HUP is under `nohup`, stays ignored, but for PIPE, CHLD and CONT,
//! which do to a command what they usually do. When the command is over, the release has 10 s, and a second signal ends the wait for it.
//!
//! `relatch` asks the server for `RELATCH_HOLDER` before the command begins, for a quarter of the lease at most. Where that is not
//! enough, it says so, and the variable is not set. If the lock ended meanwhile, nothing is run, and the status is 76.
//!
//! | variable | what the command is told |
//! | --- | --- |
//! | `RELATCH_LOCK` | the name |
//! | `RELATCH_HOLDER` | who holds it, as `relatch force-unlock --holder` takes it |
//! | `RELATCH_FENCE` | with `--fenced` the token: greater than those of all holders before, see [`fencing`](super::fencing) |
//!
//! | status | of `run` and `once` |
//! | --- | --- |
//! | the command's | it was run; 128 and the signal's number, if a signal ended it |
//! | 75, or `-E` | of `run`: somebody else has the lock; `once` has 0 where it is not to be run |
//! | 76 | the lock, or the attempt, was lost, or about to be, and the command was ended for it |
//! | 69 | no server, or one that refuses |
//! | 64 | a wrong call |
//! | 127, 126 | there is no such command, or it cannot be run |
//! | 71 | the system gives no process, or takes no output (a full disk) |
//!
//! # When the lock is lost
//!
//! If the lock cannot be renewed, the command is told to stop (TERM to its group) `--grace` before the lock ends, 5 s or a third of the
//! lease (and half of it at most, whatever is asked for), and what is left of the group is killed just before the end. So it is over
//! before anybody else's command begins, by the deadline of [`expires_in`](crate::LockGuard::expires_in). Here the network was cut,
//! with a lease of 3 s and a grace of 1 s; the lock's key ended 2.96 s after that:
//!
//! ```text
//! relatch: lock "nightly-backup" ends in 1s: the command is told to stop      after 1.92 s
//! (the last sign of life of a command that ignores TERM)                      after 2.91 s
//! (the next machine's command begins)                                         after 2.98 s
//! ```
//!
//! - `--on-loss kill` leaves out TERM; `--on-loss ignore` lets the command go on, and its status is ours.
//! - `--max-hold` bounds how long the lock is held at all: the command is over by then, in the same way. With `--on-loss ignore` it would
//!   not be, so the two are refused together.
//! - A short lease is lost more easily: of 100 ms a busy machine loses many, since each renewal has a third of that.
//! - A lock that was taken away (deleted, forced, forgotten by a server that restarted) is noticed with the next renewal, within a third
//!   of the lease, or at the new link. Somebody else may be at work until then, and for the grace.
//!
//! What this does not reach:
//!
//! - A process that has left the command's group, or that the kernel cannot end: `setsid`, a daemon, what stands behind a `relatch run` of
//!   the command's, and `timeout` within a script, which makes a group of its own. Write `timeout --foreground 60 sync.sh` there, or
//!   rather `--max-hold 60s` in the place of `timeout`.
//! - `relatch` itself, if it is stopped (SIGSTOP): the command goes on, and is ended when `relatch` goes on. On a machine that was asleep
//!   both go on when it wakes, and the command may do a little more before it is ended. With Ctrl-Z both are stopped, and nobody
//!   renews; a command that stood still for longer than its lease is killed when it is to go on.
//! - If `relatch` is killed (SIGKILL), Linux kills the command at once, but not the processes that the command started; nor a command
//!   that changes its user (setuid). The lock is free within the lease. Elsewhere than on Linux the command goes on. A command that was
//!   in front leaves the terminal to nobody: a shell takes it back at its prompt, while a script that reads from it gets an error.
//!
//! Where a late write would do harm, use `RELATCH_FENCE`.
//!
//! # Once a period
//!
//! The [periodic job](super::once_an_hour), for cron. On every machine:
//!
//! ```text
//! 1 * * * *  relatch once --every 1h hourly-report report.sh
//! ```
//!
//! A period begins by the server's clock, and the line is for a minute after that: a machine whose clock is ahead of the server's would
//! ask in the period before. One that is up to 10 s ahead, or a quarter of a period if that is less, does not lose its turn at the full
//! hour either: whoever asks so shortly before a period does what may be left to do of the old one, and asks again when the new one begins.
//!
//! One of them runs it, and the others say why they do not, with status 0 (`-q`: without the line):
//!
//! ```text
//! relatch: job "hourly-report": not run, client 898c923f-145b-4a15-a0cc-8d4e45d82a00 is at it since 2026-11-30T01:06:59Z
//! relatch: job "hourly-report": not run, it was done at 2026-11-30T01:07:03Z by client 898c923f-145b-4a15-a0cc-8d4e45d82a00
//! ```
//!
//! Any status but 0 is a failure: whoever asks next tries again, `--attempts` times a period, 3 unless it is said. With `--stand-by` a machine
//! waits while another one is at it, and goes on where that fails or dies, until the period is over: the next one is for the next
//! call. One that is told to end (INT, TERM, HUP, QUIT), or whose command is ended so, begins nothing any more; the attempt has failed, and
//! another machine may go on. It asks again where the server does not answer, at the beginning,
//! too, until the period ends (by this machine's clock until a server has said), and says so once; without `--stand-by` that is status 69. `--offset` and `--start-within` are
//! those of the job. The command is told `RELATCH_JOB`, `RELATCH_PERIOD` (when the period began, as `2026-11-30T01:00:00Z`),
//! `RELATCH_PERIOD_MS` (the same in milliseconds since 1970), `RELATCH_ATTEMPT` and `RELATCH_FENCE`. When the attempt is lost, the
//! command ends as above; with `--on-loss ignore` it goes on, and may be done again, which is said. Where the system gives no process for
//! it, that is status 71, and the attempt is given back.
//!
//! # Who holds it
//!
//! ```text
//! $ relatch inspect nightly-backup hourly-report deploy
//! NAME            KIND   HOLDER                                  LABEL    COUNT  FREE IN         LISTENERS
//! nightly-backup  plain  cdcd81f8-3fe1-4749-8eae-b7557052ba26:2  vm:9626  1      29s             0
//! hourly-report   job    898c923f-145b-4a15-a0cc-8d4e45d82a00:2  vm:9627  1      29s, attempt 1  0
//! deploy          free   -                                       -        -      -               -
//! ```
//!
//! The label is that of the client's connections, host and process unless it has [another one](crate::ClientBuilder::label), where this
//! user may do `CLIENT LIST`. Listeners are the processes that wait. A key without a TTL says `never, it has no TTL`,
//! a job that nobody is at `now`, and how its last attempt ended. What cannot be looked at is a line on stderr and status 69, and the
//! rest is shown all the same. A name of more than 200 characters is cut; `--json` has all of it.
//! `--pattern 'invoice:*'` searches, a few keys at a time; a lock may be shown twice then. `--watch` draws the table anew every second,
//! lines that are too long for the terminal without their ends.
//!
//! A holder that is stuck is ended, and no other one: the status is 1 if it is not that one any more, and the line says who holds the
//! lock now, and who is at the job of its name. At a terminal `--yes` is asked for.
//!
//! ```text
//! $ relatch force-unlock nightly-backup --holder cdcd81f8-3fe1-4749-8eae-b7557052ba26:2 --yes
//! relatch: "nightly-backup": the hold cdcd81f8-3fe1-4749-8eae-b7557052ba26:2 is ended
//! ```
//!
//! # Whether a server is fit
//!
//! ```text
//! $ relatch doctor
//! ok      deployment.standalone: one server
//! ok      reachable.yes (127.0.0.1:7391): the server answers
//! ok      latency.low (127.0.0.1:7391): an answer takes 0.1 ms
//! ok      version.known (127.0.0.1:7391): Redis 7.0
//! ok      eviction.none (127.0.0.1:7391): maxmemory-policy is of the kind noeviction
//! warning persistence.none (127.0.0.1:7391): it keeps nothing on disk
//!         may happen: a restart forgets all locks while their holders go on working
//!         to do: let appendonly be yes
//! ok      replicas.alone (127.0.0.1:7391): it has no replicas
//! ok      scripts.run (127.0.0.1:7391): it runs scripts
//! ok      pubsub.allowed (127.0.0.1:7391): this user may listen to channels
//! ok      rights.all (127.0.0.1:7391): this user has all rights that locks need
//! ```
//!
//! The status is 0, 1 if the worst finding is a warning, 2 if it is an error, 69 if there is no server. `--scan` also looks for keys that look
//! like locks and have no TTL; where it may not, that is a finding as well. A job's record without one is a notice: it keeps nobody out.
//!
//! # For programs
//!
//! With `--json` both print an object a line. These fields stay, and others may be added; what is not known is `null`.
//!
//! | `inspect --json` | |
//! | --- | --- |
//! | `name` | without the prefix |
//! | `kind` | `plain`, `fenced`, `token`, `job`; `null` if nobody holds it |
//! | `held` | whether somebody holds it, or is at it |
//! | `holders` | of each: `id`, `client_id`, `hold`, `count`, `label` |
//! | `listeners` | how many processes wait |
//! | `ttl_ms` | until a lock is free by itself, `null` for never; of a job how long its record is kept, which says nothing of the attempt |
//! | `fence` | the newest token of a fenced lock |
//! | `job` | `period_ms`, `attempts`, `running` (`client_id`, `hold`, `since_ms`, `remaining_lease_ms`), `success` (`client_id`, `hold`, `at_ms`: when it was done), `last_success_ms`: when the last period that was done began |
//!
//! | `doctor --json` | |
//! | --- | --- |
//! | `severity` | `ok`, `notice`, `warning`, `error` |
//! | `subject`, `code` | what was looked at, and what was found, for programs |
//! | `server`, `key` | where, and with `--scan` which lock |
//! | `found`, `may_happen`, `to_do` | the same for people; these texts may change |
//!
//! # And
//!
//! Durations have a unit (`500ms`, `30s`, `1h`); only `-w` takes bare seconds. Colours are for a terminal, and not if `NO_COLOR` is
//! set. `relatch completions bash` prints what a shell needs to complete all this. `relatch COMMAND --help` has an example of each.
