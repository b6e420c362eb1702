//! Admission by two transactions of one node and one of another, in every order of steps: which insert waits for which,
//! what a crash, a lost answer and a lock time-out leave behind. What the model does is what `committer.rs` of
//! `crates/receive` and the inserts of `crates/store/src/admission` do; a row that is inserted and not committed makes
//! others wait for it.

use std::collections::BTreeSet;

use stateright::{Checker, HasDiscoveries, Model, Property};

/// Batches, as they wait for each committer: the copies of two events meet in all of them.
const BATCHES: [&[u8]; 3] = [&[0, 1], &[1, 0], &[1, 0]];
/// The node of each committer.
const NODES: [usize; 3] = [0, 0, 1];
/// How often a batch is sent; keeps the model finite.
const SENDS_N: u8 = 2;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum At {
    Idle,
    /// The statement of this batch: how many of its keys were looked at, and which of them are new.
    Inserting {
        done_n: usize,
        new: BTreeSet<u8>,
    },
    /// It is committed, and its senders are to be answered.
    Committed {
        new: BTreeSet<u8>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    committers: [At; 3],
    sent_n: [u8; 3],
    /// Sets of effects that are committed, by event.
    effects_n: [u8; 2],
    /// Answers `accepted` and `duplicate`, by event.
    accepted_n: [u8; 2],
    duplicate_n: [u8; 2],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Step {
    Begin(usize),
    Insert(usize),
    Commit(usize),
    Answer(usize),
    /// The answer to the commit is lost: all its senders are asked to send again.
    LoseAnswer(usize),
    /// It waited too long for another one's row, and is rolled back.
    GiveUp(usize),
    Crash(usize),
}

#[derive(Debug, Clone, Copy)]
struct Committers {
    /// True when the keys of a batch are inserted in one order everywhere.
    sorts_keys: bool,
    /// True when a key that another transaction has inserted is waited for.
    waits_for_twins: bool,
    /// True when nothing is answered before the commit.
    answers_after_commit: bool,
}

const OURS: Committers = Committers { sorts_keys: true, waits_for_twins: true, answers_after_commit: true };

impl Committers {
    fn keys(self, n: usize) -> Vec<u8> {
        let mut keys = BATCHES[n].to_vec();
        if self.sorts_keys {
            keys.sort_unstable();
        }
        keys
    }

    /// The committer whose uncommitted row the next insert of this one waits for.
    fn waits_for(self, world: &World, n: usize) -> Option<usize> {
        let At::Inserting { done_n, .. } = &world.committers[n] else { return None };
        let key = *self.keys(n).get(*done_n)?;
        let has = |at: &At| matches!(at, At::Inserting { new, .. } if new.contains(&key));
        (0..3).find(|other| *other != n && has(&world.committers[*other])).filter(|_| self.waits_for_twins)
    }

    fn is_deadlocked(self, world: &World) -> bool {
        (0..3).any(|n| {
            let (mut at, mut seen) = (n, BTreeSet::from([n]));
            while let Some(next) = self.waits_for(world, at) {
                if !seen.insert(next) {
                    return true;
                }
                at = next;
            }
            false
        })
    }

    fn answer(self, world: &mut World, n: usize, new: &BTreeSet<u8>) {
        for key in self.keys(n) {
            let all = if new.contains(&key) { &mut world.accepted_n } else { &mut world.duplicate_n };
            all[usize::from(key)] += 1;
        }
    }
}

impl Model for Committers {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            committers: [At::Idle, At::Idle, At::Idle],
            sent_n: [0; 3],
            effects_n: [0; 2],
            accepted_n: [0; 2],
            duplicate_n: [0; 2],
        }]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        for (n, batch) in BATCHES.iter().enumerate() {
            match &world.committers[n] {
                At::Idle if world.sent_n[n] < SENDS_N => steps.push(Step::Begin(n)),
                At::Idle => {}
                At::Inserting { done_n, .. } if *done_n == batch.len() => steps.push(Step::Commit(n)),
                At::Inserting { .. } if self.waits_for(world, n).is_some() => steps.push(Step::GiveUp(n)),
                At::Inserting { .. } => steps.push(Step::Insert(n)),
                At::Committed { .. } => steps.extend([Step::Answer(n), Step::LoseAnswer(n)]),
            }
        }
        steps.extend([Step::Crash(0), Step::Crash(1)]);
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        match step {
            Step::Begin(n) => {
                next.sent_n[n] += 1;
                next.committers[n] = At::Inserting { done_n: 0, new: BTreeSet::new() };
            }
            Step::Insert(n) => {
                let At::Inserting { done_n, new } = &mut next.committers[n] else { return None };
                let key = *self.keys(n).get(*done_n)?;
                let is_there = world.effects_n[usize::from(key)] > 0;
                let is_anothers = (0..3).any(|other| {
                    other != n
                        && matches!(&world.committers[other], At::Inserting { new, .. } if new.contains(&key))
                });
                if !is_there && !is_anothers {
                    new.insert(key);
                }
                *done_n += 1;
                if !self.answers_after_commit && *done_n == BATCHES[n].len() {
                    let new = new.clone();
                    self.answer(&mut next, n, &new);
                }
            }
            Step::Commit(n) => {
                let At::Inserting { new, .. } = &world.committers[n] else { return None };
                for key in new {
                    next.effects_n[usize::from(*key)] += 1;
                }
                next.committers[n] = At::Committed { new: new.clone() };
            }
            Step::Answer(n) => {
                let At::Committed { new } = &world.committers[n] else { return None };
                if self.answers_after_commit {
                    self.answer(&mut next, n, new);
                }
                next.committers[n] = At::Idle;
            }
            Step::LoseAnswer(n) | Step::GiveUp(n) => next.committers[n] = At::Idle,
            Step::Crash(node) => {
                for n in (0..3).filter(|n| NODES[*n] == node) {
                    next.committers[n] = At::Idle;
                }
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no two sets of effects", |_, world: &World| {
                world.effects_n.iter().all(|n| *n <= 1)
            }),
            Property::always("what is answered is committed", |_, world: &World| {
                (0..2).all(|n| world.effects_n[n] > 0 || world.accepted_n[n] + world.duplicate_n[n] == 0)
            }),
            Property::always("accepted once", |_, world: &World| world.accepted_n.iter().all(|n| *n <= 1)),
            Property::always("nobody waits in a circle", |model: &Self, world: &World| {
                !model.is_deadlocked(world)
            }),
            Property::sometimes("all are answered", |_, world: &World| {
                (0..2).all(|n| world.accepted_n[n] == 1 && world.duplicate_n[n] == 2)
            }),
        ]
    }
}

#[test]
fn two_transactions_of_a_node_admit_each_event_once() {
    let checked = OURS.checker().threads(2).spawn_bfs().join();
    assert!(checked.unique_state_count() > 1_000, "saw {}", checked.unique_state_count());
    checked.assert_properties();
}

#[test]
fn the_model_of_admission_catches_what_is_broken_on_purpose() {
    let caught = |broken: Committers, property: &'static str| {
        let until = HasDiscoveries::AnyOf(BTreeSet::from([property]));
        broken.checker().threads(2).finish_when(until).spawn_bfs().join().assert_any_discovery(property);
    };
    caught(Committers { sorts_keys: false, ..OURS }, "nobody waits in a circle");
    caught(Committers { waits_for_twins: false, ..OURS }, "what is answered is committed");
    caught(Committers { answers_after_commit: false, ..OURS }, "what is answered is committed");
}
