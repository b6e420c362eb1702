//! What to do before anything came: the addresses to register, and an event of one's own with `serve --dev`.

use maud::{Markup, html};

use crate::api::ProviderView;
use crate::console::parts::{copy, link, list, moment};
use crate::console::visit::Visit;

/// Most providers whose address is shown.
const ROWS_N_MAX: usize = 6;
/// The provider whose sample is sent first, where it is configured.
const FIRST: &str = "stripe";

/// The addresses to register with senders; with `serve --dev` the command that sends an event.
pub(super) fn draw(visit: &Visit, providers: &[ProviderView]) -> Markup {
    if providers.is_empty() {
        return html! {
            p {
                "No provider is configured, so every request is answered 404. Write a table "
                code { "[providers.NAME]" } " into the configuration, for each sender one."
            }
        };
    }
    let is_dev = visit.state.everybodys.is_some();
    let first = providers.iter().find(|one| one.name == FIRST).or(providers.first());
    let mut shown: Vec<&ProviderView> = first.into_iter().collect();
    let others = providers.iter().filter(|one| first.is_some_and(|first| first.name != one.name));
    shown.extend(others.take(ROWS_N_MAX - 1));
    let row = |(n, one): (usize, &&ProviderView)| {
        html! {
            tr {
                th scope="row" { (link::provider(visit, &one.name)) }
                td { (moment::foreign(&one.sender.title)) }
                td { (copy::line(&format!("url-{n}"), &one.url)) }
            }
        }
    };
    let rows: Vec<Markup> = shown.iter().enumerate().map(row).collect();
    html! {
        @if let Some(first) = first.filter(|_| is_dev) {
            p { "Send a first signed event, from another terminal:" }
            p { (copy::line("first-event", &format!("hooklatch send {} --url {}", first.kind, first.url))) }
            p { "Senders out there would be given these addresses:" }
        } @else {
            p { "Register these addresses with their senders; their first events will be on this page." }
        }
        (list::table("Addresses to register", &["Provider", "Sender", "Address"], &rows))
        @if providers.len() > shown.len() {
            p { a href=(visit.link("/senders")) { "All providers" } }
        }
    }
}
