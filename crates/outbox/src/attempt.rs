//! One attempt of one leased message: decide, perhaps ask, perhaps send, and return what to settle.
//!
//! It writes nothing. Between the decision to send and the first byte the lease and the stop signal are
//! checked once more; a message that is not sent is handed back.

use std::time::Duration;

use tokio::time::Instant;
use tracing::{debug, warn};

use crate::destinations::Asked;
use crate::policy::{self, CallAnswer, Facts, NextStep, SendPlan};
use crate::post::Post;
use crate::traces::{AttemptSpan, Traces};
use hooklatch_core::stop::Stop;
use hooklatch_core::types::{AttemptResult, Clock, SpanContext};
use hooklatch_store::{LeasedMessage, SettleTo, Settlement};

/// The two stops that a call listens to.
#[derive(Clone)]
pub(crate) struct Stops {
    /// True: start no more calls.
    pub(crate) stopping: Stop,
    /// True: wait no longer for calls under way; what they lead to is unknown.
    pub(crate) cut: Stop,
}

/// Result of one attempt, before it is a settlement.
struct AttemptOutcome {
    to: SettleTo,
    result: AttemptResult,
    http_status: Option<u16>,
    error: Option<String>,
    response: Option<String>,
    /// Neither a call nor a question was made.
    is_unsent: bool,
    /// The call of this attempt may have taken effect.
    may_have_acted: bool,
}

/// One message in the hands of one worker.
pub(crate) struct Attempt<'a> {
    pub(crate) post: &'a Post,
    pub(crate) message: &'a LeasedMessage,
    pub(crate) clock: &'a Clock,
    pub(crate) stops: &'a mut Stops,
    /// Time for which its call took, once there was one.
    pub(crate) call: Option<Duration>,
    /// Where its span is recorded.
    pub(crate) traces: Option<&'a Traces>,
}

