//! The lease protocol, checked in every order of steps: crashes, pauses, lost answers, clocks that differ, a
//! destination that works on after the time-out, and a gateway that says "it failed" of what was done.
//!
//! One message, two workers. The queue's row, while it is leased, is the attempt under way; a settlement that finds the
//! message done deletes it and appends the history. What the model does is what `message_lease`, `message_settle`,
//! `attempt.rs` and `policy/` do; times are whole units. Variants that are broken on purpose show that the model would
//! see it.

mod checks;
mod lanes;
mod restored;
mod states;

use stateright::{Model, Property};
use states::{At, Call, Step, Worker, World};

/// How long a lease lasts, how long a call may take, and what must be left after it.
const LEASE: u8 = 4;
const TIMEOUT: u8 = 1;
const MARGIN: u8 = 1;
/// How long the destination may work on a call, from its first byte; shorter than the wait before it is queried.
const WORK: u8 = 2;
/// How long after an attempt's end no query is sent and no "no" is believed.
const AFTER: u8 = WORK;
/// When the model's time ends.
const END: u8 = 9;
/// Attempts before the message is given up; keeps the model finite.
const ATTEMPTS_N: u8 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unknown {
    Retry,
    Query,
    Hold,
}

/// What is taken for granted, and what is broken.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that may be broken")]
struct Protocol {
    unknown: Unknown,
    honours_keys: bool,
    /// How far the second worker's clock is ahead.
    skew: u8,
    /// True when a worker may sleep as long as it likes between its last look at the lease and the first byte.
    is_pause_unbounded: bool,
    /// True when a settlement has to carry the newest claim.
    is_fenced: bool,
    /// True when a lease is prolonged while its call is under way.
    has_heartbeat: bool,
    /// True when a claim of a lapsed lease remembers that the result of its holder is unknown.
    remembers_lapse: bool,
    /// True when it waits before the query, until a call can no longer be under way at the destination.
    waits_to_ask: bool,
    /// True when that claim also records it in the history.
    records_lapse: bool,
    /// True when the history gets its row from what was deleted, and not from what was to be.
    appends_what_it_deleted: bool,
    /// True when a gateway's report of a lost response counts as the destination's own.
    believes_gateways: bool,
}

impl Protocol {
    fn now(self, world: &World, worker: usize) -> u8 {
        world.now + if worker == 1 { self.skew } else { 0 }
    }

    fn decide(self, world: &World, n: usize) -> Option<Worker> {
        let Worker::Claimed { token, until, is_uncertain, ended_at } = world.workers[n] else { return None };
        let now = self.now(world, n);
        let knows = |to, is_unknown| Worker::Knows { token, to, is_unknown, ended_at, visible_at: now };
        if is_uncertain && self.unknown == Unknown::Query && self.waits_to_ask && now < ended_at + AFTER {
            let visible_at = ended_at + AFTER;
            return Some(Worker::Knows { token, to: At::Ready, is_unknown: true, ended_at, visible_at });
        }
        if is_uncertain && self.unknown == Unknown::Hold {
            return Some(knows(At::Held, true));
        }
        if is_uncertain && self.unknown == Unknown::Query && world.effects_n > 0 {
            return Some(knows(At::Done, false));
        }
        if token > ATTEMPTS_N {
            return Some(knows(At::Dead, is_uncertain));
        }
        let fits = now + TIMEOUT + MARGIN <= until;
        // Handed back: what was unknown before stays unknown, unless the question settled it.
        let stays = is_uncertain && self.unknown != Unknown::Query;
        Some(if fits { Worker::Sending { token, until } } else { knows(At::Ready, stays) })
    }

    /// The end of an attempt whose effect is unknown.
    fn unknown(self, world: &World, n: usize, token: u8) -> Worker {
        let now = self.now(world, n);
        let to = if self.unknown == Unknown::Hold { At::Held } else { At::Ready };
        let wait = if self.unknown == Unknown::Query && self.waits_to_ask { AFTER } else { 0 };
        Worker::Knows { token, to, is_unknown: true, ended_at: now, visible_at: now + wait }
    }

