//! The script that has the servers, what it is told to do with them, and what it answers.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout},
};

use rustix::process::Pid;

#[derive(Debug)]
pub(super) struct Script {
    pub(super) process: Child,
    pub(super) orders: Option<ChildStdin>,
    pub(super) answers: BufReader<ChildStdout>,
    pub(super) pids: HashMap<String, Pid>,
}

impl Script {
    pub(super) fn order(&mut self, words: &str) {
        let orders = self.orders.as_mut().expect("the script listens until it is dropped");
        writeln!(orders, "{words}").expect("the script takes an order");
    }

    pub(super) fn done(&mut self, order: &str) {
        self.order(order);
        assert_eq!(self.answer(), "done");
    }

    pub(super) fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("the script answers");
        assert!(!line.is_empty(), "the script has ended");
        line.trim_end().to_owned()
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        drop(self.orders.take());
        let _ = self.process.wait();
    }
}
