//! A handler that answers 409 to a second request for the same thing. No web framework: what matters is where the
//! owner comes from, which answer becomes which status, and what becomes of the lock when the client goes away.

use std::{env, error::Error, time::Duration};

use relatch::{Client, Error as LockError, Owner, Uuid};
use tokio::time::{sleep, timeout};

type Response = (u16, &'static str);

/// `POST /orders/{id}/refund`
async fn refund(client: &Client, order: &str) -> Result<Response, LockError> {
    // A moment of patience, so that a client that reconnects finds its own first request done.
    let attempt = client.lock(format!("refund:{order}")).try_lock().wait(Duration::from_millis(50));
    let Some(guard) = attempt.await? else { return Ok((409, "a refund of this order is under way")) };
    // If the lock is lost, the payment call is dropped and the answer is an error: never "refunded" without the lock.
    guard.protect(sleep(Duration::from_millis(200))).await?;
    guard.unlock().await?;
    Ok((200, "refunded"))
}

/// What a middleware does for every route. hyper runs the requests of one HTTP/1 connection one after the other in one
/// task, so without a scope they are one owner: harmless, until a handler leaves a guard behind in a job and the next
/// request on its connection nests into that. The streams of HTTP/2 are tasks of their own. With a scope both are the same.
async fn serve(client: &Client, order: &str) -> Response {
    match Owner::new().scope(refund(client, order)).await {
        Ok(response) => response,
        Err(error) if error.is_lost() => (500, "interrupted: find out how far it came"),
        Err(error) if error.is_transient() => (503, "try again"),
        Err(_) => (500, "look into the log"),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1/".to_owned());
    let client = Client::connect(url).await?;
    let order = Uuid::new_v4().to_string();

    // Two requests at once, on two connections.
    let connection = async || {
        let (client, order) = (client.clone(), order.clone());
        tokio::spawn(async move { serve(&client, &order).await }).await
    };
    let (first, second) = tokio::try_join!(connection(), connection())?;
    println!("{first:?}\n{second:?}");
    let mut codes = [first.0, second.0];
    codes.sort_unstable();
    assert_eq!(codes, [200, 409]);

    // A client that hangs up: hyper drops the handler, and the guard with it. The lock is free for the next request at
    // once. What must not be cut short, such as a COMMIT, runs in a spawned task that the handler only awaits.
    let hung_up = timeout(Duration::from_millis(50), serve(&client, &order)).await;
    println!("hung up: {hung_up:?}");
    assert!(hung_up.is_err());
    let next = serve(&client, &order).await;
    println!("{next:?}");
    assert_eq!(next.0, 200);

    client.close().await;
    Ok(())
}
