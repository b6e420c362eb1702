//! What-if: the handlers of this binary run on stored events, nothing is written, and what would follow is compared
//! with what was committed (`compare.rs`). For operators who want to know before they deploy.
//!
//! Nothing here counts for admission: no version is raised, no row is taken, no slot is reserved, no metric moves.

mod compare;

pub use compare::ShownBytes;

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use super::dispatch::{Dispatched, handled_in_tx};
use super::entry::{ProviderEntry, ProviderTable};
use super::plan::Planner;
use super::templates::Rendering;
use crate::handler::{Handled, HandlerError, Handlers, NoAnswer, RawEvent, panic_text};
use compare::{Sides, differences, is_as_it_stands};
use hooklatch_contract::{
    EventTaker, WhatIfChange, WhatIfEffect, WhatIfEvent, WhatIfSaid, WhatIfTaken, WhatIfVerdict,
};
use hooklatch_core::stop;
use hooklatch_core::types::{EventState, Name};
use hooklatch_store::{CameContent, CommittedEvent, NewMessage, Store, trial_ends};

/// The things that what-if stands on.
pub struct WhatIfParts {
    pub store: Store,
    pub planner: Planner,
    pub entries: Arc<ProviderTable>,
    /// Longest time that the handlers of one event may take.
    pub handler_timeout: Duration,
    /// Turns of those that run handlers in a transaction, which admission takes, too.
    pub turns: Arc<Semaphore>,
}

/// An event that its handlers are to be asked about.
pub(super) struct DryRun {
    pub parts: Arc<WhatIfParts>,
    pub entry: Arc<ProviderEntry>,
    pub event: Arc<CommittedEvent>,
    pub content: CameContent,
    /// True when a newer version of its object was received before it.
    pub(crate) is_stale: bool,
    /// True when a transactional handler takes it.
    pub(crate) is_transactional: bool,
}

impl DryRun {
    /// Runs the handlers. To be called on a thread that may be blocked.
    fn follow(&self) -> Result<Vec<NewMessage>, Asked> {
        let (event, provider) = (&*self.event, &self.entry.provider);
        let dispatched = Dispatched {
            key: &event.key,
            event_seq: event.event_seq,
            next_place: 0,
            received_at_ms: event.view.received_at_ms,
            counted_from_ms: event.view.received_at_ms,
            created_at_ms: None,
            // As in the dispatch whose effects were committed.
            attempts_n: event.view.attempts_n.max(1),
            generation: generation(event),
            is_again: false,
            rendering: Rendering::Alone,
        };
        let content = provider.stored_content(&self.content.headers, &self.content.body);
        let seen = dispatched.seen(&event.view.event_type, content.map_err(HandlerError::Refused)?);
        let handlers = provider.handlers();
        let handled = if self.is_transactional {
            Handle::current().block_on(self.in_transaction(handlers, &seen))?
        } else {
            handlers.dispatch(&seen, self.is_stale)
        };
        let planner = &self.parts.planner;
        Ok(planner.messages(&dispatched, &seen, planner.filled(&self.entry, &dispatched, &seen, handled)?)?)
    }

    /// Runs them in a transaction that never stands.
    async fn in_transaction(&self, handlers: &Handlers, seen: &RawEvent) -> Result<Handled, Asked> {
        let begun = self.parts.store.trial_begin().await;
        let mut tx = begun.map_err(|error| Asked::empty(WhatIfSaid::NotRun, error.to_string()))?;
        let handled = handled_in_tx(handlers, self.parts.handler_timeout, &mut tx, seen, self.is_stale).await;
        stop::ignore_result(trial_ends(tx)).await;
        Ok(handled)
    }
}

/// The generation whose effects are compared.
pub(crate) fn generation(event: &CommittedEvent) -> i32 {
    i32::try_from(event.view.generation).unwrap_or(i32::MAX)
}

/// Questions that are answered at once.
const PLACES_N: usize = 2;
/// Time that a question waits for its place, and an event for its turn at a transaction.
const WAIT: Duration = Duration::from_secs(10);
/// Time that a transaction takes besides its handlers.
const TRANSACTION: Duration = Duration::from_secs(10);
/// Most characters of a reason.
const WHY_CHARS_MAX: usize = 500;

/// Runs handlers without writing. Cloning is cheap.
#[derive(Clone)]
pub struct WhatIf {
    parts: Arc<WhatIfParts>,
    places: Arc<Semaphore>,
}

/// The place of a question among the few that are answered at once. A handler that does not return keeps it.
#[derive(Clone)]
pub struct WhatIfPlace {
    _permit: Arc<OwnedSemaphorePermit>,
}

