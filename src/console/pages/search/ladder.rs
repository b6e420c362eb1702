//! How far an id got: found, superseded, replayed, rejected, or not found.

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
    NotFound,
}

impl Rung {
    const ALL: [Self; 5] = [Self::Found, Self::Superseded, Self::Replayed, Self::Rejected, Self::NotFound];

    fn word(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Superseded => "superseded",
            Self::Replayed => "replayed",
            Self::Rejected => "rejected",
            Self::NotFound => "not found",
        }
    }

    fn mood(self) -> Mood {
        match self {
            Self::Found | Self::Superseded | Self::Replayed => Mood::Quiet,
            Self::Rejected => Mood::Bad,
            Self::NotFound => Mood::Needed,
        }
    }

    fn sentence(self) -> &'static str {
        match self {
            Self::Found => "It is stored here.",
            Self::Superseded => {
                "A newer event of its object had been received before it: stored, and not dispatched."
            }
            Self::Replayed => {
                "The same signed bytes had been received under another id: recorded, and not dispatched."
            }
            Self::Rejected => "A request that was rejected has it, so nothing of that request was stored.",
            Self::NotFound => {
                "No stored event, message or rejected request matches. The list says what was compared and what was not."
            }
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
        reached.push(Rung::NotFound);
    }
    reached
}

fn rung(hit: &SearchHit) -> Rung {
    match hit {
        SearchHit::EventId { event } | SearchHit::SearchId { event } => of_event(event),
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
