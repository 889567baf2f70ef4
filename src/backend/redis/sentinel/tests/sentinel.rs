//! A sentinel that says what a test has put into its mouth.

use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

/// It listens until the tests end.
pub(super) struct Sentinel {
    pub(super) port: u16,
    mind: Arc<Mutex<Mind>>,
}

struct Mind {
    epoch: u64,
    host: &'static str,
    master: u16,
    /// Tells of no change by itself.
    mute: bool,
    listeners: Vec<TcpStream>,
    /// How often it was asked.
    asked: usize,
}

impl Sentinel {
    pub(super) fn new(epoch: u64, master: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mind = Arc::new(Mutex::new(Mind {
            epoch,
            host: "127.0.0.1",
            master,
            mute: false,
            listeners: Vec::new(),
            asked: 0,
        }));
        let shared = Arc::clone(&mind);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let mind = Arc::clone(&shared);
                thread::spawn(move || answer(stream, port, &mind));
            }
        });
        Self { port, mind }
    }

    pub(super) fn mute(self) -> Self {
        self.mind.lock().unwrap().mute = true;
        self
    }

    /// It calls this machine so.
    pub(super) fn calling_it(self, host: &'static str) -> Self {
        self.mind.lock().unwrap().host = host;
        self
    }

    /// From now on it has the master there.
    pub(super) fn says(&self, epoch: u64, master: u16) {
        let mut mind = self.mind.lock().unwrap();
        (mind.epoch, mind.master) = (epoch, master);
    }

    /// The same, and it tells whoever listens.
    pub(super) fn switches(&self, epoch: u64, master: u16) {
        self.says(epoch, master);
        let told = list(&["message", "+switch-master", "m 127.0.0.1 1 127.0.0.1 2"]);
        let mut mind = self.mind.lock().unwrap();
        mind.listeners.iter_mut().for_each(|stream| stream.write_all(told.as_bytes()).unwrap());
    }

    pub(super) fn is_listened_to(&self) -> bool {
        !self.mind.lock().unwrap().listeners.is_empty()
    }

    pub(super) fn asked(&self) -> usize {
        self.mind.lock().unwrap().asked
    }
}

/// Speaks the older protocol only, and knows no more than what a client needs of it.
fn answer(mut stream: TcpStream, port: u16, mind: &Mutex<Mind>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    while let Some(count) = lines.find_map(|line| line.strip_prefix('*')?.parse::<usize>().ok()) {
        let words: Vec<String> = lines.by_ref().take(2 * count).skip(1).step_by(2).collect();
        let mut mind = mind.lock().unwrap();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let answer = match &words[..] {
            ["SENTINEL", "MASTER", "m"] => {
                mind.asked += 1;
                list(&["name", "m", "config-epoch", &mind.epoch.to_string()])
            }
            ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "m"] => list(&[mind.host, &mind.master.to_string()]),
            ["SENTINEL", "SENTINELS", "m"] => "*0\r\n".to_owned(),
            ["SENTINEL", "MYID"] => format!("+id-{port}\r\n"),
            ["SUBSCRIBE", _] if mind.mute => "-NOPERM no\r\n".to_owned(),
            ["SUBSCRIBE", channel] => {
                if *channel == "+switch-master" {
                    mind.listeners.push(stream.try_clone().unwrap());
                }
                format!("*3\r\n$9\r\nsubscribe\r\n${}\r\n{channel}\r\n:1\r\n", channel.len())
            }
            ["CLIENT", ..] => "+OK\r\n".to_owned(),
            _ => "-ERR unknown command\r\n".to_owned(),
        };
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn list(words: &[&str]) -> String {
    words.iter().fold(format!("*{}\r\n", words.len()), |all, word| all + &format!("${}\r\n{word}\r\n", word.len()))
}
