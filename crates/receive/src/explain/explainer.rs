//! Explains requests with the providers as they are configured, within the scope of who asks.

use std::sync::Arc;

use bytes::Bytes;

use super::judged::{ExplainedRequest, judged};
use super::saved::{SavedRequest, of_parts, parse};
use crate::admit::{ProviderEntry, ProviderTable};
use crate::heavy::Heavy;
use crate::provider::ActiveProvider;
use hooklatch_contract::{
    ExplainLines, ExplainOrder, ExplainRequest, ExplainStep, ExplainVerdict, ExplainView,
};
use hooklatch_core::types::{Reach, UnixMs};
use hooklatch_verify::RawRequest;

/// Most events that are shown.
const EVENTS_N_MAX: usize = 50;

/// Explains requests. Cloning is cheap.
#[derive(Clone)]
pub struct Explainer {
    entries: Arc<ProviderTable>,
    heavy: Heavy,
}

impl Explainer {
    /// Explains with these providers.
    pub fn new(entries: Arc<ProviderTable>) -> Self {
        Self { entries, heavy: Heavy::new() }
    }

    /// Judges what was asked about; `None` when its provider is not configured, or out of `reach`.
    pub async fn explain(&self, order: ExplainOrder, reach: &Reach, now_ms: UnixMs) -> Option<ExplainView> {
        let saved = match &order.request {
            ExplainRequest::Text(text) => parse(text.as_bytes()),
            ExplainRequest::Parts(parts) => of_parts(parts),
        };
        let saved = match saved {
            Ok(saved) => saved,
            Err(why) => return Some(not_read("request", why, now_ms)),
        };
        let Some(name) = order.provider.clone().or_else(|| saved.provider.clone()) else {
            let why = "its path names no provider: say which one it was for".to_owned();
            return Some(not_read("provider", why, now_ms));
        };
        let entry = self.entries.get(name.as_str()).filter(|_| reach.has(&name))?;
        let provider = entry.provider.clone();
        let is_other = |other: &&Arc<ProviderEntry>| {
            let other = &other.provider;
            other.name() != provider.name()
                && other.spec().kind == provider.spec().kind
                && reach.has(other.name().as_str())
        };
        let others = self.entries.values().filter(is_other).map(|other| other.provider.clone()).collect();
        let at_ms = order.at_ms.or(saved.now_ms).unwrap_or(now_ms);
        let bytes_n = saved.body.len();
        let case = Case { provider, others, saved, at_ms, is_at_own_time: order.at_own_time };
        self.heavy.done(bytes_n, move || case.view()).await
    }
}

/// What was asked about, with everything that it takes to answer.
struct Case {
    provider: ActiveProvider,
    others: Vec<ActiveProvider>,
    saved: SavedRequest,
    at_ms: UnixMs,
    is_at_own_time: bool,
}

impl Case {
    fn view(self) -> ExplainView {
        let body = self.saved.body.clone();
        let first = self.at_its_time(body.clone());
        let (lines, (at_ms, mut judged)) = match other_lines(&body) {
            Some((lines, other)) if first.1.verdict == ExplainVerdict::NotBelieved => {
                let second = self.at_its_time(other);
                if second.1.verdict == ExplainVerdict::NotBelieved {
                    (ExplainLines::AsGiven, first)
                } else {
                    (lines, second)
                }
            }
            _ => (ExplainLines::AsGiven, first),
        };
        let more_events_n = judged.events.len().saturating_sub(EVENTS_N_MAX) as u64;
        judged.events.truncate(EVENTS_N_MAX);
        ExplainView {
            provider: Some(self.provider.name().to_string()),
            verdict: judged.verdict,
            failed_at: judged.failed_at.map(str::to_owned),
            reason: judged.reason.map(str::to_owned),
            judged_at_ms: at_ms,
            age_s: judged.age_s,
            lines,
            steps: judged.steps,
            events: judged.events,
            more_events_n,
        }
    }

    /// The verdict about this body, and the time that it is about.
    fn at_its_time(&self, body: Bytes) -> (UnixMs, ExplainedRequest) {
        let judged = self.judged(self.at_ms, body.clone());
        let Some(age_s) = judged.age_s.filter(|_| self.is_at_own_time) else { return (self.at_ms, judged) };
        let own_ms = self.at_ms.saturating_sub(age_s.saturating_mul(1_000));
        (own_ms, self.judged(own_ms, body))
    }

    fn judged(&self, at_ms: UnixMs, body: Bytes) -> ExplainedRequest {
        let query = self.saved.query.as_ref().map(|query| format!("?{query}")).unwrap_or_default();
        let request = RawRequest {
            method: self.saved.method.clone(),
            url: format!("{}{query}", self.provider.url()),
            headers: self.saved.headers.clone(),
            body,
            received_at_ms: at_ms,
        };
        judged(&self.provider, self.others.iter(), &request)
    }
}

/// The same body with the other line ends: browsers and editors change them.
fn other_lines(body: &Bytes) -> Option<(ExplainLines, Bytes)> {
    let text = std::str::from_utf8(body).ok().filter(|text| text.contains('\n'))?;
    let bare = text.replace("\r\n", "\n");
    Some(if bare == text {
        (ExplainLines::Crlf, bare.replace('\n', "\r\n").into())
    } else {
        (ExplainLines::Lf, bare.into())
    })
}

fn not_read(word: &str, why: String, now_ms: UnixMs) -> ExplainView {
    ExplainView {
        provider: None,
        verdict: ExplainVerdict::NotRead,
        failed_at: None,
        reason: None,
        judged_at_ms: now_ms,
        age_s: None,
        lines: ExplainLines::AsGiven,
        steps: vec![ExplainStep { word: word.to_owned(), text: why }],
        events: Vec::new(),
        more_events_n: 0,
    }
}
