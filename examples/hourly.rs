//! The job of an hour as a fleet in another language may have it: one key for each hour, `job:2026112914`, taken for ten minutes, kept for
//! two hours once the work is done, and freed where it failed. Whoever else writes that key shares the job. `client.periodic_job` does
//! more, with a record of its own: see the guide's page `once_an_hour`.

use std::{
    env,
    error::Error,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use relatch::{
    Client, Token, Uuid,
    redis::{self, AsyncCommands, aio::MultiplexedConnection},
};

/// Longer than the work takes, and as long as one that died of it keeps the others waiting.
const WORK: Duration = Duration::from_secs(10 * 60);
/// Until nobody is still about to ask for this hour.
const DONE: Duration = Duration::from_secs(2 * 3600);
/// So many of all replicas try.
const ATTEMPTS: u32 = 3;

enum Hour {
    Done(Token),
    Failed,
    SomebodyElses,
    GivenUp,
}

/// A node: its locks, and the counter, which is no lock's business.
struct Node {
    client: Client,
    counter: MultiplexedConnection,
}

impl Node {
    async fn hourly(&mut self, hour: &str, work: impl Future<Output = bool>) -> Result<Hour, Box<dyn Error>> {
        let lock = self.client.token_lock(format!("job:{hour}"));
        let Some(guard) = lock.try_lock().lease(WORK).await? else { return Ok(Hour::SomebodyElses) };
        // Under the lock, so that nobody counts at the same time.
        let (attempt, _): (u32, bool) = redis::pipe()
            .incr(attempts(hour), 1)
            .expire(attempts(hour), DONE.as_secs().try_into()?)
            .query_async(&mut self.counter)
            .await?;
        if attempt > ATTEMPTS {
            guard.unlock().await?;
            return Ok(Hour::GivenUp);
        }
        if !guard.protect(work).await? {
            guard.unlock().await?; // the next one may try at once
            return Ok(Hour::Failed);
        }
        guard.extend(DONE).await?;
        // From here on nobody frees it: the key says that the hour's work is done.
        let token = guard.into_token().map_err(|guard| format!("lost meanwhile: {guard:?}"))?;
        Ok(Hour::Done(token))
    }
}

fn attempts(hour: &str) -> String {
    format!("job:{hour}:attempts")
}

/// The hour as the key has it, of UTC by this machine's clock: two that are in different hours have different keys.
fn hour_of(time: SystemTime) -> Result<String, Box<dyn Error>> {
    let hours = i64::try_from(time.duration_since(UNIX_EPOCH)?.as_secs() / 3600)?;
    // Days of an era of 400 years that begins in March, so that a leap day comes last.
    let days = hours / 24 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month, wraps) = (day - (153 * month + 2) / 5 + 1, (month + 2) % 12 + 1, i64::from(month >= 10));
    Ok(format!("{:04}{month:02}{day:02}{:02}", era * 400 + year + wraps, hours % 24))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    assert_eq!(hour_of(UNIX_EPOCH + Duration::from_secs(1_582_984_800))?, "2020022914");
    assert_eq!(hour_of(UNIX_EPOCH + Duration::from_secs(1_587_045_600))?, "2020041614");
    let url = env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1/".to_owned());
    // Of its own for this run; a real one has none, or one that all replicas share.
    let run = Uuid::new_v4();
    let hour = format!("{}:{run}", hour_of(SystemTime::now())?);
    let redis = redis::Client::open(&*url)?;
    let mut replicas = Vec::new();
    for _ in 0..4 {
        let counter = redis.get_multiplexed_async_connection().await?;
        replicas.push(Node { client: Client::connect(&url).await?, counter });
    }

    let mut done = None;
    for (number, replica) in (1..).zip(&mut replicas) {
        let has_room = number > 1;
        match replica.hourly(&hour, async { has_room }).await? {
            Hour::Done(token) => {
                println!("replica {number}: done, and nobody does it again for two hours");
                done = Some(token);
            }
            Hour::Failed => println!("replica {number}: failed, and the next one may try"),
            Hour::SomebodyElses => println!("replica {number}: somebody else is at it, or has done it"),
            Hour::GivenUp => println!("replica {number}: {ATTEMPTS} attempts failed"),
        }
    }

    // Only so that nothing is left of the example: whoever has the token may free the hour again.
    if let Some(token) = done {
        let left = replicas[0].client.token_lock(format!("job:{hour}")).resume(token).unlock().await?;
        println!("cleaned up: {left:?}");
    }
    let _: u32 = replicas[0].counter.del(attempts(&hour)).await?;
    for replica in &replicas {
        replica.client.close().await;
    }
    Ok(())
}