/// The result of asking: the messages that would follow, the handlers' answer, and why.
struct Asked {
    planned: Vec<NewMessage>,
    said: WhatIfSaid,
    why: Option<String>,
}

impl Asked {
    fn empty(said: WhatIfSaid, why: impl Into<String>) -> Self {
        Self { planned: Vec::new(), said, why: Some(why.into()) }
    }
}

impl From<HandlerError> for Asked {
    fn from(error: HandlerError) -> Self {
        Self::empty(kind_of(&error), error.to_string())
    }
}

impl WhatIf {
    pub fn new(parts: WhatIfParts) -> Self {
        Self { parts: Arc::new(parts), places: Arc::new(Semaphore::new(PLACES_N)) }
    }

    /// What this node's configuration has for events of a type.
    pub fn taker(&self, provider: &Name, event_type: &str) -> EventTaker {
        match self.parts.entries.get(provider).map(|entry| entry.provider.handlers()) {
            None => EventTaker::NoProvider,
            Some(handlers) if !handlers.wants(event_type) => EventTaker::Untaken,
            Some(handlers) if handlers.needs_transaction(event_type) => EventTaker::Transaction,
            Some(_) => EventTaker::Taken,
        }
    }

    /// Waits for a place; `None` when others keep theirs for too long.
    pub async fn place(&self) -> Option<WhatIfPlace> {
        let place = timeout(WAIT, Arc::clone(&self.places).acquire_owned()).await.ok()?.ok()?;
        Some(WhatIfPlace { _permit: Arc::new(place) })
    }

    /// What the handlers would make of one event.
    pub async fn run(
        &self,
        place: &WhatIfPlace,
        event: CommittedEvent,
        mut shown: ShownBytes,
    ) -> WhatIfEvent {
        let since = Instant::now();
        let event = Arc::new(event);
        let entry = self.parts.entries.get(&event.key.provider);
        let handlers = entry.map(|entry| entry.provider.handlers());
        let taken_as = handlers.and_then(|handlers| taken_as(handlers, &event));
        let is_transactional =
            handlers.is_some_and(|handlers| handlers.needs_transaction(&event.view.event_type));
        let asked = match entry {
            None => Asked::empty(WhatIfSaid::NotRun, "no provider of this name is configured here"),
            Some(entry) => {
                let is_stale = taken_as == Some(WhatIfTaken::Stale);
                self.asked(place, entry, &event, (is_stale, is_transactional)).await
            }
        };
        let is_asked = !matches!(asked.said, WhatIfSaid::NotRun | WhatIfSaid::Superseded);
        WhatIfEvent {
            is_transactional: is_transactional && is_asked,
            taken_as,
            took_ms: u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX),
            ..self.compared(&event, asked, &mut shown)
        }
    }

    async fn asked(
        &self,
        place: &WhatIfPlace,
        entry: &Arc<ProviderEntry>,
        event: &Arc<CommittedEvent>,
        (is_stale, is_transactional): (bool, bool),
    ) -> Asked {
        if let Some(why) = put_aside(event.view.state) {
            return Asked::empty(WhatIfSaid::NotRun, why);
        }
        let content = match &event.content {
            Ok(content) => content.clone(),
            Err(why) => return Asked::empty(WhatIfSaid::NotRun, why),
        };
        if is_stale && entry.provider.handlers().wants_latest_only(&event.view.event_type) {
            return Asked::empty(WhatIfSaid::Superseded, "a newer version of its object was seen before it");
        }
        let turn = match self.turn(is_transactional).await {
            Ok(turn) => turn,
            Err(why) => return Asked::empty(WhatIfSaid::NotRun, why),
        };
        let run = DryRun {
            parts: Arc::clone(&self.parts),
            entry: Arc::clone(entry),
            event: Arc::clone(event),
            content,
            is_stale,
            is_transactional,
        };
        self.within_time(run, (place.clone(), turn)).await
    }

    /// The turn at a transaction, where one is needed; an error when there is none in time.
    async fn turn(&self, is_needed: bool) -> Result<Option<OwnedSemaphorePermit>, &'static str> {
        if !is_needed {
            return Ok(None);
        }
        match timeout(WAIT, Arc::clone(&self.parts.turns).acquire_owned()).await {
            Ok(Ok(turn)) => Ok(Some(turn)),
            _ => Err("other handlers were busy in transactions for too long: ask again"),
        }
    }

    /// Runs the handlers on a thread of their own, and gives up waiting after a time. What is `held` is kept until they
    /// have returned.
    async fn within_time<T: Send + 'static>(&self, run: DryRun, held: T) -> Asked {
        let limit = self.parts.handler_timeout;
        let patience = if run.is_transactional { limit + TRANSACTION } else { limit };
        let running = tokio::task::spawn_blocking(move || {
            let followed = run.follow();
            drop(held);
            followed
        });
        match timeout(patience, running).await {
            Ok(Ok(Ok(planned))) => Asked { planned, said: WhatIfSaid::Handled, why: None },
            Ok(Ok(Err(nothing))) => nothing,
            Ok(Err(failed)) => {
                let why = match failed.try_into_panic() {
                    Ok(panic) => panic_text(panic.as_ref()).to_owned(),
                    Err(error) => error.to_string(),
                };
                Asked::empty(WhatIfSaid::Panicked, format!("panicked: {why}"))
            }
            Err(_) => {
                let why = format!("handler took longer than {limit:?}, and still runs");
                Asked::empty(WhatIfSaid::TookTooLong, why)
            }
        }
    }

    /// What was asked, beside what was committed.
    fn compared(&self, event: &CommittedEvent, asked: Asked, shown: &mut ShownBytes) -> WhatIfEvent {
        let view = &event.view;
        let key_of = |name: &str| self.parts.planner.key_of(&event.key, generation(event), name);
        let effects = if asked.said == WhatIfSaid::NotRun {
            Vec::new()
        } else {
            let event_body = event.content.as_ref().map(|content| content.body.as_ref()).unwrap_or_default();
            let sides = Sides { committed: &event.effects, planned: &asked.planned, event_body };
            differences(&sides, key_of, shown)
        };
        WhatIfEvent {
            provider: view.provider.clone(),
            event_id: view.event_id.clone(),
            event_type: view.event_type.clone(),
            received_at_ms: view.received_at_ms,
            state: view.state,
            error: view.error.clone(),
            generation: view.generation,
            verdict: verdict(view.state, asked.said, &effects),
            said: asked.said,
            why: asked.why.map(|why| why.chars().filter(|c| *c != '\0').take(WHY_CHARS_MAX).collect()),
            is_transactional: false,
            taken_as: None,
            took_ms: 0,
            effects,
            more_effects_n: 0,
            hidden_effects_n: 0,
        }
    }
}

