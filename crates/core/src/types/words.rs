//! The words for states and outcomes: one word each, in tables, API, metrics and console alike; and how each state is
//! shown: one place for the colours of the console and of the commands.

/// An enumeration whose values are words.
#[macro_export]
macro_rules! words {
    ($(#[doc = $doc:literal])* $name:ident { $($(#[doc = $vdoc:literal])* $variant:ident = $word:literal,)* }) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[doc = $vdoc])* $variant,)* }
        impl $name {
            /// Every value, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];
            /// The lower-case word used in tables, API, metrics and console alike.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
            /// The value of a stored word; `None` for a word of a newer version.
            pub fn parse(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)* _ => None }
            }
        }
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let word = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                let all = [$($word,)*];
                Self::parse(&word).ok_or_else(|| {
                    serde::de::Error::custom(format_args!("`{word}` is not one of {}", all.join(", ")))
                })
            }
        }
        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> { stringify!($name).into() }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let words = [$(($word, concat!($($vdoc,)*).trim()),)*];
                schemars::json_schema!({
                    "description": concat!($($doc,)*).trim(), "type": "string", "enum": words.iter().map(|(word, _)| *word).collect::<Vec<_>>(),
                    "x-enumDescriptions": words.into_iter().collect::<std::collections::BTreeMap<_, _>>(),
                })
            }
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str(self.as_str()) }
        }
    };
}

words! {
    /// The result of admission for one event.
    Outcome {
        /// New: its effects' intents are on disk.
        Accepted = "accepted",
        /// New and kept, but its id or shape could not be read; nothing was dispatched.
        Unreadable = "unreadable",
        /// Known id, or known signed text, with other content: kept beside the first one, which stands.
        Conflict = "conflict",
        /// The same signed bytes under another, unsigned id: recorded, not dispatched.
        Replayed = "replayed",
        /// Older than what was already seen of the same object; kept, not dispatched.
        Superseded = "superseded",
        /// Known already: nothing changed.
        Duplicate = "duplicate",
    }
}

impl Outcome {
    /// The outcome a request of several events answers with: the one earliest in [`Outcome::ALL`].
    pub fn strongest(outcomes: impl IntoIterator<Item = Self>) -> Option<Self> {
        outcomes.into_iter().min_by_key(|outcome| *outcome as u8)
    }
}

words! {
    /// State in which an event stands (`processed_webhook_events.state`).
    EventState {
        /// Its handlers are done; its effects are in the outbox, and may not have happened yet.
        Handled = "handled",
        /// No handler or route wanted it, or a handler ignored it.
        Ignored = "ignored",
        /// A handler failed for now; dispatched again at `due_at_ms`.
        Retry = "retry",
        /// A handler refused it for good, or retries ran out.
        Failed = "failed",
        /// Older than what was seen of its object.
        Superseded = "superseded",
        /// Same signed bytes as an earlier event, under another unsigned id.
        Replayed = "replayed",
        /// Its id or shape could not be read.
        Unreadable = "unreadable",
        /// Other content under the id of another event, kept until someone decides.
        Conflict = "conflict",
        /// A conflict that a person looked at and wants nothing done about.
        Dismissed = "dismissed",
    }
}

words! {
    /// What became of the calls of an event, after the worst of them.
    DeliveryState {
        /// A call is on hold until someone decides.
        Held = "held",
        /// A call was given up and is not sent again.
        Dead = "dead",
        /// Someone discarded a call.
        Discarded = "discarded",
        /// A call is still to be sent.
        Open = "open",
        /// An operator settled a call as done, which its destination did not confirm.
        Settled = "settled",
        /// Every call was confirmed by its destination.
        Delivered = "delivered",
        /// It was handled and asked for no calls.
        None = "none",
        /// It was not handled, so nothing was sent for it.
        NotSent = "not_sent",
        /// Finished calls of its age are no longer kept: whether they were delivered is not known here.
        NoLongerKnown = "no_longer_known",
    }
}

words! {
    /// A choice of events by calls that are not finished.
    DeliveryFilter {
        /// Those with a call on hold.
        Held = "held",
        /// Those with a call that was given up.
        Dead = "dead",
        /// Those with a call on hold or given up: they need a decision.
        Stuck = "stuck",
        /// Those with a call that is still to be sent.
        Open = "open",
    }
}

impl DeliveryFilter {
    /// The choice, for people: it follows `events`.
    pub fn shown(self) -> &'static str {
        match self {
            Self::Held => "with held calls",
            Self::Dead => "with dead calls",
            Self::Stuck => "with held or dead calls",
            Self::Open => "with calls still to be sent",
        }
    }

    /// The states of messages of which an event has at least one.
    pub fn states(self) -> &'static [MessageState] {
        match self {
            Self::Held => &[MessageState::Held],
            Self::Dead => &[MessageState::Dead],
            Self::Stuck => &[MessageState::Held, MessageState::Dead],
            Self::Open => &[MessageState::Ready, MessageState::Waiting, MessageState::Leased],
        }
    }
}

