//! A server with very many keys: what a search costs it, and what it costs us.

use futures_util::StreamExt;
use relatch::{Client, operate::Kind};

use crate::{
    harness::Server,
    scenes::{connected, names},
    slow::{slow_commands, watched},
};

const KEYS: usize = 200_000;

/// So many keys a server looks at for one command, at most: those that are asked for, and some that it keeps together with them.
const MOST_KEYS: usize = 600;

/// A search asks for the keys of each type by themselves.
const TYPES: usize = 2;

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
    let server = watched();
    let mut connection = server.connection();
    for first in (1..=KEYS).step_by(10_000) {
        redis::cmd("EVAL").arg(FILL).arg(0).arg(first).arg(first + 9_999).exec(&mut connection).expect("it is taken");
    }
    server
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
        server.reset_counts();
        let mut searches = 0;
        let slow = slow_commands(&server, || {
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
            searches += 1;
        });
        assert!(slow.is_empty(), "{pattern}: {slow:?}");
        // By the server's own count, whatever else its machine does: some hundreds of keys for one command.
        let looks = server.count("scan") as usize / searches;
        assert!(TYPES * KEYS < looks * MOST_KEYS, "{pattern}: {looks} commands for all keys of each type");
        assert_eq!(server.count("keys") + server.count("hscan"), 0);
    }
    let seen = runtime.block_on(names(client.find("app:*")));
    assert_eq!(seen.len(), 100);
    drop(guards);
}
