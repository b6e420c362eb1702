//! Turns what became of an event into rows and messages, after a restore otherwise: messages may have been sent, and
//! numbers may have been given. No I/O besides reading the clock.

use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

use super::decision::Decision;
use super::dispatch::{Dispatched, contained};
use super::entry::ProviderEntry;
use super::templates::RenderAlone;
use crate::handler::{Effects, Handled, HandlerError, Message, RawEvent};
use hooklatch_core::backoff;
use hooklatch_core::config::OnHandlerError;
use hooklatch_core::types::{
    Clock, EventKey, EventState, IncomingEvent, MESSAGES_N_MAX, MessageId, UnixMs, idempotency_key,
};
use hooklatch_store::{EventUpdate, LostTime, NewMessage, Writes};

/// Where further runs after a restore may begin, and how far these places are apart.
const PLACES_N: i64 = 14;
const PLACES_APART: i64 = 64;

/// The times that restores took away, the newest last.
#[derive(Debug, Clone, Default)]
pub(super) struct Restored(pub(super) Vec<LostTime>);

impl Restored {
    /// The earliest time at which the messages of an event may have been sent by the server that was restored from.
    /// What a person ordered since a restore was not sent before it: the generation says so. A run that was ordered
    /// earlier may have waited in the backup, and been sent in the time that is lost.
    pub(super) fn unknown_since(
        &self,
        generation: i32,
        (created_at_ms, received_at_ms): (Option<UnixMs>, UnixMs),
    ) -> Option<UnixMs> {
        let all = self.0.iter().filter(|lost| i64::from(generation) <= lost.restored_s);
        all.filter_map(|lost| lost.may_have_seen(created_at_ms, received_at_ms)).min()
    }

    /// The first place of an event's messages. A further run that a restore took away had the places behind those that
    /// there are, under other keys: one after it begins further on, where the moment of the restore says. Where there
    /// is no room, numbers are as they come; keys differ all the same.
    pub(super) fn first_place(
        &self,
        generation: i32,
        received_at_ms: UnixMs,
        (next_place, wanted_n): (u16, usize),
    ) -> u16 {
        let lost = self.0.last().filter(|lost| generation > 0 && received_at_ms <= lost.until_ms);
        let further =
            lost.map_or(0, |lost| PLACES_APART * (1 + (lost.until_ms / 1_000).rem_euclid(PLACES_N)));
        let place = u16::try_from(further).unwrap_or_default().max(next_place);
        let is_room = usize::from(MESSAGES_N_MAX.saturating_sub(place)) >= wanted_n;
        if is_room { place } else { next_place }
    }
}

/// Rows and messages of one event whose handlers answered.
#[derive(Debug, Clone)]
pub(super) struct Planned {
    messages: Vec<NewMessage>,
    /// The row, where it is to say something else than it was inserted with.
    update: Option<EventUpdate>,
}

impl Planned {
    /// True when it is to be dispatched again at once, alone.
    pub(super) fn is_put_off(&self) -> bool {
        self.update.as_ref().is_some_and(|update| update.state == EventState::Retry)
    }

    /// Adds it to what is to be written of others.
    pub(super) fn add_to(self, writes: &mut Writes) {
        writes.messages.extend(self.messages);
        writes.updates.extend(self.update);
    }
}

/// The reason why nothing was planned for an event: its handlers failed.
#[derive(Debug)]
pub(super) enum NotPlanned {
    /// Its provider answers 500 then, so nothing of its request is to be written.
    Rejected(String),
    /// It is to be kept as one that failed ([`Planner::failed`]), without what its handlers wrote.
    Failed(HandlerError),
}

/// Plans what is written. One for all providers.
pub struct Planner {
    clock: Clock,
    /// Part of every idempotency key.
    installation_id: Uuid,
    /// What a restore took away, if there was one.
    restored: Restored,
}

impl Planner {
    pub fn new(clock: Clock, installation_id: Uuid) -> Self {
        Self { clock, installation_id, restored: Restored::default() }
    }

    /// Plans after a restore: of what the lost time may have seen it is unknown whether it was sent.
    pub fn after(self, lost: Vec<LostTime>) -> Self {
        Self { restored: Restored(lost), ..self }
    }