words! {
    /// State in which a message stands (`outbox_queue.state`, and `outbox_finished.state` once it is done or
    /// discarded).
    MessageState {
        /// It waits until `visible_at_ms`.
        Ready = "ready",
        /// Behind another message of its lane.
        Waiting = "waiting",
        /// Held by one worker until `visible_at_ms`.
        Leased = "leased",
        /// The destination confirmed it.
        Done = "done",
        /// Given up: refused for good, or attempts or age ran out.
        Dead = "dead",
        /// On hold until someone decides.
        Held = "held",
        /// An operator decided that it will not be sent.
        Discarded = "discarded",
    }
}

words! {
    /// Result of one attempt of a message (`outbox_attempts.result`).
    AttemptResult {
        /// The destination confirmed it.
        Done = "done",
        /// Surely not done; may be tried again.
        Retry = "retry",
        /// The destination refused it for good.
        Refused = "refused",
        /// Sent, and it is unknown whether it took effect.
        Unknown = "unknown",
        /// Not sent: handed back at shutdown.
        Released = "released",
    }
}

words! {
    /// The rule for calls of which it is unknown whether they took effect (`unknown` of a destination).
    UnknownWord {
        /// Send again under the same key: the destination honours it.
        Retry = "retry",
        /// Ask the destination first, and send again only when it did not happen.
        Query = "query",
        /// Nothing is sent again until a person decides.
        Hold = "hold",
    }
}

words! {
    /// The rule that was in force when a call was made that may have taken effect (`outbox_queue.sent_under`, and
    /// `outbox_finished.sent_under` of a message that an operator finished). Of several calls it is the strictest,
    /// which is the first of these words in the order of the alphabet.
    SentUnder {
        /// The destination was set to `hold`.
        Hold = "hold",
        /// The destination was set to `query`.
        Query = "query",
        /// It may have been made in a time that a restore took away.
        Restored = "restored",
        /// The destination was set to `retry`.
        Retry = "retry",
    }
}

impl From<UnknownWord> for SentUnder {
    fn from(word: UnknownWord) -> Self {
        match word {
            UnknownWord::Retry => Self::Retry,
            UnknownWord::Query => Self::Query,
            UnknownWord::Hold => Self::Hold,
        }
    }
}

