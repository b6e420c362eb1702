//! Backups and restores, checked in every order of events: at most two restores, of whichever backups, while the server
//! that is replaced sends on until the moment of the restore, and its last calls are still worked on after that.
//!
//! One event, its runs by itself and by order of a person, and the message of its newest run. What the model does is what
//! `store/restore`, `admit/plan.rs` and `outbox/policy` do; times are whole units. Variants that are broken on
//! purpose show that the model would see it.

use std::collections::{BTreeMap, BTreeSet};

use stateright::{Checker, HasDiscoveries, Model, Property};

use super::Unknown;

/// How long the destination may work on a call, from its first byte, that moment included.
const WORK: u8 = 1;
/// How long after the end of a call no query about it is sent.
const AFTER: u8 = WORK + 1;
/// How long the destination knows a key, from its first effect; the sender counts on less, by the time that a call takes.
const KEY_KNOWN: u8 = 4;
const KEY_VALID: u8 = KEY_KNOWN - WORK;
/// When the model's time ends.
const END: u8 = 4;
/// Calls that are worked on at once, restores, and runs that a person orders: they keep the model finite and small.
const CALLS_N: usize = 2;
const RESTORES_N: u8 = 2;
const ORDERS_N: u8 = 1;
/// Further than the orders of one life count.
const RESTORED_STEP: u8 = 10;

