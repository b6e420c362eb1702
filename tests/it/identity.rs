//! Which event is it? Every kind against the pairs beside it: two events are both dispatched, a copy is a duplicate.
//!
//! The pairs are `providers/KIND/identity.json`; the claims in them were read in senders' documents, not in our code.

use std::collections::BTreeMap;
use std::path::Path;

use hooklatch_core::types::{EventState, IncomingEvent, Name};
use hooklatch_receive::pairs::{Met, Pair};
use hooklatch_receive::provider::{ActiveProvider, Kind, Provider};
use hooklatch_receive::providers::builtin;
use hooklatch_store::{Latched, Store};
use hooklatch_verify::spec::Source;
use serde_json::{Value, json};

use crate::database::{Database, on_both};
use crate::providers::{NOW_S, dev, request, sign_at};
use crate::store::candidates;

on_both!(every_pair_of_every_kind_meets_as_it_says);

fn folder(kind: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("providers").join(kind)
}

fn pairs(kind: &str) -> Vec<Pair> {
    let text = std::fs::read_to_string(folder(kind).join("identity.json"));
    let text = text.unwrap_or_else(|why| panic!("providers/{kind}/identity.json: {why}"));
    Pair::parse_all(&text).unwrap_or_else(|why| panic!("providers/{kind}/identity.json: {why}"))
}

/// Admits what was read as events of `name`; the strongest outcome.
async fn admitted(store: &Store, name: &Name, mut events: Vec<IncomingEvent>) -> Option<Met> {
    for event in &mut events {
        event.key.provider = name.clone();
    }
    store.signals_number(&mut events).await.unwrap();
    let candidates = candidates(store, &events.iter().collect::<Vec<_>>(), EventState::Handled).await;
    let mut tx = store.admission_begin().await.unwrap();
    let found = tx.events_insert(&candidates).await.unwrap();
    tx.commit().await.unwrap();
    let met = |latched: Latched| match latched {
        Latched::New | Latched::Repeated => Met::Two,
        Latched::Duplicate => Met::Copy,
        Latched::Conflict { .. } => Met::Conflict,
        Latched::Replayed { .. } => Met::Replayed,
    };
    found.into_iter().map(met).min()
}

/// The state of the second request of a pair, from the tables.
async fn met(store: &Store, name: &Name, (kind, provider): (&Provider, &ActiveProvider), pair: &Pair) -> Met {
    let requests = pair.requests(kind, provider).unwrap();
    let mut found = None;
    for (n, request) in [requests.first, requests.second].into_iter().enumerate() {
        let verified = provider.verify(request).unwrap();
        let events = provider.read(&verified);
        assert!(events.iter().all(|event| event.unreadable.is_none()), "{}: {events:?}", pair.what);
        found = admitted(store, name, events).await;
        assert!(n == 1 || found == Some(Met::Two), "{}: the first is {found:?}", pair.what);
    }
    found.unwrap()
}

async fn every_pair_of_every_kind_meets_as_it_says(database: &Database) {
    let store = database.store().await;
    let mut wrong = Vec::new();
    for kind in builtin() {
        let provider = dev(&kind);
        for (n, pair) in pairs(kind.kind()).iter().enumerate() {
            // What is found without tables is first: it says more about what is wrong.
            match pair.judge(&kind, &provider) {
                Ok(met) if met == pair.expect => {}
                Ok(met) => {
                    wrong.push(format!(
                        "{}: {}: is to be {}, but is {met}",
                        kind.kind(),
                        pair.what,
                        pair.expect
                    ));
                    continue;
                }
                Err(why) => {
                    wrong.push(format!("{}: {}: {why}", kind.kind(), pair.what));
                    continue;
                }
            }
            let name = Name::parse(&format!("{}-{n}", kind.kind())).unwrap();
            let met = met(&store, &name, (&kind, &provider), pair).await;
            if met != pair.expect {
                wrong.push(format!("{}: {}: in the tables it is {met}", kind.kind(), pair.what));
            }
        }
    }
    assert!(wrong.is_empty(), "{} pairs:\n{}", wrong.len(), wrong.join("\n"));
}

/// Kinds whose transport gives each event an id, while people of all sorts write what is in it: two of equal content are
/// two.
const TRANSPORTS: [&str; 2] = ["cloudevents", "google_pubsub"];

