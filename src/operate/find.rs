//! All locks and jobs of a pattern: each server's keys in small parts, of which nothing is kept but the part at hand.

use std::{
    collections::{HashSet, VecDeque},
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::{Stream, stream};

use super::{
    Found, Looker,
    listening::Labels,
    look::{Draft, Inspected, Slots},
    names::{Candidate, Names},
};
use crate::{
    Client,
    backend::{
        Server,
        questions::{self, Shape},
    },
    error::{Error, Op, Result},
};

/// So many keys a server looks at for one answer: far less than a millisecond's work.
const PART: u32 = 500;

/// So many keys are asked about in one go.
const CHUNK: usize = 128;

/// What [`Client::find`] finds, as it is found. Dropped, it asks no more.
#[must_use = "a search asks nothing until it is polled"]
pub struct Search(Pin<Box<dyn Stream<Item = Result<Found>> + Send>>);

impl Search {
    fn of(looker: Looker, names: Result<Names>, without_ttl: bool) -> Self {
        let scan = |names| Scan {
            looker,
            names,
            without_ttl,
            done: HashSet::new(),
            pass: None,
            ready: VecDeque::new(),
            over: false,
        };
        match names {
            Ok(names) => Self(Box::pin(stream::unfold(scan(names), async |mut scan| {
                let item = scan.next().await?;
                Some((item, scan))
            }))),
            Err(error) => Self(Box::pin(stream::iter([Err(error)]))),
        }
    }
}

impl Stream for Search {
    type Item = Result<Found>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(cx)
    }
}

impl fmt::Debug for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Search").finish_non_exhaustive()
    }
}

/// How far a search is.
struct Scan {
    looker: Looker,
    names: Names,
    without_ttl: bool,
    /// The servers that were looked at, or could not be.
    done: HashSet<String>,
    pass: Option<Pass>,
    ready: VecDeque<Result<Found>>,
    over: bool,
}

/// How far one server is.
struct Pass {
    server: Arc<dyn Server>,
    /// Where somebody may listen to it.
    all: Vec<Arc<dyn Server>>,
    labels: Labels,
    cursors: Vec<Cursor>,
    /// What is still to be looked at of the last part.
    left: VecDeque<(Candidate, Shape)>,
}

/// How far the keys of a type are; of all types where the server cannot tell them apart there.
#[derive(Clone, Copy)]
struct Cursor {
    shape: Option<Shape>,
    at: u64,
}

impl Scan {
    async fn next(&mut self) -> Option<Result<Found>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Some(item);
            }
            if self.over {
                return None;
            }
            let Some(mut pass) = self.pass.take().or_else(|| self.begin()) else {
                self.over = true;
                // Of no server nothing can be said, least of all that there is nothing.
                let nobody = self.done.is_empty().then(|| self.nobody());
                return nobody.map(Err);
            };
            match self.step(&mut pass).await {
                Ok(found) => {
                    let wanted = found.into_iter().filter(|it| !self.without_ttl || it.ttl.is_none());
                    self.ready.extend(wanted.map(Ok));
                    if !pass.is_over() {
                        self.pass = Some(pass);
                    }
                }
                Err(Error::Closed) => {
                    self.over = true;
                    return Some(Err(Error::Closed));
                }
                Err(error) => self.ready.push_back(Err(error)),
            }
        }
    }

    /// The next server: also one that took another's place meanwhile, or came.
    fn begin(&mut self) -> Option<Pass> {
        let all = self.looker.scope.backend().servers();
        let server = all.iter().find(|server| !self.done.contains(&server.address()))?;
        self.done.insert(server.address());
        let cursors = [Shape::Hash, Shape::String].map(|shape| Cursor { shape: Some(shape), at: 0 }).to_vec();
        Some(Pass { server: Arc::clone(server), labels: Labels::default(), cursors, left: VecDeque::new(), all })
    }

    fn nobody(&self) -> Error {
        if self.looker.engine.is_closed() {
            return Error::Closed;
        }
        Error::from_fault(crate::backend::Fault::timeout(false, "no server is known"), &Arc::from(""), Op::Inspect)
    }

    async fn step(&self, pass: &mut Pass) -> Result<Vec<Found>> {
        if pass.left.is_empty() {
            self.scan(pass).await?;
        }
        let chunk: Vec<_> = pass.left.drain(..pass.left.len().min(CHUNK)).collect();
        let mut drafts: Vec<Draft> = Vec::new();
        let mut found = Vec::new();
        let mut coming = Vec::new();
        for inspected in self.looker.look(&pass.server, chunk, Slots::Own).await? {
            match inspected {
                Inspected::Draft(draft) => drafts.push(*draft),
                Inspected::Elsewhere(candidate, shape) => coming.push((candidate, shape)),
            }
        }
        // It told of these keys: either their slots are on their way to it, or the keys went a moment ago.
        for inspected in self.looker.look(&pass.server, coming, Slots::Coming).await? {
            match inspected {
                Inspected::Draft(draft) => drafts.push(*draft),
                Inspected::Elsewhere(candidate, _) => found.extend(self.looker.routed(&candidate).await?),
            }
        }
        found.extend(self.looker.complete(drafts, &pass.server, &pass.all, &mut pass.labels).await);
        Ok(found)
    }

    /// The next part of each type, in one go.
    async fn scan(&self, pass: &mut Pass) -> Result<()> {
        let pattern = self.names.of_keys();
        let asked = pass.cursors.iter().map(|it| questions::scan(it.at, &pattern, PART, it.shape)).collect();
        let answers = self.looker.ask(&pass.server, asked).await?;
        let (mut cursors, mut seen) = (Vec::new(), HashSet::new());
        for (cursor, answer) in pass.cursors.clone().into_iter().zip(answers) {
            let answer = match answer {
                Err(fault) if cursor.shape.is_some() && questions::is_syntax(&fault) => {
                    pass.cursors = vec![Cursor { shape: None, at: 0 }];
                    return Ok(());
                }
                answer => answer.map_err(|fault| Error::from_fault(fault, &Arc::from(""), Op::Inspect))?,
            };
            let unexpected = crate::backend::Fault::unexpected("the server", &answer);
            let Some((at, keys)) = questions::scanned(answer) else {
                return Err(Error::from_fault(unexpected, &Arc::from(""), Op::Inspect));
            };
            if at != 0 {
                cursors.push(Cursor { at, ..cursor });
            }
            let mut new: Vec<_> = keys.into_iter().filter_map(|key| self.names.candidate(key)).collect();
            new.retain(|it| seen.insert(it.key.clone()));
            match cursor.shape {
                Some(shape) => pass.left.extend(new.into_iter().map(|it| (it, shape))),
                None => pass.left.extend(self.typed(&pass.server, new).await?),
            }
        }
        pass.cursors = cursors;
        Ok(())
    }

    /// Those of a type that may be ours, where the server did not sort them out.
    async fn typed(&self, server: &Arc<dyn Server>, new: Vec<Candidate>) -> Result<Vec<(Candidate, Shape)>> {
        let asked = new.iter().map(|it| questions::type_of(it.key.as_bytes())).collect();
        let shapes = self.looker.ask(server, asked).await?.into_iter();
        let shapes = shapes.map(|answer| answer.ok().as_ref().and_then(Shape::of));
        Ok(new.into_iter().zip(shapes).filter_map(|(it, shape)| Some((it, shape?))).collect())
    }
}

