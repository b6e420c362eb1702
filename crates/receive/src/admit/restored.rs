//! What is planned otherwise after a restore: messages that may have been sent, and numbers that may have been given.

use hooklatch_core::types::{MESSAGES_N_MAX, UnixMs};
use hooklatch_store::LostTime;

/// Where further runs after a restore may begin, and how far these places are apart.
const PLACES_N: i64 = 14;
const PLACES_APART: i64 = 64;

/// The times that restores took away, the newest last.
#[derive(Debug, Clone, Default)]
pub(super) struct Restored(pub(super) Vec<LostTime>);

/// The places that an event's messages may have.
pub(super) struct PlaceRoom {
    /// First one that no message of the event has.
    pub next_place: u16,
    /// Number of places that are wanted.
    pub wanted_n: usize,
}

impl Restored {
    /// The earliest time at which the messages of an event may have been sent by the server that was restored from. What
    /// a person ordered since a restore was not sent before it: the generation says so. A run that was ordered earlier
    /// may have waited in the backup, and been sent in the time that is lost.
    pub(super) fn unknown_since(
        &self,
        generation: i32,
        (created_at_ms, received_at_ms): (Option<UnixMs>, UnixMs),
    ) -> Option<UnixMs> {
        let all = self.0.iter().filter(|lost| i64::from(generation) <= lost.restored_s);
        all.filter_map(|lost| lost.may_have_seen(created_at_ms, received_at_ms)).min()
    }

    /// The first place of an event's messages. A further run that a restore took away had the places behind those that
    /// there are, under other keys: one after it begins further on, where the moment of the restore says. Where there is
    /// no room, numbers are as they come; keys differ all the same.
    pub(super) fn first_place(&self, generation: i32, received_at_ms: UnixMs, room: &PlaceRoom) -> u16 {
        let lost = self.0.last().filter(|lost| generation > 0 && received_at_ms <= lost.until_ms);
        let further =
            lost.map_or(0, |lost| PLACES_APART * (1 + (lost.until_ms / 1_000).rem_euclid(PLACES_N)));
        let place = u16::try_from(further).unwrap_or_default().max(room.next_place);
        let is_room = usize::from(MESSAGES_N_MAX.saturating_sub(place)) >= room.wanted_n;
        if is_room { place } else { room.next_place }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_further_run_after_a_restore_has_places_that_no_lost_one_had() {
        let restored = Restored(vec![LostTime { from_ms: 1_000, until_ms: 15_000, restored_s: 40 }]);
        for (what, generation, received_at_ms, next_place, wanted_n, wanted) in [
            ("a further run", 9, 500, 2, 1, 128),
            ("the run by itself, which is the one that may have been sent", 0, 500, 0, 1, 0),
            ("behind those that there are", 9, 500, 900, 1, 900),
            ("it came after the restore", 9, 15_001, 2, 1, 2),
            ("there is no room further on", 9, 500, 2, 1_000, 2),
        ] {
            let room = PlaceRoom { next_place, wanted_n };
            assert_eq!(restored.first_place(generation, received_at_ms, &room), wanted, "{what}");
        }
        let room = PlaceRoom { next_place: 2, wanted_n: 1 };
        assert_eq!(Restored::default().first_place(9, 500, &room), 2, "nothing was restored");
    }

    #[test]
    fn what_was_ordered_since_the_restore_was_not_sent_before_it() {
        let restored = Restored(vec![LostTime { from_ms: 1_000, until_ms: 15_000, restored_s: 40 }]);
        assert_eq!(restored.unknown_since(0, (None, 500)), Some(1_000));
        assert_eq!(restored.unknown_since(1, (None, 500)), Some(1_000), "it waited in the backup");
        assert_eq!(restored.unknown_since(40, (None, 500)), Some(1_000), "the same, of an earlier restore");
        assert_eq!(restored.unknown_since(41, (None, 500)), None, "ordered since");
        assert_eq!(Restored::default().unknown_since(0, (None, 500)), None);
    }

    #[test]
    fn each_of_several_restores_counts_for_itself() {
        const YEAR_MS: i64 = 31_536_000_000;
        let lost = |from_ms, restored_s| LostTime { from_ms, until_ms: from_ms + 60_000, restored_s };
        let restored = Restored(vec![lost(YEAR_MS, 40), lost(2 * YEAR_MS, 80)]);
        let now_ms = 2 * YEAR_MS + 120_000;
        let (first, second) = (Some(YEAR_MS + 30_000), Some(2 * YEAR_MS + 30_000));
        for (what, generation, created, wanted) in [
            ("undated: of the newest alone, or all would be held", 0, None, Some(2 * YEAR_MS)),
            ("lost by the first one", 0, first, Some(YEAR_MS + 20_000)),
            ("lost by the second one", 0, second, Some(2 * YEAR_MS + 20_000)),
            ("new", 0, Some(now_ms), None),
            ("ordered between them", 41, first, Some(2 * YEAR_MS)),
            ("ordered since the second one", 81, first, None),
        ] {
            assert_eq!(restored.unknown_since(generation, (created, now_ms)), wanted, "{what}");
        }
    }
}
