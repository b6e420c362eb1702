//! The handlers and routes of one configured provider, and how an event is given to them: each function of a user is
//! brought to one shape, whatever its payload is, and what several of them answer is added up.

use std::collections::HashSet;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::effects::{Effects, Handled, HandlerError, Message, ignore, refuse};
use super::event::{Event, EventTexts, RawEvent};
use hooklatch_core::config::RouteConfig;
use hooklatch_core::filter::{Filter, Place};
use hooklatch_core::types::TypePattern;
use hooklatch_store::Tx;

/// A plain handler, whatever its payload is.
pub(super) type PlainFn = Arc<dyn Fn(&RawEvent) -> Handled + Send + Sync>;
/// Parses an event for a transactional handler, before its transaction begins.
pub(super) type ParseFn = Arc<dyn Fn(&RawEvent) + Send + Sync>;
/// The answer of a transactional handler, to be waited for.
pub(super) type TxFuture<'a> = Pin<Box<dyn Future<Output = Handled> + Send + 'a>>;
/// A transactional handler, whatever its payload is.
pub(super) type TxFn = Arc<dyn for<'a> Fn(&'a mut Tx, &RawEvent) -> TxFuture<'a> + Send + Sync>;

/// An `async fn(&mut Tx, Event<T>) -> Handled`. Implemented for every such function; not for users to implement.
pub trait TxHandler<'a, T>: Send + Sync {
    /// The future that the function returns.
    type Output: Future<Output = Handled> + Send + 'a;
    /// Calls the function with its transaction.
    fn call(&self, tx: &'a mut Tx, event: Event<T>) -> Self::Output;
}

