//! Who makes the primitives of the suite: a client, or a RedLock over several.

use relatch::{Client, FencedLock, MultiLock, Mutex, RedLock, ReentrantLock, TokenLock};

pub(super) enum Maker {
    Client(Client),
    RedLock(RedLock),
}

impl Maker {
    pub(super) fn lock(&self, name: &str) -> ReentrantLock {
        match self {
            Self::Client(client) => client.lock(name),
            Self::RedLock(red) => red.lock(name),
        }
    }

    pub(super) fn mutex(&self, name: &str) -> Mutex {
        match self {
            Self::Client(client) => client.mutex(name),
            Self::RedLock(red) => red.mutex(name),
        }
    }

    pub(super) fn token_lock(&self, name: &str) -> TokenLock {
        match self {
            Self::Client(client) => client.token_lock(name),
            Self::RedLock(red) => red.token_lock(name),
        }
    }

    pub(super) fn fenced_lock(&self, name: &str) -> FencedLock {
        self.client().fenced_lock(name)
    }

    pub(super) fn multi_lock(&self, names: [&str; 2]) -> MultiLock {
        self.client().multi_lock(names)
    }

    pub(super) async fn close(&self) {
        match self {
            Self::Client(client) => client.close().await,
            Self::RedLock(red) => red.close().await,
        }
    }

    /// Where a RedLock has no such primitive.
    fn client(&self) -> &Client {
        match self {
            Self::Client(client) => client,
            Self::RedLock(_) => panic!("a RedLock makes none"),
        }
    }
}
