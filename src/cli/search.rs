//! `search`: whatever an id leads to, and why it leads nowhere.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;

use super::api_client::ApiAnswer;
use super::desk::Desk;
use super::ending::Ending;
use super::output::{Column, Screen, Shown, table, told};
use super::reach::ReachArgs;
use crate::api::{EventView, MessageView, SearchHit, SearchView};
use crate::load::Kinds;

#[derive(Args)]
pub(super) struct SearchArgs {
    #[command(flatten)]
    reach: ReachArgs,
    /// Id of an event or inside one (payment, order, invoice; six characters are enough), of a message or object, an
    /// idempotency key, the name of an effect, or the address of a page that ends with an id.
    id: String,
}

/// Runs `hooklatch search ID`; 3 when nothing is found.
pub(super) fn search(args: &SearchArgs, file: Option<&Path>, kinds: &Kinds) -> anyhow::Result<ExitCode> {
    let desk = Desk::open(&args.reach, file, kinds)?;
    let found: ApiAnswer<SearchView> = desk.api.get(&["search"], &[("id", Some(&args.id))])?;
    desk.show(&found, |view| hits(view, &desk.screen));
    Ok(if found.view.found.is_empty() { Ending::NotFound } else { Ending::Done }.code())
}

const COLUMNS: [Column; 7] = [
    Column::Whole("it is"),
    Column::Whole("time (UTC)"),
    Column::Whole("provider"),
    Column::Whole("of"),
    Column::Whole("state"),
    Column::Whole("calls"),
    Column::Loose("what"),
];

fn hits(view: &SearchView, screen: &Screen) -> String {
    let mut parts = Vec::new();
    if view.found.is_empty() {
        parts.push(format!("nothing found for {}", Shown::text(&view.query).as_str()));
        parts.push(Shown::text(&view.headline).as_str().to_owned());
    } else {
        let rows: Vec<Vec<Shown>> = view.found.iter().map(|hit| cells(hit, screen)).collect();
        parts.push(table(screen, &COLUMNS, &rows, true));
    }
    parts.extend(view.notes.iter().map(|note| Shown::text(note).as_str().to_owned()));
    parts.join("\n")
}

fn cells(hit: &SearchHit, screen: &Screen) -> Vec<Shown> {
    match hit {
        SearchHit::EventId { event } => of_event("an event", event, screen),
        SearchHit::SearchId { event } => of_event("inside an event", event, screen),
        SearchHit::Object { event } => of_event("an object", event, screen),
        SearchHit::MessageId { message } => of_message("a message", message, screen),
        SearchHit::IdempotencyKey { message } => of_message("a key", message, screen),
        SearchHit::EffectName { message } => of_message("an effect", message, screen),
        SearchHit::Rejected { rejected } => vec![
            Shown::text("in a refusal"),
            Shown::text(told(rejected.received_at_ms, screen.now_ms)),
            Shown::text(&rejected.provider),
            Shown::text(&rejected.rejection_id),
            Shown::text(&rejected.step),
            Shown::or_dash(None::<&str>),
            Shown::text(&rejected.detail),
        ],
    }
}

fn of_event(what: &str, event: &EventView, screen: &Screen) -> Vec<Shown> {
    vec![
        Shown::text(what),
        Shown::text(told(event.received_at_ms, screen.now_ms)),
        Shown::text(&event.provider),
        Shown::text(&event.event_id),
        Shown::event_state(event.state),
        Shown::delivery(&event.delivery),
        Shown::text(
            [
                event.event_type.clone(),
                event.parts.join(" · "),
                event.error.clone().or_else(|| event.delivery.error.clone()).unwrap_or_default(),
            ]
            .iter()
            .filter(|part| !part.is_empty())
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(": "),
        ),
    ]
}

fn of_message(what: &str, message: &MessageView, screen: &Screen) -> Vec<Shown> {
    vec![
        Shown::text(what),
        Shown::text(told(message.created_at_ms, screen.now_ms)),
        Shown::text(&message.provider),
        Shown::text(message.message_id.to_string()),
        Shown::message_state(message.state),
        Shown::or_dash(None::<&str>),
        Shown::text(format!("{} to {} of {}", message.effect_name, message.destination, message.event_id)),
    ]
}
