//! What the library says through `tracing`, recorded for one test. It filters nothing.

use std::{
    collections::BTreeMap,
    fmt::{self, Write},
    sync::{
        Arc, LazyLock, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tracing::{
    Dispatch, Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
    subscriber::{DefaultGuard, Interest, NoSubscriber},
};

/// While there is only one subscriber, `tracing` asks the thread that comes by an event first whether anybody wants it,
/// for good: with no subscriber of its own that thread would say no for all. So there are always more.
static OTHERS: LazyLock<[Dispatch; 2]> = LazyLock::new(|| [(); 2].map(|()| Dispatch::new(NoSubscriber::new())));

/// Everything that is said on this thread until it is dropped: all of a test whose runtime has this thread alone.
pub(crate) struct Traces {
    said: Arc<Mutex<Vec<Said>>>,
    open: Arc<Mutex<BTreeMap<u64, usize>>>,
    dispatch: Dispatch,
    _default: DefaultGuard,
}

/// One event, or the beginning of a span.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) level: Level,
    /// The crate and module that said it.
    pub(crate) target: String,
    /// The span's name, or the event's message.
    pub(crate) what: String,
    pub(crate) is_span: bool,
    pub(crate) fields: BTreeMap<&'static str, String>,
}

impl Traces {
    /// Records from now on.
    pub(crate) fn here() -> Self {
        Self::heard_by(|_| ())
    }

    /// The same, and calls somebody at everything that is said, where it is said.
    pub(crate) fn heard_by(listener: impl Fn(&Said) + Send + Sync + 'static) -> Self {
        Self::asking(|_| (), listener)
    }

    /// And calls somebody whenever it is asked whether it wants to hear something.
    pub(crate) fn asking(
        asked: impl Fn(&Metadata<'_>) + Send + Sync + 'static,
        listener: impl Fn(&Said) + Send + Sync + 'static,
    ) -> Self {
        LazyLock::force(&OTHERS);
        let (said, open): (Arc<_>, Arc<_>) = Default::default();
        let recorder = Recorder {
            said: Arc::clone(&said),
            spans: AtomicU64::new(0),
            open: Arc::clone(&open),
            asked: Box::new(asked),
            listener: Box::new(listener),
        };
        let dispatch = Dispatch::new(recorder);
        Self { said, open, _default: tracing::dispatcher::set_default(&dispatch), dispatch }
    }

    /// For other threads that are to be recorded, too: each makes it its default.
    pub(crate) fn dispatch(&self) -> Dispatch {
        self.dispatch.clone()
    }

    /// Everything that was said so far, in order.
    pub(crate) fn all(&self) -> Vec<Said> {
        lock(&self.said).clone()
    }

    /// How many spans have begun, whoever's they are, and not ended.
    pub(crate) fn open_spans(&self) -> usize {
        lock(&self.open).len()
    }

    /// The events of this library that have this message.
    pub(crate) fn events(&self, message: &str) -> Vec<Said> {
        let is_it = |said: &Said| !said.is_span && said.is_ours() && said.what == message;
        self.all().into_iter().filter(is_it).collect()
    }
}

impl Said {
    /// Whether the library said it, and not something that it uses.
    pub(crate) fn is_ours(&self) -> bool {
        self.target == "relatch" || self.target.starts_with("relatch::")
    }

    /// A field as text.
    #[track_caller]
    pub(crate) fn field(&self, name: &str) -> &str {
        self.fields.get(name).unwrap_or_else(|| panic!("no field {name} in {self:?}"))
    }
}

struct Recorder {
    said: Arc<Mutex<Vec<Said>>>,
    spans: AtomicU64,
    /// Spans that have not ended, and how often each is kept.
    open: Arc<Mutex<BTreeMap<u64, usize>>>,
    asked: Box<dyn Fn(&Metadata<'_>) + Send + Sync>,
    listener: Box<dyn Fn(&Said) + Send + Sync>,
}

impl Recorder {
    fn record(&self, metadata: &Metadata<'_>, mut fields: Fields) {
        let is_span = metadata.is_span();
        let message = fields.0.remove("message").unwrap_or_default();
        let what = if is_span { metadata.name().to_owned() } else { message };
        let (level, target) = (*metadata.level(), metadata.target().to_owned());
        let said = Said { level, target, what, is_span, fields: fields.0 };
        lock(&self.said).push(said.clone());
        (self.listener)(&said);
    }
}

impl Subscriber for Recorder {
    /// Asked of every recorder, on the thread of whoever comes by an event first or makes a subscriber: that may be another test's,
    /// and nobody is to work for this one there.
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        (self.asked)(metadata);
        true
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        self.record(attributes.metadata(), fields);
        let id = self.spans.fetch_add(1, Ordering::Relaxed) + 1;
        lock(&self.open).insert(id, 1);
        span::Id::from_u64(id)
    }

    fn clone_span(&self, id: &span::Id) -> span::Id {
        *lock(&self.open).entry(id.into_u64()).or_default() += 1;
        id.clone()
    }

    fn try_close(&self, id: span::Id) -> bool {
        let mut open = lock(&self.open);
        let Some(kept) = open.get_mut(&id.into_u64()) else { return false };
        *kept -= 1;
        let over = *kept == 0;
        if over {
            open.remove(&id.into_u64());
        }
        over
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        self.record(event.metadata(), fields);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = String::new();
        write!(text, "{value:?}").expect("a text takes text");
        self.0.insert(field.name(), text);
    }
}

fn lock<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn what_is_said_is_recorded_with_its_fields_until_the_record_is_dropped() {
    let traces = Traces::here();
    tracing::info!(target: "relatch::engine", lock = "a", count = 3, "said");
    tracing::info!(target: "other", "said");
    let _span = tracing::debug_span!(target: "relatch", "spanned", lock = %"b");
    let [said] = traces.events("said").try_into().expect("one event of ours");
    assert_eq!((said.field("lock"), said.field("count"), said.level), ("a", "3", Level::INFO));
    assert_eq!(traces.all().iter().filter(|said| said.is_span && said.field("lock") == "b").count(), 1);
    drop(traces);
    let traces = Traces::here();
    assert!(traces.all().is_empty());
}