#[test]
fn what_comes_without_the_id_of_its_transport_is_unreadable_and_says_what_to_do() {
    for kind in builtin().into_iter().filter(|kind| TRANSPORTS.contains(&kind.kind())) {
        assert!(kind.spec().unwrap().event.iter().all(|event| event.id_needed.is_some()), "{}", kind.kind());
        let provider = dev(&kind);
        let at = sign_at(&provider, "");
        let signed = provider.sign(br#"{"orderId":1}"#, &at).unwrap();
        let verified = provider.verify(request(&signed.headers, &signed.body, &at.url, NOW_S)).unwrap();
        let event = provider.read(&verified).remove(0);
        let why = event.unreadable.unwrap_or_else(|| panic!("{} is {}", kind.kind(), event.identity));
        assert!(why.contains("is missing") && why.contains(": "), "{why}");
    }
}

#[test]
fn no_event_goes_by_its_content_because_the_id_of_its_transport_is_missing() {
    let (mut wrong, mut tried) = (Vec::new(), Vec::new());
    for kind in builtin() {
        let provider = dev(&kind);
        let identities = kind.spec().unwrap().event.iter().flat_map(|event| &event.identity);
        let names = identities.flat_map(|one| &one.id.0).filter_map(|source| match source {
            Source::Header(names) => Some(names.split('|')),
            _ => None,
        });
        let names: Vec<&str> = names.flatten().collect();
        for (event_type, _) in kind.sample_list().into_iter().filter(|_| !names.is_empty()) {
            let pair: Pair = serde_json::from_value(json!({
                "what": "a sample", "source": "rule", "expect": "copy", "first": { "sample": event_type },
            }))
            .unwrap();
            let mut request = pair.requests(&kind, &provider).unwrap().first;
            for name in &names {
                request.headers.remove(*name);
            }
            let Ok(verified) = provider.verify(request) else { continue };
            tried.push(kind.kind().to_owned());
            let by_default =
                provider.read(&verified).into_iter().find(|event| event.unidentified().is_some());
            wrong
                .extend(by_default.map(|event| format!("{}: {event_type}: {}", kind.kind(), event.identity)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    tried.dedup();
    assert!(tried.len() > 12, "{tried:?}");
}

#[test]
fn every_kind_has_two_pairs_with_their_sources_one_of_them_a_copy() {
    let mut wrong = Vec::new();
    for kind in builtin() {
        let pairs = pairs(kind.kind());
        let has = |met: Met| pairs.iter().any(|pair| pair.expect == met);
        if pairs.len() < 2 || !has(Met::Copy) || !(has(Met::Two) || has(Met::Conflict)) {
            wrong.push(format!("{}: two events that meet, and a copy, are wanted", kind.kind()));
        }
        let is_said =
            |pair: &Pair| pair.what.contains(' ') && (pair.source == "rule" || pair.source.len() > 8);
        wrong.extend(pairs.iter().filter(|pair| !is_said(pair)).map(|pair| {
            format!("{}: `{}`: say what it is, and where that was read", kind.kind(), pair.what)
        }));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn signals_that_are_answered_by_fetching_are_rearmed() {
    let is_rearmed = |kind: &Provider| {
        let mut identities = kind.spec().unwrap().event.iter().flat_map(|event| &event.identity);
        identities.any(|one| one.window_rearms)
    };
    let rearmed: Vec<String> =
        builtin().iter().filter(|kind| is_rearmed(kind)).map(|kind| kind.kind().to_owned()).collect();
    assert_eq!(rearmed, ["dropbox", "microsoft_graph", "mollie"]);
}

/// Where the texts and numbers of a JSON body are.
fn leaves(json: &Value, at: &str, found: &mut Vec<(String, Value)>) {
    match json {
        Value::Object(members) => {
            for (name, value) in members {
                leaves(value, &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        Value::Array(list) => {
            for (n, value) in list.iter().enumerate() {
                leaves(value, &format!("{at}/{n}"), found);
            }
        }
        Value::String(text) => found.push((at.to_owned(), json!(format!("{text}x")))),
        Value::Number(number) => {
            let other = number.as_i64().map_or_else(|| json!(number.to_string() + "1"), |n| json!(n ^ 1));
            found.push((at.to_owned(), other));
        }
        Value::Bool(word) => found.push((at.to_owned(), json!(!word))),
        Value::Null => found.push((at.to_owned(), json!("no longer null"))),
    }
}

/// The fields of a form, with other values.
fn fields(form: &str) -> Vec<(String, Value)> {
    let pairs = form_urlencoded::parse(form.as_bytes());
    pairs.map(|(name, value)| (format!("/{name}"), json!(format!("{value}x")))).collect()
}

/// True when a change at `pointer` is of what two copies may differ in, or outside of every event of a batch, or of what
/// Paymob does not sign: handlers get none of that.
fn is_open(kind: &Provider, pointer: &str) -> bool {
    const OF_PAYMOB: [&str; 2] = ["/obj/", "/issuer_bank"];
    if kind.kind() == "paymob" && OF_PAYMOB.iter().any(|start| pointer.starts_with(start)) {
        let source = include_str!("../../providers/paymob/mod.rs");
        return !source.contains(&format!("(\"{pointer}\", Shape::"));
    }
    kind.spec().unwrap().event.iter().any(|event| {
        let renderings = event.identity.iter().filter_map(|one| one.renderings.as_deref());
        let may_differ: Vec<&String> = renderings.map(|by| &by.differs).chain(&event.volatile).collect();
        // Pointers into the elements of a batch start at each of them.
        let is_in = |one: &String| pointer == one || pointer.starts_with(&format!("{one}/"));
        let is_volatile = |one: &String| {
            is_in(one) || (event.each.is_some() && format!("{pointer}/").contains(&format!("{one}/")))
        };
        let each = event.each.as_deref().unwrap_or_default();
        let is_in_list = |one: &str| one.is_empty() || pointer.starts_with(&format!("{one}/"));
        let is_outside = each != "/*" && !each.split('|').any(is_in_list);
        may_differ.into_iter().any(is_volatile) || is_outside
    })
}

#[test]
fn whatever_changes_in_what_is_signed_is_no_duplicate_and_the_same_bytes_are() {
    let mut wrong = Vec::new();
    let mut tried: BTreeMap<String, usize> = BTreeMap::new();
    for kind in builtin() {
        let provider = dev(&kind);
        for (event_type, text) in kind.sample_list() {
            let pair = |second: Value| -> Pair {
                serde_json::from_value(json!({
                    "what": "a sample", "source": "rule", "expect": "two",
                    "first": { "sample": event_type }, "second": second,
                }))
                .unwrap()
            };
            let again = pair(json!({ "as_sent": true })).judge(&kind, &provider);
            if again != Ok(Met::Copy) {
                wrong.push(format!("{}: {event_type}: the same bytes are {again:?}", kind.kind()));
            }
            let mut found = Vec::new();
            let filled = hooklatch_receive::provider::filled_sample(text, "id_1", 1_767_225_600);
            match serde_json::from_str::<Value>(&filled) {
                Ok(json) => leaves(&json, "", &mut found),
                Err(_) if filled.contains('=') && !filled.starts_with('<') => found = fields(&filled),
                Err(_) => {}
            }
            for (pointer, other) in found.into_iter().filter(|(pointer, _)| !is_open(&kind, pointer)) {
                let changed = pair(json!({ "set": { &pointer: other } }));
                // What cannot be signed so is never sent; and a signature in the body is computed anew.
                let Ok(requests) = changed.requests(&kind, &provider) else { continue };
                if requests.first.body == requests.second.body {
                    continue;
                }
                let met = changed.judge(&kind, &provider);
                *tried.entry(kind.kind().to_owned()).or_default() += usize::from(met.is_ok());
                if met == Ok(Met::Copy) {
                    wrong.push(format!("{}: {event_type}: another {pointer} is a copy", kind.kind()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
    assert!(tried.len() > 100 && tried.values().sum::<usize>() > 1_000, "{tried:?}");
}

#[test]
fn every_published_sample_has_an_id_and_a_type_and_shares_its_key_with_no_other() {
    let mut wrong = Vec::new();
    for kind in builtin() {
        let sources = std::fs::read_to_string(folder(kind.kind()).join("samples/sources.toml"));
        let sources: toml::Table = sources.unwrap_or_default().parse().unwrap();
        let files: Vec<String> = std::fs::read_dir(folder(kind.kind()).join("samples"))
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        for (stem, source) in &sources {
            if !files.contains(stem) || source.as_str().is_none_or(|url| url.len() <= 8) {
                wrong.push(format!("{}: sources.toml: `{stem}` is no sample, or has no source", kind.kind()));
            }
        }
        let provider = dev(&kind);
        let mut seen: BTreeMap<String, String> = BTreeMap::new();
        for (event_type, _) in kind.sample_list() {
            // Under headers of its own, as its sender would send it.
            let pair: Pair = serde_json::from_value(json!({
                "what": "a sample", "source": "rule", "expect": "copy",
                "first": { "sample": event_type, "id": format!("id_{}", 100 + seen.len()) },
            }))
            .unwrap();
            let verified = provider.verify(pair.requests(&kind, &provider).unwrap().first);
            for event in provider.read(&verified.unwrap()) {
                let at = format!("{}: {event_type}", kind.kind());
                if let Some(why) = event.unreadable.as_deref().or(event.unidentified()) {
                    wrong.push(format!("{at}: has no id: {why}"));
                }
                if event.event_type == "unknown" {
                    wrong.push(format!("{at}: has no type"));
                }
                if let Some(other) = seen.insert(event.key.event_id.clone(), at.clone())
                    && other != at
                {
                    wrong.push(format!("{at}: has the key of {other}: {}", event.key.event_id));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