    /// After an event's handlers answered: destinations are looked at and templates filled in, a
    /// provider that wants to reject does, and the rest is planned. In this order, for every driver.
    pub(super) fn conclude(
        &self,
        entry: &ProviderEntry,
        event: &Dispatched<'_>,
        seen: &RawEvent,
        handled: Handled,
    ) -> Result<Planned, NotPlanned> {
        let part = if event.is_again { "retry" } else { "dispatch" };
        let row = |update| Planned { messages: Vec::new(), update: Some(update) };
        match contained(part, || self.filled(entry, event, seen, handled)) {
            Ok(effects) => Ok(match self.messages(event, seen, effects) {
                Ok(messages) => {
                    let update = event.is_again.then(|| self.update(event, EventState::Handled, None));
                    Planned { messages, update }
                }
                Err(error) => row(self.failed(entry, event, &error)),
            }),
            Err(HandlerError::Ignore(why)) => {
                Ok(row(self.update(event, EventState::Ignored, Some(why.to_owned()))))
            }
            // Nothing failed: it waits until its templates are filled in with nothing else waiting.
            Err(HandlerError::Retry(error)) if error.is::<RenderAlone>() => Ok(row(EventUpdate {
                attempts_n: event.attempts_n.saturating_sub(1),
                due_at_ms: Some(event.received_at_ms),
                ..self.update(event, EventState::Retry, Some(error.to_string()))
            })),
            // The sender does not wait for the answer to an event that is tried later.
            Err(error) if !event.is_again && rejects(entry) => Err(NotPlanned::Rejected(error.to_string())),
            Err(error) => Err(NotPlanned::Failed(error)),
        }
    }

    /// The key of an effect.
    pub(crate) fn key_of(&self, key: &EventKey, generation: i32, effect_name: &str) -> String {
        idempotency_key(&self.installation_id, key, generation, effect_name)
    }

    /// The row of an event whose handlers failed: again later where that may help, else `failed`.
    pub fn failed(&self, entry: &ProviderEntry, event: &Dispatched<'_>, error: &HandlerError) -> EventUpdate {
        match error {
            HandlerError::Retry(_) => self.retry_update(entry, event, error),
            _ => self.update(event, EventState::Failed, Some(error.to_string())),
        }
    }

    /// The row of a new event that is not dispatched, where it does not say so yet.
    pub(super) fn undispatched(
        &self,
        decision: Decision,
        event: &IncomingEvent,
        event_seq: i64,
    ) -> Option<EventUpdate> {
        let row = |state, why| self.update(&Dispatched::never(event, event_seq), state, why);
        let later = |at_ms, why| EventUpdate { due_at_ms: Some(at_ms), ..row(EventState::Retry, Some(why)) };
        match decision {
            Decision::Rest | Decision::Dispatch => None,
            Decision::Unreadable => Some(row(EventState::Unreadable, event.unreadable.clone())),
            Decision::Undispatched => {
                let why = "a test event, which was not to be dispatched".to_owned();
                Some(row(EventState::Ignored, Some(why)))
            }
            Decision::Later(not_before_ms) => {
                let why =
                    "a copy came within the window of this signal: dispatched once more when that has ended";
                Some(later(not_before_ms, why.to_owned()))
            }
            Decision::Paused(why) => Some(later(event.received_at_ms, why.to_string())),
            Decision::Superseded => Some(self.superseded(&Dispatched::first(event, event_seq))),
        }
    }

    /// The row of an event that none of its handlers wants any more.
    pub(super) fn superseded(&self, event: &Dispatched<'_>) -> EventUpdate {
        let why = "a newer version of its object was seen before it".to_owned();
        self.update(event, EventState::Superseded, Some(why))
    }

    /// The answer of the handlers, with the templates of its messages' destinations filled in.
    pub fn filled(
        &self,
        entry: &ProviderEntry,
        event: &Dispatched<'_>,
        seen: &RawEvent,
        handled: Handled,
    ) -> Handled {
        let key_of = |name: &str| self.key_of(event.key, event.generation, name);
        entry.destinations.fill_now(seen, destined(entry, handled?)?, event.rendering, key_of)
    }

    /// The row of an event that failed for now: again later, or `failed` when it was the last time.
    fn retry_update(
        &self,
        entry: &ProviderEntry,
        event: &Dispatched<'_>,
        error: &HandlerError,
    ) -> EventUpdate {
        let now_ms = self.clock.now_ms();
        let mut update = self.update(event, EventState::Retry, Some(error.to_string()));
        // A person had it dispatched once more: its attempts began again, so the first copy's age says nothing.
        let first_at_ms = if event.generation > 0 { now_ms } else { event.counted_from_ms };
        if backoff::is_exhausted(&entry.retry, event.attempts_n, first_at_ms, now_ms) {
            update.state = EventState::Failed;
        } else {
            let delay_ms = backoff::delay_ms(&entry.retry, event.attempts_n, fastrand::f64());
            // Setting the clock back does not make it wait until it is as late again.
            update.due_at_ms = Some(self.clock.steady_ms().saturating_add(delay_ms));
        }
        update
    }

