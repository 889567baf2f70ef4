//! A server with very many keys: what a search costs it, and what it costs us.

use std::time::Duration;

use futures_util::StreamExt;
use relatch::{Client, operate::Kind};

use crate::{
    harness::Server,
    scenes::{connected, names},
};

const KEYS: usize = 200_000;

/// A command that takes longer is too long.
const LONGEST: Duration = Duration::from_millis(10);

/// In bytes: far less than the names of all keys are.
const MOST: u64 = 2 << 20;

/// Strangers' keys of all sorts, and some that look like tokens.
const FILL: &str = "for i = tonumber(ARGV[1]), tonumber(ARGV[2]) do
  local kind = i % 4
  local key = 'stranger:with:a:usual:name:' .. i
  if kind == 0 then redis.call('SET', key, 'some cached text')
  elseif kind == 1 then redis.call('HSET', key, 'name', 'ann', 'age', i)
  elseif kind == 2 then redis.call('RPUSH', key, 'a', 'b')
  else redis.call('SET', key, 'a cached value that is not quite as short as the others') end
end";

fn filled() -> Server {
    let server = Server::builder().line("slowlog-log-slower-than 0").line("slowlog-max-len 10000").start();
    let mut connection = server.connection();
    for first in (1..=KEYS).step_by(10_000) {
        redis::cmd("EVAL").arg(FILL).arg(0).arg(first).arg(first + 9_999).exec(&mut connection).expect("it is taken");
    }
    server
}

/// The longest command since the last time, by its name.
fn longest(server: &Server) -> (Duration, String) {
    let mut connection = server.connection();
    let log: Vec<(u64, u64, u64, Vec<String>, String, String)> =
        redis::cmd("SLOWLOG").arg("GET").arg(10_000).query(&mut connection).expect("it answers");
    redis::cmd("SLOWLOG").arg("RESET").exec(&mut connection).expect("it answers");
    let ours = log.into_iter().filter(|(.., words, _, _)| words.first().is_none_or(|word| word != "SLOWLOG"));
    let slowest = ours.max_by_key(|(_, _, micros, ..)| *micros).unwrap_or_default();
    (Duration::from_micros(slowest.2), slowest.3.join(" "))
}

#[test]
fn of_two_hundred_thousand_keys_no_command_takes_long_and_nothing_is_kept() {
    let server = filled();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (client, guards) = runtime.block_on(async {
        let client = connected(Client::builder().url(server.url())).await;
        let mut guards = Vec::new();
        for at in 0..100 {
            guards.push(client.lock(format!("app:{at}")).lock().await.expect("it is free"));
        }
        (client, guards)
    });
    for pattern in ["app:*", "*"] {
        // Others have the processor, too: of some searches one is to be without a slow command, and one that is slow by itself is in each.
        let mut slowest = Vec::new();
        while slowest.len() < 5 && slowest.iter().all(|(took, _)| LONGEST <= *took) {
            longest(&server);
            let mut found = 0;
            let used = allocation_counter::measure(|| {
                runtime.block_on(async {
                    let mut search = client.find(pattern);
                    while let Some(it) = search.next().await {
                        assert_eq!(it.expect("the server answers").kind, Kind::Plain);
                        found += 1;
                    }
                });
            });
            assert!((100..=110).contains(&found), "{found}");
            assert!(used.bytes_max < MOST, "{pattern}: {} bytes at once", used.bytes_max);
            slowest.push(longest(&server));
            println!("{pattern}: {} bytes at most, longest {:?}", used.bytes_max, slowest.last());
        }
        assert!(slowest.iter().any(|(took, _)| *took < LONGEST), "{pattern}: {slowest:?}");
    }
    let seen = runtime.block_on(names(client.find("app:*")));
    assert_eq!(seen.len(), 100);
    drop(guards);
}
