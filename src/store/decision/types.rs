//! A person's decision, its target, and its result.

use sha2::{Digest, Sha256};

use crate::store::idempotency::KeyRequest;
use crate::store::look::Filter;
use crate::types::{EventKey, MessageId, Name, UnixMs};

/// Most messages that one decision changes.
pub const DECISION_N_MAX: u32 = 1_000;

/// An act that a person wants done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Send it again, under the same key, now; attempts and age count from here.
    Send,
    /// The effect happened: settle the message as done.
    Done,
    /// The message shall not be sent.
    Discard,
    /// Take nothing for this destination until it is resumed; what is under way ends as it does.
    Pause,
    /// Resume a paused destination.
    Resume,
    /// Dispatch an event once more: its messages are new ones, under new keys.
    Rerun,
    /// Dispatch what was kept beside another event, a conflict or a replay: under its own id, and so its own keys.
    Dispatch,
    /// Nothing is to be done about a conflict.
    Dismiss,
    /// Delete an event's bytes and what was made of them; its id, digest and outcome stay.
    Erase,
    /// The same, after its open messages were discarded, and whatever else it waits for.
    EraseAndDiscard,
}

impl Act {
    /// The act that `word` names.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "send" => Some(Self::Send),
            "done" => Some(Self::Done),
            "discard" => Some(Self::Discard),
            "pause" => Some(Self::Pause),
            "resume" => Some(Self::Resume),
            "rerun" => Some(Self::Rerun),
            "dispatch" => Some(Self::Dispatch),
            "dismiss" => Some(Self::Dismiss),
            "erase" => Some(Self::Erase),
            "erase_and_discard" => Some(Self::EraseAndDiscard),
            _ => None,
        }
    }

    /// The word in `audit_log.action`.
    pub(super) fn audited(self) -> &'static str {
        match self {
            Self::Send => "message_send",
            Self::Done => "message_done",
            Self::Discard => "message_discard",
            Self::Pause => "destination_pause",
            Self::Resume => "destination_resume",
            Self::Rerun => "event_rerun",
            Self::Dispatch => "event_dispatch",
            Self::Dismiss => "event_dismiss",
            Self::Erase | Self::EraseAndDiscard => "event_erase",
        }
    }
}

/// The message, destination or event that a decision is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecisionTarget {
    /// One message, for [`Act::Send`], [`Act::Done`] and [`Act::Discard`] alone.
    One(MessageId),
    /// All that a filter finds; their number must be the one that was counted before. At most [`DECISION_N_MAX`], the
    /// oldest first.
    All(Filter, u64),
    /// A destination, for [`Act::Pause`] and [`Act::Resume`] alone.
    Destination(Name),
    /// An event, for the other acts alone.
    Event(EventKey),
}

/// A person's decision, and the request that carries it.
#[derive(Debug, Clone, Copy)]
pub struct Decision<'a> {
    /// Name of the token that decides.
    pub actor: &'a str,
    /// The request's own `Idempotency-Key`.
    pub idempotency_key: &'a str,
    /// Digest of the request: the same key with another one is refused.
    pub digest: [u8; 32],
    /// The reason, for the audit log.
    pub reason: &'a str,
    /// Time of the decision.
    pub now_ms: UnixMs,
}

impl Decision<'_> {
    /// The digest of a request's path and body.
    pub fn digest_of(path: &str, body: &[u8]) -> [u8; 32] {
        Sha256::new().chain_update(path).chain_update([0]).chain_update(body).finalize().into()
    }
}

/// Outcome of a decision. Stored with its idempotency key and given again.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Decided {
    /// Messages were changed; their number is told.
    Changed {
        /// Number of messages that were changed.
        messages_n: u64,
    },
    /// There is no such message or event.
    NotFound,
    /// A message or event in this state cannot be decided about so.
    NotAllowed {
        /// State in which it stands.
        state: String,
    },
    /// The filter finds another number than was said.
    OtherCount {
        /// Number of messages that it finds.
        messages_n: u64,
    },
    /// The event cannot be dispatched: its bytes are no longer kept.
    BodyGone,
    /// The event's bytes are still needed: this many of its messages are neither done nor discarded.
    StillOpen {
        /// Number of messages that are neither done nor discarded.
        messages_n: u64,
    },
}

