//! Every combination of the facts, and the page that shows what each comes to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::*;

const HOUR_MS: i64 = 3_600_000;
/// 2026-11-24T12:00:00Z.
const NOW_MS: i64 = 1_795_521_600_000;

const RESULTS: [Option<AttemptResult>; 6] = [
    None,
    Some(AttemptResult::Done),
    Some(AttemptResult::Retry),
    Some(AttemptResult::Refused),
    Some(AttemptResult::Unknown),
    Some(AttemptResult::Released),
];
const SENT: [Option<SentUnder>; 5] =
    [None, Some(SentUnder::Hold), Some(SentUnder::Query), Some(SentUnder::Restored), Some(SentUnder::Retry)];
const RULES: [Option<UnknownWord>; 4] =
    [None, Some(UnknownWord::Retry), Some(UnknownWord::Query), Some(UnknownWord::Hold)];
/// Until when the key is known, and when it was sent first: not said, for long yet, no longer, and no longer by the
/// present configuration alone.
const KEYS: [(Option<i64>, Option<i64>); 4] = [
    (None, None),
    (Some(NOW_MS + 20 * HOUR_MS), Some(NOW_MS - 4 * HOUR_MS)),
    (Some(NOW_MS), Some(NOW_MS - 24 * HOUR_MS)),
    (Some(NOW_MS + HOUR_MS), Some(NOW_MS - 25 * HOUR_MS)),
];
const HEADS: [Option<MessageState>; 3] = [None, Some(MessageState::Held), Some(MessageState::Dead)];
const CONTENTS: [MessageContent; 3] = [MessageContent::Kept, MessageContent::Gone, MessageContent::Sealed];
const PAUSES: [PauseFact; 3] = [PauseFact::No, PauseFact::UntilResumed, PauseFact::Until(NOW_MS + HOUR_MS)];

/// Calls `each` with every combination of what a message's own row has and of the rule of its destination.
fn every(mut each: impl FnMut(MessageFacts)) {
    for (state, last_result) in
        MessageState::ALL.iter().flat_map(|state| RESULTS.map(|last_result| (*state, last_result)))
    {
        for (sent_under, rule) in SENT.into_iter().flat_map(|sent| RULES.map(|rule| (sent, rule))) {
            for (key, attempts_n) in KEYS.into_iter().flat_map(|key| [0, 2].map(|n| (key, n))) {
                for visible_at_ms in [NOW_MS - HOUR_MS, NOW_MS + HOUR_MS] {
                    each(MessageFacts {
                        state,
                        attempts_n,
                        last_result,
                        sent_under,
                        visible_at_ms,
                        first_sent_at_ms: key.1,
                        key_valid_until_ms: key.0,
                        is_in_lane: false,
                        head: None,
                        content: MessageContent::Kept,
                        policy: rule.map(|unknown| RepeatPolicy { unknown, key_valid_for_ms: 24 * HOUR_MS }),
                        is_breaker_open: false,
                        pause: PauseFact::No,
                        is_rerun: false,
                        now_ms: NOW_MS,
                    });
                }
            }
        }
    }
}

/// The same with everything that may stand in the way.
fn every_whole(mut each: impl FnMut(MessageFacts)) {
    every(|facts| {
        let heads = if facts.state == MessageState::Waiting { &HEADS[..] } else { &HEADS[..1] };
        for (head, content) in heads.iter().flat_map(|head| CONTENTS.map(|content| (*head, content))) {
            for (pause, is_breaker_open) in
                PAUSES.into_iter().flat_map(|pause| [false, true].map(|is| (pause, is)))
            {
                each(MessageFacts { head, content, is_breaker_open, pause, ..facts });
            }
        }
    });
}

fn act(judgement: &Judgement<MessageAct>, act: MessageAct) -> Option<&JudgedAct<MessageAct>> {
    judgement.acts.iter().find(|one| one.act == act)
}

#[test]
fn a_call_of_an_earlier_run_is_never_safe_to_send() {
    let mut judged_n = 0;
    every_whole(|facts| {
        let judgement = MessageFacts { is_rerun: true, ..facts }.judge();
        if let Some(send) = act(&judgement, MessageAct::Send) {
            judged_n += 1;
            assert_ne!(send.risk, Risk::None, "{facts:#?}");
            assert!(send.sentence.contains("was run again"), "{send:#?}");
        }
    });
    assert!(judged_n > 100, "{judged_n}");
}

#[test]
fn discarding_the_head_of_a_lane_announces_that_the_rest_is_sent() {
    every(|facts| {
        for one in (MessageFacts { is_in_lane: true, ..facts }).judge().acts {
            let is_passed = one.act != MessageAct::Send && facts.state != MessageState::Waiting;
            assert_eq!(one.sentence.contains("behind it in its lane are sent"), is_passed, "{one:#?}");
        }
    });
}