impl Attempt<'_> {
    /// Does what the policy allows; says what to write, and how long the call took if one was made.
    pub(crate) async fn make(mut self) -> (Settlement, Option<Duration>) {
        let began = self.traces.and_then(Traces::now);
        let outcome = self.outcome().await;
        self.report(&outcome);
        self.record_span(&outcome, began);
        // Also of the attempt before it, if its worker died.
        let is_open = outcome.may_have_acted || Facts::from(self.message).was_uncertain;
        let settlement = Settlement {
            message_id: self.message.message_id,
            destination: self.message.destination.clone(),
            lane: self.message.lane.clone(),
            attempt_n: self.message.attempt_n,
            to: outcome.to,
            result: outcome.result,
            http_status: outcome.http_status,
            error: outcome.error,
            response: outcome.response,
            is_unsent: outcome.is_unsent,
            sent_under: is_open.then(|| self.post.destination.config.unknown.word().into()),
            settled_at_ms: self.clock.steady_ms(),
        };
        (settlement, self.call)
    }

    async fn outcome(&mut self) -> AttemptOutcome {
        let facts = Facts::from(self.message);
        match self.plan(&facts) {
            SendPlan::Send => self.send(&facts).await,
            SendPlan::Ask if self.stops.stopping.is_set() => self.hand_back("the server is stopping"),
            SendPlan::Ask => match self.ask().await {
                Asked::Happened => AttemptOutcome::new(SettleTo::Done, AttemptResult::Done),
                Asked::Unclear(why) => self.rule(&CallAnswer::Unknown(why), &facts),
                Asked::DidNotHappen => match self.plan(&facts.certain()) {
                    SendPlan::Send => self.send(&facts.certain()).await,
                    plan => unsent(plan, &facts.certain()),
                },
            },
            // The message's facts stay as they are: the next worker that holds it must know that it waits.
            plan => unsent(plan, &facts),
        }
    }

    fn plan(&self, facts: &Facts) -> SendPlan {
        policy::before_send(facts, &self.post.destination.config, self.clock.steady_ms())
    }

    async fn ask(&mut self) -> Asked {
        tokio::select! {
            asked = self.post.destination.ask(self.message) => asked,
            () = self.stops.cut.wait() => Asked::Unclear("stopped while asking whether it happened".to_owned()),
        }
    }

    async fn send(&mut self, facts: &Facts) -> AttemptOutcome {
        if self.stops.stopping.is_set() {
            return self.hand_back("the server is stopping");
        }
        if !self.post.destination.times.fit(self.message.lease_until_ms, self.clock.steady_ms()) {
            return self.hand_back("too little of the lease was left for a call");
        }
        let started = Instant::now();
        let sent = tokio::select! {
            sent = self.post.destination.send(self.message, self.clock.now_ms()) => sent,
            () = self.stops.cut.wait() => CallAnswer::Unknown("stopped while waiting for the answer".to_owned()).into(),
        };
        if !matches!(sent.answer, CallAnswer::Forbidden(_)) {
            self.call = Some(started.elapsed());
            self.post.meters.took(self.message.destination.as_str(), started.elapsed());
        }
        AttemptOutcome { response: sent.response, ..self.rule(&sent.answer, facts) }
    }

    fn rule(&self, answer: &CallAnswer, facts: &Facts) -> AttemptOutcome {
        let now_ms = self.clock.steady_ms();
        let step = policy::next_step(answer, facts, &self.post.destination.config, now_ms, fastrand::f64());
        let (http_status, what) = match answer {
            CallAnswer::Status { code, .. } => (Some(*code), format!("answered {code}")),
            CallAnswer::Body { code, why, .. } => (Some(*code), format!("answered {code}: {why}")),
            CallAnswer::NotSent(why) => (None, format!("not sent: {why}")),
            CallAnswer::Done => (None, "done".to_owned()),
            CallAnswer::NotNow(why)
            | CallAnswer::Refused(why)
            | CallAnswer::Forbidden(why)
            | CallAnswer::Unknown(why) => (None, why.clone()),
        };
        let (to, error) = match step {
            NextStep::Done => (SettleTo::Done, None),
            NextStep::RetryAt { at_ms } | NextStep::AskFirst { at_ms } => {
                (SettleTo::Ready { visible_at_ms: at_ms }, Some(what))
            }
            NextStep::Dead(why) => (SettleTo::Dead, Some(format!("{why}; {what}"))),
            NextStep::Hold(why) => (SettleTo::Held, Some(format!("{why}; {what}"))),
        };
        AttemptOutcome {
            http_status,
            error,
            may_have_acted: policy::may_have_acted(answer, &self.post.destination.config),
            ..AttemptOutcome::new(to, policy::result_of(answer, &self.post.destination.config))
        }
    }

    /// Ready for anyone, now. What was unknown before stays unknown: the next holder must not forget it.
    fn hand_back(&self, why: &str) -> AttemptOutcome {
        let to = SettleTo::Ready { visible_at_ms: self.clock.steady_ms() };
        AttemptOutcome::unsent(to, &Facts::from(self.message), format!("handed back: {why}"))
    }

    /// Records a span of the attempt, where its trace is recorded.
    fn record_span(&self, outcome: &AttemptOutcome, began: Option<std::time::Instant>) {
        let (Some(traces), Some(began)) = (self.traces, began) else { return };
        let message = self.message;
        let place = traces.attempt(message).filter(|(_, span)| span.is_sampled);
        let Some((trace, SpanContext { span_id, .. })) = place else { return };
        traces.attempted(AttemptSpan {
            trace,
            span_id,
            destination: message.destination.clone(),
            message_id: message.message_id,
            attempt_n: message.attempt_n,
            began,
            ended: std::time::Instant::now(),
            result: outcome.result,
            next: outcome.next(),
            server: self.post.destination.http().and_then(|http| http.server_of(message)),
            method: self.post.destination.http().map(|_| message.method.clone()),
            http_status: outcome.http_status,
            is_unsent: outcome.is_unsent,
        });
    }

    fn report(&self, outcome: &AttemptOutcome) {
        let (message, result) = (self.message, outcome.result.as_str());
        self.post.meters.ended(message.destination.as_str(), outcome.result);
        if outcome.to == SettleTo::Done {
            let age_ms = self.clock.now_ms().saturating_sub(message.created_at_ms);
            let age = Duration::from_millis(u64::try_from(age_ms).unwrap_or(0));
            self.post.meters.done(message.destination.as_str(), age);
            debug!(
                message.id = %message.message_id,
                event.id = %message.key.event_id,
                destination = %message.destination,
                attempt_n = message.attempt_n,
                "message was done"
            );
            return;
        }
        let next = outcome.next();
        warn!(
            message.id = %message.message_id,
            event.id = %message.key.event_id,
            destination = %message.destination,
            attempt_n = message.attempt_n,
            http.status = outcome.http_status,
            error = outcome.error.as_deref().unwrap_or_default(),
            result,
            next,
            "attempt did not succeed"
        );
    }
}

