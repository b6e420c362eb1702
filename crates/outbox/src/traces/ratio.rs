//! Which traces are recorded: decided by the trace's own id, so that every node and every process decides alike.

/// The part of all traces that is recorded.
#[derive(Debug, Clone, Copy)]
pub struct SampleRatio(f64);

/// Number of values that the bytes may have that decide.
const VALUES_N: f64 = 4_294_967_296.0;

impl SampleRatio {
    /// `ratio` is 0 for none to 1 for all.
    pub fn new(ratio: f64) -> Self {
        Self(ratio)
    }

    /// True when the trace is recorded. It is the rule of `OpenTelemetry`'s consistent sampling: the random part is the
    /// last seven bytes, of which the first four are looked at, and the highest values are those that are taken.
    pub fn takes(self, trace_id: &[u8; 16]) -> bool {
        let [.., a, b, c, d, _, _, _] = *trace_id;
        f64::from(u32::from_be_bytes([a, b, c, d])) / VALUES_N >= 1.0 - self.0
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::super::ids::TraceIds;
    use super::*;
    use hooklatch_core::types::Name;

    fn taken_n(ratio: f64) -> usize {
        let (ids, name) = (TraceIds::new(&Uuid::nil()), Name::parse("p").expect("a name"));
        let traces = (0..10_000).map(|n| ids.of(&name, &format!("evt_{n}"), 0).trace_id);
        traces.filter(|trace_id| SampleRatio::new(ratio).takes(trace_id)).count()
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
        let half = SampleRatio::new(0.5);
        assert!(
            half.takes(&id([0x80, 0, 0, 0, 0, 0, 0])) && !half.takes(&id([0x7f, 0xff, 0xff, 0xff, 0, 0, 0]))
        );
        assert!(SampleRatio::new(1.0).takes(&id([0; 7])));
        assert!(!SampleRatio::new(0.0).takes(&id([0xff; 7])));
    }

    #[test]
    fn who_is_taken_by_a_small_ratio_is_taken_by_a_greater_one() {
        let (ids, name) = (TraceIds::new(&Uuid::nil()), Name::parse("p").expect("a name"));
        for n in 0..1_000 {
            let id = ids.of(&name, &n.to_string(), 0).trace_id;
            let taken = [0.01, 0.1, 0.5, 0.9].map(|ratio| SampleRatio::new(ratio).takes(&id));
            assert!(taken.is_sorted(), "{n}");
        }
    }
}
