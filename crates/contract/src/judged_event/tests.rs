//! Every combination of facts, and the page that shows what is said of them.

use std::fmt::Write as _;

use super::*;

/// What an event has of calls, by the state that this makes: three calls, of which one is the worst.
fn deliveries() -> Vec<DeliveryView> {
    let one = |state: DeliveryState| {
        let is = |wanted: DeliveryState| u32::from(state == wanted);
        let (held_n, dead_n, open_n) =
            (is(DeliveryState::Held), is(DeliveryState::Dead), is(DeliveryState::Open));
        let has_calls =
            !matches!(state, DeliveryState::None | DeliveryState::NotSent | DeliveryState::NoLongerKnown);
        let delivered_n = if state == DeliveryState::Delivered { 3 } else { 2 * u32::from(has_calls) };
        DeliveryView {
            state,
            messages_n: 3 * u32::from(has_calls),
            delivered_n,
            open_n,
            held_n,
            dead_n,
            discarded_n: is(DeliveryState::Discarded),
            settled_n: is(DeliveryState::Settled),
            unsent_n: open_n,
            sent_n: delivered_n + held_n + dead_n,
            error: None,
            generation: has_calls.then_some(0),
            earlier: None,
        }
    };
    let mut all: Vec<DeliveryView> = DeliveryState::ALL.iter().map(|state| one(*state)).collect();
    // Discarded before anything was sent, and of a kind that has all its calls in one state.
    let discarded = one(DeliveryState::Discarded);
    all.push(DeliveryView { messages_n: 1, delivered_n: 0, sent_n: 0, ..discarded });
    let dead = one(DeliveryState::Dead);
    all.push(DeliveryView { messages_n: 54, delivered_n: 0, dead_n: 54, sent_n: 54, unsent_n: 0, ..dead });
    let held = one(DeliveryState::Held);
    all.push(DeliveryView { messages_n: 2, delivered_n: 0, dead_n: 1, sent_n: 2, unsent_n: 0, ..held });
    let open = one(DeliveryState::Open);
    all.push(DeliveryView { messages_n: 1, delivered_n: 0, open_n: 1, sent_n: 0, unsent_n: 1, ..open });
    // A second run whose only call was delivered, beside calls of the first run.
    let delivered = DeliveryView {
        messages_n: 1,
        delivered_n: 1,
        sent_n: 2,
        generation: Some(1),
        ..one(DeliveryState::Delivered)
    };
    let earlier = |counts: CallCounts| DeliveryView { earlier: Some(counts), ..delivered.clone() };
    let one_call = CallCounts { messages_n: 1, ..CallCounts::default() };
    all.push(earlier(CallCounts { delivered_n: 1, ..one_call }));
    let held = earlier(CallCounts { held_n: 1, ..one_call });
    all.push(DeliveryView { state: DeliveryState::Held, messages_n: 2, held_n: 1, ..held });
    let dead = earlier(CallCounts { dead_n: 1, discarded_n: 1, messages_n: 2, ..one_call });
    all.push(DeliveryView { state: DeliveryState::Dead, messages_n: 2, dead_n: 1, ..dead });
    all
}

/// True when an event can stand so: what is handled has a word for its calls, what is not has another one.
fn can_be(state: EventState, delivery: &DeliveryView) -> bool {
    match delivery.state {
        DeliveryState::None => state == EventState::Handled,
        DeliveryState::NotSent => state != EventState::Handled,
        _ => true,
    }
}