/// What is taken for granted, and what is broken.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that may be broken")]
struct Protocol {
    unknown: Unknown,
    /// Backups that are made.
    backups_n: u8,
    /// True when what a restore marks counts as ended at the end of the lost time.
    ends_with_the_lost_time: bool,
    /// True when a run that was ordered before the restore may have been sent, too.
    doubts_orders: bool,
    /// True when a key counts from the beginning of the lost time, and not from its end.
    counts_keys_from_its_beginning: bool,
    /// True when each restore counts, and not the newest alone.
    remembers_each_restore: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum At {
    Ready,
    Sending,
    Held,
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Message {
    generation: u8,
    at: At,
    is_unknown: bool,
    first_sent: Option<u8>,
    ended: Option<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Lost {
    from: u8,
    until: u8,
    restored: u8,
}

/// What a backup copies.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Rows {
    is_known: bool,
    /// True while the newest run waits for its handler.
    waits: bool,
    generation: u8,
    message: Option<Message>,
    lost: Vec<Lost>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct World {
    now: u8,
    rows: Rows,
    backup: Option<(u8, Rows)>,
    backups_n: u8,
    restores_n: u8,
    orders_n: u8,
    /// Calls that are worked on: their key, and until when.
    calls: Vec<(u8, u8)>,
    /// Effects by key: number and time of the first one.
    effects: BTreeMap<u8, (u8, u8)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Step {
    Tick,
    /// The sender sends the event, for the first time or again.
    Arrive,
    /// An operator orders another run.
    Order,
    /// The handler of the run succeeds: its message is queued.
    Plan,
    Send,
    /// The destination does what the call at this place asks for.
    Act(usize),
    Answer,
    /// The destination refuses before it does anything.
    Decline,
    Timeout,
    Backup,
    Restore,
}

impl Protocol {
    fn plan(self, world: &mut World) {
        let rows = &mut world.rows;
        let generation = rows.generation;
        let newest = usize::from(!self.remembers_each_restore) * rows.lost.len().saturating_sub(1);
        let doubted = rows.lost[newest..]
            .iter()
            .filter(|lost| if self.doubts_orders { generation <= lost.restored } else { generation == 0 });
        let since = doubted.map(|lost| self.key_from(*lost)).min();
        rows.waits = false;
        rows.message = Some(Message {
            generation,
            at: At::Ready,
            is_unknown: since.is_some(),
            first_sent: since,
            // A look that finds no end of an attempt takes its own time for it.
            ended: since.map(|_| world.now),
        });
    }

    fn key_from(self, lost: Lost) -> u8 {
        if self.counts_keys_from_its_beginning { lost.from } else { lost.until }
    }

    /// What becomes of a message before it is sent; `None` while nothing may be done.
    fn before_send(self, world: &World, message: Message) -> Option<At> {
        Some(match self.unknown {
            // Whatever is known of the last attempt: one before it may have had its effect.
            Unknown::Retry => {
                let until = message.first_sent.unwrap_or(world.now) + KEY_VALID;
                if world.now < until { At::Sending } else { At::Held }
            }
            _ if !message.is_unknown => At::Sending,
            Unknown::Hold => At::Held,
            Unknown::Query if world.now < message.ended.unwrap_or(world.now) + AFTER => return None,
            Unknown::Query if world.effects.contains_key(&message.generation) => At::Done,
            Unknown::Query => At::Sending,
        })
    }

    fn restore(self, world: &mut World) {
        let Some((from, rows)) = world.backup.clone() else { return };
        world.restores_n += 1;
        let lost = Lost { from, until: world.now, restored: world.restores_n * RESTORED_STEP };
        world.rows = rows;
        world.rows.lost.push(lost);
        if let Some(message) = &mut world.rows.message
            && matches!(message.at, At::Ready | At::Sending)
        {
            message.at = At::Ready;
            message.is_unknown = true;
            message.first_sent = message.first_sent.or(Some(self.key_from(lost)));
            if self.ends_with_the_lost_time || message.ended.is_none() {
                message.ended = Some(lost.until);
            }
        }
    }

    fn end(world: &mut World, at: At, is_unknown: bool) {
        let now = world.now;
        if let Some(message) = &mut world.rows.message {
            (message.at, message.is_unknown, message.ended) = (at, is_unknown, Some(now));
        }
    }
}

impl Model for Protocol {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::default()]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Step>) {
        let rows = &world.rows;
        if world.now < END && world.calls.iter().all(|(_, until)| world.now < *until) {
            actions.push(Step::Tick);
        }
        if !rows.is_known {
            actions.push(Step::Arrive);
        }
        if rows.waits {
            actions.push(Step::Plan);
        }
        if let Some(message) = rows.message {
            match message.at {
                At::Ready if world.calls.len() < CALLS_N => actions.push(Step::Send),
                At::Done if !rows.waits && world.orders_n < ORDERS_N => actions.push(Step::Order),
                At::Sending => {
                    actions.push(Step::Timeout);
                    if world.calls.iter().any(|(key, _)| *key == message.generation) {
                        actions.push(Step::Decline);
                    } else {
                        actions.push(Step::Answer);
                    }
                }
                At::Ready | At::Held | At::Done => {}
            }
        }
        actions.extend((0..world.calls.len()).map(Step::Act));
        if world.restores_n < RESTORES_N {
            let is_same = world.backup.as_ref().is_some_and(|(_, rows)| *rows == world.rows);
            if !is_same && world.backups_n < self.backups_n {
                actions.push(Step::Backup);
            }
            if world.backup.is_some() {
                actions.push(Step::Restore);
            }
        }
    }

    fn next_state(&self, before: &World, step: Step) -> Option<World> {
        let mut world = before.clone();
        match step {
            Step::Tick => world.now += 1,
            Step::Arrive => (world.rows.is_known, world.rows.waits) = (true, true),
            Step::Order => {
                let above = world.rows.lost.last().map_or(0, |lost| lost.restored);
                world.rows.generation = world.rows.generation.max(above) + 1;
                world.rows.waits = true;
                world.orders_n += 1;
            }
            Step::Plan => self.plan(&mut world),
            Step::Send => {
                let message = world.rows.message?;
                let at = self.before_send(&world, message)?;
                if at == At::Sending {
                    world.calls.push((message.generation, world.now + WORK));
                    world.calls.sort_unstable();
                }
                let now = world.now;
                let message = world.rows.message.as_mut()?;
                message.at = at;
                if at == At::Sending {
                    message.first_sent.get_or_insert(now);
                }
            }
            Step::Act(place) => {
                let (key, _) = world.calls.remove(place);
                let (n, first_at) = world.effects.entry(key).or_insert((0, world.now));
                let knows = self.unknown == Unknown::Retry && *n > 0 && world.now < *first_at + KEY_KNOWN;
                *n += u8::from(!knows);
            }
            Step::Answer => Self::end(&mut world, At::Done, false),
            Step::Decline => {
                // The newest call under this key is its own.
                let key = world.rows.message?.generation;
                let place = world.calls.iter().rposition(|(own, _)| *own == key)?;
                world.calls.remove(place);
                Self::end(&mut world, At::Ready, false);
            }
            Step::Timeout => {
                let at = if self.unknown == Unknown::Hold { At::Held } else { At::Ready };
                Self::end(&mut world, at, true);
            }
            Step::Backup => {
                world.backup = Some((world.now, world.rows.clone()));
                world.backups_n += 1;
            }
            Step::Restore => self.restore(&mut world),
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("each run has one effect", |_, world: &World| {
                world.effects.values().all(|(n, _)| *n <= 1)
            }),
            Property::sometimes("a run is done after two restores", |_, world: &World| {
                world.restores_n == 2 && world.rows.message.is_some_and(|message| message.at == At::Done)
            }),
            Property::sometimes("a run that was ordered since a restore is done", |_, world: &World| {
                let ordered = |message: Message| message.at == At::Done && message.generation > RESTORED_STEP;
                world.rows.message.is_some_and(ordered)
            }),
        ]
    }
}

/// As it is built.
fn ours(unknown: Unknown) -> Protocol {
    Protocol {
        unknown,
        // Both restores are of this one.
        backups_n: 1,
        ends_with_the_lost_time: true,
        doubts_orders: true,
        counts_keys_from_its_beginning: true,
        remembers_each_restore: true,
    }
}

#[test]
fn a_restore_repeats_nothing_in_any_order_of_events() {
    for unknown in [Unknown::Retry, Unknown::Query, Unknown::Hold] {
        let checked = ours(unknown).checker().threads(2).spawn_bfs().join();
        assert!(checked.unique_state_count() > 10_000, "{unknown:?} saw {}", checked.unique_state_count());
        checked.assert_properties();
    }
}

#[test]
fn the_model_catches_restores_that_are_broken_on_purpose() {
    for (what, broken) in [
        ("asked too early", Protocol { ends_with_the_lost_time: false, ..ours(Unknown::Query) }),
        ("an order that waited in the backup", Protocol { doubts_orders: false, ..ours(Unknown::Hold) }),
        ("the same where it is asked", Protocol { doubts_orders: false, ..ours(Unknown::Query) }),
        (
            "a key that counts from the end of the lost time",
            Protocol { counts_keys_from_its_beginning: false, ..ours(Unknown::Retry) },
        ),
        (
            "a key that was lost by the first restore",
            Protocol { remembers_each_restore: false, backups_n: 2, ..ours(Unknown::Retry) },
        ),
    ] {
        let property = "each run has one effect";
        let until = HasDiscoveries::AnyOf(BTreeSet::from([property]));
        let checked = broken.checker().threads(2).finish_when(until).spawn_bfs().join();
        assert!(checked.discovery(property).is_some(), "not caught: {what}");
    }
}
