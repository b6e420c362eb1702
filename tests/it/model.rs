//! The lease protocol, checked in every order of events: crashes, pauses, lost answers, clocks that differ.
//!
//! One message, two workers. What the model does is what `message_lease`, `message_settle`, `attempt.rs` and
//! `policy.rs` do; times are whole units. Variants that are broken on purpose show that the model would see it.

use stateright::{Checker, Model, Property};

/// How long a lease lasts, how long a call may take, and what must be left after it.
const LEASE: u8 = 4;
const TIMEOUT: u8 = 1;
const MARGIN: u8 = 1;
/// When the model's time ends.
const END: u8 = 10;
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
    /// Whether a worker may sleep as long as it likes between its last look at the lease and the first byte.
    is_pause_unbounded: bool,
    /// Whether a settlement has to carry the newest claim.
    is_fenced: bool,
    /// Whether a lease is prolonged while its call is under way.
    has_heartbeat: bool,
    /// Whether a claim of a lapsed lease remembers that nobody knows what its holder did.
    remembers_lapse: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum At {
    Ready,
    Leased,
    Done,
    Held,
    Dead,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Worker {
    Idle,
    Claimed {
        token: u8,
        until: u8,
        is_uncertain: bool,
    },
    /// Has looked at the lease; the first byte has not left.
    Sending {
        token: u8,
        until: u8,
    },
    Sent {
        token: u8,
        has_effect: bool,
    },
    Knows {
        token: u8,
        to: At,
        is_unknown: bool,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    now: u8,
    at: At,
    visible_at: u8,
    token: u8,
    is_unknown: bool,
    workers: [Worker; 2],
    requests_n: u8,
    effects_n: u8,
    /// The first end the message came to.
    ended: Option<At>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Step {
    Tick,
    Claim(usize),
    Decide(usize),
    Send(usize),
    /// The connection never stood.
    Refused(usize),
    Answer(usize),
    Timeout(usize),
    Settle(usize),
    /// Prolongs the lease.
    Beat(usize),
    Crash(usize),
}

impl Protocol {
    fn now(self, world: &World, worker: usize) -> u8 {
        world.now + if worker == 1 { self.skew } else { 0 }
    }

    fn decide(self, world: &World, n: usize) -> Option<Worker> {
        let Worker::Claimed { token, until, is_uncertain } = world.workers[n] else { return None };
        let knows = |to, is_unknown| Worker::Knows { token, to, is_unknown };
        if is_uncertain && self.unknown == Unknown::Hold {
            return Some(knows(At::Held, true));
        }
        if is_uncertain && self.unknown == Unknown::Query && world.effects_n > 0 {
            return Some(knows(At::Done, false));
        }
        if token > ATTEMPTS_N {
            return Some(knows(At::Dead, is_uncertain));
        }
        let fits = self.now(world, n) + TIMEOUT + MARGIN <= until;
        // Handed back: what was unknown before stays unknown, unless the question settled it.
        let stays = is_uncertain && self.unknown != Unknown::Query;
        Some(if fits { Worker::Sending { token, until } } else { knows(At::Ready, stays) })
    }

    fn settle(self, world: &mut World, n: usize) {
        let Worker::Knows { token, to, is_unknown } = world.workers[n] else { return };
        world.workers[n] = Worker::Idle;
        if self.is_fenced && (world.at != At::Leased || world.token != token) {
            return;
        }
        world.at = to;
        world.visible_at = world.now;
        world.is_unknown = is_unknown;
        if !matches!(to, At::Ready | At::Leased) {
            world.ended.get_or_insert(to);
        }
    }
}

impl Model for Protocol {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            now: 0,
            at: At::Ready,
            visible_at: 0,
            token: 0,
            is_unknown: false,
            workers: [Worker::Idle; 2],
            requests_n: 0,
            effects_n: 0,
            ended: None,
        }]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        if world.now < END {
            steps.push(Step::Tick);
        }
        for (n, worker) in world.workers.iter().enumerate() {
            match worker {
                Worker::Idle => steps.push(Step::Claim(n)),
                Worker::Claimed { .. } => steps.push(Step::Decide(n)),
                Worker::Sending { .. } => steps.extend([Step::Send(n), Step::Refused(n)]),
                Worker::Sent { .. } if self.has_heartbeat => {
                    steps.extend([Step::Answer(n), Step::Timeout(n), Step::Beat(n)]);
                }
                Worker::Sent { .. } => steps.extend([Step::Answer(n), Step::Timeout(n)]),
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
                next.at = At::Leased;
                next.token += 1;
                next.visible_at = now + LEASE;
                let is_uncertain = is_lapsed || world.is_unknown;
                next.workers[n] = Worker::Claimed { token: next.token, until: now + LEASE, is_uncertain };
            }
            Step::Decide(n) => next.workers[n] = self.decide(world, n)?,
            Step::Send(n) => {
                let Worker::Sending { token, until } = world.workers[n] else { return None };
                // Where no pause is longer than the margin, the call is over before the lease is.
                if !self.is_pause_unbounded && self.now(world, n) + TIMEOUT > until - MARGIN {
                    return None;
                }
                next.requests_n += 1;
                let acts = !self.honours_keys || world.effects_n == 0;
                next.effects_n += u8::from(acts);
                next.workers[n] = Worker::Sent { token, has_effect: true };
            }
            Step::Refused(n) => {
                let Worker::Sending { token, .. } = world.workers[n] else { return None };
                next.workers[n] = Worker::Knows { token, to: At::Ready, is_unknown: false };
            }
            Step::Answer(n) => {
                let Worker::Sent { token, has_effect } = world.workers[n] else { return None };
                let to = if has_effect { At::Done } else { At::Ready };
                next.workers[n] = Worker::Knows { token, to, is_unknown: false };
            }
            Step::Timeout(n) => {
                let Worker::Sent { token, .. } = world.workers[n] else { return None };
                let to = if self.unknown == Unknown::Hold { At::Held } else { At::Ready };
                next.workers[n] = Worker::Knows { token, to, is_unknown: true };
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
            Step::Crash(n) => next.workers[n] = Worker::Idle,
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
            Property::always("a far side that honours keys acts once", |model: &Self, world: &World| {
                !model.honours_keys || world.effects_n <= 1
            }),
            Property::always("hold repeats nothing", |model: &Self, world: &World| {
                model.unknown != Unknown::Hold || world.requests_n <= 1
            }),
            Property::always("query repeats nothing", |model: &Self, world: &World| {
                model.unknown != Unknown::Query || world.effects_n <= 1
            }),
            Property::sometimes("it gets done", |_, world: &World| world.at == At::Done),
        ]
    }
}

/// As it is built.
fn ours(unknown: Unknown) -> Protocol {
    Protocol {
        unknown,
        honours_keys: unknown == Unknown::Retry,
        skew: MARGIN,
        is_pause_unbounded: unknown != Unknown::Query,
        is_fenced: true,
        // With `query` the config refuses it: a lease that could not be prolonged would let another worker ask
        // about a call that is still under way.
        has_heartbeat: unknown != Unknown::Query,
        remembers_lapse: true,
    }
}

fn check(protocol: Protocol) -> impl Checker<Protocol> {
    protocol.checker().threads(2).spawn_bfs().join()
}

#[test]
fn leases_keep_their_promises_in_every_order_of_events() {
    for unknown in [Unknown::Retry, Unknown::Query, Unknown::Hold] {
        let checked = check(ours(unknown));
        assert!(checked.unique_state_count() > 1_000, "{unknown:?} saw {}", checked.unique_state_count());
        checked.assert_properties();
    }
}

#[test]
fn the_model_catches_what_is_broken_on_purpose() {
    fn caught(broken: Protocol, property: &'static str) {
        check(broken).assert_any_discovery(property);
    }
    let unfenced = |unknown| Protocol { is_fenced: false, ..ours(unknown) };
    caught(unfenced(Unknown::Retry), "an end is never undone");
    caught(unfenced(Unknown::Hold), "an end is never undone");
    let forgetful = |unknown| Protocol { remembers_lapse: false, ..ours(unknown) };
    caught(forgetful(Unknown::Hold), "hold repeats nothing");
    caught(forgetful(Unknown::Query), "query repeats nothing");
    // The limits of what can be promised: see `docs/outbox.md`.
    caught(Protocol { is_pause_unbounded: true, ..ours(Unknown::Query) }, "query repeats nothing");
    caught(Protocol { skew: LEASE, ..ours(Unknown::Query) }, "query repeats nothing");
}