    /// A row in `state`, with `error` cut to what a column and a screen can bear.
    pub fn update(&self, event: &Dispatched<'_>, state: EventState, error: Option<String>) -> EventUpdate {
        EventUpdate {
            event_seq: event.event_seq,
            key: event.key.clone(),
            state,
            error: error.map(|text| text.chars().filter(|c| *c != '\0').take(500).collect()),
            attempts_n: event.attempts_n,
            due_at_ms: None,
            processed_at_ms: self.clock.now_ms(),
        }
    }

    /// The messages of these effects, each at its place.
    pub fn messages(
        &self,
        event: &Dispatched<'_>,
        seen: &RawEvent,
        effects: Effects,
    ) -> Result<Vec<NewMessage>, HandlerError> {
        let (now_ms, shard, key) = (self.clock.now_ms(), event.key.shard(), Arc::new(event.key.clone()));
        let wanted_n = effects.messages().len();
        let times = (event.created_at_ms, event.received_at_ms);
        let unknown_since_ms = self.restored.unknown_since(event.generation, times);
        let room = (event.next_place, wanted_n);
        let first_place = self.restored.first_place(event.generation, event.received_at_ms, room);
        let bytes_n = |body: &Bytes| u32::try_from(body.len()).unwrap_or(u32::MAX);
        let one = |(place, message): (u16, Message)| {
            Some(NewMessage {
                message_id: MessageId::of(event.event_seq, place)?,
                event: Arc::clone(&key),
                shard,
                generation: event.generation,
                effect_name: message.name,
                destination: message.destination,
                method: message.method,
                path: message.path,
                headers: message.headers,
                body_bytes_n: bytes_n(message.body.as_ref().unwrap_or(seen.envelope.bytes())),
                body: message.body,
                // No real call waits behind that of a test event.
                lane: message.lane.filter(|_| !event.key.is_synthetic()),
                created_at_ms: now_ms,
                lease: None,
                unknown_since_ms,
            })
        };
        let planned: Vec<NewMessage> = (first_place..).zip(effects.into_messages()).filter_map(one).collect();
        if planned.len() < wanted_n {
            let why =
                format!("an event has {MESSAGES_N_MAX} messages at most, those of its re-runs included");
            return Err(HandlerError::Refused(why));
        }
        Ok(planned)
    }
}

/// Refuses messages to destinations that are not configured: they would wait permanently, unseen.
fn destined(entry: &ProviderEntry, effects: Effects) -> Handled {
    match effects.messages().iter().find(|message| !entry.destinations.has(&message.destination)) {
        Some(message) => {
            Err(HandlerError::Refused(format!("no destination is called `{}`", message.destination)))
        }
        None => Ok(effects),
    }
}