#[test]
fn what_is_not_known_never_reads_as_safe() {
    let mut judged_n = 0;
    every_whole(|facts| {
        judged_n += 1;
        let judgement = facts.judge();
        if judgement.headline.contains("acts once") {
            let is_same_rule = matches!(facts.sent_under, Some(SentUnder::Retry | SentUnder::Restored));
            let is_known =
                facts.safe_until_ms().is_some_and(|until_ms| until_ms > facts.visible_at_ms.max(NOW_MS));
            let rule = facts.policy.map(|policy| policy.unknown);
            assert!(
                rule == Some(UnknownWord::Retry)
                    && is_same_rule
                    && (is_known || facts.state == MessageState::Leased),
                "{facts:#?}"
            );
        }
        let Some(send) = act(&judgement, MessageAct::Send) else { return };
        let may_have_acted = facts.sent_under.is_some() || facts.last_result == Some(AttemptResult::Unknown);
        let key_until_ms =
            facts.key_valid_until_ms.min(facts.first_sent_at_ms.map(|at_ms| at_ms + 24 * HOUR_MS));
        let is_known = key_until_ms.is_some_and(|until_ms| until_ms > NOW_MS);
        let rule = facts.policy.map(|policy| policy.unknown);
        let is_same_rule = matches!(facts.sent_under, Some(SentUnder::Retry | SentUnder::Restored));
        let want = match rule {
            None => Risk::CannotSay,
            Some(_) if !may_have_acted => Risk::None,
            Some(UnknownWord::Retry) if is_known && is_same_rule => Risk::None,
            Some(_) => Risk::MayRepeatEffect,
        };
        assert_eq!(send.risk, want, "{facts:#?}");
        if send.risk != Risk::None {
            assert!(send.sentence.contains("Do not send before you"), "{facts:#?} {}", send.sentence);
            assert!(!send.sentence.contains("acts once"), "{facts:#?} {}", send.sentence);
        }
        if rule == Some(UnknownWord::Hold) && may_have_acted {
            assert!(send.sentence.contains("It is not known whether it took effect"), "{}", send.sentence);
        }
    });
    assert!(judged_n > 100_000, "{judged_n}");
}

#[test]
fn every_act_that_is_possible_has_its_risk_and_its_sentence() {
    every_whole(|facts| {
        let judgement = facts.judge();
        let is_under_way = facts.state == MessageState::Leased && facts.visible_at_ms > NOW_MS;
        for possible in [MessageAct::Done, MessageAct::Send, MessageAct::Discard] {
            let is_possible = possible.is_for(facts.state) && !is_under_way;
            assert_eq!(act(&judgement, possible).is_some(), is_possible, "{facts:#?}");
        }
        for one in &judgement.acts {
            assert!(one.sentence.ends_with('.') && !one.sentence.contains("  "), "{}", one.sentence);
            // What is open has not happened for all that is known: to send nothing may lose it.
            assert_eq!(one.risk == Risk::LosesEffect, one.act != MessageAct::Send, "{facts:#?}");
        }
        let harms: Vec<bool> = judgement.acts.iter().map(|one| one.risk != Risk::None).collect();
        assert!(harms.is_sorted(), "the safest first: {facts:#?}");
        assert!(
            judgement.headline.ends_with('.') && !judgement.headline.contains("  "),
            "{}",
            judgement.headline
        );
    });
}

#[test]
fn finished_messages_have_no_sentence_about_keys() {
    every_whole(|facts| {
        let judgement = facts.judge();
        if matches!(facts.state, MessageState::Done | MessageState::Discarded) {
            assert!(
                judgement.acts.is_empty() && !judgement.headline.contains("key"),
                "{}",
                judgement.headline
            );
        }
    });
}

/// The memory of a possible effect outlives the decision: an operator who gives a call up has not undone it.
#[test]
fn a_call_that_may_have_happened_is_never_shown_as_not_sent() {
    let mut judged_n = 0;
    every(|facts| {
        let headline = facts.judge().headline;
        let was_sent = facts.attempts_n > 0 || facts.may_have_acted();
        assert!(!was_sent || !headline.contains("it is not sent."), "{headline} {facts:#?}");
        assert!(!was_sent || !headline.contains("not been sent yet") || facts.attempts_n == 0, "{headline}");
        if facts.state == MessageState::Discarded && facts.may_have_acted() {
            judged_n += 1;
            assert!(headline.contains("ask the destination"), "{headline} {facts:#?}");
        }
        for one in facts.judge().acts {
            assert!(!was_sent || !one.sentence.contains("it is not sent,"), "{one:#?}");
        }
    });
    assert!(judged_n > 100, "{judged_n}");
}

