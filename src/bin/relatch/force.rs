//! `relatch force-unlock`: ends the hold of somebody who is stuck, and of nobody else.

use std::io::{BufRead, IsTerminal, Write, stderr, stdin};

use relatch::operate::{ForcedRelease, HolderId};

use crate::{
    Failure,
    args::{ForceUnlock, Server},
    connect, say,
};

/// It is not that one any more.
const CHANGED: u8 = 1;

/// Ends it, and says with which status to end.
pub(crate) async fn run(server: &Server, force: ForceUnlock) -> Result<u8, Failure> {
    let holder: HolderId = force.holder.parse()?;
    // It may be a lock or a job.
    let what = say::name(&force.name);
    let builder = connect::builder(server)?;
    // Not on this thread, which has to hear what ends us.
    let asked = (what.clone(), holder.clone());
    let ask = move || may(&asked.0, &asked.1);
    if !force.yes && !tokio::task::spawn_blocking(ask).await.map_err(Failure::system)?? {
        say::line("nothing was done");
        return Ok(CHANGED);
    }
    let client = builder.connect().await?;
    let done = client.force_unlock_held(&force.name, &holder).await;
    client.close().await;
    Ok(match done? {
        ForcedRelease::Ended => {
            say::line(&format!("{what}: the hold {holder} is ended"));
            0
        }
        ForcedRelease::Changed { now, at_job, .. } => {
            let by = match at_job {
                Some(at_job) if at_job == now => format!("{now} is at the job of this name now"),
                Some(at_job) => format!("it is held by {now} now, and {at_job} is at the job of this name"),
                None => format!("it is held by {now} now"),
            };
            say::line(&format!("{what}: nothing was done, {by}"));
            CHANGED
        }
        ForcedRelease::Free => {
            say::line(&format!("{what}: nothing was done, nobody holds it"));
            CHANGED
        }
        ForcedRelease::Several { holders, .. } => {
            let holders: Vec<_> = holders.iter().map(HolderId::to_string).collect();
            let them = holders.join(" and ");
            say::line(&format!(
                "{what}: nothing was done, {them} hold it at once, which is no lock of ours: delete the key"
            ));
            CHANGED
        }
        _ => CHANGED,
    })
}

/// Asks whoever is at the terminal.
fn may(what: &str, holder: &HolderId) -> Result<bool, Failure> {
    if !stdin().is_terminal() || !stderr().is_terminal() {
        return Err(Failure::misuse("nobody is there to be asked: write --yes if you are sure"));
    }
    let question = format!("{what} is taken from {holder}, which may be at work. Do it? [y/N] ");
    drop(stderr().write_all(question.as_bytes()));
    let mut answer = String::new();
    stdin().lock().read_line(&mut answer).map_err(Failure::system)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
