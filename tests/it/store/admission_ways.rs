//! Admission has several ways (one closure on SQLite's thread, one statement on PostgreSQL, step by step, by suspects'
//! rules, one event at a time): random batches mean the same by each of them, and leave the same rows.

use std::collections::BTreeSet;
use std::sync::Arc;

use hooklatch_core::types::{EventState, IncomingEvent, ObjectVersion, OnConflict};
use hooklatch_store::{AdmittedBatch, Candidate, Decide, Latched, NewMessage, Plan, Store, Writes};
use sha2::{Digest, Sha256};

use super::{event, message, numbered};
use crate::database::{Database, On};

const BATCHES_N: u64 = 25;
const BATCH_N: u64 = 12;

/// How a batch is admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// As it is, with what follows known beforehand.
    Known,
    /// As it is, decided in the middle.
    Decided,
    /// By the rules of a suspect batch.
    Suspect,
}

/// Messages for each event that is new and not stale: one alone, or one in a lane, one with a body of its own and one in
/// the same lane of another destination.
struct Deciding {
    is_known: bool,
    candidates: Vec<Candidate>,
}

impl Deciding {
    fn messages(candidate: &Candidate) -> Vec<NewMessage> {
        let last = candidate.event.body.last().copied().unwrap_or_default();
        if last.is_multiple_of(3) {
            return numbered(candidate, &[message("a")]);
        }
        let body = last.is_multiple_of(2).then(|| bytes::Bytes::copy_from_slice(&[last]));
        let lane = Some(format!("lane {}", last % 2));
        let messages = [
            NewMessage { lane: lane.clone(), ..message("a") },
            NewMessage { body, ..message("b") },
            NewMessage { lane, ..message("c") },
        ];
        numbered(candidate, &messages)
    }
}

impl Decide for Deciding {
    fn unconditional(&mut self) -> Option<Writes> {
        let mut seen = BTreeSet::new();
        let firsts = self.candidates.iter().filter(|one| seen.insert(one.event.key.clone()));
        let messages = firsts.flat_map(Self::messages).collect();
        self.is_known.then_some(Writes { messages, updates: Vec::new() })
    }
    fn decide(&mut self, found: &[(Latched, bool)]) -> Plan {
        let is_new =
            |(_, (latched, is_stale)): &(&Candidate, &(Latched, bool))| *latched == Latched::New && !is_stale;
        let new = self.candidates.iter().zip(found).filter(is_new);
        let messages = new.flat_map(|(one, _)| Self::messages(one)).collect();
        Plan::Write(Writes { messages, updates: Vec::new() })
    }
    fn lease(&mut self, _: &mut [NewMessage]) {}
}

/// Few ids, texts and contents, so that they meet in every way.
fn random_event(random: &mut fastrand::Rng, has_objects: bool) -> IncomingEvent {
    let content = format!("body {}", random.u8(0..6));
    let id = format!("evt_{}", random.u8(0..40));
    let text: [u8; 32] = Sha256::digest(format!("text {}", random.u8(0..30))).into();
    let object = ObjectVersion { object: format!("in_{}", random.u8(0..3)), version: random.i64(0..9) };
    IncomingEvent {
        replay_key: random.bool().then_some(text),
        on_conflict: if random.bool() { OnConflict::Keep } else { OnConflict::Dispatch },
        object: (has_objects && random.bool()).then_some(object),
        search_ids: (0..random.usize(0..=4)).map(|n| format!("order-{n}-{}", random.u8(0..3))).collect(),
        ..event(&id, &content)
    }
}

fn batches(seed: u64, has_objects: bool) -> Vec<Vec<IncomingEvent>> {
    let mut random = fastrand::Rng::with_seed(seed);
    let batch = |random: &mut fastrand::Rng| {
        (0..random.u64(1..=BATCH_N)).map(|_| random_event(random, has_objects)).collect()
    };
    (0..BATCHES_N).map(|_| batch(&mut random)).collect()
}