impl Pass {
    fn is_over(&self) -> bool {
        self.cursors.is_empty() && self.left.is_empty()
    }
}

impl Client {
    /// All locks that are held and all jobs with a record whose name is of this pattern, as they are found. The pattern is one of
    /// names, without the client's prefix, with `*`, `?`, `[…]` and `\` as the server has them.
    ///
    /// All servers that have keys are looked at one after the other, also those that come meanwhile. A server looks at some hundreds
    /// of keys for one command, and none takes it longer than a few milliseconds, however many keys it has; the client keeps no
    /// more than what it asked last. A lock that is taken and released while the search goes on may be found or not, and one that is held all
    /// the while is. It may be found twice: where the server's table grows or shrinks, and where it moves from one node to another.
    ///
    /// Other keys are passed over. A hash is a plain lock if all of its fields are holders, `uuid:number`, and a fenced one if there
    /// are tokens for it. A string is a token lock if it looks like a token, which other strings may do: 20 to 64 letters and digits of
    /// both kinds, or signs of base64. A name that is not text is none.
    ///
    /// See [`operate`](crate::operate#rights) for the rights that it needs.
    ///
    /// # Errors
    ///
    /// Each is an item of its own: [`Error::Invalid`] for a pattern that is empty or ends within a set or with a lone backslash,
    /// [`Error::Closed`], and nothing comes after these; [`Error::Unreachable`] and [`Error::Refused`] for a server that does not
    /// answer or will not, after which the search goes on with the next one: what that one has was not found.
    ///
    /// # Cancel safety
    ///
    /// Changes nothing. The stream may be dropped at any time, and a dropped `next()` loses nothing that was found.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "embedded")]
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> relatch::Result<()> {
    /// use futures_util::StreamExt;
    ///
    /// let client = relatch::Client::embedded();
    /// let guard = client.lock("orders:17").lock().await?;
    /// let mut search = client.find("orders:*");
    /// while let Some(found) = search.next().await {
    ///     let found = found?;
    ///     println!("{} is held by {:?}, for {:?}", found.name, found.holders, found.ttl);
    /// #   assert_eq!(&*found.name, "orders:17");
    /// }
    /// # guard.unlock().await?;
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "embedded"))]
    /// # fn main() {}
    /// ```
    #[cfg_attr(docsrs, doc(cfg(feature = "operate")))]
    pub fn find(&self, pattern: impl AsRef<str>) -> Search {
        self.search(pattern.as_ref(), false)
    }

    /// The same of those whose key has no TTL: nothing frees them if their holder dies. All that [`Client::find`] says holds.
    ///
    /// No lock of this crate is ever like that, and none of Redisson's; a token lock of another library may be, by its user's will. A
    /// job's record among them keeps nobody out, since its attempt ends by what it says itself; it only stays for good.
    ///
    /// # Errors
    ///
    /// As for [`Client::find`].
    ///
    /// # Cancel safety
    ///
    /// As for [`Client::find`].
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
    /// use futures_util::TryStreamExt;
    ///
    /// let mut search = client.find_without_ttl("*");
    /// while let Some(found) = search.try_next().await? {
    ///     println!("{} would be held for ever", found.name);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[cfg_attr(docsrs, doc(cfg(feature = "operate")))]
    pub fn find_without_ttl(&self, pattern: impl AsRef<str>) -> Search {
        self.search(pattern.as_ref(), true)
    }

    fn search(&self, pattern: &str, without_ttl: bool) -> Search {
        let looker = Looker::of(self);
        let names = Names::of(looker.scope.prefix(), pattern);
        Search::of(looker, names, without_ttl)
    }
}