/// True when the provider answers 500 for a request whose handlers failed.
pub(super) fn rejects(entry: &ProviderEntry) -> bool {
    entry.on_handler_error == OnHandlerError::Reject
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admit::Templates;
    use crate::admit::templates::Rendering;
    use crate::handler::{EventContent, ignore, refuse};
    use crate::provider::Provider;
    use hooklatch_core::types::Name;

    #[test]
    fn a_further_run_after_a_restore_has_places_that_no_lost_one_had() {
        let restored = Restored(vec![LostTime { from_ms: 1_000, until_ms: 15_000, restored_s: 40 }]);
        for (what, generation, received_at_ms, next_place, wanted_n, wanted) in [
            ("a further run", 9, 500, 2, 1, 128),
            ("the run by itself, which is the one that may have been sent", 0, 500, 0, 1, 0),
            ("behind those that there are", 9, 500, 900, 1, 900),
            ("received after the restore", 9, 15_001, 2, 1, 2),
            ("there is no room further on", 9, 500, 2, 1_000, 2),
        ] {
            let room = (next_place, wanted_n);
            assert_eq!(restored.first_place(generation, received_at_ms, room), wanted, "{what}");
        }
        let room = (2, 1);
        assert_eq!(Restored::default().first_place(9, 500, room), 2, "nothing was restored");
    }

    #[test]
    fn what_was_ordered_since_the_restore_was_not_sent_before_it() {
        let restored = Restored(vec![LostTime { from_ms: 1_000, until_ms: 15_000, restored_s: 40 }]);
        assert_eq!(restored.unknown_since(0, (None, 500)), Some(1_000));
        assert_eq!(restored.unknown_since(1, (None, 500)), Some(1_000), "it waited in the backup");
        assert_eq!(restored.unknown_since(40, (None, 500)), Some(1_000), "the same, of an earlier restore");
        assert_eq!(restored.unknown_since(41, (None, 500)), None, "ordered since");
        assert_eq!(Restored::default().unknown_since(0, (None, 500)), None);
    }

    #[test]
    fn each_of_several_restores_counts_for_itself() {
        const YEAR_MS: i64 = 31_536_000_000;
        let lost = |from_ms, restored_s| LostTime { from_ms, until_ms: from_ms + 60_000, restored_s };
        let restored = Restored(vec![lost(YEAR_MS, 40), lost(2 * YEAR_MS, 80)]);
        let now_ms = 2 * YEAR_MS + 120_000;
        let (first, second) = (Some(YEAR_MS + 30_000), Some(2 * YEAR_MS + 30_000));
        for (what, generation, created, wanted) in [
            ("undated: of the newest alone, or all would be held", 0, None, Some(2 * YEAR_MS)),
            ("lost by the first one", 0, first, Some(YEAR_MS + 20_000)),
            ("lost by the second one", 0, second, Some(2 * YEAR_MS + 20_000)),
            ("new", 0, Some(now_ms), None),
            ("ordered between them", 41, first, Some(2 * YEAR_MS)),
            ("ordered since the second one", 81, first, None),
        ] {
            assert_eq!(restored.unknown_since(generation, (created, now_ms)), wanted, "{what}");
        }
    }

    const NOW_MS: UnixMs = 1_000_000;

    fn planner() -> Planner {
        Planner::new(Clock::manual(NOW_MS), Uuid::nil())
    }

    fn entry(on_handler_error: OnHandlerError) -> ProviderEntry {
        let kind = Provider::from_spec(include_str!("../../../../providers/stripe/provider.toml"));
        ProviderEntry::example(&kind, on_handler_error)
    }

    fn key() -> EventKey {
        EventKey { provider: Name::parse("stripe").expect("a name"), event_id: "evt_1".to_owned() }
    }

    fn event(key: &EventKey) -> Dispatched<'_> {
        Dispatched {
            key,
            event_seq: 7,
            next_place: 0,
            received_at_ms: NOW_MS,
            counted_from_ms: NOW_MS,
            created_at_ms: None,
            attempts_n: 1,
            generation: 0,
            is_again: false,
            rendering: Rendering::Shared,
        }
    }

    /// The state and reason of the row, and how many messages there are; or how it was not planned.
    fn concluded(policy: OnHandlerError, event: &Dispatched<'_>, handled: Handled) -> String {
        let seen = event.seen("invoice.paid", EventContent::default());
        match planner().conclude(&entry(policy), event, &seen, handled) {
            Ok(Planned { messages, update }) => {
                let row = update.map_or("-", |update| update.state.as_str());
                format!("{row} {}", messages.len())
            }
            Err(NotPlanned::Rejected(why)) => format!("rejected: {why}"),
            Err(NotPlanned::Failed(error)) => format!("not planned: {error}"),
        }
    }

    #[test]
    fn the_answer_of_handlers_decides_what_is_written() {
        let (key, keep, reject) = (key(), OnHandlerError::Keep, OnHandlerError::Reject);
        let (first, full) = (event(&key), Dispatched { next_place: MESSAGES_N_MAX, ..event(&key) });
        let again = Dispatched { is_again: true, attempts_n: 2, ..event(&key) };
        let call = || Ok(Effects::new().call("billing", 1));
        let elsewhere = || Ok(Effects::new().call("billing", 1).call("nowhere", 1));
        let for_now = || Err(HandlerError::Retry(anyhow::anyhow!("away")));
        for (policy, event, handled, want) in [
            (keep, &first, Ok(Effects::new()), "- 0"),
            (keep, &first, call(), "- 1"),
            (keep, &again, call(), "handled 1"),
            (reject, &first, ignore("a test"), "ignored 0"),
            (keep, &first, refuse("no"), "not planned: no"),
            (reject, &first, refuse("no"), "rejected: no"),
            (reject, &first, for_now(), "rejected: away"),
            // The sender does not wait for the answer any more.
            (reject, &again, for_now(), "not planned: away"),
            (keep, &first, elsewhere(), "not planned: no destination is called `nowhere`"),
            (reject, &first, elsewhere(), "rejected: no destination is called `nowhere`"),
            // No place is left for its messages; 500 would only bring it again.
            (reject, &full, call(), "failed 0"),
            (reject, &full, Ok(Effects::new()), "- 0"),
        ] {
            assert_eq!(concluded(policy, event, handled), want);
        }
    }

    #[test]
    fn templates_are_filled_in_once_it_is_new_and_within_what_others_can_wait() {
        let key = key();
        let plan = |template: &str, rendering, is_again| {
            let destinations = Templates::example("billing", template).into();
            let entry = ProviderEntry { destinations, ..entry(OnHandlerError::Reject) };
            let planner = planner();
            let event = Dispatched { is_again, rendering, ..event(&key) };
            let payload = r#"{"n":"0123456789"}"#.into();
            let seen = event.seen("a", EventContent { payload, ..EventContent::default() });
            let one = planner.conclude(&entry, &event, &seen, Ok(Effects::new().call("billing", 1)));
            match one {
                Ok(Planned { messages, update }) => {
                    let row = update.map(|row| (row.state.as_str(), row.attempts_n, row.due_at_ms));
                    format!("{} {row:?}", messages.len())
                }
                Err(NotPlanned::Rejected(why)) => format!("rejected: {why}"),
                Err(NotPlanned::Failed(error)) => format!("failed: {error}"),
            }
        };
        let times = |n: usize| format!("{{% for i in range({n}) %}}{{{{ payload.n }}}}{{% endfor %}}");
        let later = format!("0 Some((\"retry\", 0, Some({NOW_MS})))");
        for (template, rendering, is_again, want) in [
            (times(1), Rendering::Later, false, later.as_str()),
            (times(1), Rendering::Shared, false, "1 None"),
            (times(10_000), Rendering::Shared, false, &later),
            (times(10_000), Rendering::Alone, true, "1 Some((\"handled\", 1, None))"),
            // No other try would help, so it is the event's.
            (
                "{{ payload.no }}".to_owned(),
                Rendering::Shared,
                true,
                "failed: template of destination `billing`, body: undefined",
            ),
            (
                times(10_000).repeat(20),
                Rendering::Alone,
                true,
                "failed: template of destination `billing`, body: ",
            ),
        ] {
            let got = plan(&template, rendering, is_again);
            assert!(got.starts_with(want), "{template} {rendering:?}: {got}");
        }
    }

    #[test]
    fn messages_go_to_the_places_behind_those_that_there_are() {
        let key = key();
        let event = Dispatched { next_place: 2, generation: 1, is_again: true, ..event(&key) };
        let effects = Effects::new().call("billing", 1).call("billing", 2);
        let messages = planner()
            .messages(&event, &event.seen("a", EventContent::default()), effects)
            .expect("there is room");
        let places: Vec<_> =
            messages.iter().map(|one| (one.message_id.event_seq(), one.message_id.place())).collect();
        assert_eq!(places, [(7, 2), (7, 3)]);
        assert!(
            messages.iter().all(|one| one.generation == 1 && one.lease.is_none() && one.shard == key.shard())
        );
    }

    #[test]
    fn what_failed_for_now_is_due_later_until_its_attempts_or_its_time_are_over() {
        let (planner, entry, key) = (planner(), entry(OnHandlerError::Keep), key());
        let away = HandlerError::Retry(anyhow::anyhow!("away\0"));
        let old = NOW_MS - 3_600_000;
        for (attempts_n, generation, received_at_ms, want) in [
            (1, 0, NOW_MS, EventState::Retry),
            (2, 0, old + 1, EventState::Retry),
            (3, 0, NOW_MS, EventState::Failed),
            (1, 0, old, EventState::Failed),
            // A person had it dispatched again: its age says nothing.
            (1, 1, old, EventState::Retry),
        ] {
            let counted_from_ms = received_at_ms;
            let event = Dispatched { received_at_ms, counted_from_ms, attempts_n, generation, ..event(&key) };
            let update = planner.failed(&entry, &event, &away);
            assert_eq!(
                (update.state, update.error.as_deref()),
                (want, Some("away")),
                "{attempts_n} {generation}"
            );
            let is_later = update.due_at_ms.is_some_and(|due_ms| due_ms > NOW_MS && due_ms <= NOW_MS + 2_000);
            assert_eq!(is_later, want == EventState::Retry);
        }
        let refused = planner.failed(&entry, &event(&key), &HandlerError::Refused("é".repeat(600)));
        assert_eq!((refused.state, refused.due_at_ms), (EventState::Failed, None));
        assert_eq!(refused.error.map(|text| text.chars().count()), Some(500));
    }
}