/// Attempts are pruned before their message: their absence says nothing.
#[test]
fn only_a_message_without_any_attempt_reads_as_never_sent() {
    every(|facts| {
        let says_unsent = ["It was never sent.", "It was not sent yet."].contains(&facts.no_attempts());
        assert_eq!(says_unsent, facts.attempts_n == 0 && !facts.may_have_acted(), "{facts:#?}");
    });
}

#[test]
fn obstacles_are_named_and_change_no_risk() {
    every_whole(|facts| {
        let bare = MessageFacts {
            content: MessageContent::Kept,
            pause: PauseFact::No,
            is_breaker_open: false,
            ..facts
        };
        let (judgement, without) = (facts.judge(), bare.judge());
        let risks = |one: &Judgement<MessageAct>| -> Vec<_> {
            one.acts.iter().map(|one| (one.act, one.risk)).collect()
        };
        assert_eq!(risks(&judgement), risks(&without), "{facts:#?}");
        let moves = matches!(facts.state, MessageState::Ready | MessageState::Waiting);
        let texts = match act(&judgement, MessageAct::Send) {
            Some(send) => vec![&send.sentence],
            None if moves => vec![&judgement.headline],
            None => vec![],
        };
        for text in texts {
            assert_eq!(text.contains("is paused"), facts.pause != PauseFact::No, "{text}");
            assert_eq!(text.contains("circuit breaker"), facts.is_breaker_open, "{text}");
            assert_eq!(text.contains("Its body "), facts.content != MessageContent::Kept, "{text}");
        }
    });
}

#[test]
fn a_lane_moves_only_when_its_head_does() {
    every_whole(|facts| {
        let blocked = facts.lane_blocked_by();
        let is_under_way = facts.state == MessageState::Leased && facts.visible_at_ms > NOW_MS;
        let is_free = facts.policy.is_some()
            && facts.pause == PauseFact::No
            && facts.content == MessageContent::Kept
            && !facts.is_breaker_open;
        match facts.state {
            MessageState::Held | MessageState::Dead => assert_eq!(blocked, Some(facts.state.as_str())),
            MessageState::Leased if is_under_way => assert_eq!(blocked, None),
            MessageState::Ready if !is_free => assert!(blocked.is_some(), "{facts:#?}"),
            MessageState::Ready => {
                let is_later = facts.attempts_n > 0 && facts.visible_at_ms > NOW_MS;
                assert_eq!(blocked, is_later.then_some("backing_off"));
            }
            _ => {}
        }
    });
}

/// What the program can bring about, of all combinations.
fn may_be(facts: &MessageFacts) -> bool {
    let is_open = !matches!(facts.state, MessageState::Done | MessageState::Discarded);
    let is_first = facts.attempts_n == 0;
    let result = facts.last_result;
    let may_be_in_state = match facts.state {
        MessageState::Held | MessageState::Dead => {
            !is_first
                && result.is_some()
                && facts.visible_at_ms < NOW_MS
                && facts.key_valid_until_ms.is_some()
        }
        MessageState::Waiting => is_first && facts.visible_at_ms < NOW_MS,
        MessageState::Leased => !is_first && result.is_none(),
        MessageState::Done | MessageState::Discarded => {
            facts.visible_at_ms < NOW_MS && facts.policy.is_some() && facts.key_valid_until_ms.is_none()
        }
        MessageState::Ready => result != Some(AttemptResult::Refused),
    };
    let is_of_a_first = facts.key_valid_until_ms.is_none()
        && (facts.sent_under, result == Some(AttemptResult::Unknown), result.is_some())
            == (
                facts.sent_under.filter(|sent| *sent == SentUnder::Restored),
                facts.sent_under.is_some(),
                facts.sent_under.is_some(),
            );
    may_be_in_state
        && (is_open || result != Some(AttemptResult::Done) || facts.sent_under.is_none())
        && (!is_open || result != Some(AttemptResult::Done))
        && (!is_open || result != Some(AttemptResult::Unknown) || facts.sent_under.is_some())
        && (!is_open
            || result != Some(AttemptResult::Refused)
            || facts.sent_under.is_some()
            || facts.state == MessageState::Dead)
        && (!is_first || !is_open || is_of_a_first)
        && (is_first || !is_open || facts.key_valid_until_ms.is_some() || result.is_none())
}

