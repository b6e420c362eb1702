//! Compares the messages that would follow with those that were committed: by their keys, then part by part. Shows
//! bodies in part, headers without credentials, and addresses without their paths. No I/O.

use std::collections::BTreeMap;

use hooklatch_contract::{WhatIfCall, WhatIfChange, WhatIfEffect, WhatIfSaid};
use hooklatch_core::types::EventState;
use hooklatch_store::{CommittedCall, CommittedEffect, NewMessage};
use hooklatch_verify::read::shown_value;

/// Most headers that are shown of one call, and most characters of each.
const HEADERS_N_MAX: usize = 50;
const HEADER_CHARS_MAX: usize = 256;

/// Bytes of bodies that an answer has room for.
#[derive(Debug, Clone, Copy)]
pub struct ShownBytes {
    /// Most bytes of one body.
    each_max: usize,
    /// Bytes that are left for all of one event.
    left: usize,
}

impl ShownBytes {
    /// For an answer about one event.
    pub const ONE: Self = Self { each_max: 64 * 1024, left: 512 * 1024 };
    /// For each event of an answer about many.
    pub const EACH: Self = Self { each_max: 2 * 1024, left: 16 * 1024 };

    /// The piece of a body that is shown; `None` where nothing is left.
    fn take(&mut self, body: &[u8]) -> Option<String> {
        let piece = body.get(..self.each_max).unwrap_or(body);
        self.left = self.left.checked_sub(piece.len())?;
        Some(String::from_utf8_lossy(piece).into_owned())
    }
}

/// A call as it is shown. `event_body` is what it carries when it has no body of its own.
pub(super) fn call_view(
    (destination, lane): (&str, Option<&str>),
    call: &CommittedCall,
    event_body: &[u8],
    shown: &mut ShownBytes,
) -> WhatIfCall {
    let whole = call.body.as_deref().unwrap_or(event_body);
    let body = shown.take(whole);
    WhatIfCall {
        destination: destination.to_owned(),
        lane: lane.map(str::to_owned),
        method: call.method.clone(),
        path: shown_path(&call.path),
        headers: shown_headers(&call.headers),
        is_event_body: call.body.is_none(),
        is_cut: body.is_none() || whole.len() > shown.each_max,
        body,
        body_bytes_n: whole.len() as u64,
    }
}

fn shown_headers(headers: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let one = |(name, value): (&String, &String)| {
        let value = shown_value(name, value).chars().take(HEADER_CHARS_MAX).collect();
        (name.clone(), value)
    };
    headers.iter().take(HEADERS_N_MAX).map(one).collect()
}

/// A path as it is; of a whole address, which a template made, the host alone: secrets stand in paths of such
/// addresses.
fn shown_path(path: &str) -> String {
    if path.is_empty() || path.starts_with('/') {
        return path.to_owned();
    }
    match path
        .parse::<http::Uri>()
        .ok()
        .and_then(|uri| Some((uri.scheme_str()?.to_owned(), uri.host()?.to_owned())))
    {
        Some((scheme, host)) => format!("{scheme}://{host}/…"),
        None => "…".to_owned(),
    }
}

/// The messages of one event, on both sides; all of one generation, so that names are as good as keys.
pub(super) struct Sides<'a> {
    pub committed: &'a [CommittedEffect],
    pub(crate) planned: &'a [NewMessage],
    /// The event's own bytes, which a message without a body carries.
    pub event_body: &'a [u8],
}

/// Every effect of either side, those that differ first.
pub(crate) fn differences(
    sides: &Sides<'_>,
    key_of: impl Fn(&str) -> String,
    shown: &mut ShownBytes,
) -> Vec<WhatIfEffect> {
    let mut effects = Vec::new();
    for message in sides.planned {
        let was = sides.committed.iter().find(|effect| effect.effect_name == message.effect_name);
        effects.push(planned(sides, message, was, shown));
    }
    let is_planned = |name: &str| sides.planned.iter().any(|message| message.effect_name == name);
    for effect in sides.committed.iter().filter(|effect| !is_planned(&effect.effect_name)) {
        let call = effect.call.as_ref().ok();
        effects.push(WhatIfEffect {
            was: call.map(|call| call_view(place_of(effect), call, sides.event_body, shown)),
            ..plain(&effect.effect_name, WhatIfChange::Gone, &effect.destination, Some(effect))
        });
    }
    for effect in &mut effects {
        effect.idempotency_key = key_of(&effect.effect_name);
    }
    effects.sort_by_key(|effect| effect.change);
    effects
}

