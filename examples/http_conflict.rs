//! A handler that answers 409 to a second request for the same thing. No web framework: what matters is where the
//! owner comes from and which answer becomes which status.

use std::{env, error::Error, time::Duration};

use relatch::{Client, Error as LockError, Owner, Uuid};
use tokio::time::sleep;

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

/// What a middleware does for every route. Servers run the requests of one connection in one task: without a scope
/// they were one owner, and the second request would enter the first one's section.
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

    // Two requests at once in one task, as they come over one HTTP/2 connection.
    let (first, second) = tokio::join!(serve(&client, &order), serve(&client, &order));
    println!("{first:?}\n{second:?}");
    assert_eq!((first.0, second.0), (200, 409));

    let third = serve(&client, &order).await;
    println!("{third:?}");
    assert_eq!(third.0, 200);

    client.close().await;
    Ok(())
}
