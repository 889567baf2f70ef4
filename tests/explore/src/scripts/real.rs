//! A real server: what the scripts make of a command there, by what `lua/README.md` says of arguments and replies.
//!
//! A tick lasts an hour there, and passes by what a key has left being made an hour less: what happens never depends on how fast
//! anything runs, and each TTL is a little less than whole ticks.

use redis::{Connection, Script, Value};

use super::drawn::{CLIENTS, client_of};
use crate::{
    explore::server::TICK,
    harness::{Server, unique_name},
    state::{Answer, HoldNumber, Published, Verb},
};

/// Milliseconds of a tick.
const HOUR: i64 = 3_600_000;

/// What Redis makes of a lease that is negative: the key ends.
const PASS: &str = "
local ttl_ms = redis.call('PTTL', KEYS[1])
if ttl_ms >= 0 then
  redis.call('PEXPIRE', KEYS[1], ttl_ms - ARGV[1])
end";

/// What clients are called.
const NAMES: [&str; CLIENTS] = ["0191a3c8-0000-4000-8000-00000000000a", "0191a3c8-0000-4000-8000-00000000000b"];

/// What those hear who wait: try again.
const MESSAGE: &str = "message 0";

/// What is at the key.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Contents {
    pub(super) holds: Vec<(HoldNumber, u32)>,
    /// Whole ticks of its TTL, where one has begun too; -1 without a TTL.
    pub(super) ticks: i64,
}

pub(super) struct Real {
    commands: Connection,
    /// One of each client.
    listeners: [Connection; CLIENTS],
    pub(super) listens: [bool; CLIENTS],
    key: String,
    channel: String,
    scripts: Scripts,
}

struct Scripts {
    acquire: Script,
    release: Script,
    hand_over: Script,
    renew: Script,
    force_release: Script,
    pass: Script,
}

impl Scripts {
    fn new() -> Self {
        Self {
            acquire: Script::new(include_str!("../../../../lua/reentrant/acquire.lua")),
            release: Script::new(include_str!("../../../../lua/reentrant/release.lua")),
            hand_over: Script::new(include_str!("../../../../lua/reentrant/hand_over.lua")),
            renew: Script::new(include_str!("../../../../lua/reentrant/renew.lua")),
            force_release: Script::new(include_str!("../../../../lua/reentrant/force_release.lua")),
            pass: Script::new(PASS),
        }
    }
}

impl Real {
    pub(super) fn start() -> Self {
        let server = Server::shared();
        let key = unique_name();
        let channel = format!("redisson_lock__channel:{{{key}}}");
        let listeners = [(); CLIENTS].map(|()| server.connection());
        Self {
            commands: server.connection(),
            listeners,
            listens: [false; CLIENTS],
            key,
            channel,
            scripts: Scripts::new(),
        }
    }

    /// Nobody has the key, and nobody listens.
    pub(super) fn clear(&mut self) {
        (0..CLIENTS).for_each(|client| drop(self.unlisten(client)));
        redis::cmd("DEL").arg(&self.key).exec(&mut self.commands).expect("the server deletes a key");
    }

    /// A tick passes for the key.
    pub(super) fn tick(&mut self) {
        let pass = self.scripts.pass.key(&self.key).arg(HOUR).invoke::<()>(&mut self.commands);
        pass.expect("the server sets a TTL");
    }

    /// Runs a command, and reads its answer with times in the table's ticks. What means nothing is an error.
    pub(super) fn run(&mut self, number: HoldNumber, verb: Verb) -> Result<Answer, String> {
        let Self { scripts, key, channel, .. } = self;
        let (script, args) = match verb {
            Verb::Acquire { lease, holds: 1 } => (&scripts.acquire, vec![field(number), ms(lease)]),
            Verb::Acquire { lease, holds } => (&scripts.acquire, vec![field(number), ms(lease), holds.to_string()]),
            Verb::Release { holds: 0, .. } => (&scripts.release, vec![field(number), publish(), channel.clone()]),
            Verb::Release { holds, .. } => {
                (&scripts.release, vec![field(number), publish(), channel.clone(), holds.to_string()])
            }
            Verb::HandOver { to, lease } => {
                (&scripts.hand_over, vec![field(number), field(to), ms(lease), publish(), channel.clone()])
            }
            Verb::Renew { lease } => (&scripts.renew, vec![ms(lease), field(number)]),
            Verb::Force => (&scripts.force_release, vec![publish(), channel.clone(), field(number)]),
        };
        let mut call = script.key(&*key);
        for arg in &args {
            call.arg(arg);
        }
        let reply: Value = call.invoke(&mut self.commands).map_err(|error| error.to_string())?;
        read(verb, &reply).ok_or_else(|| format!("{reply:?}"))
    }

