//! What follows for messages that may have been sent, and for senders that were told 200.

use serde::Serialize;

use crate::config::DestinationConfig;
use crate::spec::{Resend, Spec};
use crate::types::{MessageState, Repeat, UnixMs};

const HOUR_MS: i64 = 3_600_000;

/// What becomes of messages after the database was taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum MessagesFate {
    /// They are sent under their keys, which the destination still knows.
    Sent,
    /// The destination is asked first.
    Asked,
    /// They are held, because the destination knows no keys.
    HeldUnknown,
    /// Those whose key may be forgotten by now are held, the others are sent.
    HeldOld,
    /// They wait for a person, as before.
    Person,
    /// No such destination is configured, so nothing takes them.
    Stray,
}

/// Judges messages of which the oldest was sent first at `first_sent_at_ms`, or may have been since `from_ms`. With it,
/// until when their destination knows the keys.
pub(super) fn fate(
    config: Option<&DestinationConfig>,
    state: MessageState,
    first_sent_at_ms: Option<UnixMs>,
    (from_ms, now_ms): (UnixMs, UnixMs),
) -> (MessagesFate, Option<UnixMs>) {
    let Some(config) = config else { return (MessagesFate::Stray, None) };
    if matches!(state, MessageState::Held | MessageState::Dead) {
        return (MessagesFate::Person, None);
    }
    let for_ms = i64::try_from(config.key_valid_for_ms).unwrap_or(i64::MAX);
    let until_ms = first_sent_at_ms.unwrap_or(from_ms).min(from_ms).saturating_add(for_ms);
    match config.unknown.word().repeat(true, now_ms < until_ms) {
        Repeat::HoldUnknown => (MessagesFate::HeldUnknown, None),
        Repeat::Ask => (MessagesFate::Asked, Some(until_ms)),
        Repeat::HoldOldKey => (MessagesFate::HeldOld, Some(until_ms)),
        Repeat::Send => (MessagesFate::Sent, Some(until_ms)),
    }
}

/// Whether a sender can be made to send what it was told 200 for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ResendWay {
    /// By its dashboard or API, for all of the lost time.
    Possible,
    /// By its dashboard or API, but not for the beginning of the lost time any more.
    Partly,
    /// Its documentation names no way: compare with what its API lists.
    Unknown,
    /// Its kind is not known here.
    NoKind,
}

/// Judges a kind, for events that came from `from_ms` to `until_ms`. With it, the hours for which it can be asked.
pub(super) fn asking(
    spec: Option<&Spec>,
    (from_ms, until_ms): (UnixMs, UnixMs),
    now_ms: UnixMs,
) -> (ResendWay, Option<u32>) {
    let Some(spec) = spec else { return (ResendWay::NoKind, None) };
    match spec.resend_h {
        None => (ResendWay::Unknown, None),
        Some(Resend::Unbounded) => (ResendWay::Possible, None),
        Some(Resend::Hours(hours)) => {
            let back_to_ms = now_ms.saturating_sub(i64::from(hours).saturating_mul(HOUR_MS));
            let word = if back_to_ms <= from_ms {
                ResendWay::Possible
            } else if back_to_ms < until_ms {
                ResendWay::Partly
            } else {
                ResendWay::Unknown
            };
            (word, Some(hours))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::kinds;

    fn spec(kind: &str) -> Spec {
        let kinds = kinds(None, Vec::new());
        let found = kinds.iter().find(|one| one.kind() == kind).expect("a kind");
        found.spec().expect("a spec").clone()
    }

    #[test]
    fn a_sender_can_be_asked_for_as_long_as_its_kind_says() {
        const NOW_MS: i64 = 2_000 * HOUR_MS;
        // Stripe can be asked for 720 hours.
        for (from_h, until_h, wanted) in [
            (1_990, 1_999, ResendWay::Possible),
            (1_280, 1_999, ResendWay::Possible),
            (1_279, 1_999, ResendWay::Partly),
            (1_000, 1_280, ResendWay::Unknown),
        ] {
            let span = (from_h * HOUR_MS, until_h * HOUR_MS);
            assert_eq!(asking(Some(&spec("stripe")), span, NOW_MS), (wanted, Some(720)), "{from_h}");
        }
        assert_eq!(asking(Some(&spec("bitpay")), (0, 1), NOW_MS), (ResendWay::Possible, None));
        assert_eq!(asking(Some(&spec("adyen")), (0, 1), NOW_MS), (ResendWay::Unknown, None));
        assert_eq!(asking(None, (0, 1), NOW_MS), (ResendWay::NoKind, None));
    }
}
