//! The rows of messages that are to be written: which are leased, which are the head of their lane.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::store::message::{InitialLease, NewMessage};
use crate::types::MessageState;

/// One message to insert, with its place in its lane.
pub(super) struct MessageInsert<'a> {
    pub(super) message: &'a NewMessage,
    pub(super) state: MessageState,
    pub(super) lane_seq: Option<i64>,
}

impl MessageInsert<'_> {
    /// The lease it is written with.
    pub(super) fn lease(&self) -> Option<&InitialLease> {
        self.message.lease.as_ref().filter(|_| self.state == MessageState::Leased)
    }
}

/// The lanes of these messages, and how many of them each gets; in the one order in which everybody locks them.
pub(super) fn lanes_wanted(messages: &[NewMessage]) -> Vec<(&str, &str, i64)> {
    let mut lanes: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    for message in messages {
        if let Some(lane) = &message.lane {
            *lanes.entry((&message.destination, lane)).or_default() += 1;
        }
    }
    lanes.into_iter().map(|((to, lane), n)| (to, lane, n)).collect()
}

/// The rows of these messages. `places` are head and new tail of each of the `lanes`.
pub(super) fn message_rows<'a>(
    messages: &'a [NewMessage],
    paused: &HashSet<String>,
    lanes: &[(&'a str, &'a str, i64)],
    places: &[(i64, i64)],
) -> Vec<MessageInsert<'a>> {
    // Head of each lane, and the place of its next message.
    let mut turns: HashMap<(&str, &str), (i64, i64)> = lanes
        .iter()
        .zip(places)
        .map(|((to, lane, n), (head_seq, tail_seq))| ((*to, *lane), (*head_seq, tail_seq - n + 1)))
        .collect();
    let row = |message: &'a NewMessage| {
        let lane = message.lane.as_deref().map(|lane| (message.destination.as_str(), lane));
        let Some((head_seq, next_seq)) = lane.and_then(|lane| turns.get_mut(&lane)) else {
            let is_leased = message.lease.is_some() && !paused.contains(&message.destination);
            let state = if is_leased { MessageState::Leased } else { MessageState::Ready };
            return MessageInsert { message, state, lane_seq: None };
        };
        let lane_seq = *next_seq;
        *next_seq += 1;
        let state = if lane_seq == *head_seq { MessageState::Ready } else { MessageState::Waiting };
        MessageInsert { message, state, lane_seq: Some(lane_seq) }
    };
    messages.iter().map(row).collect()
}
