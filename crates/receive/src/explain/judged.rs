//! Judges a request for one provider, and says each step. Never what the signature should have been.

use crate::diagnose::diagnose;
use crate::provider::ActiveProvider;
use hooklatch_contract::{ExplainEvent, ExplainStep, ExplainVerdict};
use hooklatch_core::figures::plural;
use hooklatch_verify::spec::words;
use hooklatch_verify::{RawRequest, Verified, VerifyError, failed_at};

/// A request that was judged.
#[derive(Debug)]
pub struct ExplainedRequest {
    pub verdict: ExplainVerdict,
    /// Step at which it failed.
    pub(super) failed_at: Option<&'static str>,
    /// Reason as a word.
    pub reason: Option<&'static str>,
    /// Seconds by which its own time is behind the one that it was judged at, where that is why.
    pub age_s: Option<i64>,
    pub steps: Vec<ExplainStep>,
    pub events: Vec<ExplainEvent>,
}

impl ExplainedRequest {
    fn step(&mut self, word: &str, text: impl Into<String>) {
        self.steps.push(ExplainStep { word: word.to_owned(), text: text.into() });
    }
}

/// Says what is found in a request, and whether it would be believed. `others` are other providers of the same kind,
/// whose secrets may match.
pub fn judged<'a>(
    provider: &ActiveProvider,
    others: impl Iterator<Item = &'a ActiveProvider>,
    request: &RawRequest,
) -> ExplainedRequest {
    let mut judged = ExplainedRequest {
        verdict: ExplainVerdict::Believed,
        failed_at: None,
        reason: None,
        age_s: None,
        steps: Vec::new(),
        events: Vec::new(),
    };
    look(&mut judged, provider, request);
    if let Some(reply) = provider.handshake(request) {
        judged.verdict = ExplainVerdict::Handshake;
        let text = format!("a handshake, answered with {} and {}", reply.status, reply.content_type);
        judged.step("verdict", text);
        return judged;
    }
    match provider.verify(request.clone()) {
        Err(error) => refused(&mut judged, provider, others, (request, &error)),
        Ok(verified) => believed(&mut judged, provider, &verified),
    }
    judged
}

/// What can be seen before anything is verified.
fn look(judged: &mut ExplainedRequest, provider: &ActiveProvider, request: &RawRequest) {
    let spec = provider.spec();
    judged.step("kind", format!("{} ({})", spec.kind, spec.docs));
    judged.step("body", format!("{} bytes", request.body.len()));
    if spec.has_signed_url() {
        judged.step("signed url", request.url.clone());
    }
    for name in &spec.signature.headers {
        let n = request.headers.get_all(name.as_str()).iter().count();
        judged.step("header", format!("{name}: {}", plural(n as u64, "time")));
    }
}

fn refused<'a>(
    judged: &mut ExplainedRequest,
    provider: &ActiveProvider,
    others: impl Iterator<Item = &'a ActiveProvider>,
    (request, error): (&RawRequest, &VerifyError),
) {
    judged.verdict = ExplainVerdict::NotBelieved;
    judged.failed_at = Some(failed_at(error).step);
    judged.age_s = match error {
        VerifyError::Stale { age_s, .. } => Some(*age_s),
        VerifyError::Future { ahead_s, .. } => Some(-*ahead_s),
        _ => None,
    };
    judged.step("verdict", format!("not believed, at step `{}`: {error}", failed_at(error).step));
    let found = diagnose(provider, others, request, error);
    judged.reason = Some(found.reason);
    match found.detail.split_once("; ") {
        Some((_, more)) => judged.step("hint", more),
        None if matches!(error, VerifyError::Mismatch { .. }) => {
            judged.step("hint", "the body must be the bytes that were sent: not parsed and written again");
            judged.step(
                "hint",
                "each endpoint has a secret of its own: compare it with the sender's dashboard",
            );
            if provider.spec().has_signed_url() {
                judged.step(
                    "hint",
                    "the URL above is signed too: it must be the one that the sender was given",
                );
            }
        }
        None => {}
    }
}

fn believed(judged: &mut ExplainedRequest, provider: &ActiveProvider, verified: &Verified) {
    judged.step("verdict", format!("believed: secret {} matched", verified.secret_n() + 1));
    for event in &provider.spec().event {
        judged.step("identified", words::identities(event));
    }
    for event in provider.read(verified) {
        let remembers_text = event.replay_key.is_some();
        let why = event.unreadable.as_ref().map(|why| format!(", unreadable: {why}")).unwrap_or_default();
        judged.step("event", format!("{} of type {}{why}", event.key.event_id, event.event_type));
        judged.step("identity", event.identity.clone());
        if remembers_text {
            judged.step("", "its signed text is remembered too: the same under another id is a replay");
        }
        judged.events.push(ExplainEvent {
            event_id: event.key.event_id.clone(),
            event_type: event.event_type.clone(),
            identity: event.identity.clone(),
            unreadable: event.unreadable.clone(),
            remembers_text,
            known_state: None,
        });
    }
}
