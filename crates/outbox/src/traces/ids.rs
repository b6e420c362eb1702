//! Ids that are computed: who knows an event and what was done knows its trace and the span; and which traces are
//! recorded, decided by the trace's own id, so that every node and every process decides alike.

use sha2::{Digest, Sha256};
use uuid::Uuid;

use hooklatch_core::types::{MessageId, Name, SpanContext};

/// Bytes that every digest begins with. Another version of them would be another trace for the same event.
const OF_EVENT: &[u8] = b"hooklatch trace 1\0";
const OF_SPAN: &[u8] = b"hooklatch span 1\0";
/// Number of values that the bytes may have that decide whether a trace is recorded.
const VALUES_N: f64 = 4_294_967_296.0;

/// Computes the ids of one installation.
#[derive(Debug, Clone)]
pub(crate) struct TraceIds {
    /// The digest so far, which all events share.
    begun: Sha256,
    /// The part of all traces that is recorded: 0 for none to 1 for all.
    ratio: f64,
}

/// Ids of an event's trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventTrace {
    /// Id of the trace.
    pub(crate) trace_id: [u8; 16],
    /// Id of its first span: the admission, or the first dispatch of a deliberate re-run.
    pub(crate) root_id: [u8; 8],
}

impl TraceIds {
    pub(crate) fn new(installation_id: &Uuid, ratio: f64) -> Self {
        Self { begun: Sha256::new().chain_update(OF_EVENT).chain_update(installation_id.as_bytes()), ratio }
    }

    /// The trace of an event in one of its generations. The parts carry their lengths, so that no two different events
    /// read the same.
    pub(crate) fn of(&self, provider: &Name, event_id: &str, generation: i32) -> EventTrace {
        let mut digest = self.begun.clone();
        for part in [provider.as_str(), event_id] {
            digest.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            digest.update(part);
        }
        digest.update(generation.to_be_bytes());
        let bytes: [u8; 32] = digest.finalize().into();
        EventTrace { trace_id: first(&bytes), root_id: first(bytes.split_at(16).1) }
    }

    /// The trace of an event, if it is recorded.
    pub(crate) fn recorded(&self, provider: &Name, event_id: &str, generation: i32) -> Option<EventTrace> {
        Some(self.of(provider, event_id, generation)).filter(|trace| self.records(&trace.trace_id))
    }

    /// The place of a span in a trace.
    pub(crate) fn context(&self, trace: &EventTrace, span_id: [u8; 8]) -> SpanContext {
        SpanContext { trace_id: trace.trace_id, span_id, is_sampled: self.records(&trace.trace_id) }
    }

    /// True when the trace is recorded. It is the rule of `OpenTelemetry`'s consistent sampling: the random part is the
    /// last seven bytes, of which the first four are looked at, and the highest values are those that are recorded.
    fn records(&self, trace_id: &[u8; 16]) -> bool {
        let [.., a, b, c, d, _, _, _] = *trace_id;
        f64::from(u32::from_be_bytes([a, b, c, d])) / VALUES_N >= 1.0 - self.ratio
    }
}

impl EventTrace {
    /// Id of the span of one attempt.
    pub(crate) fn attempt_id(&self, message_id: MessageId, attempt_n: u32) -> [u8; 8] {
        self.span_id(b'a', message_id.number(), attempt_n)
    }

    /// Id of the span of one dispatch. The first one of a deliberate re-run begins its trace.
    pub(crate) fn dispatch_id(&self, generation: i32, dispatch_n: u32) -> [u8; 8] {
        let is_first = generation > 0 && dispatch_n <= 1;
        if is_first { self.root_id } else { self.span_id(b'd', generation.into(), dispatch_n) }
    }

    fn span_id(&self, what: u8, whose: i64, n: u32) -> [u8; 8] {
        let digest = Sha256::new().chain_update(OF_SPAN).chain_update(self.trace_id).chain_update([what]);
        let digest = digest.chain_update(whose.to_be_bytes()).chain_update(n.to_be_bytes());
        let bytes: [u8; 32] = digest.finalize().into();
        first(&bytes)
    }
}

