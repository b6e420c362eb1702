//! How far an id got: found, superseded, replayed, rejected, or not found.

use maud::{Markup, html};

use crate::api::{EventView, SearchHit, SearchView};
use crate::console::parts::chip::{Mood, chip};
use crate::console::parts::moment;
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
            Self::Found => "What matches is stored here.",
            Self::Superseded => {
                "A newer event of its object had been received before it: stored, and not dispatched."
            }
            Self::Replayed => {
                "The same signed bytes had been received under another id: recorded, and not dispatched."
            }
            Self::Rejected => "A request that was rejected has it, so nothing of that request was stored.",
            // The contract says it.
            Self::NotFound => "",
        }
    }
}

pub(super) fn ladder(found: &SearchView) -> Markup {
    let reached = reached(&found.found);
    html! {
        ol class="ladder" aria-label="How far it got" {
            @for rung in Rung::ALL {
                @let word = if rung == Rung::NotFound && found.skips_ids_inside { "not found in what you may search" } else { rung.word() };
                @if reached.contains(&rung) { li aria-current="true" { (chip(rung.mood(), word)) } }
                @else { li class="none" { (rung.word()) } }
            }
        }
        @for rung in Rung::ALL {
            @if reached.contains(&rung) && rung != Rung::NotFound { p { (rung.sentence()) } }
        }
        @if found.is_cut || found.found.is_empty() { p class="headline" { (moment::coded(&found.headline)) } }
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