async fn admitted(store: &Store, batch: &[IncomingEvent], way: Way) -> Vec<Latched> {
    let numbers = store.event_numbers(batch.len()).await.unwrap();
    let of = |(event, event_seq): (&IncomingEvent, i64)| Candidate {
        event: Arc::new(event.clone()),
        event_seq,
        state: EventState::Handled,
        is_raising: event.object.is_some(),
    };
    let candidates: Vec<Candidate> = batch.iter().zip(numbers).map(of).collect();
    let deciding = Deciding { is_known: way == Way::Known, candidates: candidates.clone() };
    let AdmittedBatch { latched, failure, .. } =
        store.admit(candidates, deciding, (way == Way::Suspect).then_some(500)).await.unwrap();
    assert!(failure.is_none(), "{failure:?}");
    latched.into_iter().map(Option::unwrap).collect()
}

/// What is there, without numbers.
async fn rows(database: &Database) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for sql in [
        "SELECT event_id || ' ' || state || ' ' || attempts_n || ' ' || COALESCE(error, '-') || ' '
             || CASE WHEN replay_key IS NULL THEN 'no text' ELSE 'text' END || ' ' || COALESCE(object, '-')
         FROM processed_webhook_events ORDER BY 1",
        "SELECT e.event_id || ' ' || octet_length(p.body) || ' ' || (p.shard - e.shard)
         FROM processed_webhook_events e LEFT JOIN webhook_payloads p ON p.event_seq = e.event_seq ORDER BY 1",
        "SELECT e.event_id || ' ' || q.destination || ' ' || q.state || ' ' || (q.message_id % 1024) || ' '
             || COALESCE(c.method, 'forward') || ' ' || COALESCE(q.lane, '-') || ' ' || COALESCE(q.lane_seq, 0)
         FROM outbox_queue q LEFT JOIN processed_webhook_events e ON e.event_seq = q.message_id / 1024
         LEFT JOIN outbox_contents c ON c.message_id = q.message_id ORDER BY 1",
        "SELECT 'orphan ' || message_id FROM outbox_contents
         WHERE message_id NOT IN (SELECT message_id FROM outbox_queue) ORDER BY 1",
        "SELECT e.event_id || ' ' || s.search_key || ' ' || (s.shard - e.shard)
         FROM event_search_ids s LEFT JOIN processed_webhook_events e ON e.event_seq = s.event_seq ORDER BY 1",
        "SELECT destination || ' ' || lane || ' ' || head_seq || ' ' || tail_seq FROM outbox_lanes ORDER BY 1",
        "SELECT provider || ' ' || object || ' ' || version FROM object_versions ORDER BY 1",
        "SELECT event_id || ' ' || unkept_n FROM conflict_counts ORDER BY 1",
    ] {
        let mut found = database.texts(sql).await;
        found.sort_unstable();
        all.push(found);
    }
    all
}

/// What each batch met, and what is left, by one way on one database.
async fn by(on: On, all: &[Vec<IncomingEvent>], way: Way) -> Option<(Vec<Vec<Latched>>, Vec<Vec<String>>)> {
    let database = Database::create(on).await?;
    let store = database.store().await;
    let mut met = Vec::new();
    for batch in all {
        met.push(admitted(&store, batch, way).await);
    }
    let rows = rows(&database).await;
    assert!(rows[3].is_empty(), "{:?}", rows[3]);
    Some((met, rows))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_batches_mean_the_same_by_every_way_of_admission() {
    for seed in 0..4 {
        let has_objects = seed % 2 == 1;
        let all = batches(seed, has_objects);
        let singly: Vec<Vec<IncomingEvent>> = all.iter().flatten().map(|one| vec![one.clone()]).collect();
        for list in [all, singly] {
            let (met, rows) = by(On::Sqlite, &list, Way::Decided).await.unwrap();
            let new_n = met.iter().flatten().filter(|one| **one == Latched::New).count();
            assert!(new_n > 10, "{new_n}");
            // What is known beforehand asks no versions.
            let known = [(On::Sqlite, Way::Known), (On::Postgres, Way::Known)];
            let others = [(On::Postgres, Way::Decided), (On::Postgres, Way::Suspect)];
            for (on, way) in others.into_iter().chain(known.into_iter().filter(|_| !has_objects)) {
                let Some((other_met, other_rows)) = by(on, &list, way).await else { continue };
                let context = format!("seed {seed}, batches {}, {on:?} {way:?}", list.len());
                for (n, (one, other)) in met.iter().zip(&other_met).enumerate() {
                    assert_eq!(one, other, "{context}, batch {n}: {:#?}", list[n]);
                }
                assert_eq!(rows, other_rows, "{context}");
            }
        }
    }
}
