//! One server, as its callers see it: links that are cut, silent or refused, and the order of commands.

use std::{
    pin::Pin,
    sync::atomic::{AtomicBool, Ordering},
    task::{Context, Poll, Waker},
};

use tokio::time::sleep;

use super::*;
use crate::{
    backend::{
        Dispatch, FaultKind, Polled,
        redis::testing::{COUNT, Server, eventually, options},
    },
    script::Script,
};

mod memory;
mod refused;

const CALL: Call<'static> = Call { script: &COUNT, keys: &["n"], args: &[], dispatch: None, polled: Polled::ByUs };

fn poll<F: Future + Unpin>(pending: &mut F) -> Poll<F::Output> {
    Pin::new(pending).poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn a_script_runs_by_hash_and_heals_once_the_server_has_forgotten_it() {
    let server = Server::start();
    let backend = connect(&server.target(), options(3000)).await.unwrap();
    for n in 1..4 {
        assert_eq!(backend.run(&CALL).await.unwrap(), Value::Int(n));
    }
    let _: () = server.ask(&["SCRIPT", "FLUSH"]);
    let many = backend.run_many(&[CALL; 3], Duration::from_secs(3)).await;
    let many: Vec<_> = many.into_iter().map(Result::unwrap).collect();
    assert_eq!(many, [Value::Int(4), Value::Int(5), Value::Int(6)]);
    assert_eq!(backend.link(""), 1);
}

#[tokio::test]
async fn the_round_trip_is_known_from_the_beginning_and_follows_what_scripts_take() {
    let server = Server::start();
    let backend = connect(&server.target(), options(3000)).await.unwrap();
    let trip = || backend.round_trip("n").expect("connecting has asked for something");
    assert!(!trip().longest.is_zero());
    let _: () = server.ask(&["SCRIPT", "LOAD", COUNT.source]);
    let before = trip();
    server.freeze();
    let mut slow = backend.run(&CALL);
    assert!(poll(&mut slow).is_pending());
    sleep(Duration::from_millis(200)).await;
    server.thaw();
    assert_eq!(slow.await.unwrap(), Value::Int(1));
    let after = trip();
    assert!(after.longest >= Duration::from_millis(200) && after.longest >= after.usual, "{after:?}");
    assert!(after.usual >= before.usual + Duration::from_millis(20), "{before:?}, {after:?}");
    // A pipeline takes as long as what it carries, and says nothing of the way.
    server.freeze();
    let mut many = backend.run_many(&[CALL; 2], Duration::from_secs(3));
    assert!(poll(&mut many).is_pending());
    sleep(Duration::from_millis(300)).await;
    server.thaw();
    assert!(many.await.iter().all(Result::is_ok));
    assert_eq!(trip(), after);
}

#[tokio::test]
async fn a_caller_that_looks_late_for_its_answer_makes_no_server_a_distant_one() {
    let server = Server::start();
    let backend = connect(&server.target(), options(3000)).await.unwrap();
    let _: () = server.ask(&["SCRIPT", "LOAD", COUNT.source]);
    let before = backend.round_trip("n");
    let mut parked = backend.run(&Call { polled: Polled::ByCaller, ..CALL });
    assert!(poll(&mut parked).is_pending());
    sleep(Duration::from_millis(300)).await;
    assert_eq!(parked.await.unwrap(), Value::Int(1));
    assert_eq!(backend.round_trip("n"), before);
}

#[tokio::test]
async fn a_pipeline_answers_one_by_one() {
    let server = Server::start();
    let backend = connect(&server.target(), options(3000)).await.unwrap();
    let _: () = server.ask(&["SET", "text", "x"]);
    let wrong = Call { keys: &["text"], ..CALL };
    let many = backend.run_many(&[CALL, wrong, CALL], Duration::from_secs(3)).await;
    assert_eq!(many[0].as_ref().unwrap(), &Value::Int(1));
    assert!(many[1].is_err());
    assert_eq!(many[2].as_ref().unwrap(), &Value::Int(2));
    assert!(backend.run_many(&[], Duration::from_secs(3)).await.is_empty());
}

#[tokio::test]
async fn the_first_to_be_polled_is_the_first_to_send() {
    let server = Server::start();
    let backend = connect(&server.target(), options(3000)).await.unwrap();
    assert_eq!(backend.run(&CALL).await.unwrap(), Value::Int(1));
    let mut pending: Vec<_> = (0..500).map(|_| backend.run(&CALL)).collect();
    // Polled backwards, awaited forwards.
    for future in pending.iter_mut().rev() {
        assert!(poll(future).is_pending());
    }
    for (at, future) in (0..500_i64).zip(pending) {
        assert_eq!(future.await.unwrap(), Value::Int(501 - at));
    }
}

#[tokio::test]
async fn those_that_wait_for_a_link_send_in_the_order_in_which_they_came() {
    let server = Server::start();
    let backend = connect(&server.target(), options(5000)).await.unwrap();
    assert_eq!(backend.run(&CALL).await.unwrap(), Value::Int(1));
    server.hide();
    eventually("the link is seen to be gone", || !backend.node.current.seen().0).await;
    let mut waiting: Vec<_> = (0..100).map(|_| backend.run(&CALL)).collect();
    assert!(waiting.iter_mut().all(|future| poll(future).is_pending()));
    drop(waiting.remove(50));
    server.show();
    let joined: Vec<_> = waiting.into_iter().rev().map(tokio::spawn).collect();
    for (at, task) in (0..99_i64).zip(joined) {
        assert_eq!(task.await.unwrap().unwrap(), Value::Int(100 - at));
    }
    assert_eq!(backend.link(""), 2);
    assert_eq!(backend.node.current.seen(), (true, 0));
}

#[tokio::test]
async fn what_is_not_wanted_when_a_link_comes_is_never_sent() {
    let server = Server::start();
    let backend = connect(&server.target(), options(5000)).await.unwrap();
    server.hide();
    eventually("the link is seen to be gone", || !backend.node.current.seen().0).await;
    let wanted = Arc::new(AtomicBool::new(true));
    let asked = Arc::clone(&wanted);
    let pointless = Dispatch::new(move |_| asked.load(Ordering::Relaxed));
    let withdrawn = Dispatch::new(|_| true);
    let calls = [&pointless, &withdrawn].map(|dispatch| Call { dispatch: Some(dispatch), ..CALL });
    let mut waiting: Vec<_> = calls.iter().map(|call| backend.run(call)).collect();
    let mut many = backend.run_many(&[CALL, calls[0]], Duration::from_secs(5));
    assert!(waiting.iter_mut().all(|future| poll(future).is_pending()) && poll(&mut many).is_pending());
    let last = backend.run(&CALL);
    wanted.store(false, Ordering::Relaxed);
    assert!(withdrawn.withdraw());
    server.show();
    assert_eq!(last.await.unwrap(), Value::Int(1), "nothing ran before it");
    for future in waiting {
        let fault = future.await.unwrap_err();
        assert_eq!((fault.kind, fault.may_have_run), (FaultKind::Withdrawn, false));
    }
    assert!(many.await.into_iter().all(|answer| answer.unwrap_err().kind == FaultKind::Withdrawn));
    assert_eq!(backend.node.current.seen(), (true, 0));
}

#[tokio::test]
async fn a_script_that_the_server_does_not_know_is_not_sent_whole_for_somebody_who_left_meanwhile() {
    let server = Server::start();
    let backend = connect(&server.target(), options(5000)).await.unwrap();
    let wanted = Arc::new(AtomicBool::new(true));
    let asked = Arc::clone(&wanted);
    let left = Dispatch::new(move |_| asked.load(Ordering::Relaxed));
    let call = Call { dispatch: Some(&left), ..CALL };
    let (mut one, mut many) = (backend.run(&call), backend.run_many(&[call], Duration::from_secs(5)));
    assert!(poll(&mut one).is_pending() && poll(&mut many).is_pending());
    assert!(!left.withdraw(), "both were sent by their hash");
    wanted.store(false, Ordering::Relaxed);
    assert_eq!(one.await.unwrap_err().kind, FaultKind::Withdrawn);
    assert!(many.await.into_iter().all(|answer| answer.unwrap_err().kind == FaultKind::Withdrawn));
    assert_eq!(backend.run(&CALL).await.unwrap(), Value::Int(1), "nothing ran before it");
}

#[tokio::test]
async fn what_waited_in_vain_for_a_link_never_left_and_what_was_sent_did() {
    let server = Server::start();
    let backend = connect(&server.target(), options(300)).await.unwrap();
    let sent = Dispatch::new(|_| true);
    server.freeze();
    let mut under_way = backend.run(&Call { dispatch: Some(&sent), ..CALL });
    assert!(poll(&mut under_way).is_pending());
    assert!(!sent.withdraw() && under_way.await.unwrap_err().may_have_run);
    eventually("the link is given up", || !backend.node.current.seen().0).await;
    let kept = Dispatch::new(|_| true);
    let fault = backend.run(&Call { dispatch: Some(&kept), ..CALL }).await.unwrap_err();
    assert!(!fault.may_have_run && kept.withdraw());
}

#[tokio::test]
async fn whoever_is_not_polled_holds_up_nobody() {
    let server = Server::start();
    let backend = connect(&server.target(), options(5000)).await.unwrap();
    assert_eq!(backend.run(&CALL).await.unwrap(), Value::Int(1));
    server.hide();
    eventually("the link is seen to be gone", || !backend.node.current.seen().0).await;
    let mut leaver = backend.run(&CALL);
    let mut parked = backend.run(&CALL);
    let mut parked_too = backend.run_many(&[CALL; 2], Duration::from_secs(5));
    assert!(poll(&mut leaver).is_pending());
    assert!(poll(&mut parked).is_pending());
    assert!(poll(&mut parked_too).is_pending());
    let last = backend.run(&CALL);
    drop(leaver);
    server.show();
    // Everybody before it was served, but for the one that left.
    assert_eq!(last.await.unwrap(), Value::Int(5));
    let answer = |reply: Result<Value, Fault>| reply.unwrap();
    assert_eq!(answer(parked.await), Value::Int(2));
    let many: Vec<_> = parked_too.await.into_iter().map(answer).collect();
    assert_eq!(many, [Value::Int(3), Value::Int(4)]);
    assert_eq!(server.ask::<i64>(&["GET", "n"]), 5);
    assert_eq!(backend.node.current.seen(), (true, 0));
}

#[tokio::test]
async fn the_deadline_of_a_parked_command_counts_from_its_first_poll() {
    let server = Server::start();
    let backend = connect(&server.target(), options(300)).await.unwrap();
    server.hide();
    eventually("the link is seen to be gone", || !backend.node.current.seen().0).await;
    let started = Instant::now();
    let mut parked = backend.run(&CALL);
    assert!(poll(&mut parked).is_pending());
    eventually("it has left the line", || backend.node.current.seen().1 == 0).await;
    assert!(started.elapsed() >= Duration::from_millis(290));
    server.show();
    let fault = parked.await.unwrap_err();
    assert!(!fault.may_have_run && fault.kind.heals());
    eventually("the link is replaced", || backend.link("") == 2).await;
    assert_eq!(backend.run(&CALL).await.unwrap(), Value::Int(1));
}

#[test]
fn the_end_of_the_runtime_answers_those_that_wait_for_a_link() {
    let mut server = Server::start();
    let first = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (backend, mut parked) = first.block_on(async {
        let backend = connect(&server.target(), options(5000)).await.unwrap();
        server.kill();
        eventually("the link is gone", || !backend.node.current.seen().0).await;
        let mut parked = backend.run(&CALL);
        assert!(poll(&mut parked).is_pending());
        (backend, parked)
    });
    drop(first);
    let second = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert_eq!(second.block_on(&mut parked).unwrap_err().kind, FaultKind::Closed);
    drop(backend);
}

#[tokio::test]
async fn an_idle_link_that_is_cut_is_replaced_before_anybody_asks() {
    for config in [&[][..], &["--rename-command", "HELLO", ""]] {
        let mut server = Server::with(config);
        let backend = connect(&server.target(), options(400)).await.unwrap();
        let before = backend.last_answer("");
        server.kill();
        server.restart();
        eventually("the link is replaced", || backend.link("") == 2).await;
        assert_eq!(backend.run(&CALL).await.unwrap(), Value::Int(1));
        assert!(backend.last_answer("") > before);
    }
}

#[tokio::test]
async fn a_command_under_way_when_the_link_is_cut_may_have_run() {
    let mut server = Server::start();
    let backend = connect(&server.target(), options(5000)).await.unwrap();
    server.freeze();
    let mut pending = backend.run(&CALL);
    assert!(poll(&mut pending).is_pending());
    server.kill();
    let fault = pending.await.unwrap_err();
    assert_eq!((fault.kind, fault.may_have_run), (FaultKind::Dropped, true));
}

#[tokio::test]
async fn a_silent_link_times_out_once_for_all_and_is_replaced() {
    let server = Server::start();
    let backend = connect(&server.target(), options(300)).await.unwrap();
    server.freeze();
    let mut first = backend.run(&CALL);
    assert!(poll(&mut first).is_pending());
    sleep(Duration::from_millis(150)).await;
    let mut second = backend.run(&CALL);
    assert!(poll(&mut second).is_pending());
    let started = Instant::now();
    let (first, second) = tokio::join!(first, second);
    assert!(started.elapsed() < Duration::from_millis(250));
    for fault in [first.unwrap_err(), second.unwrap_err()] {
        assert_eq!((fault.kind, fault.may_have_run), (FaultKind::Timeout, true));
    }
    // Nobody takes connections up: without a link nothing can have run.
    let started = Instant::now();
    let fault = backend.run(&CALL).await.unwrap_err();
    assert!(!fault.may_have_run && fault.kind.heals());
    assert!(started.elapsed() >= Duration::from_millis(290));
    assert!(started.elapsed() < Duration::from_millis(600));
    server.thaw();
    eventually("the link is replaced", || backend.link("") > 1).await;
    assert!(backend.run(&CALL).await.is_ok());
}

#[tokio::test]
async fn a_silent_link_is_found_though_everybody_left_early() {
    let server = Server::start();
    let backend = connect(&server.target(), options(400)).await.unwrap();
    assert!(backend.run(&CALL).await.is_ok());
    server.freeze();
    let mut pending = backend.run(&CALL);
    assert!(poll(&mut pending).is_pending());
    drop(pending);
    eventually("the link is given up", || !backend.node.current.seen().0).await;
    server.thaw();
    eventually("the link is replaced", || backend.link("") == 2).await;
}

#[tokio::test]
async fn leaving_early_does_not_cost_a_link_that_lives() {
    let server = Server::start();
    let backend = connect(&server.target(), options(200)).await.unwrap();
    for _ in 0..10 {
        drop(tokio::time::timeout(Duration::ZERO, backend.run(&CALL)).await);
        let late = backend.run_many(&[CALL; 50], Duration::ZERO).await;
        assert_eq!(late.len(), 50);
        sleep(Duration::from_millis(60)).await;
    }
    assert_eq!(backend.link(""), 1);
}

#[tokio::test]
async fn closing_answers_everybody() {
    let server = Server::start();
    let backend = connect(&server.target(), options(5000)).await.unwrap();
    server.freeze();
    let mut under_way = backend.run(&CALL);
    assert!(poll(&mut under_way).is_pending());
    backend.close();
    backend.close();
    let fault = under_way.await.unwrap_err();
    assert_eq!((fault.kind, fault.may_have_run), (FaultKind::Closed, true));
    let fault = backend.run(&CALL).await.unwrap_err();
    assert_eq!((fault.kind, fault.may_have_run), (FaultKind::Closed, false));
}

#[tokio::test]
async fn closing_answers_those_that_wait_for_a_link_and_leaves_no_task() {
    let mut server = Server::start();
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = alive();
    let backend = connect(&server.target(), options(5000)).await.unwrap();
    server.kill();
    eventually("the link is gone", || !backend.node.current.seen().0).await;
    let mut waiting: Vec<_> = (0..3).map(|_| backend.run(&CALL)).collect();
    assert!(waiting.iter_mut().all(|future| poll(future).is_pending()));
    drop(backend);
    for future in waiting {
        assert_eq!(future.await.unwrap_err().kind, FaultKind::Closed);
    }
    eventually("no task is left", || alive() == before).await;
}

#[test]
fn without_its_runtime_a_backend_answers_that_it_is_closed() {
    let server = Server::start();
    let first = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let backend = first.block_on(connect(&server.target(), options(5000))).unwrap();
    drop(first);
    let second = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let fault = second.block_on(backend.run(&CALL)).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Closed);
}