words! {
    /// What went wrong, as a word for programs: `code` of a problem.
    ProblemCode {
        /// The receiver does not accept requests from this address.
        AddressRefused = "address_refused",
        /// A part of the request is not as the route needs it; `detail` names it.
        BadRequest = "bad_request",
        /// The connection ended before the body was complete.
        BodyBroken = "body_broken",
        /// The body of the event is no longer kept.
        BodyGone = "body_gone",
        /// The body is longer than this route accepts.
        BodyTooLarge = "body_too_large",
        /// The body did not arrive in time.
        BodyTooSlow = "body_too_slow",
        /// The subject has changed since the version in `If-Match`.
        Changed = "changed",
        /// The transfer codings of the request cannot be read.
        CodingBad = "coding_bad",
        /// The request has a transfer coding other than `chunked`.
        CodingUnknown = "coding_unknown",
        /// The `cursor` or `since` is not one that this list gave.
        CursorUnknown = "cursor_unknown",
        /// The act may call destinations that the token does not reach.
        DestinationsOutOfReach = "destinations_out_of_reach",
        /// `until_ms` is in the past.
        EndPassed = "end_passed",
        /// `until_ms` without `pause`.
        EndWithoutPause = "end_without_pause",
        /// The request expects something other than `100-continue`.
        ExpectationUnknown = "expectation_unknown",
        /// The role of the token does not suffice.
        Forbidden = "forbidden",
        /// A handler refused the event, and nothing was admitted.
        HandlerFailed = "handler_failed",
        /// The request has no `Host`, several, or one that is not a host.
        HostBad = "host_bad",
        /// The `Host` is not a name of this server.
        HostForeign = "host_foreign",
        /// The request was carried out, and its answer was not kept.
        IdempotencyAnswerNotKept = "idempotency_answer_not_kept",
        /// The answer is too long to be committed with its effect.
        IdempotencyAnswerUnusable = "idempotency_answer_unusable",
        /// A request with this key is being carried out: repeat it after `Retry-After`.
        IdempotencyKeyInUse = "idempotency_key_in_use",
        /// The `Idempotency-Key` cannot be read.
        IdempotencyKeyMalformed = "idempotency_key_malformed",
        /// The request has no `Idempotency-Key`.
        IdempotencyKeyMissing = "idempotency_key_missing",
        /// The `Idempotency-Key` was used for another request.
        IdempotencyKeyReused = "idempotency_key_reused",
        /// The request was not carried out in time: repeat it after `Retry-After`.
        IdempotencyTimeout = "idempotency_timeout",
        /// The request broke off: repeat it.
        Internal = "internal",
        /// The path has other methods; `Allow` lists them.
        MethodNotAllowed = "method_not_allowed",
        /// Another token has this name.
        NameTaken = "name_taken",
        /// The act is not possible in the state that the filter names.
        NeverAllowed = "never_allowed",
        /// The kind of the provider has no sample of that type.
        NoSample = "no_sample",
        /// The receiver has no provider at this path.
        NoSuchProvider = "no_such_provider",
        /// The act is not possible in the subject's `state`.
        NotAllowed = "not_allowed",
        /// The subject does not exist, or the token does not reach it.
        NotFound = "not_found",
        /// The request was sent by a web page of another origin.
        OriginForeign = "origin_foreign",
        /// The filter finds another number now: `counted_n`.
        OtherCount = "other_count",
        /// The filter finds other rows now, or one of them has changed.
        OtherSet = "other_set",
        /// Another person has to approve the operation.
        OwnOperation = "own_operation",
        /// The receiver could not verify the request.
        Rejected = "rejected",
        /// The row of the subject is damaged and cannot be read: `detail` says which value, and what to do.
        RowDamaged = "row_damaged",
        /// Another operation does the same: `operation_id`.
        SameOperation = "same_operation",
        /// Too many requests are waiting: repeat it after `Retry-After`.
        Saturated = "saturated",
        /// A token reaches no further than the token that makes it.
        ScopeTooWide = "scope_too_wide",
        /// The content cannot be decrypted here.
        Sealed = "sealed",
        /// Messages of the event are open: `counted_n`.
        StillOpen = "still_open",
        /// The test event was made without calls and is not run.
        TestEvent = "test_event",
        /// No event can be read in the body of the test event.
        TestEventUnreadable = "test_event_unreadable",
        /// The token has expired.
        TokenExpired = "token_expired",
        /// The token was revoked.
        TokenRevoked = "token_revoked",
        /// The token was made by an earlier request with this key and is not shown again.
        TokenShownOnce = "token_shown_once",
        /// The database does not answer, so the token cannot be checked.
        TokensUnknown = "tokens_unknown",
        /// The filter finds more rows than an operation acts on: `counted_n`.
        TooMany = "too_many",
        /// Too many operations are unfinished: `counted_n`.
        TooManyRunning = "too_many_running",
        /// Too many tokens are valid.
        TooManyTokens = "too_many_tokens",
        /// This address sent too many wrong tokens.
        TooManyWrongTokens = "too_many_wrong_tokens",
        /// The request has no valid token.
        Unauthorized = "unauthorized",
        /// The database or another part does not answer: repeat it after `Retry-After`.
        Unavailable = "unavailable",
        /// The act needs `If-Match`.
        VersionNeeded = "version_needed",
        /// Other what-if requests are being answered: repeat it after `Retry-After`.
        WhatIfBusy = "what_if_busy",
    }
}

/// The time, from the first send, that a key may be used: what the destination promises, less a twentieth for clocks
/// that differ and calls under way. Milliseconds.
pub fn key_used_for_ms(key_valid_for_ms: u64) -> i64 {
    i64::try_from(key_valid_for_ms - key_valid_for_ms / 20).unwrap_or(i64::MAX)
}

/// What may be done with a message by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Repeat {
    /// It is sent.
    Send,
    /// The destination is asked whether it happened; it is sent when it did not.
    Ask,
    /// It is held: it is unknown whether an earlier call took effect.
    HoldUnknown,
    /// It is held: the destination may have forgotten its key.
    HoldOldKey,
}

impl UnknownWord {
    /// The one rule by which messages are sent again and people learn what that risks. `is_uncertain`: it is unknown
    /// whether an earlier call took effect; `is_key_valid`: the destination still remembers the key.
    pub fn repeat(self, is_uncertain: bool, is_key_valid: bool) -> Repeat {
        match (self, is_uncertain) {
            (Self::Hold, true) => Repeat::HoldUnknown,
            // Asking changes nothing at the destination, so it is allowed whatever the age of the key.
            (Self::Query, true) => Repeat::Ask,
            _ if !is_key_valid => Repeat::HoldOldKey,
            _ => Repeat::Send,
        }
    }
}

/// How a state is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    /// All is well, and done.
    Good,
    /// It goes on by itself.
    Busy,
    /// It waits for a person.
    Needed,
    /// It will not happen, or did not.
    Bad,
    /// Nothing is to be done.
    Quiet,
}

