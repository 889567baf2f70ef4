//! The end of one hold by force, and of no other: whoever was seen is named.

use super::{ForcedRelease, HolderId, Looker};
#[cfg(doc)]
use crate::Error;
use crate::{
    Client,
    backend::redis::digest,
    engine::Handle,
    error::{Error as Failure, RefusedKind, Result},
};

impl Looker {
    async fn force(&self, name: &str, holder: &HolderId) -> Result<ForcedRelease> {
        let handle = |protocol| Handle::new(&self.engine, protocol);
        let Some((text, key)) = self.candidate(name)?.job else { return Ok(ForcedRelease::Free) };
        let server = self.server_of(&key);
        let server = server.as_ref();
        let lock = self.lock_is_small(&text, &key, server).await.map(drop);
        let is_over = if holder.is_token() {
            ended(&handle(self.scope.any_token_lock(name)), holder, lock).await?
        } else if ended(&handle(self.scope.plain_lock(name)), holder, lock).await? {
            true
        } else {
            let record = self.job_is_small(&text, &key, server).await;
            ended(&handle(self.scope.any_job(name).map(|job| job as _)), holder, record).await?
        };
        if is_over {
            return Ok(ForcedRelease::Ended);
        }
        let (mut holders, at_job) = self.now(&text, &key, server).await?;
        Ok(match (holders.len(), &at_job) {
            (2.., _) => ForcedRelease::Several { holders },
            _ => match holders.pop().or_else(|| at_job.clone()) {
                Some(now) => ForcedRelease::Changed { now, at_job },
                None => ForcedRelease::Free,
            },
        })
    }
}

/// Whether this ended that hold; `small`: what is there is small enough to be looked at.
async fn ended(handle: &Handle, holder: &HolderId, small: Result<()>) -> Result<bool> {
    let wanted = holder.clone();
    let is_it = move |seen: &str| match wanted.is_token() {
        true => HolderId::of_token(&digest(seen.as_bytes())) == wanted,
        false => HolderId::of_field(seen).as_ref() == Some(&wanted),
    };
    let ended = match small {
        Ok(()) => handle.force_unlock_held(is_it).await,
        Err(error) => Err(error),
    };
    match ended {
        // It is of another kind than the holder.
        Err(Failure::Refused { kind: RefusedKind::WrongType, .. }) => Ok(false),
        ended => ended,
    }
}

impl Client {
    /// Ends a hold by force, exactly while it is that one's: of a lock of any kind, or an attempt at a periodic job, which counts as
    /// failed.
    ///
    /// Those who wait are told. A hold of this client is lost ([`LostCause::Forced`](crate::LostCause::Forced)) before the command is
    /// sent; a holder elsewhere hears of it with its next renewal, and may do some work until then. Where a key has several holders, which
    /// no lock has, none is ended: the key would have to go with all of them ([`ForcedRelease::Several`]).
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`] without an answer within the command timeout: the hold may be over, and whoever asks again is told
    /// [`ForcedRelease::Free`] or who has it. [`Error::Refused`] if the server will not, [`Error::Protocol`] for a token that is no text,
    /// which is somebody else's, [`Error::Invalid`] for a bad name, [`Error::Closed`].
    ///
    /// # Cancel safety
    ///
    /// Dropped after the look, it may end that hold or not; it never ends another one.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "embedded")]
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> relatch::Result<()> {
    /// use relatch::operate::ForcedRelease;
    ///
    /// let client = relatch::Client::embedded();
    /// let guard = client.lock("report").lock().await?;
    /// let seen = client.inspect_key("report").await?.expect("it is held").holders.remove(0).id;
    /// assert_eq!(client.force_unlock_held("report", &seen).await?, ForcedRelease::Ended);
    /// assert_eq!(client.force_unlock_held("report", &seen).await?, ForcedRelease::Free);
    /// assert!(guard.unlock().await.is_err());
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "embedded"))]
    /// # fn main() {}
    /// ```
    #[cfg_attr(docsrs, doc(cfg(feature = "operate")))]
    pub async fn force_unlock_held(&self, name: impl AsRef<str>, holder: &HolderId) -> Result<ForcedRelease> {
        Looker::of(self).force(name.as_ref(), holder).await
    }
}
