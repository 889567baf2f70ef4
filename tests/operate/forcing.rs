//! The end of one hold by force, and of no other.

use std::{convert::Infallible, pin::pin, time::Duration};

use futures_util::FutureExt;
use relatch::{
    Client, Error, LostCause, Outcome,
    operate::{ForcedRelease, HolderId, Kind},
};

use crate::{
    harness::{
        Deployment, Server,
        cluster::{MASTERS, name_on},
        eventually_async,
        proxy::{Action, Proxy, matching::script},
        unique_name,
    },
    scenes::{LOOK, client, connected, one},
};

async fn forced(client: &Client, name: &str, holder: &HolderId) -> ForcedRelease {
    client.force_unlock_held(name, holder).await.expect("it may be ended")
}

fn changed(outcome: &ForcedRelease) -> Option<&HolderId> {
    if let ForcedRelease::Changed { now, .. } = outcome { Some(now) } else { None }
}

#[tokio::test]
async fn a_hold_of_each_kind_of_lock_ends_and_whoever_waits_is_woken() {
    let deployments = [Deployment::shared().url(), Deployment::shared_cluster().url(), Server::shared().url()];
    for url in deployments {
        let (holder, operator) = (client(&url).await, client(&url).await);
        for node in MASTERS {
            let name = name_on(node);
            let guards = [
                holder.lock(format!("{name}:p{{{name}}}")).lock().await,
                holder.fenced_lock(format!("{name}:f{{{name}}}")).lock().await,
                holder.token_lock(format!("{name}:t{{{name}}}")).lock().await,
            ];
            let kinds = [Kind::Plain, Kind::Fenced, Kind::Token];
            for (guard, kind) in guards.into_iter().zip(kinds) {
                let guard = guard.expect("it is free");
                let name = guard.name().to_owned();
                let found = one(&operator, &name).await;
                assert_eq!(found.kind, kind);
                let waiter = operator.clone();
                let waiting = tokio::spawn({
                    let name = name.clone();
                    async move {
                        match kind {
                            Kind::Fenced => waiter.fenced_lock(&name).lock().await,
                            Kind::Token => waiter.token_lock(&name).lock().await,
                            _ => waiter.lock(&name).lock().await,
                        }
                    }
                });
                eventually_async(LOOK, async || one(&operator, &name).await.listeners == Some(1)).await;
                assert_eq!(forced(&operator, &name, &found.holders[0].id).await, ForcedRelease::Ended, "{kind}");
                let next = waiting.await.expect("no panic").expect("its turn");
                // The name of the last one is nobody's any more, and does no harm to the next.
                let outcome = forced(&operator, &name, &found.holders[0].id).await;
                assert_eq!(changed(&outcome), Some(&one(&operator, &name).await.holders[0].id));
                assert!(next.is_held());
                next.unlock().await.expect("it is held");
                assert_eq!(forced(&operator, &name, &found.holders[0].id).await, ForcedRelease::Free);
                // Of a token lock that nobody has, nothing is lost.
                assert_eq!(guard.unlock().await.is_ok(), kind == Kind::Token);
            }
        }
    }
}

#[tokio::test]
async fn a_hold_of_this_client_is_told_before() {
    let client = client(Server::shared().url()).await;
    for kind in [Kind::Plain, Kind::Token] {
        let name = unique_name();
        let guard = match kind {
            Kind::Token => client.token_lock(&name).lock().await,
            _ => client.lock(&name).lock().await,
        };
        let guard = guard.expect("it is free");
        let id = one(&client, &name).await.holders.remove(0).id;
        assert_eq!(forced(&client, &name, &id).await, ForcedRelease::Ended);
        assert!(matches!(guard.lost().await, Error::Lost { cause: LostCause::Forced, .. }));
    }
}

#[tokio::test]
async fn nobody_else_is_ended_whatever_the_kind_of_holder_that_is_named() {
    let client = client(Server::shared().url()).await;
    let (plain, token) = (unique_name(), unique_name());
    let (guard, other) = (client.lock(&plain).lock().await, client.token_lock(&token).lock().await);
    let (guard, other) = (guard.expect("it is free"), other.expect("it is free"));
    let (of_plain, of_token) =
        (one(&client, &plain).await.holders.remove(0).id, one(&client, &token).await.holders.remove(0).id);
    for (name, wrong, right) in [(&plain, &of_token, &of_plain), (&token, &of_plain, &of_token)] {
        let outcome = forced(&client, name, wrong).await;
        assert_eq!(changed(&outcome), Some(right));
    }
    let next: HolderId = format!("{}:{}", client.id(), of_plain.hold().expect("a hold") + 1).parse().expect("a holder");
    assert_eq!(changed(&forced(&client, &plain, &next).await), Some(&of_plain));
    assert!(guard.is_held() && other.is_held());
    assert_eq!(forced(&client, &unique_name(), &of_plain).await, ForcedRelease::Free);
    assert!(matches!(client.force_unlock_held("", &of_plain).await, Err(Error::Invalid { what: "name", .. })));
}