impl EventState {
    /// Only its calls can say that all is well, so it is never good.
    pub fn mood(self) -> Mood {
        match self {
            Self::Retry => Mood::Busy,
            Self::Conflict | Self::Unreadable => Mood::Needed,
            Self::Failed => Mood::Bad,
            Self::Handled | Self::Ignored | Self::Superseded | Self::Replayed | Self::Dismissed => {
                Mood::Quiet
            }
        }
    }
}

impl DeliveryState {
    /// By the worst of the calls.
    pub fn mood(self) -> Mood {
        match self {
            Self::Held => Mood::Needed,
            Self::Dead => Mood::Bad,
            Self::Open => Mood::Busy,
            Self::Delivered => Mood::Good,
            Self::Discarded | Self::Settled | Self::None | Self::NotSent | Self::NoLongerKnown => Mood::Quiet,
        }
    }
}

impl MessageState {
    /// By what follows without a person.
    pub fn mood(self) -> Mood {
        match self {
            Self::Done => Mood::Good,
            Self::Ready | Self::Waiting | Self::Leased => Mood::Busy,
            Self::Held => Mood::Needed,
            Self::Dead => Mood::Bad,
            Self::Discarded => Mood::Quiet,
        }
    }
}

impl AttemptResult {
    /// By what it says of the call.
    pub fn mood(self) -> Mood {
        match self {
            Self::Done => Mood::Good,
            Self::Retry => Mood::Busy,
            Self::Unknown => Mood::Needed,
            Self::Refused => Mood::Bad,
            Self::Released => Mood::Quiet,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strongest_outcome_of_a_batch_is_the_newest_news() {
        use Outcome::*;
        assert_eq!(Outcome::strongest([Duplicate, Accepted, Conflict]), Some(Accepted));
        assert_eq!(Outcome::strongest([Duplicate, Superseded]), Some(Superseded));
        assert_eq!(Outcome::strongest([]), None);
    }

    /// The words are in tables of later releases, in the API and in metrics.
    #[test]
    fn every_state_has_the_word_that_rows_and_programs_know_it_by() {
        let words = |all: &[&str]| all.join(" ");
        let outcomes: Vec<&str> = Outcome::ALL.iter().map(|one| one.as_str()).collect();
        assert_eq!(words(&outcomes), "accepted unreadable conflict replayed superseded duplicate");
        let events: Vec<&str> = EventState::ALL.iter().map(|one| one.as_str()).collect();
        let wanted = "handled ignored retry failed superseded replayed unreadable conflict dismissed";
        assert_eq!(words(&events), wanted);
        let messages: Vec<&str> = MessageState::ALL.iter().map(|one| one.as_str()).collect();
        assert_eq!(words(&messages), "ready waiting leased done dead held discarded");
        let results: Vec<&str> = AttemptResult::ALL.iter().map(|one| one.as_str()).collect();
        assert_eq!(words(&results), "done retry refused unknown released");
        let rules: Vec<&str> = UnknownWord::ALL.iter().map(|one| one.as_str()).collect();
        assert_eq!(words(&rules), "retry query hold");
    }

    #[test]
    fn the_strictest_rule_is_the_least_word() {
        assert!(SentUnder::ALL.is_sorted_by_key(|one| one.as_str()), "the tables keep the least word");
        for one in UnknownWord::ALL {
            assert_eq!(SentUnder::from(*one).as_str(), one.as_str());
        }
    }

    #[test]
    fn every_word_is_read_back_as_its_state_and_no_other_text_is() {
        for one in EventState::ALL {
            assert_eq!(EventState::parse(one.as_str()), Some(*one));
        }
        for one in MessageState::ALL {
            assert_eq!(MessageState::parse(one.as_str()), Some(*one));
            assert_eq!(serde_json::to_value(one).unwrap(), one.as_str());
        }
        for one in DeliveryState::ALL {
            assert_eq!(DeliveryState::parse(one.as_str()), Some(*one));
        }
        for one in DeliveryFilter::ALL {
            assert_eq!(DeliveryFilter::parse(one.as_str()), Some(*one));
        }
        for one in AttemptResult::ALL {
            assert_eq!(
                (AttemptResult::parse(one.as_str()), one.to_string()),
                (Some(*one), one.as_str().to_owned())
            );
        }
        for one in Outcome::ALL {
            assert_eq!(Outcome::parse(one.as_str()), Some(*one));
        }
        for odd in ["", "Done", " done", "done ", "paused", "expired"] {
            assert_eq!((EventState::parse(odd), MessageState::parse(odd)), (None, None), "{odd:?}");
        }
    }
}
