//! The model's state of the message, its workers and their calls, and the possible next steps.

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum At {
    Ready,
    Leased,
    Done,
    Held,
    Dead,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Worker {
    Idle,
    Claimed {
        token: u8,
        until: u8,
        is_uncertain: bool,
        /// When the attempt before this one ended.
        ended_at: u8,
    },
    /// Has looked at the lease; the first byte has not left.
    Sending {
        token: u8,
        until: u8,
    },
    Sent {
        token: u8,
        call: Call,
    },
    Knows {
        token: u8,
        to: At,
        is_unknown: bool,
        /// For the next one that claims it.
        ended_at: u8,
        /// Time before which the model does not take it.
        visible_at: u8,
    },
}

/// What the destination makes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Call {
    /// Works on it, and is over with it before this.
    AtWork {
        until: u8,
    },
    Acted,
    /// It answered "not now" before it did anything.
    Declined,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) now: u8,
    pub(super) at: At,
    pub(super) visible_at: u8,
    pub(super) token: u8,
    pub(super) is_unknown: bool,
    pub(super) ended_at: u8,
    pub(super) workers: [Worker; 2],
    /// Calls that the caller has given up and the destination still works on; when each is over.
    pub(super) orphans: Vec<u8>,
    pub(super) effects_n: u8,
    /// The first final state of the message.
    pub(super) ended: Option<At>,
    /// Claims whose end the history records, a bit for each.
    pub(super) recorded: u16,
    /// Rows of the message among those that are done.
    pub(super) finished_n: u8,
    /// True when a settlement ever took away the row of a claim that was not its own.
    pub(super) is_robbed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Step {
    Tick,
    Claim(usize),
    Decide(usize),
    Send(usize),
    /// The connection never stood.
    Refused(usize),
    /// The destination does what it was called for.
    Act(usize),
    Decline(usize),
    OrphanActs,
    OrphanDeclines,
    /// The destination's own word.
    Answer(usize),
    /// A gateway's word that it failed, whatever became of it.
    GatewayAnswers(usize),
    Timeout(usize),
    Settle(usize),
    /// Prolongs the lease of this worker's message.
    Beat(usize),
    Crash(usize),
}
