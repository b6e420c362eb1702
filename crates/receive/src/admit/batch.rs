//! The part of what waits that goes into one transaction, in its order.

use super::submission::Submission;

/// Most requests in one transaction; nothing is gained above (`docs/benchmarks.md`).
pub(super) const REQUESTS_N_MAX: usize = 256;
/// Most events in one transaction, unless one request alone has more.
const EVENTS_N_MAX: usize = 1_024;
/// Most bytes of events in one transaction, unless one request alone has more: a statement takes up several times
/// as much memory, and the database refuses one of a gigabyte.
const BYTES_MAX: usize = 8 << 20;
/// Cuts what waits into batches, in its order.
pub(crate) fn bounded(taken: Vec<Submission>) -> Vec<Vec<Submission>> {
    let sizes: Vec<(usize, usize)> = taken.iter().map(|one| (one.events.len(), one.bytes_n())).collect();
    let mut batches = Vec::new();
    let mut taken = taken.into_iter();
    for requests_n in cuts(&sizes) {
        batches.push(taken.by_ref().take(requests_n).collect());
    }
    batches
}

/// The number of requests that go into each batch; `sizes` are the events and bytes of each request.
fn cuts(sizes: &[(usize, usize)]) -> Vec<usize> {
    let mut cuts = Vec::new();
    let (mut requests_n, mut events_n, mut bytes_n) = (0, 0_usize, 0_usize);
    for (events, bytes) in sizes {
        let is_full =
            events_n.saturating_add(*events) > EVENTS_N_MAX || bytes_n.saturating_add(*bytes) > BYTES_MAX;
        if is_full && requests_n > 0 {
            cuts.push(requests_n);
            (requests_n, events_n, bytes_n) = (0, 0, 0);
        }
        requests_n += 1;
        events_n = events_n.saturating_add(*events);
        bytes_n = bytes_n.saturating_add(*bytes);
    }
    if requests_n > 0 {
        cuts.push(requests_n);
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_bounded_by_events_and_by_bytes_unless_one_alone_is_larger() {
        const MIB: usize = 1 << 20;
        assert_eq!(cuts(&[]), Vec::<usize>::new());
        assert_eq!(cuts(&[(1, 10); 200]), [200]);
        assert_eq!(cuts(&[(1, MIB); 20]), [8, 8, 4]);
        assert_eq!(cuts(&[(1, 1), (1, 64 * MIB), (1, 1), (1, 1)]), [1, 1, 2]);
        assert_eq!(cuts(&[(600, 1), (600, 1), (400, 1), (5_000, 1)]), [1, 2, 1]);
    }
}
