//! What users write: handlers, from an event to effects.
//!
//! A plain handler does no I/O (its signature has no `async`): it runs between two statements of the
//! transaction that admits the event. A transactional handler gets that transaction, in one of its own.
//! Start reading at [`Event`], [`Effects`] and [`Handled`].

mod effects;

use std::collections::HashSet;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use serde::de::DeserializeOwned;

use crate::config::RouteConfig;
use crate::read::json_text;
use crate::store::Tx;
pub use crate::types::TypePattern;
use crate::types::{Name, UnixMs};

pub use effects::{Effects, Message};

/// An event as a handler sees it.
#[derive(Debug, Clone)]
pub struct Event<T> {
    /// The configured provider it came through.
    pub provider: Name,
    /// The provider's own id; with `provider` it names the event for ever.
    pub id: String,
    /// The provider's word for what happened, such as `invoice.paid`.
    pub event_type: String,
    /// What the kind's `payload` pointer points at.
    pub payload: T,
    /// When the first copy arrived.
    pub received_at_ms: UnixMs,
    /// 1 at admission, one more at each retry.
    pub attempt_n: u32,
}

/// What a handler answers with.
pub type Handled = Result<Effects, HandlerError>;

/// Why a handler did not answer with effects. The variant is the decision.
#[derive(Debug, thiserror::Error)]
pub enum HandlerError {
    /// Failed for now: the event is kept as `retry` and dispatched again with back-off.
    #[error("{0:#}")]
    Retry(#[from] anyhow::Error),
    /// The payload is not what the handler expects: kept as `failed`.
    #[error("payload does not fit the handler: {0}")]
    Payload(#[from] serde_json::Error),
    /// Refused for good: kept as `failed`.
    #[error("{0}")]
    Refused(String),
    /// Nothing to do: kept as `ignored`.
    #[error("{0}")]
    Ignore(&'static str),
}

/// Ends a handler with nothing to do; `why` is shown with the event.
pub fn ignore(why: &'static str) -> Handled {
    Err(HandlerError::Ignore(why))
}

/// Ends a handler for good: the event is kept as `failed` with `why` and not tried again by itself.
pub fn refuse(why: impl Into<String>) -> Handled {
    Err(HandlerError::Refused(why.into()))
}

/// An event as dispatch sees it, before a handler's own type is known.
#[derive(Debug, Clone)]
pub struct RawEvent {
    /// The configured provider.
    pub provider: Name,
    /// The provider's id.
    pub event_id: String,
    /// The provider's type.
    pub event_type: String,
    /// JSON text of what the spec's `payload` points at.
    pub payload: Bytes,
    /// When the first copy arrived.
    pub received_at_ms: UnixMs,
    /// 1 at admission.
    pub attempt_n: u32,
}

impl RawEvent {
    fn typed<T: DeserializeOwned>(&self) -> Result<Event<T>, HandlerError> {
        Ok(Event {
            provider: self.provider.clone(),
            id: self.event_id.clone(),
            event_type: self.event_type.clone(),
            payload: serde_json::from_slice(&self.payload)?,
            received_at_ms: self.received_at_ms,
            attempt_n: self.attempt_n,
        })
    }
}

type PlainFn = Arc<dyn Fn(&RawEvent) -> Handled + Send + Sync>;
type TxFuture<'a> = Pin<Box<dyn Future<Output = Handled> + Send + 'a>>;
type TxFn = Arc<dyn for<'a> Fn(&'a mut Tx, &RawEvent) -> TxFuture<'a> + Send + Sync>;

/// An `async fn(&mut Tx, Event<T>) -> Handled`. Implemented for every such function; not for users to implement.
pub trait TxHandler<'a, T>: Send + Sync {
    /// What the function returns.
    type Answer: Future<Output = Handled> + Send + 'a;
    /// Calls the function.
    fn call(&self, tx: &'a mut Tx, event: Event<T>) -> Self::Answer;
}

impl<'a, F, A, T> TxHandler<'a, T> for F
where
    F: Fn(&'a mut Tx, Event<T>) -> A + Send + Sync,
    A: Future<Output = Handled> + Send + 'a,
{
    type Answer = A;
    fn call(&self, tx: &'a mut Tx, event: Event<T>) -> A {
        self(tx, event)
    }
}

#[derive(Clone)]
enum Door {
    Plain(PlainFn),
    Transactional(TxFn),
    Route { to: String, lane: Option<String> },
}

/// One line of a provider's list: which types, what to do, and whether only the latest version counts.
#[derive(Clone)]
struct Registration {
    pattern: TypePattern,
    latest: bool,
    door: Door,
}

/// All handlers and routes of one configured provider.
#[derive(Clone, Default)]
pub struct Handlers {
    list: Vec<Registration>,
}

impl Handlers {
    /// Registers a plain handler.
    pub(crate) fn add_plain<T, F>(&mut self, pattern: TypePattern, latest: bool, handler: F)
    where
        T: DeserializeOwned,
        F: Fn(Event<T>) -> Handled + Send + Sync + 'static,
    {
        let call: PlainFn = Arc::new(move |raw| handler(raw.typed()?));
        self.list.push(Registration { pattern, latest, door: Door::Plain(call) });
    }

    /// Registers a transactional handler.
    pub(crate) fn add_transactional<T, H>(&mut self, pattern: TypePattern, latest: bool, handler: H)
    where
        T: DeserializeOwned + Send + 'static,
        H: for<'a> TxHandler<'a, T> + 'static,
    {
        let call: TxFn = Arc::new(move |tx, raw| match raw.typed() {
            Ok(event) => Box::pin(handler.call(tx, event)),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        });
        self.list.push(Registration { pattern, latest, door: Door::Transactional(call) });
    }

    /// Registers a route: events of these types go to `to` as they are. A second route of one event to the
    /// same destination adds nothing.
    pub(crate) fn add_route(&mut self, pattern: TypePattern, route: &RouteConfig) {
        let door = Door::Route { to: route.to.to_string(), lane: route.lane.clone() };
        self.list.push(Registration { pattern, latest: route.latest, door });
    }

    fn matching(&self, event_type: &str) -> impl Iterator<Item = &Registration> {
        self.list.iter().filter(move |one| one.pattern.matches(event_type))
    }

    /// Whether anything takes this type.
    pub fn wants(&self, event_type: &str) -> bool {
        self.matching(event_type).next().is_some()
    }

    /// Whether a transactional handler takes this type, so that it needs a transaction of its own.
    pub fn needs_transaction(&self, event_type: &str) -> bool {
        self.matching(event_type).any(|one| matches!(one.door, Door::Transactional(_)))
    }

    /// Whether no code takes this type: what follows from such an event is known before it is latched.
    pub fn is_only_routed(&self, event_type: &str) -> bool {
        self.matching(event_type).all(|one| matches!(one.door, Door::Route { .. }))
    }

    /// Whether everything that takes this type wants only the newest version of an object.
    pub fn wants_latest_only(&self, event_type: &str) -> bool {
        self.matching(event_type).all(|one| one.latest) && self.wants(event_type)
    }

    /// Whether anything here asks for the newest version of an object only.
    pub fn uses_latest(&self) -> bool {
        self.list.iter().any(|one| one.latest)
    }

    /// Runs the plain handlers and routes of `event`. `is_stale` leaves out those marked `latest`.
    /// A panic is an error of this event alone.
    pub fn dispatch(&self, event: &RawEvent, is_stale: bool) -> Handled {
        let mut all = Dispatch::default();
        for one in self.matching(&event.event_type) {
            if is_stale && one.latest {
                continue;
            }
            match &one.door {
                Door::Plain(call) => all.add(run_contained(call, event))?,
                Door::Route { to, lane } => all.add_route(to, lane.as_deref(), event)?,
                Door::Transactional(_) => {}
            }
        }
        all.finish()
    }

    /// Runs every handler of `event` inside `tx`, the transactional ones included. The caller rolls back on
    /// `Err`, and contains panics by running this in a task.
    pub async fn dispatch_in_tx(&self, tx: &mut Tx, event: &RawEvent, is_stale: bool) -> Handled {
        let mut all = Dispatch::default();
        for one in self.matching(&event.event_type) {
            if is_stale && one.latest {
                continue;
            }
            match &one.door {
                Door::Plain(call) => all.add(run_contained(call, event))?,
                Door::Route { to, lane } => all.add_route(to, lane.as_deref(), event)?,
                Door::Transactional(call) => {
                    let answer = call(tx, event).await;
                    all.add(answer)?;
                }
            }
        }
        all.finish()
    }
}

fn run_contained(call: &PlainFn, event: &RawEvent) -> Handled {
    catch_unwind(AssertUnwindSafe(|| call(event))).unwrap_or_else(|panic| {
        Err(HandlerError::Retry(anyhow::anyhow!("handler panicked: {}", panic_text(panic.as_ref()))))
    })
}

/// The words of a panic, for the event's `error` column.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

/// Adds up what several handlers of one event answer. One that ignores the event does not stop the others.
#[derive(Default)]
struct Dispatch {
    effects: Effects,
    handled_n: usize,
    ignored: Option<&'static str>,
}

impl Dispatch {
    fn add(&mut self, answer: Handled) -> Result<(), HandlerError> {
        match answer {
            Ok(effects) => {
                self.handled_n += 1;
                self.effects.messages.extend(effects.messages);
                Ok(())
            }
            Err(HandlerError::Ignore(why)) => {
                self.ignored = Some(why);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// `lane` points into the payload. Without a value there the order would be lost silently, so the event
    /// is refused, kept and shown.
    fn add_route(&mut self, to: &str, lane: Option<&str>, event: &RawEvent) -> Result<(), HandlerError> {
        self.handled_n += 1;
        if self.effects.messages.iter().any(|m| m.name == to) {
            return Ok(());
        }
        let mut message = Message::to(to);
        if let Some(pointer) = lane {
            let value = json_text(&event.payload, pointer);
            message = message
                .lane(value.map_err(|why| HandlerError::Refused(format!("lane of the route: {why}")))?);
        }
        self.effects.messages.push(message);
        Ok(())
    }

    fn finish(self) -> Handled {
        if self.handled_n == 0 {
            return ignore(self.ignored.unwrap_or("no handler or route takes this type"));
        }
        let mut names = HashSet::new();
        for message in &self.effects.messages {
            message.checked().map_err(HandlerError::Refused)?;
            if !names.insert(message.name.as_str()) {
                return refuse(format!(
                    "two effects are named `{}`; name one with `.named(…)`",
                    message.name
                ));
            }
        }
        Ok(self.effects)
    }
}
