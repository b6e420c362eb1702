//! The handlers and routes of one configured provider, and how an event is given to them.

use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::answer::Handled;
use super::dispatch::Dispatch;
use super::event::{Event, RawEvent};
use super::function::{ParseFn, PlainFn, TxFn, TxHandler, run_contained};
use super::texts::EventTexts;
use hooklatch_core::config::RouteConfig;
use hooklatch_core::filter::{Filter, Place};
use hooklatch_core::types::TypePattern;
use hooklatch_store::Tx;

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
        let call: PlainFn = Arc::new(move |raw| handler(raw.typed()?));
        self.list.push(Registration { pattern, latest, action: Action::Plain(call) });
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
        for one in self.matching(&event.event_type) {
            if is_stale && one.latest {
                continue;
            }
            match &one.action {
                Action::Plain(call) => all.add(run_contained(call, event))?,
                Action::Route(route) => all.add_route(route, &texts)?,
                Action::Transactional(..) => {}
            }
        }
        all.finish()
    }

    /// Runs every handler of `event` inside `tx`, the transactional ones included. The caller rolls back on
    /// `Err`, and contains panics by running this in a task.
    pub(crate) async fn dispatch_in_tx(&self, tx: &mut Tx, event: &RawEvent, is_stale: bool) -> Handled {
        let (mut all, texts) = (Dispatch::default(), EventTexts::new(event));
        for one in self.matching(&event.event_type) {
            if is_stale && one.latest {
                continue;
            }
            match &one.action {
                Action::Plain(call) => all.add(run_contained(call, event))?,
                Action::Route(route) => all.add_route(route, &texts)?,
                Action::Transactional(_, call) => {
                    let answer = call(tx, event).await;
                    all.add(answer)?;
                }
            }
        }
        all.finish()
    }
}