/// Answer to the request that carried a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecisionReply {
    /// It was decided now.
    New(Decided),
    /// Decided before, by the same request.
    Again(Decided),
    /// The key was used for another request.
    KeyReused,
}

/// A [`Decision`] that outlives the request it came with.
#[derive(Debug)]
pub(super) struct KeptDecision {
    pub(super) actor: String,
    pub(super) idempotency_key: String,
    pub(super) digest: [u8; 32],
    pub(super) reason: String,
    pub(super) now_ms: UnixMs,
}

impl KeptDecision {
    pub(super) fn of(decision: &Decision<'_>) -> Self {
        Self {
            actor: decision.actor.to_owned(),
            idempotency_key: decision.idempotency_key.to_owned(),
            digest: decision.digest,
            reason: decision.reason.to_owned(),
            now_ms: decision.now_ms,
        }
    }

    /// The request as its key knows it. Its row is seen by others only with its answer, so that no lock is needed.
    pub(super) fn key_request(&self, kept_ms: i64) -> KeyRequest {
        KeyRequest {
            principal: format!("operator:{}", self.actor),
            key: self.idempotency_key.clone(),
            fingerprint: self.digest,
            now_ms: self.now_ms,
            lock_ms: 0,
            kept_ms,
        }
    }
}

/// Returns where a message or an event stands, as its column says it.
pub(super) fn stands(state: impl std::fmt::Display) -> Decided {
    Decided::NotAllowed { state: state.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_act_has_its_word_and_its_record() {
        for (word, act, record) in [
            ("send", Act::Send, "message_send"),
            ("done", Act::Done, "message_done"),
            ("discard", Act::Discard, "message_discard"),
            ("pause", Act::Pause, "destination_pause"),
            ("resume", Act::Resume, "destination_resume"),
            ("rerun", Act::Rerun, "event_rerun"),
            ("dispatch", Act::Dispatch, "event_dispatch"),
            ("dismiss", Act::Dismiss, "event_dismiss"),
            ("erase", Act::Erase, "event_erase"),
            ("erase_and_discard", Act::EraseAndDiscard, "event_erase"),
        ] {
            assert_eq!((Act::parse(word), act.audited()), (Some(act), record));
        }
        assert_eq!([Act::parse(""), Act::parse("Send"), Act::parse("delete")], [None; 3]);
    }

    #[test]
    fn another_path_or_body_is_another_request_wherever_the_one_ends() {
        let of = |path: &str, body: &str| Decision::digest_of(path, body.as_bytes());
        assert_eq!(of("/v1/a", "{}"), of("/v1/a", "{}"));
        let all =
            [of("/v1/a", "{}"), of("/v1/a{", "}"), of("/v1/a{}", ""), of("", "/v1/a{}"), of("/v1/a", "")];
        assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>().len(), all.len());
    }

    /// Rows hold them, for a caller that sends the same request again.
    #[test]
    fn kept_answers_are_read_by_every_later_version() {
        for (answer, decided) in [
            (r#"{"outcome":"changed","messages_n":3}"#, Decided::Changed { messages_n: 3 }),
            (r#"{"outcome":"not_found"}"#, Decided::NotFound),
            (r#"{"outcome":"not_allowed","state":"done"}"#, stands("done")),
            (r#"{"outcome":"other_count","messages_n":0}"#, Decided::OtherCount { messages_n: 0 }),
            (r#"{"outcome":"body_gone"}"#, Decided::BodyGone),
            (r#"{"outcome":"still_open","messages_n":1}"#, Decided::StillOpen { messages_n: 1 }),
        ] {
            assert_eq!(serde_json::from_str::<Decided>(answer).unwrap(), decided);
            assert_eq!(serde_json::to_string(&decided).unwrap(), answer);
        }
    }
}
