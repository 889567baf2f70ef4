//! What this program does as a child of itself: it puts a load on one library, of which it has this crate's locks and the
//! baseline, and prints a line.

use std::{env, time::Duration};

use relatch::{Client, Lease};

use crate::{
    contest::SLICE_MS,
    load::{Asked, Library, Result, answer},
    ours::Ours,
    raw::Raw,
    turns,
};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Longer than anything that is measured with it, and not renewed.
const FIXED: Duration = Duration::from_secs(10);

/// What the command line says.
pub(crate) async fn run(args: Vec<String>) -> Result<()> {
    let asked = Asked::read(args.into_iter(), &["relatch", "relatch-leased", "raw", "turns"])?;
    if asked.library == "raw" {
        let library = Baseline(Raw::connect(&asked.url).await?);
        println!("{}", answer(&asked, &library, VERSION).await?);
        return Ok(());
    }
    let mut builder = Client::builder().url(&asked.url);
    if let Ok(slice_ms) = env::var(SLICE_MS) {
        builder = builder.handover_slice(Duration::from_millis(slice_ms.parse()?));
    }
    let client = builder.connect().await?;
    let lease = if asked.library == "relatch-leased" { Lease::Fixed(FIXED) } else { Lease::Watchdog };
    if asked.library == "turns" {
        turns::take(&client, asked.span).await?;
    } else {
        println!("{}", answer(&asked, &Ours { client: client.clone(), lease }, VERSION).await?);
    }
    client.close().await;
    Ok(())
}

/// The scripts alone. They wait for nobody, so a contended load is none for them.
struct Baseline(Raw);

impl Library for Baseline {
    type Lock = (Raw, String);
    type Guard = ();

    fn lock(&self, name: &str) -> Self::Lock {
        (self.0.clone(), name.to_owned())
    }

    async fn acquire((raw, name): &Self::Lock) -> Result<()> {
        raw.acquire(name, 1).await
    }

    async fn release((raw, name): &Self::Lock, (): ()) -> Result<()> {
        raw.release(name, 0).await
    }

    fn is_held((): &()) -> bool {
        true
    }
}
