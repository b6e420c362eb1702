//! Rows of a list of messages.

use maud::{Markup, html};

use crate::api::MessageView;
use crate::console::parts::list::{self, Narrow};
use crate::console::parts::{brief, chip, link, moment};
use crate::console::visit::Visit;

/// Characters of an error that a row shows.
const ERROR_CHARS_MAX: usize = 120;
/// Characters of an effect's name and an event's type that a row shows.
const NAME_CHARS_MAX: usize = 60;

const HEADINGS: [&str; 7] =
    ["Message", "Written", "Destination", "Event", "State", "Attempts", "What it means"];

/// A table of messages.
pub(super) fn table(visit: &Visit, caption: &str, messages: &[MessageView]) -> Markup {
    let rows: Vec<Markup> = messages.iter().map(|message| row(visit, message)).collect();
    list::table_as(Narrow::Lines, caption, &HEADINGS, &rows)
}

fn row(visit: &Visit, message: &MessageView) -> Markup {
    let is_named = message.effect_name != message.destination;
    html! {
        tr {
            td class="what" { (link::message(visit, &message.message_id.to_string())) }
            td { (moment::moment(message.created_at_ms, visit.now_ms)) }
            td {
                (link::destination(visit, &message.destination))
                @if is_named { div class="hint" { (brief::line(&message.effect_name, NAME_CHARS_MAX)) } }
            }
            td class="wide" {
                (link::event(visit, &message.provider, &message.event_id))
                div class="hint" { (message.provider) " · " (brief::line(&message.event_type, NAME_CHARS_MAX)) }
            }
            td { (chip::message(message.state)) }
            td class="named" { (moment::figure(u64::from(message.attempts_n), false)) }
            td class="wide long" {
                @if let Some(judgement) = &message.judgement { (judgement.headline) }
                @if let Some(error) = &message.last_error {
                    div class="hint" { (brief::line(error, ERROR_CHARS_MAX)) }
                }
            }
        }
    }
}