/// Every combination of facts.
fn each(mut check: impl FnMut(&EventFacts<'_>)) {
    const FLAGS: [bool; 2] = [false, true];
    for delivery in &deliveries() {
        for state in EventState::ALL.iter().copied().filter(|state| can_be(*state, delivery)) {
            for body in [KeptBody::Whole, KeptBody::Redacted, KeptBody::Gone] {
                for taker in
                    [EventTaker::Taken, EventTaker::Transaction, EventTaker::Untaken, EventTaker::NoProvider]
                {
                    for (is_restored, is_late) in
                        FLAGS.into_iter().flat_map(|one| FLAGS.map(|two| (one, two)))
                    {
                        for (conflicts_n, attempts_n) in [(0, 0), (0, 2), (1, 1)] {
                            for is_synthetic in FLAGS {
                                check(&EventFacts {
                                    body,
                                    taker,
                                    is_restored,
                                    is_late,
                                    is_synthetic,
                                    pause: if is_late { PauseFact::UntilResumed } else { PauseFact::No },
                                    attempts_n,
                                    conflicts_n,
                                    has_open_beside: conflicts_n > 0,
                                    ..usual(state, delivery)
                                });
                            }
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn no_combination_calls_harmless_what_may_repeat_or_lose_an_effect() {
    let mut combinations_n = 0;
    each(|facts| {
        combinations_n += 1;
        let judgement = judge_event(facts);
        let of = |act: EventAct| judgement.acts.iter().find(|one| one.act == act);
        let delivery = facts.delivery;
        for one in &judgement.acts {
            assert!(one.act.is_for(facts.state), "{facts:?}: {one:?}");
            assert!(one.sentence.ends_with('.') && !one.sentence.contains("  "), "{one:?}");
            assert!(!one.sentence.contains("safe"), "{one:?}");
        }
        assert!(judgement.acts.is_sorted_by_key(|one| one.risk), "the safest first: {judgement:?}");
        let is_run = |one: &JudgedAct<EventAct>| matches!(one.act, EventAct::Rerun | EventAct::Dispatch);
        let may_run =
            facts.body == KeptBody::Whole && !(facts.is_synthetic && facts.state == EventState::Ignored);
        assert!(may_run || !judgement.acts.iter().any(is_run), "{facts:?}");
        if let Some(rerun) = of(EventAct::Rerun) {
            let is_harmless = delivery.sent_n == 0
                && delivery.unfinished_n() == 0
                && delivery.state != DeliveryState::NoLongerKnown
                && !facts.is_restored;
            assert!(rerun.risk != Risk::None || is_harmless, "{facts:?}: {rerun:?}");
            let has_called = delivery.sent_n > 0 || delivery.unfinished_n() > 0;
            assert_eq!(rerun.risk == Risk::MayRepeatEffect, has_called, "{facts:?}: {rerun:?}");
            let says_so = rerun.sentence.contains("cannot tell from a new order");
            assert!(!has_called || says_so, "{rerun:?}");
        }
        if let Some(dispatch) = of(EventAct::Dispatch) {
            assert_eq!(dispatch.risk, Risk::MayRepeatEffect, "{facts:?}");
        }
        if let Some(erase) = of(EventAct::Erase) {
            let is_done = matches!(
                delivery.state,
                DeliveryState::Delivered | DeliveryState::Settled | DeliveryState::None
            );
            assert_eq!(erase.risk == Risk::None, is_done, "{facts:?}: {erase:?}");
            let says_body = erase.sentence.contains("Deletes its headers, body");
            assert_eq!(says_body, facts.body != KeptBody::Gone, "{facts:?}: {erase:?}");
            assert_eq!((delivery.unfinished_n(), facts.has_open_beside), (0, false), "{facts:?}");
        }
        if let Some(discard) = of(EventAct::EraseAndDiscard) {
            assert_eq!(discard.risk, Risk::LosesEffect, "{facts:?}");
            let numbered = format!("Discards {} unfinished call", delivery.unfinished_n());
            assert!(delivery.unfinished_n() == 0 || discard.sentence.starts_with(&numbered), "{discard:?}");
        }
        let erases = [EventAct::Erase, EventAct::EraseAndDiscard].map(|act| u32::from(of(act).is_some()));
        assert_eq!(erases[0] + erases[1], 1, "one of them, never both: {facts:?}");
        let headline = &judgement.headline;
        let is_urged = headline.contains("then run it again");
        let has_called = delivery.sent_n > 0 || delivery.unfinished_n() > 0;
        assert!(!is_urged || !has_called, "{facts:?}: {headline}");
        assert!(headline.ends_with('.') && !headline.contains("  "), "{headline}");
        let needs_no_action = !matches!(
            delivery.state,
            DeliveryState::Held
                | DeliveryState::Dead
                | DeliveryState::Discarded
                | DeliveryState::NoLongerKnown
        );
        let is_said = facts.state == EventState::Handled && headline.contains("No action needed");
        assert!(!is_said || needs_no_action, "{facts:?}: {headline}");
        let is_delivered = headline.starts_with("Handled, and all") && headline.contains("were delivered");
        assert!(!is_delivered || delivery.state == DeliveryState::Delivered, "{facts:?}: {headline}");
    });
    assert!(combinations_n > 5_000, "{combinations_n}");
}

#[test]
fn a_headline_says_what_waits_in_earlier_runs_beside_the_event_and_for_its_provider() {
    each(|facts| {
        let (headline, delivery) = (judge_event(facts).headline, facts.delivery);
        if let Some(earlier) = &delivery.earlier {
            let is_said = |n: u32, word: &str| n == 0 || headline.contains(&format!("{n} {word}"));
            assert!(
                is_said(earlier.held_n, "on hold") && is_said(earlier.dead_n, "given up"),
                "{facts:?}: {headline}"
            );
            assert!(is_said(earlier.delivered_n, "delivered"), "{facts:?}: {headline}");
            assert!(headline.contains("n run 2 of 2"), "{facts:?}: {headline}");
        }
        let is_conflict_said = headline.contains("under the same id");
        assert_eq!(is_conflict_said, facts.conflicts_n > 0, "{facts:?}: {headline}");
        assert!(!is_conflict_said || !headline.contains("No action needed"), "{facts:?}: {headline}");
        if facts.state == EventState::Retry && facts.taker != EventTaker::NoProvider {
            let is_paused = facts.pause != PauseFact::No;
            assert_eq!(headline.contains("`stripe` is paused until"), is_paused, "{facts:?}: {headline}");
            assert_eq!(
                headline.contains("has not succeeded yet"),
                facts.attempts_n > 0,
                "{facts:?}: {headline}"
            );
        }
    });
}

#[test]
fn open_calls_are_announced_only_where_they_are_sent_automatically() {
    let said = open_calls_in_words(&[None, Some(StandsStill::Lane), Some(StandsStill::Paused), None], true);
    for want in ["1 open call waits in a lane", "the destination is paused", "sends 2 open calls by itself."]
    {
        assert!(said.contains(want), "no {want}: {said}");
    }
    assert_eq!(open_calls_in_words(&[Some(StandsStill::Paused); 2], true).matches("by itself").count(), 0);
    assert_eq!(open_calls_in_words(&[None], false), "", "what is worse comes first");
    let delivered = DeliveryView {
        state: DeliveryState::Delivered,
        messages_n: 1,
        delivered_n: 1,
        sent_n: 1,
        generation: Some(1),
        ..DeliveryView::default()
    };
    let facts = EventFacts { is_first_ordered: true, ..usual(EventState::Handled, &delivered) };
    assert_eq!(
        judge_event(&facts).headline,
        "Handled, and its only call was delivered. No action needed.",
        "it ran once"
    );
    let again = EventFacts { generation: 2, ..facts };
    assert!(judge_event(&again).headline.contains("In run 1 of 2, "), "{}", judge_event(&again).headline);
}

const HEAD: &str = "# Every judgement of an event\n\n<!-- `UPDATE_JUDGEMENTS=1 cargo nextest run \
    the_page_of_judgements` writes this page. What the words mean: docs/judgements.md. -->\n\nEach state has its \
    headlines, and the acts that are offered. What is quoted above a table is how each of its headlines begins. \
    Unless a row says otherwise, the event made three calls, of which two were delivered.\n";

/// An event of which nothing is out of the ordinary but these two.
fn usual(state: EventState, delivery: &DeliveryView) -> EventFacts<'_> {
    EventFacts {
        provider: "stripe",
        state,
        attempts_n: 1,
        // What has calls and is not handled was run again.
        generation: delivery
            .generation
            .unwrap_or_default()
            .max(u32::from(state != EventState::Handled && delivery.state != DeliveryState::NotSent)),
        is_first_ordered: false,
        delivery,
        body: KeptBody::Whole,
        taker: EventTaker::Taken,
        is_restored: false,
        is_late: false,
        is_synthetic: false,
        pause: PauseFact::No,
        conflicts_n: 0,
        beside: (state == EventState::Conflict).then_some("evt_1"),
        has_open_beside: false,
    }
}

/// Two tables: what each row is called in its headline, and for each act and sentence the rows that it is offered in.
/// How all headlines begin is said once.
fn tables(what: &str, rows: &[(String, EventFacts<'_>)]) -> String {
    let judged: Vec<(&str, _)> =
        rows.iter().map(|(name, facts)| (name.as_str(), judge_event(facts))).collect();
    let shared = shared_start(&judged.iter().map(|(_, one)| one.headline.as_str()).collect::<Vec<_>>());
    let mut page = String::new();
    if !shared.is_empty() {
        writeln!(page, "\n“{shared} …”").unwrap();
    }
    writeln!(page, "\n| {what} | headline |\n|---|---|").unwrap();
    let mut acts: Vec<(String, Vec<&str>)> = Vec::new();
    for (name, judgement) in &judged {
        let rest = judgement.headline.strip_prefix(shared).unwrap_or(&judgement.headline).trim_start();
        let dots = match (shared.is_empty(), rest.is_empty()) {
            (true, _) => "",
            (false, true) => "no more than that",
            (false, false) => "… ",
        };
        writeln!(page, "| {name} | {dots}{rest} |").unwrap();
        for one in &judgement.acts {
            let word = |value: serde_json::Value| value.as_str().unwrap_or_default().to_owned();
            let (act, risk) = (serde_json::to_value(one.act), serde_json::to_value(one.risk));
            let act = format!("`{}` (`{}`) | {}", word(act.unwrap()), word(risk.unwrap()), one.sentence);
            match acts.iter_mut().find(|(there, _)| *there == act) {
                Some((_, names)) => names.push(name),
                None => acts.push((act, vec![name])),
            }
        }
    }
    writeln!(page, "\n| act (risk) | what it does | {what} |\n|---|---|---|").unwrap();
    acts.sort();
    for (act, names) in acts {
        let when = if names.len() == rows.len() { "all".to_owned() } else { names.join("; ") };
        writeln!(page, "| {act} | {when} |").unwrap();
    }
    page
}

/// The sentences that all of these begin with; none where there is one text.
fn shared_start<'a>(texts: &[&'a str]) -> &'a str {
    let Some((first, rest)) = texts.split_first().filter(|(_, rest)| !rest.is_empty()) else { return "" };
    let ends = first.match_indices(". ").map(|(at, _)| at + 1).chain([first.len()]);
    let starts = ends.filter_map(|end| first.get(..end));
    starts.filter(|start| rest.iter().all(|text| text.starts_with(start))).last().unwrap_or_default()
}

/// How facts besides state and calls change a judgement.
fn other_facts(all: &[DeliveryView]) -> String {
    let of = |wanted: DeliveryState| all.iter().find(|one| one.state == wanted).unwrap();
    let (none, delivered, not_sent) =
        (of(DeliveryState::None), of(DeliveryState::Delivered), of(DeliveryState::NotSent));
    let (failed, handled) = (usual(EventState::Failed, not_sent), usual(EventState::Handled, delivered));
    let (retry, ignored) = (usual(EventState::Retry, not_sent), usual(EventState::Ignored, not_sent));
    let no_calls = usual(EventState::Handled, none);
    let rows = [
        ("`failed`, its body is gone", EventFacts { body: KeptBody::Gone, ..failed }),
        ("`failed`, its body was redacted", EventFacts { body: KeptBody::Redacted, ..failed }),
        ("`failed`, no route takes its type here", EventFacts { taker: EventTaker::Untaken, ..failed }),
        ("`failed`, no such provider here", EventFacts { taker: EventTaker::NoProvider, ..failed }),
        ("`failed`, restored from a backup since", EventFacts { is_restored: true, ..failed }),
        ("`handled`, delivered, restored since", EventFacts { is_restored: true, ..handled }),
        ("`handled`, delivered, its body is gone", EventFacts { body: KeptBody::Gone, ..handled }),
        (
            "`handled`, delivered, a conflict is kept beside it",
            EventFacts { has_open_beside: true, ..handled },
        ),
        (
            "`handled`, no calls, by a transactional handler",
            EventFacts { taker: EventTaker::Transaction, ..no_calls },
        ),
        ("`ignored`, still no route for its type", EventFacts { taker: EventTaker::Untaken, ..ignored }),
        ("`retry`, overdue", EventFacts { is_late: true, ..retry }),
        ("`retry`, not dispatched yet", EventFacts { attempts_n: 0, ..retry }),
        (
            "`retry`, its provider is paused",
            EventFacts { attempts_n: 0, pause: PauseFact::UntilResumed, ..retry },
        ),
        (
            "`retry`, its provider is paused until a time",
            EventFacts { attempts_n: 0, pause: PauseFact::Until(1_795_521_600_000), ..retry },
        ),
        (
            "`retry`, a re-run was ordered of what was delivered",
            EventFacts { attempts_n: 0, generation: 1, ..usual(EventState::Retry, delivered) },
        ),
        (
            "`handled`, delivered, a person dispatched it at last",
            EventFacts { generation: 1, is_first_ordered: true, ..handled },
        ),
        (
            "`handled`, delivered, another body arrived under its id",
            EventFacts { conflicts_n: 1, has_open_beside: true, ..handled },
        ),
        ("`retry`, no such provider here", EventFacts { taker: EventTaker::NoProvider, ..retry }),
    ];
    tables("fact", &rows.map(|(what, facts)| (what.to_owned(), facts)))
}

/// The page of all judgements: what an operator reads for each state and delivery, then how other facts change it.
fn page() -> String {
    let (mut page, all) = (HEAD.to_owned(), deliveries());
    for state in EventState::ALL {
        page += "\n## `";
        page += state.as_str();
        page += "`\n";
        let shown_n = if *state == EventState::Handled { all.len() } else { DeliveryState::ALL.len() };
        let mut rows = Vec::new();
        let shown = all.iter().take(shown_n).enumerate();
        for (n, delivery) in shown.filter(|(_, delivery)| can_be(*state, delivery)) {
            let words = if n < DeliveryState::ALL.len() {
                String::new()
            } else {
                format!(", {} of {} delivered", delivery.delivered_n, delivery.messages_n)
            };
            let words = match &delivery.earlier {
                Some(earlier) => format!("{words}, run 2; of run 1: {}", earlier.in_words()),
                None => words,
            };
            rows.push((format!("`{}`{words}", delivery.state.as_str()), usual(*state, delivery)));
        }
        page += &tables("calls", &rows);
    }
    page += "\n## What else changes a judgement\n";
    page += &other_facts(&all);
    page += "\n## Open calls\n\nWhere calls are open, the headline goes on with one of these for each that is so:\n\n";
    for reason in [
        None,
        Some(StandsStill::Lane),
        Some(StandsStill::Paused),
        Some(StandsStill::NotConfigured),
        Some(StandsStill::Unreadable),
    ] {
        page += "- ";
        page += &open_calls_in_words(&[reason], true);
        page += "\n";
    }
    page
}

#[test]
fn the_page_of_judgements_of_events_is_what_the_program_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/judgements/events.md");
    let page = page();
    if std::env::var_os("UPDATE_JUDGEMENTS").is_some() {
        std::fs::write(path, &page).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        written == page,
        "crates/contract/judgements/events.md is out of date: run this test with UPDATE_JUDGEMENTS=1"
    );
}