/// One message that would follow.
fn planned(
    sides: &Sides<'_>,
    message: &NewMessage,
    was: Option<&CommittedEffect>,
    shown: &mut ShownBytes,
) -> WhatIfEffect {
    let call = call_of(message);
    let now = |shown: &mut ShownBytes| {
        let place = (message.destination.as_str(), message.lane.as_deref());
        Some(call_view(place, &call, sides.event_body, shown))
    };
    let with_change = |change| plain(&message.effect_name, change, &message.destination, was);
    let Some(effect) = was else {
        return WhatIfEffect { now: now(shown), ..with_change(WhatIfChange::New) };
    };
    let Ok(before) = &effect.call else {
        return WhatIfEffect { now: now(shown), ..with_change(WhatIfChange::Unknown) };
    };
    let fields = fields(effect, before, message, &call, sides.event_body);
    if fields.is_empty() {
        return with_change(WhatIfChange::Same);
    }
    let was = Some(call_view(place_of(effect), before, sides.event_body, shown));
    WhatIfEffect { fields, was, now: now(shown), ..with_change(WhatIfChange::Other) }
}

/// An effect without its calls.
fn plain(
    effect_name: &str,
    change: WhatIfChange,
    destination: &str,
    was: Option<&CommittedEffect>,
) -> WhatIfEffect {
    WhatIfEffect {
        effect_name: effect_name.to_owned(),
        idempotency_key: String::new(),
        change,
        fields: Vec::new(),
        destination: destination.to_owned(),
        message_id: was.map(|effect| effect.message_id),
        message_state: was.map(|effect| effect.state),
        was: None,
        now: None,
    }
}

fn place_of(effect: &CommittedEffect) -> (&str, Option<&str>) {
    (effect.destination.as_str(), effect.lane.as_deref())
}

fn call_of(message: &NewMessage) -> CommittedCall {
    CommittedCall {
        method: message.method.clone(),
        path: message.path.clone(),
        headers: message.headers.clone(),
        body: message.body.clone(),
    }
}

/// The parts in which two calls under one key differ.
fn fields(
    effect: &CommittedEffect,
    before: &CommittedCall,
    message: &NewMessage,
    now: &CommittedCall,
    event_body: &[u8],
) -> Vec<String> {
    let body = |call: &CommittedCall| call.body.clone().unwrap_or_else(|| event_body.to_vec().into());
    let parts = [
        ("destination", effect.destination != message.destination),
        ("lane", effect.lane != message.lane),
        ("method", before.method != now.method),
        ("path", before.path != now.path),
        ("headers", before.headers != now.headers),
        ("body", before.body != now.body && body(before) != body(now)),
    ];
    parts.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name.to_owned()).collect()
}

