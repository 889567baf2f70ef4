//! A real server, asked in pipelines, and who listens to it. Speaks the protocol by itself, so that nothing is
//! interpreted on the way.

use std::{
    io::{BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
};

use super::super::{Published, Reply};
use crate::backend::redis::testing;

pub(super) struct Real {
    /// Ends with this.
    _server: testing::Server,
    pub(super) commands: Link,
    messages: Link,
}

/// Says that everything before has arrived.
pub(super) const END: &str = "the end";

impl Real {
    /// With one listener on every channel, one more on `twice`, and one by shard on `sharded`.
    pub(super) fn start(twice: &str, sharded: &[&str]) -> Self {
        let server = testing::Server::with(&["--enable-debug-command", "yes"]);
        let connect = || Link(BufReader::new(UnixStream::connect(server.socket()).unwrap()));
        let (mut commands, mut messages) = (connect(), connect());
        for words in [&["PSUBSCRIBE", "*"][..], &["SUBSCRIBE", twice]] {
            messages.ask(words);
        }
        for channel in sharded {
            messages.ask(&["SSUBSCRIBE", channel]);
        }
        // The pattern that is not there yet would count less.
        assert_eq!(commands.ask(&["PUBLISH", END, ""]), Reply::Int(1));
        let mut real = Self { _server: server, commands, messages };
        assert_eq!(real.published(), []);
        real
    }

    pub(super) fn ask(&mut self, words: &[&str]) -> Reply {
        self.commands.ask(words)
    }

    pub(super) fn published(&mut self) -> Vec<Published> {
        let mut published = Vec::new();
        loop {
            let Reply::Array(parts) = self.messages.reply() else { panic!("no message") };
            let parts: Vec<&[u8]> = parts.iter().map(bytes).collect();
            let (channel, message, sharded) = match parts.as_slice() {
                [b"pmessage", _, channel, message] => (*channel, *message, false),
                [b"smessage", channel, message] => (*channel, *message, true),
                // The same once more, for the second listener.
                _ => continue,
            };
            if channel == END.as_bytes() {
                return published;
            }
            published.push(Published { channel: channel.to_vec(), message: message.to_vec(), sharded });
        }
    }
}

pub(super) struct Link(pub(super) BufReader<UnixStream>);

impl Link {
    fn ask(&mut self, words: &[&str]) -> Reply {
        let mut sent = Vec::new();
        encode(&mut sent, words);
        self.0.get_mut().write_all(&sent).unwrap();
        self.reply()
    }

    pub(super) fn reply(&mut self) -> Reply {
        let mut line = Vec::new();
        self.0.read_until(b'\n', &mut line).unwrap();
        let text = String::from_utf8_lossy(&line[1..line.len() - 2]).into_owned();
        match line[0] {
            b'+' => Reply::Status(text),
            b'-' => Reply::Error(text),
            b':' => Reply::Int(text.parse().unwrap()),
            _ if text == "-1" => Reply::Nil,
            b'$' => {
                let mut bytes = vec![0; text.parse::<usize>().unwrap() + 2];
                self.0.read_exact(&mut bytes).unwrap();
                bytes.truncate(bytes.len() - 2);
                Reply::Bulk(bytes)
            }
            b'*' => Reply::Array((0..text.parse::<usize>().unwrap()).map(|_| self.reply()).collect()),
            other => panic!("a reply that begins with {other}"),
        }
    }
}

pub(super) fn encode(sent: &mut Vec<u8>, words: &[impl AsRef<[u8]>]) {
    write!(sent, "*{}\r\n", words.len()).unwrap();
    for word in words {
        let word = word.as_ref();
        write!(sent, "${}\r\n", word.len()).unwrap();
        sent.extend_from_slice(word);
        sent.extend_from_slice(b"\r\n");
    }
}

pub(super) fn bytes(reply: &Reply) -> &[u8] {
    match reply {
        Reply::Bulk(bytes) => bytes,
        _ => b"",
    }
}