/// The first bytes of a digest as an id, none of which may be all zeros.
fn first<const N: usize>(digest: &[u8]) -> [u8; N] {
    let mut id = [0; N];
    id.iter_mut().zip(digest).for_each(|(to, from)| *to = *from);
    if id == [0; N] { [1; N] } else { id }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn ids() -> TraceIds {
        TraceIds::new(&Uuid::nil(), 1.0)
    }

    fn name(text: &str) -> Name {
        Name::parse(text).expect("a name")
    }

    #[test]
    fn ids_never_change_because_other_nodes_and_later_processes_compute_them_again() {
        let trace = ids().of(&name("stripe"), "evt_1", 0);
        let shown = (hex::encode(trace.trace_id), hex::encode(trace.root_id));
        // Made with Python's hashlib.
        assert_eq!(shown, ("7a7c35ef13d989846dd1315b06874c2c".to_owned(), "bf2932b1cbdbefab".to_owned()));
        let attempt = hex::encode(trace.attempt_id(MessageId::from_column(1_024), 2));
        assert_eq!(
            (attempt, hex::encode(trace.dispatch_id(0, 1))),
            ("b39322d6c675ebdb".to_owned(), "899efc350e7b9591".to_owned())
        );
    }

    #[test]
    fn every_part_of_what_names_an_event_is_part_of_its_trace() {
        let other = TraceIds::new(&Uuid::from_u128(1), 1.0);
        let all = [
            ids().of(&name("a"), "b", 0),
            ids().of(&name("a"), "b", 1),
            ids().of(&name("b"), "a", 0),
            ids().of(&name("ab"), "", 0),
            ids().of(&name("a"), "b\0", 0),
            other.of(&name("a"), "b", 0),
        ];
        let traces: BTreeSet<[u8; 16]> = all.iter().map(|one| one.trace_id).collect();
        let roots: BTreeSet<[u8; 8]> = all.iter().map(|one| one.root_id).collect();
        assert_eq!((traces.len(), roots.len()), (all.len(), all.len()));
    }

    #[test]
    fn each_span_of_a_trace_has_an_id_of_its_own_and_the_root_of_a_rerun_is_its_first_dispatch() {
        let trace = ids().of(&name("a"), "b", 1);
        let (one, other) = (MessageId::from_column(1), MessageId::from_column(2));
        let all = [
            trace.dispatch_id(1, 1),
            trace.dispatch_id(1, 2),
            trace.attempt_id(one, 1),
            trace.attempt_id(one, 2),
            trace.attempt_id(other, 1),
        ];
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        assert_eq!(trace.dispatch_id(1, 1), trace.root_id);
        assert_ne!(trace.dispatch_id(0, 1), trace.root_id, "that one is the admission");
    }

    #[test]
    fn no_id_is_all_zeros() {
        assert_eq!(first::<8>(&[0; 32]), [1; 8]);
    }

    fn taken_n(ratio: f64) -> usize {
        let (ids, name) = (TraceIds::new(&Uuid::nil(), ratio), Name::parse("p").expect("a name"));
        let traces = (0..10_000).map(|n| ids.of(&name, &format!("evt_{n}"), 0).trace_id);
        traces.filter(|trace_id| ids.records(trace_id)).count()
    }

    #[test]
    fn none_all_and_about_as_many_as_asked_for_are_taken() {
        assert_eq!((taken_n(0.0), taken_n(1.0)), (0, 10_000));
        for (ratio, from, to) in [(0.5, 4_800, 5_200), (0.1, 900, 1_100), (0.01, 60, 140)] {
            let n = taken_n(ratio);
            assert!((from..to).contains(&n), "{ratio}: {n}");
        }
    }

    #[test]
    fn the_edges_of_the_ids_are_where_the_ratio_says() {
        let id = |last: [u8; 7]| {
            let mut id = [0; 16];
            id[9..].copy_from_slice(&last);
            id
        };
        let of = |ratio| TraceIds::new(&Uuid::nil(), ratio);
        let half = of(0.5);
        assert!(
            half.records(&id([0x80, 0, 0, 0, 0, 0, 0]))
                && !half.records(&id([0x7f, 0xff, 0xff, 0xff, 0, 0, 0]))
        );
        assert!(of(1.0).records(&id([0; 7])));
        assert!(!of(0.0).records(&id([0xff; 7])));
    }

    #[test]
    fn who_is_taken_by_a_small_ratio_is_taken_by_a_greater_one() {
        let (ids, name) = (TraceIds::new(&Uuid::nil(), 1.0), Name::parse("p").expect("a name"));
        for n in 0..1_000 {
            let id = ids.of(&name, &n.to_string(), 0).trace_id;
            let taken = [0.01, 0.1, 0.5, 0.9].map(|ratio| TraceIds::new(&Uuid::nil(), ratio).records(&id));
            assert!(taken.is_sorted(), "{n}");
        }
    }
}