    /// What is at the key; nothing of a free one.
    pub(super) fn contents(&mut self) -> Option<Contents> {
        let mut both = redis::pipe();
        both.atomic().hgetall(&self.key).pttl(&self.key);
        let (fields, ttl): (Vec<(String, u32)>, i64) =
            both.query(&mut self.commands).expect("it is a hash, or nothing");
        let holds = fields.iter().map(|(field, count)| (number(field), *count)).collect();
        (ttl != -2).then(|| Contents { holds, ticks: if ttl < 0 { ttl } else { ticks(ttl) } })
    }

    pub(super) fn listen(&mut self, client: usize) {
        assert_eq!(self.subscription(client, Some("SUBSCRIBE")), "subscribe");
        self.listens[client] = true;
    }

    /// Ends it, if it began. What there was to hear besides.
    pub(super) fn unlisten(&mut self, client: usize) -> Option<String> {
        if !std::mem::take(&mut self.listens[client]) {
            return None;
        }
        let next = self.subscription(client, Some("UNSUBSCRIBE"));
        let mut end = next.clone();
        while end != "unsubscribe" {
            end = self.subscription(client, None);
        }
        (next != "unsubscribe").then(|| format!("client {client} was told by nobody: {next}"))
    }

    /// What a client hears instead of being told to try again.
    pub(super) fn mishears(&mut self, client: usize) -> Option<String> {
        let heard = self.subscription(client, None);
        (heard != MESSAGE).then(|| format!("client {client} hears {heard}"))
    }

    /// Asks for something, if that is wanted, and says what comes next.
    fn subscription(&mut self, client: usize, asked: Option<&str>) -> String {
        let listener = &mut self.listeners[client];
        if let Some(asked) = asked {
            let command = redis::cmd(asked).arg(&self.channel).get_packed_command();
            listener.send_packed_command(&command).expect("the server takes a command");
        }
        let next = listener.recv_response().expect("something comes");
        let (kind, channel, what): (String, String, Value) = redis::from_redis_value(next).expect("it is of a channel");
        assert_eq!(channel, self.channel);
        match what {
            Value::BulkString(text) => format!("{kind} {}", String::from_utf8_lossy(&text)),
            _ => kind,
        }
    }
}

fn read(verb: Verb, reply: &Value) -> Option<Answer> {
    let parts: Vec<i64> = match reply {
        Value::Array(parts) => parts.iter().map(int).collect::<Option<_>>()?,
        _ => Vec::new(),
    };
    let fence = None;
    Some(match (verb, int(reply), &parts[..]) {
        (Verb::Acquire { .. }, Some(holds), []) => Answer::Granted { holds: holds.try_into().ok()?, fence },
        (Verb::Acquire { .. }, None, [0, left, 0, 0]) => {
            Answer::Busy { retry_in: Some(u32::try_from(ticks(*left)).ok()? * TICK) }
        }
        (Verb::Release { .. }, Some(listeners), []) => Answer::Released { holds: 0, published: to(listeners)? },
        (Verb::Release { .. }, None, [1, left, -1]) => {
            Answer::Released { holds: (*left).try_into().ok()?, published: Published::No }
        }
        (Verb::HandOver { .. }, Some(1), []) => Answer::Moved { published: Published::No, fence },
        (Verb::HandOver { .. }, None, [1, listeners]) => Answer::Moved { published: to(*listeners)?, fence },
        (Verb::Renew { .. }, Some(1), []) => Answer::Done { published: Published::No },
        (Verb::Force, Some(listeners), []) => Answer::Done { published: to(listeners)? },
        (Verb::Acquire { .. }, None, [-1, 0, 0, 0])
        | (Verb::Release { .. }, None, [-1, 0, -1])
        | (Verb::HandOver { .. } | Verb::Force, None, [-1, -1])
        | (Verb::Renew { .. }, None, [-1]) => Answer::Gone,
        _ => return None,
    })
}

fn int(value: &Value) -> Option<i64> {
    if let Value::Int(int) = value { Some(*int) } else { None }
}

fn to(listeners: i64) -> Option<Published> {
    listeners.try_into().ok().map(Published::To)
}

/// Whole ticks of a TTL, where one has begun too.
fn ticks(ms: i64) -> i64 {
    (ms + HOUR - 1) / HOUR
}

/// A lease of the table as one of the server.
fn ms(lease: std::time::Duration) -> String {
    (lease.as_nanos() / TICK.as_nanos() * HOUR as u128).to_string()
}

fn publish() -> String {
    "PUBLISH".to_owned()
}

fn field(number: HoldNumber) -> String {
    format!("{}:{}", NAMES[client_of(number)], number.0)
}

/// The number of a field that is as it should be.
fn number(text: &str) -> HoldNumber {
    let number = text.rsplit(':').next().and_then(|number| number.parse().ok()).map(HoldNumber);
    number.filter(|number| field(*number) == text).unwrap_or_else(|| panic!("{text} is no hold"))
}