impl<'a, F, A, T> TxHandler<'a, T> for F
where
    F: Fn(&'a mut Tx, Event<T>) -> A + Send + Sync,
    A: Future<Output = Handled> + Send + 'a,
{
    type Output = A;
    fn call(&self, tx: &'a mut Tx, event: Event<T>) -> A {
        self(tx, event)
    }
}

/// The reason why a handler gave no answer. The event is dispatched again later.
#[derive(Debug, thiserror::Error)]
pub enum NoAnswer {
    /// A handler panicked, with these words.
    #[error("handler panicked: {0}")]
    Panicked(String),
    /// A handler was given up after so long.
    #[error("handler took longer than {0:?}")]
    TookTooLong(Duration),
}

impl From<NoAnswer> for HandlerError {
    fn from(why: NoAnswer) -> Self {
        Self::Retry(anyhow::Error::new(why))
    }
}

/// Runs a plain handler. A panic of it is an error of this event alone.
pub(super) fn run_contained(call: &PlainFn, event: &RawEvent) -> Handled {
    catch_unwind(AssertUnwindSafe(|| call(event)))
        .unwrap_or_else(|panic| Err(NoAnswer::Panicked(panic_text(panic.as_ref()).to_owned()).into()))
}

/// The words of a panic, for the event's `error` column.
pub fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

/// The reason of an event that routes would take by its type, and none by its `when`.
pub(crate) const NO_MATCH: &str = "no route takes it: `when` is false";

/// Adds up what several handlers of one event answer. One that ignores the event does not stop the others.
#[derive(Default)]
pub(crate) struct Dispatch {
    effects: Effects,
    handled_n: usize,
    ignored: Option<&'static str>,
    /// True when the `when` of a route was false.
    is_filtered: bool,
}

impl Dispatch {
    /// Runs one plain handler or route.
    fn run(&mut self, action: &Action, event: &RawEvent, texts: &EventTexts<'_>) -> Result<(), HandlerError> {
        match action {
            Action::Plain(call) => self.add(run_contained(call, event)),
            Action::Route(route) => self.add_route(route, texts),
            Action::Transactional(..) => Ok(()),
        }
    }

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

    /// A `when` that cannot be decided would drop events silently, and a lane without a value lose their order: such
    /// an event is refused, kept and shown.
    pub(super) fn add_route(&mut self, route: &Route, texts: &EventTexts<'_>) -> Result<(), HandlerError> {
        let of_route = |key: &str, why: String| {
            HandlerError::Refused(format!("{key} of the route to `{}`: {why}", route.to))
        };
        if let Some(filter) = &route.when
            && !filter.passes(texts).map_err(|why| of_route("when", why))?
        {
            self.is_filtered = true;
            return Ok(());
        }
        self.handled_n += 1;
        if self.effects.messages.iter().any(|m| m.name == route.to) {
            return Ok(());
        }
        let mut message = Message::to(&route.to);
        if let Some(place) = &route.lane {
            message = message.lane(texts.id_text(place).map_err(|why| of_route("lane", why))?);
        }
        self.effects.messages.push(message);
        Ok(())
    }

    pub(crate) fn finish(self) -> Handled {
        if self.handled_n == 0 {
            let none = if self.is_filtered { NO_MATCH } else { "no handler or route takes this type" };
            return ignore(self.ignored.unwrap_or(none));
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

/// The action on an event: one function, or one route.
#[derive(Clone)]
enum Action {
    Plain(PlainFn),
    Transactional(ParseFn, TxFn),
    Route(Arc<Route>),
}

/// A route of the configuration.
pub(super) struct Route {
    pub to: String,
    pub lane: Option<Place>,
    pub when: Option<Filter>,
}

/// One line of a provider's list: the types, the action, and `latest` when only an object's latest version counts.
#[derive(Clone)]
struct Registration {
    pattern: TypePattern,
    latest: bool,
    action: Action,
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
        let action = Action::Plain(Arc::new(move |raw| handler(raw.typed()?)));
        self.list.push(Registration { pattern, latest, action });
    }

    /// Registers a transactional handler.
    pub(crate) fn add_transactional<T, H>(&mut self, pattern: TypePattern, latest: bool, handler: H)
    where
        T: DeserializeOwned + Send + 'static,
        H: for<'a> TxHandler<'a, T> + 'static,
    {
        let parse: ParseFn = Arc::new(RawEvent::parse_ahead::<T>);
        let call: TxFn = Arc::new(move |tx, raw| match raw.take_typed() {
            Ok(event) => Box::pin(handler.call(tx, event)),
            Err(error) => Box::pin(std::future::ready(Err(error.into()))),
        });
        self.list.push(Registration { pattern, latest, action: Action::Transactional(parse, call) });
    }

    /// Registers a route: events of these types go to `to` as they are. A second route of one event to the
    /// same destination adds nothing.
    pub(crate) fn add_route(&mut self, pattern: TypePattern, route: &RouteConfig) {
        let (to, lane, when) = (route.to.to_string(), route.lane.clone(), route.when.clone());
        let action = Action::Route(Arc::new(Route { to, lane, when }));
        self.list.push(Registration { pattern, latest: route.latest, action });
    }

    /// The patterns of what was registered, in order.
    pub fn patterns(&self) -> impl Iterator<Item = &TypePattern> {
        self.list.iter().map(|one| &one.pattern)
    }

    fn matching(&self, event_type: &str) -> impl Iterator<Item = &Registration> {
        self.list.iter().filter(move |one| one.pattern.matches(event_type))
    }

    /// True when anything takes this type.
    pub fn wants(&self, event_type: &str) -> bool {
        self.matching(event_type).next().is_some()
    }

    /// True when a transactional handler takes this type, so that it needs a transaction of its own.
    pub fn needs_transaction(&self, event_type: &str) -> bool {
        self.matching(event_type).any(|one| matches!(one.action, Action::Transactional(..)))
    }

    /// True when no code takes this type: what follows from such an event is known before it is latched.
    pub fn is_only_routed(&self, event_type: &str) -> bool {
        self.matching(event_type).all(|one| matches!(one.action, Action::Route(_)))
    }

    /// The destinations of this type's routes; `None` when code takes it, which may call any.
    pub fn routed_to(&self, event_type: &str) -> Option<Vec<String>> {
        let to = |one: &Registration| match &one.action {
            Action::Route(route) => Some(route.to.clone()),
            Action::Plain(_) | Action::Transactional(..) => None,
        };
        self.matching(event_type).map(to).collect()
    }

    /// True when everything that takes this type wants only the newest version of an object.
    pub(crate) fn wants_latest_only(&self, event_type: &str) -> bool {
        self.matching(event_type).all(|one| one.latest) && self.wants(event_type)
    }

    /// True when something that takes this type wants only the newest version of an object.
    pub(crate) fn asks_for_latest(&self, event_type: &str) -> bool {
        self.matching(event_type).any(|one| one.latest)
    }

    /// True when anything here asks for the newest version of an object only.
    pub(crate) fn uses_latest(&self) -> bool {
        self.list.iter().any(|one| one.latest)
    }

    /// Parses `event` for its transactional handlers, before their transaction begins.
    pub(crate) fn parse_ahead(&self, event: &RawEvent) {
        for one in self.matching(&event.event_type) {
            if let Action::Transactional(parse, _) = &one.action {
                parse(event);
            }
        }
    }

    /// Runs the plain handlers and routes of `event`. `is_stale` leaves out those marked `latest`. A panic is an error
    /// of this event alone.
    pub fn dispatch(&self, event: &RawEvent, is_stale: bool) -> Handled {
        let (mut all, texts) = (Dispatch::default(), EventTexts::new(event));
        for one in self.matching(&event.event_type).filter(|one| !(is_stale && one.latest)) {
            all.run(&one.action, event, &texts)?;
        }
        all.finish()
    }

    /// Runs every handler of `event` inside `tx`, the transactional ones included. The caller rolls back on
    /// `Err`, and contains panics by running this in a task.
    pub(crate) async fn dispatch_in_tx(&self, tx: &mut Tx, event: &RawEvent, is_stale: bool) -> Handled {
        let (mut all, texts) = (Dispatch::default(), EventTexts::new(event));
        for one in self.matching(&event.event_type).filter(|one| !(is_stale && one.latest)) {
            match &one.action {
                Action::Transactional(_, call) => {
                    let answer = call(tx, event).await;
                    all.add(answer)?;
                }
                action => all.run(action, event, &texts)?,
            }
        }
        all.finish()
    }
}