    /// The end of an attempt that surely did nothing.
    fn declined(self, world: &World, n: usize, token: u8) -> Worker {
        let now = self.now(world, n);
        Worker::Knows { token, to: At::Ready, is_unknown: false, ended_at: now, visible_at: now }
    }

    /// The caller is gone: its call continues at the destination without it.
    fn leave(world: &mut World, n: usize) {
        if let Worker::Sent { call: Call::AtWork { until }, .. } = world.workers[n] {
            world.orphans.push(until);
            world.orphans.sort_unstable();
        }
    }

    fn act(self, world: &mut World) {
        world.effects_n += u8::from(!self.honours_keys || world.effects_n == 0);
    }

    fn settle(self, world: &mut World, n: usize) {
        let Worker::Knows { token, to, is_unknown, ended_at, visible_at } = world.workers[n] else { return };
        world.workers[n] = Worker::Idle;
        let is_own = world.at == At::Leased && world.token == token;
        let is_there = world.at != At::Done;
        if to == At::Done && ((is_there && (is_own || !self.is_fenced)) || !self.appends_what_it_deleted) {
            world.finished_n += 1;
        }
        if !is_there || (self.is_fenced && !is_own) {
            return;
        }
        world.is_robbed |= !is_own;
        world.recorded |= 1 << token;
        world.at = to;
        world.visible_at = visible_at;
        world.is_unknown = is_unknown;
        world.ended_at = ended_at;
        if !matches!(to, At::Ready | At::Leased) {
            world.ended.get_or_insert(to);
        }
    }
}

