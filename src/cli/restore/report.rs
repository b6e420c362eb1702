//! What the check found, as programs read it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::judged::{MessagesFate, ResendWay, asking, fate};
use crate::cli::output::with_times;
use crate::config::Config;
use crate::load::Kinds;
use crate::provider::Provider;
use crate::spec::Spec;
use crate::store::{OpenCount, ProviderTrace, RestoreFacts, RestoreStanding, TakenOver};
use crate::types::UnixMs;

const DAY_MS: i64 = 86_400_000;

/// The moments that everything is judged by.
#[expect(clippy::struct_field_names, reason = "all of them are moments")]
pub(super) struct Moments {
    pub(super) from_ms: UnixMs,
    pub(super) until_ms: UnixMs,
    /// What ran last was there until then at least, where that is known.
    pub(super) ran_until_ms: Option<UnixMs>,
    pub(super) now_ms: UnixMs,
}

/// What is known of a restored database.
#[derive(Debug, Clone, Serialize)]
pub(super) struct RestoreReport {
    /// What the database is: `same`, `backup`, `older`, `elsewhere`, `point_in_time` or `took_over`.
    pub(super) standing: &'static str,
    pub(super) installation_id: String,
    /// Nothing that was committed before is missing.
    pub(super) from_ms: UnixMs,
    /// The end of the lost time.
    pub(super) to_ms: UnixMs,
    /// What ran last was there until then, at least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ran_until_ms: Option<UnixMs>,
    pub(super) newest_event_at_ms: UnixMs,
    pub(super) providers: Vec<SenderLoss>,
    pub(super) messages: Vec<MessageRisk>,
    pub(super) retry_events_n: u64,
    pub(super) running_operations_n: u64,
    pub(super) tokens_n: u64,
    pub(super) restores_n: u64,
    pub(super) audit_seq: i64,
    /// Ids of keys that rows are encrypted with and that the configuration does not have.
    pub(super) keys_missing: Vec<String>,
    /// Set once it was taken over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) taken_over: Option<TakenReport>,
}

/// What one provider's sender was told 200 for and is not there.
#[derive(Debug, Clone, Serialize)]
pub(super) struct SenderLoss {
    pub(super) provider: String,
    pub(super) kind: String,
    pub(super) title: String,
    pub(super) newest_at_ms: Option<UnixMs>,
    /// About so many events, if they came as on the day before.
    pub(super) expected_n: u64,
    pub(super) asking: ResendWay,
    /// Hours for which the sender can be asked, where its documentation says.
    pub(super) resend_h: Option<u32>,
    pub(super) docs: String,
}

/// Open messages, and what becomes of them.
#[derive(Debug, Clone, Serialize)]
pub(super) struct MessageRisk {
    pub(super) destination: String,
    pub(super) state: &'static str,
    pub(super) messages_n: u64,
    pub(super) fate: MessagesFate,
    pub(super) key_valid_until_ms: Option<UnixMs>,
}

/// What was done to take the database over.
#[derive(Debug, Clone, Serialize)]
#[expect(clippy::struct_field_names, reason = "all of them are counts")]
pub(super) struct TakenReport {
    messages_n: u64,
    operations_n: u64,
    tokens_n: u64,
    sessions_n: u64,
    paused_n: u64,
}

impl RestoreReport {
    pub(super) fn of(
        standing: RestoreStanding,
        facts: &RestoreFacts,
        moments: &Moments,
        config: &Config,
        kinds: &Kinds,
    ) -> Self {
        let traces: BTreeMap<&str, &ProviderTrace> =
            facts.providers.iter().map(|one| (one.provider.as_str(), one)).collect();
        let names = config.providers.iter().map(|(name, provider)| (name.as_str(), provider.kind.as_str()));
        let gone =
            traces.keys().filter(|name| !config.providers.keys().any(|known| known.as_str() == **name));
        let all = names.chain(gone.map(|name| (*name, "")));
        let loss = |(name, kind): (&str, &str)| {
            let spec = kinds.iter().find(|one| one.kind() == kind).and_then(|one: &Provider| one.spec().ok());
            sender_loss((name, kind), spec, traces.get(name).copied(), moments)
        };
        let risk = |open: &OpenCount| {
            let known = config.destinations.iter().find(|(name, _)| name.as_str() == open.destination);
            let times = (moments.from_ms, moments.now_ms);
            let (fate, key_valid_until_ms) =
                fate(known.map(|(_, config)| config), open.state, open.first_sent_at_ms, times);
            MessageRisk {
                destination: open.destination.clone(),
                state: open.state.as_str(),
                messages_n: open.messages_n,
                fate,
                key_valid_until_ms,
            }
        };
        Self {
            standing: standing.as_str(),
            installation_id: facts.installation_id.clone(),
            from_ms: moments.from_ms,
            to_ms: moments.until_ms,
            ran_until_ms: moments.ran_until_ms,
            newest_event_at_ms: facts.newest_at_ms,
            providers: all.map(loss).collect(),
            messages: facts.open.iter().map(risk).collect(),
            retry_events_n: facts.retry_n,
            running_operations_n: facts.operations_n,
            tokens_n: facts.tokens_n,
            restores_n: facts.restores_n,
            audit_seq: facts.audit_seq,
            keys_missing: Vec::new(),
            taken_over: None,
        }
    }

    /// The same after it was taken over.
    pub(super) fn with(self, taken: &TakenOver) -> Self {
        let taken_over = Some(TakenReport {
            messages_n: taken.messages_n,
            operations_n: taken.operations_n,
            tokens_n: taken.tokens_n,
            sessions_n: taken.sessions_n,
            paused_n: taken.paused_n,
        });
        Self { taken_over, ..self }
    }

    /// One line of JSON, with times beside milliseconds.
    pub(super) fn to_json(&self) -> anyhow::Result<String> {
        Ok(with_times(serde_json::to_value(self)?).to_string())
    }
}

fn sender_loss(
    (name, kind): (&str, &str),
    spec: Option<&Spec>,
    trace: Option<&ProviderTrace>,
    moments: &Moments,
) -> SenderLoss {
    let Moments { from_ms, until_ms, now_ms, .. } = *moments;
    let (asking, resend_h) = asking(spec, (from_ms, until_ms), now_ms);
    let lost_ms = u128::from(until_ms.saturating_sub(from_ms).unsigned_abs());
    let expected = trace.map_or(0, |one| u128::from(one.day_n) * lost_ms / u128::from(DAY_MS.unsigned_abs()));
    SenderLoss {
        provider: name.to_owned(),
        kind: kind.to_owned(),
        title: spec.map_or_else(|| kind.to_owned(), |spec| spec.title.clone()),
        newest_at_ms: trace.map(|one| one.newest_at_ms),
        expected_n: u64::try_from(expected).unwrap_or(u64::MAX),
        asking,
        resend_h,
        docs: spec.map(|spec| spec.docs.clone()).unwrap_or_default(),
    }
}