/// The words of the conditions that a judgement follows from.
fn conditions(facts: &MessageFacts) -> [(&'static str, String); 7] {
    let word =
        |word: Option<&str>, none: &str| word.map_or_else(|| none.to_owned(), |word| format!("`{word}`"));
    let is_known = facts.safe_until_ms().map(|until_ms| until_ms > NOW_MS);
    [
        ("state", facts.state.to_string()),
        ("head of its lane", word(facts.head.map(MessageState::as_str), "not known, or under way")),
        ("last result", word(facts.last_result.map(AttemptResult::as_str), "none")),
        ("may have taken effect under", word(facts.sent_under.map(SentUnder::as_str), "none")),
        ("`unknown` is", word(facts.policy.map(|policy| policy.unknown.as_str()), "not configured here")),
        (
            "key",
            (if is_known == Some(true) {
                "known"
            } else if is_known.is_some() {
                "may be forgotten"
            } else {
                "no call yet"
            })
            .to_owned(),
        ),
        ("due", (if facts.visible_at_ms > NOW_MS { "later" } else { "now" }).to_owned()),
    ]
}

/// A text that is shown, and the facts that it follows from.
type Shown = (String, Vec<MessageFacts>);

fn page() -> String {
    let mut page = "# Every judgement of a message\n\n\
        <!-- `UPDATE_JUDGEMENTS=1 cargo nextest run the_page_of_judgements` writes this page. What the words mean:\n\
        docs/judgements.md. -->\n\n\
        Every combination of the facts is here, with the times of an example. A row says `when` it is shown, as far as\n\
        not every row of its table shares that.\n"
        .to_owned();
    // What is said, and the facts that it follows from; headlines by state, then the acts.
    let mut said: Vec<(String, Vec<Shown>)> = Vec::new();
    let titles = MessageState::ALL.iter().map(|state| format!("Headlines: {state}"));
    said.extend(
        titles
            .chain(["send", "done", "discard"].map(|act| format!("Act: `{act}`")))
            .map(|title| (title, Vec::new())),
    );
    let mut note = |title: &str, text: String, facts: MessageFacts| {
        let (_, of_title) = said.iter_mut().find(|(one, _)| one == title).unwrap();
        match of_title.iter_mut().find(|(one, _)| *one == text) {
            Some((_, all)) => all.push(facts),
            None => of_title.push((text, vec![facts])),
        }
    };
    every(|facts| {
        let heads = if facts.state == MessageState::Waiting { &HEADS[..] } else { &HEADS[..1] };
        for facts in heads.iter().map(|head| MessageFacts { head: *head, ..facts }).filter(may_be) {
            let judgement = facts.judge();
            note(&format!("Headlines: {}", facts.state), judgement.headline, facts);
            for one in judgement.acts {
                let (act, risk) = (serde_json::json!(one.act), serde_json::json!(one.risk));
                let [act, risk] = [&act, &risk].map(|word| word.as_str().unwrap());
                note(&format!("Act: `{act}`"), format!("`{risk}`: {}", one.sentence), facts);
            }
        }
    });
    for (title, of_title) in &said {
        write!(page, "\n## {title}\n\n| what is shown | when |\n|---|---|\n").unwrap();
        let all = values(&of_title.iter().flat_map(|(_, facts)| facts).collect::<Vec<_>>());
        for (text, facts) in of_title {
            let when: Vec<String> = values(&facts.iter().collect::<Vec<_>>())
                .into_iter()
                .filter(|(name, values)| all[name] != *values)
                .map(|(name, values)| {
                    format!("{name}: {}", values.into_iter().collect::<Vec<_>>().join(", "))
                })
                .collect();
            let when = if when.is_empty() { "always".to_owned() } else { when.join("; ") };
            writeln!(page, "| {text} | {when} |").unwrap();
        }
    }
    page.push_str("\n## What may stand in the way\n\nThese follow the sentence of `send`, and the headline of a message that goes out by itself.\n\n");
    let base =
        MessageFacts { content: MessageContent::Gone, pause: PAUSES[1], is_breaker_open: true, ..some() };
    let sealed = MessageFacts { content: MessageContent::Sealed, pause: PAUSES[2], ..some() };
    for sentence in base.obstacles().chain(sealed.obstacles()) {
        writeln!(page, "- {sentence}").unwrap();
    }
    page
}

fn some() -> MessageFacts {
    let mut some = None;
    every(|facts| some = some.or(Some(facts)));
    some.unwrap()
}

/// The values that each condition has.
fn values(all: &[&MessageFacts]) -> BTreeMap<&'static str, BTreeSet<String>> {
    let mut found: BTreeMap<&'static str, BTreeSet<String>> = BTreeMap::new();
    for (name, value) in all.iter().flat_map(|facts| conditions(facts)) {
        found.entry(name).or_default().insert(value);
    }
    found
}

#[test]
fn the_page_of_judgements_shows_every_judgement() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/judgements/messages.md");
    let wanted = page();
    if std::env::var_os("UPDATE_JUDGEMENTS").is_some() {
        std::fs::write(path, &wanted).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        found == wanted,
        "crates/contract/judgements/messages.md is not what judgements are: run this with UPDATE_JUDGEMENTS=1"
    );
}