impl Model for Protocol {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        let ready = World {
            now: 0,
            at: At::Ready,
            visible_at: 0,
            token: 0,
            is_unknown: false,
            ended_at: 0,
            workers: [Worker::Idle; 2],
            orphans: Vec::new(),
            effects_n: 0,
            ended: None,
            recorded: 0,
            finished_n: 0,
            is_robbed: false,
        };
        // Handed over by admission: the first claim was written with the message.
        let handed = Worker::Claimed { token: 1, until: LEASE, is_uncertain: false, ended_at: 0 };
        let workers = [handed, Worker::Idle];
        let leased = World { at: At::Leased, visible_at: LEASE, token: 1, workers, ..ready.clone() };
        vec![ready, leased]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        let at_work = world.workers.iter().filter_map(|worker| match worker {
            Worker::Sent { call: Call::AtWork { until }, .. } => Some(*until),
            _ => None,
        });
        // What is worked on is over in time.
        let is_any_due = at_work.chain(world.orphans.iter().copied()).any(|until| world.now + 1 >= until);
        if world.now < END && !is_any_due {
            steps.push(Step::Tick);
        }
        if !world.orphans.is_empty() {
            steps.extend([Step::OrphanActs, Step::OrphanDeclines]);
        }
        for (n, worker) in world.workers.iter().enumerate() {
            match worker {
                Worker::Idle => steps.push(Step::Claim(n)),
                Worker::Claimed { .. } => steps.push(Step::Decide(n)),
                Worker::Sending { .. } => steps.extend([Step::Send(n), Step::Refused(n)]),
                Worker::Sent { call, .. } => {
                    steps.extend([Step::GatewayAnswers(n), Step::Timeout(n)]);
                    match call {
                        Call::AtWork { .. } => steps.extend([Step::Act(n), Step::Decline(n)]),
                        Call::Acted | Call::Declined => steps.push(Step::Answer(n)),
                    }
                    if self.has_heartbeat {
                        steps.push(Step::Beat(n));
                    }
                }
                Worker::Knows { .. } => steps.push(Step::Settle(n)),
            }
            if *worker != Worker::Idle {
                steps.push(Step::Crash(n));
            }
        }
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        match step {
            Step::Tick => next.now += 1,
            Step::Claim(n) => {
                let now = self.now(world, n);
                if !matches!(world.at, At::Ready | At::Leased) || world.visible_at > now {
                    return None;
                }
                let is_lapsed = world.at == At::Leased && self.remembers_lapse;
                if world.at == At::Leased && self.records_lapse {
                    next.recorded |= 1 << world.token;
                }
                next.at = At::Leased;
                next.token += 1;
                next.visible_at = now + LEASE;
                let (token, until, is_uncertain) = (next.token, now + LEASE, is_lapsed || world.is_unknown);
                // Its call ended with its lease at the latest.
                let ended_at = if is_lapsed { world.visible_at } else { world.ended_at };
                next.workers[n] = Worker::Claimed { token, until, is_uncertain, ended_at };
            }
            Step::Decide(n) => next.workers[n] = self.decide(world, n)?,
            Step::Send(n) => {
                let Worker::Sending { token, until } = world.workers[n] else { return None };
                // Where no pause is longer than the margin, the call is over before the lease is.
                if !self.is_pause_unbounded && self.now(world, n) + TIMEOUT > until - MARGIN {
                    return None;
                }
                next.workers[n] = Worker::Sent { token, call: Call::AtWork { until: world.now + WORK } };
            }
            Step::Refused(n) => {
                let Worker::Sending { token, .. } = world.workers[n] else { return None };
                next.workers[n] = self.declined(world, n, token);
            }
            Step::Act(n) | Step::Decline(n) => {
                let Worker::Sent { token, .. } = world.workers[n] else { return None };
                let call = if step == Step::Act(n) { Call::Acted } else { Call::Declined };
                next.workers[n] = Worker::Sent { token, call };
                if call == Call::Acted {
                    self.act(&mut next);
                }
            }
            Step::OrphanActs | Step::OrphanDeclines => {
                next.orphans.remove(0);
                if step == Step::OrphanActs {
                    self.act(&mut next);
                }
            }
            Step::Answer(n) => {
                let Worker::Sent { token, call } = world.workers[n] else { return None };
                let now = self.now(world, n);
                next.workers[n] = match call {
                    Call::AtWork { .. } => return None,
                    Call::Declined => self.declined(world, n, token),
                    Call::Acted => Worker::Knows {
                        token,
                        to: At::Done,
                        is_unknown: false,
                        ended_at: now,
                        visible_at: now,
                    },
                };
            }
            Step::GatewayAnswers(n) | Step::Timeout(n) => {
                let Worker::Sent { token, .. } = world.workers[n] else { return None };
                Self::leave(&mut next, n);
                let is_believed = self.believes_gateways && step == Step::GatewayAnswers(n);
                next.workers[n] =
                    if is_believed { self.declined(world, n, token) } else { self.unknown(world, n, token) };
            }
            Step::Settle(n) => self.settle(&mut next, n),
            Step::Beat(n) => {
                let Worker::Sent { token, .. } = world.workers[n] else { return None };
                let until = self.now(world, n) + LEASE;
                let is_held = world.at == At::Leased && world.token == token;
                if !is_held || until == world.visible_at {
                    return None;
                }
                next.visible_at = until;
            }
            Step::Crash(n) => {
                Self::leave(&mut next, n);
                next.workers[n] = Worker::Idle;
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("done means that it happened", |_, world: &World| {
                world.at != At::Done || world.effects_n > 0
            }),
            Property::always("an end is never undone", |_, world: &World| {
                world.ended.is_none_or(|ended| world.at == ended)
            }),
            Property::always("a destination that honours keys acts once", |model: &Self, world: &World| {
                !model.honours_keys || world.effects_n <= 1
            }),
            Property::always("hold repeats nothing", |model: &Self, world: &World| {
                model.unknown != Unknown::Hold || world.effects_n <= 1
            }),
            Property::always("query repeats nothing", |model: &Self, world: &World| {
                model.unknown != Unknown::Query || world.effects_n <= 1
            }),
            Property::always("what is done is reported once", |_, world: &World| {
                world.finished_n == u8::from(world.at == At::Done)
            }),
            Property::always("no row is taken away by another worker", |_, world: &World| !world.is_robbed),
            Property::always("how each claim ended is reported", |_, world: &World| {
                (1..world.token).all(|token| world.recorded & (1 << token) != 0)
            }),
            Property::sometimes("it gets done", |_, world: &World| world.at == At::Done),
        ]
    }
}