#[tokio::test]
async fn an_attempt_at_a_job_ends_as_a_failure_though_a_lock_has_its_name() {
    for url in [Server::shared().url(), Deployment::shared_cluster().url()] {
        let (worker, operator) = (client(&url).await, client(&url).await);
        let name = unique_name();
        let guard = worker.lock(&name).lock().await.expect("it is free");
        let job = worker.periodic_job(&name, Duration::from_secs(3600));
        let mut running = pin!(job.run(|_| std::future::pending::<Result<(), Infallible>>()));
        let mut found = None;
        eventually_async(LOOK, async || {
            assert!(running.as_mut().now_or_never().is_none());
            found = operator.inspect_job(&name).await.expect("it may be looked at");
            found.is_some()
        })
        .await;
        let id = found.expect("somebody is at it").holders.remove(0).id;
        assert_eq!(forced(&operator, &name, &id).await, ForcedRelease::Ended);
        let record = operator.inspect_job(&name).await.expect("it may be looked at").expect("it was tried");
        assert!(record.holders.is_empty() && record.job.expect("a record").attempts == 1);
        assert!(changed(&forced(&operator, &name, &id).await).is_some() && guard.is_held());
        let elsewhere = operator.periodic_job(&name, Duration::from_secs(3600));
        let outcome = elsewhere.run(|ctx| async move { Ok::<_, Infallible>(ctx.attempt()) }).await;
        assert!(matches!(outcome, Ok(Outcome::Ran(2))), "{outcome:?}");
    }
}

/// The look says one thing, and something else is there when the end comes.
#[tokio::test]
async fn a_hold_that_is_passed_on_meanwhile_is_not_ended() {
    let server = Server::own();
    let holders = [client(server.url()).await, client(server.url()).await];
    let operator = connected(Client::builder().url(server.url())).await;
    for round in 0..200 {
        let guard = holders[round % 2].lock("x").lock().await.expect("its turn");
        let seen = one(&operator, "x").await.holders.remove(0).id;
        let next = holders[(round + 1) % 2].clone();
        let late = async {
            // It looks before the hold is passed on, or after, or is passed between its look and its end.
            tokio::time::sleep(Duration::from_micros(round as u64 * 20)).await;
            forced(&operator, "x", &seen).await
        };
        let (outcome, next) = tokio::join!(late, async {
            // Whether the other one was first or not.
            let _ = guard.unlock().await;
            next.lock("x").lock().await.expect("its turn")
        });
        let now = one(&operator, "x").await.holders.remove(0).id;
        assert_ne!(now, seen);
        assert!(changed(&outcome).is_none_or(|changed| *changed == now), "{outcome:?}");
        assert!(next.is_held());
        next.unlock().await.expect("nobody ended it");
    }
}

/// It was looked at, and what ends it is on its way.
#[tokio::test]
async fn a_hold_that_is_passed_on_while_its_end_is_on_its_way_is_not_ended() {
    let server = Server::own();
    let proxy = Proxy::to(&server);
    let (holder, next, operator) = (client(server.url()).await, client(server.url()).await, client(proxy.url()).await);
    let guard = holder.lock("x").lock().await.expect("it is free");
    let seen = one(&operator, "x").await.holders.remove(0).id;
    let rule = proxy.rule(script("force_release").first(1), Action::HoldRequest);
    let ending = tokio::spawn(async move { operator.force_unlock_held("x", &seen).await });
    eventually_async(LOOK, async || rule.seen() == 1).await;
    guard.unlock().await.expect("it is held");
    let guard = next.lock("x").lock().await.expect("it is free");
    rule.let_go();
    let outcome = ending.await.expect("no panic").expect("it may be ended");
    assert_eq!(changed(&outcome), Some(&one(&next, "x").await.holders[0].id));
    guard.unlock().await.expect("nobody ended it");
}

/// Something else than a lock wrote to it.
#[tokio::test]
async fn of_several_holders_none_is_ended_and_all_are_named() {
    let server = Server::own();
    let client = client(server.url()).await;
    let ids = ["8743c9c0-0795-4907-87fd-6c719a6b4586:1", "8743c9c0-0795-4907-87fd-6c719a6b4586:42"];
    redis::cmd("HSET").arg("x").arg(&[ids[0], "1", ids[1], "1"]).exec(&mut server.connection()).expect("it is taken");
    let seen: Vec<_> = one(&client, "x").await.holders.into_iter().map(|holder| holder.id).collect();
    assert_eq!(seen.len(), 2);
    let nobody: HolderId = format!("{}:1", client.id()).parse().expect("a holder");
    for id in seen.iter().chain([&nobody]) {
        let outcome = forced(&client, "x", id).await;
        assert!(matches!(&outcome, ForcedRelease::Several { holders, .. } if *holders == seen), "{outcome:?}");
    }
    assert_eq!(server.hash("x").len(), 2);
}
