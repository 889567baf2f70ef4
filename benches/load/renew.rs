//! Many holds that the library keeps alive while nothing else happens: what that costs, and whether all of them live.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use redis::aio::MultiplexedConnection;
use tokio::{task::JoinSet, time::sleep};

use super::{Info, Library, Result};

/// How many tasks acquire at a time.
const HANDS: usize = 64;

/// The fields of its line.
pub(super) async fn renew<L: Library>(
    library: &L,
    holds: usize,
    span: Duration,
    connection: &mut MultiplexedConnection,
) -> Result<String> {
    let began = Instant::now();
    let mut hands: JoinSet<Result<Vec<_>>> = JoinSet::new();
    for hand in 0..HANDS {
        let locks: Vec<_> =
            (hand..holds).step_by(HANDS).map(|number| Arc::new(library.lock(&format!("bench:own:{number}")))).collect();
        hands.spawn(async move {
            let mut held = Vec::with_capacity(locks.len());
            for lock in locks {
                let guard = L::acquire(&lock).await?;
                held.push((lock, guard));
            }
            Ok(held)
        });
    }
    let mut held = Vec::with_capacity(holds);
    while let Some(done) = hands.join_next().await {
        held.extend(done??);
    }
    let acquired = began.elapsed();
    let (before, began) = (Info::read(connection).await?, Instant::now());
    sleep(span).await;
    let (spent, secs) = (Info::read(connection).await?.since(before), began.elapsed().as_secs_f64());
    let keys: usize = redis::cmd("DBSIZE").query_async(connection).await?;
    let given_up = held.iter().filter(|(_, guard)| !L::is_held(guard)).count();
    Ok(format!(
        "\"ops\":{holds},\"secs\":{secs:.2},\"cmds_per_s\":{:.1},\"scripts_per_s\":{:.1},\"looks_per_s\":{:.1},\
         \"srv_cpu_ms_per_s\":{:.2},\"lost\":{},\"lost_api\":{given_up},\"acquire_s\":{:.2},\"errors\":0",
        spent.commands as f64 / secs,
        spent.scripts as f64 / secs,
        spent.looks as f64 / secs,
        spent.cpu * 1e3 / secs,
        holds.saturating_sub(keys),
        acquired.as_secs_f64(),
    ))
}