fn verdict(state: EventState, said: WhatIfSaid, effects: &[WhatIfEffect]) -> WhatIfVerdict {
    let is_same = effects.iter().all(|effect| effect.change == WhatIfChange::Same);
    match said {
        WhatIfSaid::NotRun => WhatIfVerdict::NotRun,
        said if is_same && is_as_it_stands(state, said) => WhatIfVerdict::Unchanged,
        _ => WhatIfVerdict::Changed,
    }
}

/// The word for an error of a handler.
fn kind_of(error: &HandlerError) -> WhatIfSaid {
    match error {
        HandlerError::Ignore(_) => WhatIfSaid::Ignored,
        HandlerError::Refused(_) | HandlerError::Payload(_) => WhatIfSaid::Refused,
        HandlerError::Retry(error) => match error.downcast_ref() {
            Some(NoAnswer::Panicked(_)) => WhatIfSaid::Panicked,
            Some(NoAnswer::TookTooLong(_)) => WhatIfSaid::TookTooLong,
            None => WhatIfSaid::Retry,
        },
    }
}

/// The reason why no handler is asked about an event in this state.
fn put_aside(state: EventState) -> Option<&'static str> {
    match state {
        EventState::Unreadable => Some("it cannot be read, so no handler is asked about it"),
        EventState::Conflict | EventState::Dismissed => {
            Some("it is other content under an id that is taken, so no handler is asked about it")
        }
        EventState::Replayed => Some("it is a replay, so no handler is asked about it"),
        EventState::Handled
        | EventState::Ignored
        | EventState::Superseded
        | EventState::Retry
        | EventState::Failed => None,
    }
}

/// What is assumed of an event's version: as it was when the event was received, as far as rows show, because that is
/// what its effects followed from. It was stale if it stands as superseded, or if the newest version that is known was
/// received before it.
fn taken_as(handlers: &Handlers, event: &CommittedEvent) -> Option<WhatIfTaken> {
    let view = &event.view;
    let version = view.version.filter(|_| handlers.asks_for_latest(&view.event_type))?;
    let was_newer = |(newest, seq): (i64, i64)| newest >= version && seq < event.event_seq;
    let is_stale = view.state == EventState::Superseded || event.newest.is_some_and(was_newer);
    Some(if is_stale { WhatIfTaken::Stale } else { WhatIfTaken::Newest })
}
