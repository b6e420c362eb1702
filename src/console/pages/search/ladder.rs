//! How far an id got: found, rejected, replayed, superseded, or not ours.

use maud::{Markup, html};

use crate::api::{EventView, SearchHit, SearchView};
use crate::console::parts::chip::{Mood, chip};
use crate::types::EventState;

/// What becomes of an id, from the best to the worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rung {
    Found,
    Superseded,
    Replayed,
    Rejected,
    NotOurs,
}

impl Rung {
    const ALL: [Self; 5] = [Self::Found, Self::Superseded, Self::Replayed, Self::Rejected, Self::NotOurs];

    fn word(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Superseded => "superseded",
            Self::Replayed => "replayed",
            Self::Rejected => "rejected",
            Self::NotOurs => "not ours",
        }
    }

    fn mood(self) -> Mood {
        match self {
            Self::Found | Self::Superseded | Self::Replayed => Mood::Quiet,
            Self::Rejected => Mood::Bad,
            Self::NotOurs => Mood::Needed,
        }
    }

    fn sentence(self) -> &'static str {
        match self {
            Self::Found => "It is known here.",
            Self::Superseded => {
                "It came when something newer of its object had been seen: kept, and not dispatched."
            }
            Self::Replayed => {
                "Its signed bytes had come before under another id: recorded, and not dispatched."
            }
            Self::Rejected => "It stands in a request that was not believed, so nothing of it was taken.",
            Self::NotOurs => "No stored event and no rejected request has this id.",
        }
    }
}

pub(super) fn ladder(found: &SearchView) -> Markup {
    let reached = reached(&found.found);
    html! {
        ol class="ladder" aria-label="How far it got" {
            @for rung in Rung::ALL {
                @if reached.contains(&rung) { li aria-current="true" { (chip(rung.mood(), rung.word())) } }
                @else { li class="none" { (rung.word()) } }
            }
        }
        @for rung in Rung::ALL {
            @if reached.contains(&rung) { p { (rung.sentence()) } }
        }
    }
}

fn reached(found: &[SearchHit]) -> Vec<Rung> {
    let mut reached: Vec<Rung> = found.iter().map(rung).collect();
    if reached.is_empty() {
        reached.push(Rung::NotOurs);
    }
    reached
}

fn rung(hit: &SearchHit) -> Rung {
    match hit {
        SearchHit::EventId { event } => of_event(event),
        SearchHit::Rejected { .. } => Rung::Rejected,
        _ => Rung::Found,
    }
}

fn of_event(event: &EventView) -> Rung {
    match event.state {
        EventState::Superseded => Rung::Superseded,
        EventState::Replayed => Rung::Replayed,
        _ => Rung::Found,
    }
}
