//! The ids by which people find events: `event_search_ids`, sorted within blocks of 1,024 event numbers.
//!
//! Ids are random, and a tree of all of them would change a page of its own for each id that is written. Within a block
//! the pages are few, and those of one commit are the same ones. A search probes each block, the newest first.

/// Event numbers of one block.
const BLOCK_N: i64 = 1_024;

/// Deletes the ids of the events `$2`, which are in the blocks `$1`.
macro_rules! search_ids_delete {
    ($name:literal) => {
        concat!(
            "/* ",
            $name,
            " */ DELETE FROM event_search_ids WHERE block = ANY($1) AND event_seq = ANY($2)"
        )
    };
}
pub(in crate::store) use search_ids_delete;

/// The block of an event.
pub(in crate::store) fn search_block(event_seq: i64) -> i64 {
    event_seq.div_euclid(BLOCK_N)
}

/// The blocks of these events, each once.
pub(in crate::store) fn search_blocks(events: &[i64]) -> Vec<i64> {
    let blocks: std::collections::BTreeSet<i64> = events.iter().copied().map(search_block).collect();
    blocks.into_iter().collect()
}