/// True when an event in `state` would reach that state again.
pub(super) fn is_as_it_stands(state: EventState, said: WhatIfSaid) -> bool {
    use WhatIfSaid::{Handled, Ignored, Panicked, Refused, Retry, Superseded, TookTooLong};
    match state {
        EventState::Handled => said == Handled,
        EventState::Ignored => said == Ignored,
        EventState::Superseded => said == Superseded,
        EventState::Retry => matches!(said, Retry | Panicked | TookTooLong),
        // Refused at once, or given up after many tries.
        EventState::Failed => matches!(said, Refused | Retry | Panicked | TookTooLong),
        EventState::Unreadable | EventState::Conflict | EventState::Replayed | EventState::Dismissed => false,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use hooklatch_core::types::{EventKey, MessageId, MessageState, Name};

    #[test]
    fn credentials_and_private_paths_are_not_shown() {
        let headers = [("authorization", "x"), ("x-note", "Bearer abc"), ("content-type", "text/plain")];
        let call = CommittedCall {
            method: "PUT".to_owned(),
            path: "https://user:pw@far.test/T0/secret?k=1".to_owned(),
            headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            body: Some(Bytes::from_static(b"a\xffb")),
        };
        let view = call_view(("far", None), &call, b"", &mut { ShownBytes::ONE });
        assert_eq!(view.path, "https://far.test/…");
        assert_eq!(view.headers["authorization"], "[redacted]");
        assert_eq!(view.headers["x-note"], "[redacted]");
        assert_eq!(view.headers["content-type"], "text/plain");
        assert_eq!((view.body.as_deref(), view.is_cut), (Some("a\u{fffd}b"), false));
        assert_eq!((shown_path("/a?b=1"), shown_path("a b")), ("/a?b=1".to_owned(), "…".to_owned()));
    }

    #[test]
    fn bodies_are_shown_in_part_until_there_is_no_room_and_counted_whole() {
        let call = CommittedCall {
            method: "POST".to_owned(),
            path: String::new(),
            headers: BTreeMap::new(),
            body: None,
        };
        let mut shown = ShownBytes { each_max: 4, left: 10 };
        let mut view = |body: &[u8]| {
            let view = call_view(("a", None), &call, body, &mut shown);
            (view.body, view.is_cut, view.body_bytes_n)
        };
        assert_eq!(view(b"abcdef"), (Some("abcd".to_owned()), true, 6));
        assert_eq!(view(b"abcd"), (Some("abcd".to_owned()), false, 4));
        assert_eq!(view(b"abc"), (None, true, 3), "no room is left");
    }

    fn message(name: &str) -> NewMessage {
        let event =
            EventKey { provider: Name::parse("stripe").expect("a name"), event_id: "evt_1".to_owned() };
        let id = MessageId::of(7, 0).expect("a place");
        NewMessage { effect_name: name.to_owned(), ..NewMessage::forward(id, event, "billing") }
    }

    fn committed(of: &NewMessage) -> CommittedEffect {
        CommittedEffect {
            message_id: of.message_id,
            effect_name: of.effect_name.clone(),
            state: MessageState::Done,
            destination: of.destination.clone(),
            lane: of.lane.clone(),
            call: Ok(call_of(of)),
        }
    }

    /// A line for each effect: how it compares, its key, and in what it differs.
    fn compared(before: &[CommittedEffect], now: &[NewMessage]) -> Vec<String> {
        let sides = Sides { committed: before, planned: now, event_body: b"{}" };
        let mut shown = ShownBytes::ONE;
        let found = differences(&sides, |name| format!("k-{name}"), &mut shown);
        let one = |effect: &WhatIfEffect| {
            let calls = [effect.was.is_some(), effect.now.is_some()].map(u8::from);
            let fields = effect.fields.join(",");
            format!("{} {} {fields} {calls:?}", effect.change.as_str(), effect.idempotency_key)
        };
        found.iter().map(one).collect()
    }

    #[test]
    fn effects_are_compared_by_key_and_list_the_differing_ones_first() {
        let (a, b) = (message("a"), message("b"));
        assert_eq!(compared(&[committed(&a)], &[message("a")]), ["same k-a  [0, 0]"]);
        assert_eq!(compared(&[], &[message("a")]), ["new k-a  [0, 1]"]);
        assert_eq!(compared(&[committed(&a)], &[]), ["gone k-a  [1, 0]"]);
        assert_eq!(
            compared(&[committed(&a), committed(&b)], &[message("a"), message("c")]),
            ["new k-c  [0, 1]", "gone k-b  [1, 0]", "same k-a  [0, 0]"]
        );
    }

    #[test]
    fn a_call_differs_in_each_of_its_parts_and_in_what_is_sent_of_its_body() {
        let before = [committed(&message("a"))];
        let check = |now: NewMessage, want: &str| {
            assert_eq!(compared(&before, &[now]), [want]);
        };
        let one = || message("a");
        check(NewMessage { destination: "crm".to_owned(), ..one() }, "other k-a destination [1, 1]");
        check(NewMessage { lane: Some("x".to_owned()), ..one() }, "other k-a lane [1, 1]");
        check(NewMessage { method: "PUT".to_owned(), ..one() }, "other k-a method [1, 1]");
        check(NewMessage { path: "/x".to_owned(), ..one() }, "other k-a path [1, 1]");
        let headers = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        check(NewMessage { headers, ..one() }, "other k-a headers [1, 1]");
        check(NewMessage { body: Some(Bytes::from_static(b"x")), ..one() }, "other k-a body [1, 1]");
        check(NewMessage { body: Some(Bytes::from_static(b"{}")), ..one() }, "same k-a  [0, 0]");
        let unread = CommittedEffect { call: Err("sealed".to_owned()), ..committed(&one()) };
        assert_eq!(compared(&[unread], &[one()]), ["unknown k-a  [0, 1]"]);
    }

    #[test]
    fn an_event_stands_as_it_would_when_its_state_follows_from_what_was_said() {
        for state in EventState::ALL {
            let said = [
                WhatIfSaid::Handled,
                WhatIfSaid::Ignored,
                WhatIfSaid::Refused,
                WhatIfSaid::Retry,
                WhatIfSaid::Superseded,
                WhatIfSaid::NotRun,
            ];
            let fit: Vec<_> = said
                .iter()
                .filter(|said| is_as_it_stands(*state, **said))
                .map(|said| said.as_str())
                .collect();
            let want: &[&str] = match state {
                EventState::Handled => &["handled"],
                EventState::Ignored => &["ignored"],
                EventState::Superseded => &["superseded"],
                EventState::Retry => &["retry"],
                EventState::Failed => &["refused", "retry"],
                _ => &[],
            };
            assert_eq!(fit, want, "{state:?}");
        }
    }
}
