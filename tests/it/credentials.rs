//! Credentials of client objects: what becomes of them when they change on the server, and which servers get to see them.

use std::time::Duration;

use relatch::{Client, ClientBuilder};

use crate::{
    harness::{
        Server,
        cluster::{MASTERS, name_on},
        deployment::{Deployment, Wishes},
        eventually_async, unique_name,
    },
    kept::connected,
};

const MS: Duration = Duration::from_millis(1);
/// How long a look may take on a busy machine.
const LOOK: Duration = Duration::from_secs(20);
const LABEL: &str = "shown";

fn wishes() -> Wishes {
    Wishes { password: Some("s3cret-of-all"), ..Wishes::default() }
}

async fn live(client: &Client, name: &str) {
    client.mutex(name).lock().await.expect("it is free").unlock().await.expect("it is held");
}

#[tokio::test]
async fn a_password_that_ends_on_the_server_ends_no_link_and_a_client_is_back_when_it_is_let_in_again() {
    let server = Server::builder().line("user ann on >s3cret-old ~* &* +@all").start();
    let acl = |rule: &str| {
        redis::cmd("ACL").arg("SETUSER").arg("ann").arg(rule).exec(&mut server.connection()).expect("ACL answers");
    };
    let of = |password: &str| {
        let url = format!("redis+unix://{}?user=ann&pass={password}", server.socket().display());
        let driver = redis::Client::open(url).expect("a good url");
        let builder = Client::builder().redis_client(driver).command_timeout(MS * 500);
        builder.unreachable_after(MS * 700)
    };
    let old = connected(of("s3cret-old")).await;
    live(&old, &unique_name()).await;
    // Both together, as one changes them.
    acl(">s3cret-new");
    let new = connected(of("s3cret-new")).await;
    acl("<s3cret-old");
    live(&old, &unique_name()).await;
    let kill = || redis::cmd("CLIENT").arg(&["KILL", "USER", "ann"]).exec(&mut server.connection());
    kill().expect("CLIENT answers");
    // The one that has the new one comes back; the other hears why it does not.
    eventually_async(LOOK, async || new.mutex(unique_name()).try_lock().await.is_ok()).await;
    let mut heard = String::new();
    eventually_async(LOOK, async || {
        heard = format!("{:?}", old.mutex(unique_name()).lock().await);
        heard.contains("WRONGPASS")
    })
    .await;
    assert!(!heard.contains("s3cret"), "{heard}");
    acl(">s3cret-old");
    eventually_async(LOOK, async || old.mutex(unique_name()).try_lock().await.is_ok()).await;
}

/// Whether a client of this label is among a server's.
fn is_known(deployment: &Deployment, name: &str) -> bool {
    let list: String = deployment.ask(name, &["CLIENT", "LIST"]);
    list.contains(&format!("name=relatch:{LABEL}:"))
}

fn without_password(deployment: &Deployment, name: &str) -> redis::Client {
    redis::Client::open(format!("redis://127.0.0.1:{}/", deployment.port(name))).expect("a good url")
}

#[tokio::test]
async fn sentinels_that_are_found_see_the_credentials_of_the_first_and_the_master_those_of_its_own() {
    let deployment = Deployment::with(&Wishes { sentinel_password: Some("s3cret-of-few"), ..wishes() });
    let like = || redis::Client::open("redis://:s3cret-of-all@any.host:1/3").expect("a good url");
    let one = || Client::builder().sentinels("m", [deployment.client_of("sentinel1")]).nodes_like(like());
    let by_url = || Client::builder().url(deployment.url_by(&["sentinel2"]));
    for builder in [&one as &dyn Fn() -> ClientBuilder, &by_url] {
        let client = connected(builder().label(LABEL)).await;
        live(&client, &unique_name()).await;
        let all = ["sentinel1", "sentinel2", "sentinel3", "master"];
        eventually_async(LOOK, async || all.iter().all(|name| is_known(&deployment, name))).await;
        client.close().await;
        drop(client);
        eventually_async(LOOK, async || !all.iter().any(|name| is_known(&deployment, name))).await;
    }
}

#[tokio::test]
async fn nodes_of_a_cluster_that_are_found_see_the_credentials_of_the_first_or_those_that_all_are_to_see() {
    let cluster = Deployment::cluster_with(&wishes());
    let like = || redis::Client::open("redis://:s3cret-of-all@any.host:1/").expect("a good url");
    let one = || Client::builder().cluster_nodes([cluster.client_of("node4")]);
    let as_all = || Client::builder().cluster_nodes([without_password(&cluster, "node5")]).nodes_like(like());
    for builder in [&one as &dyn Fn() -> ClientBuilder, &as_all] {
        let client = connected(builder().label(LABEL)).await;
        for node in MASTERS {
            live(&client, &name_on(node)).await;
            assert!(is_known(&cluster, node), "{node}");
        }
        client.close().await;
    }
    // Of several the first one is shown, whichever answers.
    let builder = Client::builder().cluster_nodes([without_password(&cluster, "node5"), cluster.client_of("node4")]);
    let refused = format!("{:?}", builder.connect().await);
    assert!(refused.contains("NOAUTH"), "{refused}");
}