impl AttemptOutcome {
    fn new(to: SettleTo, result: AttemptResult) -> Self {
        let (http_status, error, response) = (None, None, None);
        Self { to, result, http_status, error, response, is_unsent: false, may_have_acted: false }
    }

    /// Nothing was sent now; what was unknown before stays unknown.
    fn unsent(to: SettleTo, facts: &Facts, why: String) -> Self {
        let result = if facts.is_uncertain { AttemptResult::Unknown } else { AttemptResult::Released };
        Self { error: Some(why), is_unsent: true, ..Self::new(to, result) }
    }

    /// The word for the state that follows.
    fn next(&self) -> &'static str {
        match self.to {
            SettleTo::Done => "done",
            SettleTo::Ready { .. } => "ready",
            SettleTo::Dead => "dead",
            SettleTo::Held => "held",
        }
    }
}

/// The outcome of a decision not to send.
fn unsent(plan: SendPlan, facts: &Facts) -> AttemptOutcome {
    let (to, why) = match plan {
        SendPlan::Dead(why) => (SettleTo::Dead, why),
        SendPlan::Hold(why) => (SettleTo::Held, why),
        SendPlan::Wait { until_ms } => {
            let why = "waits before it asks: the call may still be under way over there".to_owned();
            (SettleTo::Ready { visible_at_ms: until_ms }, why)
        }
        // Neither is possible here; if one were, an operator should see it.
        SendPlan::Send | SendPlan::Ask => (SettleTo::Held, "no decision".to_owned()),
    };
    AttemptOutcome::unsent(to, facts, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_sent_keeps_what_is_known_of_the_call_before_it() {
        let facts = Facts {
            attempt_n: 2,
            first_sent_at_ms: 0,
            key_valid_until_ms: 0,
            is_uncertain: false,
            was_uncertain: false,
            previous_ended_at_ms: None,
        };
        let why = || "because".to_owned();
        for (plan, to) in [
            (SendPlan::Dead(why()), SettleTo::Dead),
            (SendPlan::Hold(why()), SettleTo::Held),
            (SendPlan::Wait { until_ms: 5 }, SettleTo::Ready { visible_at_ms: 5 }),
            // Neither is possible here; an operator would see it.
            (SendPlan::Send, SettleTo::Held),
            (SendPlan::Ask, SettleTo::Held),
        ] {
            let certain = unsent(plan.clone(), &facts);
            assert_eq!((certain.to, certain.result, certain.is_unsent), (to, AttemptResult::Released, true));
            let uncertain = unsent(plan, &Facts { is_uncertain: true, ..facts });
            assert_eq!(
                (uncertain.to, uncertain.result, uncertain.is_unsent),
                (to, AttemptResult::Unknown, true)
            );
        }
    }
}
