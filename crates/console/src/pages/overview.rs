//! The first page: what needs an operator, then failures by their cause, and the counts of the last day; before the first
//! event, the addresses to register.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::prelude::*;
use crate::parts::activity::{ATTEMPTS, REQUESTS, Series, chart, drawing, series};
use hooklatch_contract::{
    ActivityCount, ActivityView, BacklogEvents, BacklogMessages, BacklogView, CauseView, DestinationView,
    EventView, OperationState, OperationView, PauseView, ProviderView, StuckSubject, UnknownPathView,
};
use hooklatch_core::types::{EventState, MessageState, Outcome};

/// Time between two refreshes of a page that stays open. Seconds.
const REFRESH_S: u32 = 10;

pub(crate) async fn show(visit: Visit) -> PageResult {
    let backlog: BacklogView = visit.get("/backlog").await?;
    let destinations = visit.get::<Page<DestinationView>>("/destinations").await?.items;
    let activity: ActivityView = visit.get("/activity").await?;
    let providers = visit.get::<Page<ProviderView>>("/providers").await?.items;
    let newest: Page<EventView> = visit.get("/events?limit=1").await?;
    let is_first = newest.items.is_empty() && newest.next.is_none();
    // What is refused is no event, and counts all the same.
    let is_any = !activity.requests.is_empty();
    let needs = needs(&visit, &backlog, &destinations, &providers, &activity);
    let body = html! {
        div id="overview" data-refresh=(REFRESH_S) {
            @if is_first { (list::section("first", "Nothing has come yet", &first_steps(&visit, &providers))) }
            (list::section("needs", "Needs a person", &needed(needs)))
            @if !backlog.causes.is_empty() {
                (list::section("causes", "Failures by cause", &causes(&visit, &backlog.causes)))
            }
            @if !is_first || is_any {
                (over_time(&visit, &activity))
            }
        }
    };
    Ok(PageBody::new("Overview", body))
}

const HOUR_MS: i64 = 3_600_000;
/// Most rows that are shown.
const NEEDS_N_MAX: usize = 40;

/// A row of the table: what it is, its state, the place, the number, and since when.
type Need = [Markup; 5];

/// The table of what needs a person; a sentence where nothing does.
fn needed(needs: Vec<Need>) -> Markup {
    let left_out_n = needs.len().saturating_sub(NEEDS_N_MAX);
    let headings = ["What", "State", "Where", "Number", "Since"];
    let nothing = "Nothing does. Events come in and go out by themselves.";
    html! {
        (list::rows("What needs a person", headings, nothing, needs.into_iter().take(NEEDS_N_MAX), |need| need))
        @if left_out_n > 0 { p class="hint" { "And " (left_out_n) " more of these." } }
    }
}

fn needs(
    visit: &Visit,
    backlog: &BacklogView,
    destinations: &[DestinationView],
    providers: &[ProviderView],
    activity: &ActivityView,
) -> Vec<Need> {
    let is_decided =
        |one: &&BacklogMessages| matches!(one.count.state, MessageState::Held | MessageState::Dead);
    let is_event_decided = |one: &&BacklogEvents| {
        matches!(one.count.state, EventState::Conflict | EventState::Unreadable | EventState::Failed)
    };
    let is_astray = |one: &&BacklogMessages| !one.is_configured && !is_decided(one);
    let is_event_astray = |one: &&BacklogEvents| !one.is_configured && one.count.state == EventState::Retry;
    let (messages, events) = (backlog.messages.iter(), backlog.events.iter());
    let counted: Vec<Recent<'_>> = providers.iter().map(|one| Recent::of(&one.name, activity)).collect();
    let add = Some("Nothing of that name is configured: add it again.");
    let add_or_discard = Some("Nothing of that name is configured: add it again, or discard them.");
    let mut needs: Vec<Need> =
        messages.clone().filter(is_decided).map(|one| of_messages(visit, one, None)).collect();
    needs.extend(events.clone().filter(is_event_decided).map(|one| of_events(visit, one, None)));
    needs.extend(backlog.operations.iter().map(|one| of_operation(visit, one)));
    needs.extend(counted.iter().filter_map(|one| unauthenticated(visit, one)));
    needs.extend(counted.iter().filter_map(|one| refused(visit, one)));
    needs.extend(backlog.unknown_paths.iter().filter_map(|one| misdirected(visit, one)));
    needs.extend(counted.iter().filter_map(|one| untaken(visit, one)));
    needs.extend(messages.filter(is_astray).map(|one| of_messages(visit, one, add_or_discard)));
    needs.extend(events.filter(is_event_astray).map(|one| of_events(visit, one, add)));
    needs.extend(providers.iter().filter_map(|one| paused_provider(visit, one)));
    needs.extend(destinations.iter().filter_map(|one| paused_destination(visit, one)));
    needs
}

fn of_events(visit: &Visit, one: &BacklogEvents, hint: Option<&str>) -> Need {
    let values = [("state", Some(one.count.state.as_str())), ("provider", Some(one.provider.as_str()))];
    [
        what(&visit.link(&with_query("/events", &values)), "Events", hint),
        text::event_chip(one.count.state),
        link::provider(visit, &one.provider),
        text::figure(one.count.events_n, one.count.is_more),
        text::moment(one.count.oldest_received_at_ms, visit.now_ms),
    ]
}

fn of_messages(visit: &Visit, one: &BacklogMessages, hint: Option<&str>) -> Need {
    let values = [("state", Some(one.count.state.as_str())), ("destination", Some(one.destination.as_str()))];
    [
        what(&visit.link(&with_query("/messages", &values)), "Messages", hint),
        text::message_chip(one.count.state),
        link::destination(visit, &one.destination),
        text::figure(one.count.messages_n, one.count.is_more),
        // Messages without a destination may be due later.
        text::moment(one.count.oldest_visible_at_ms.min(visit.now_ms), visit.now_ms),
    ]
}

/// An operation that continues only after a person's decision.
fn of_operation(visit: &Visit, one: &OperationView) -> Need {
    let target = visit.link(&path(&["operations", &one.operation_id]));
    let (mood, hint) = match one.state {
        OperationState::Waiting => {
            (Mood::Needed, "Another person than the one who ordered it has to approve it.")
        }
        _ => (
            Mood::Bad,
            "It stopped because too many of its calls failed. Look at them, then continue or cancel it.",
        ),
    };
    [
        what(&target, "Operation", Some(hint)),
        chip(mood, one.state.as_str()),
        text::foreign(&one.actor),
        text::figure(one.total_n, false),
        text::moment(one.created_at_ms, visit.now_ms),
    ]
}

/// Requests of one provider in the hour under way and the one before, by outcome.
struct Recent<'a> {
    provider: &'a str,
    counts: Vec<&'a ActivityCount>,
}

impl<'a> Recent<'a> {
    fn of(provider: &'a str, activity: &'a ActivityView) -> Self {
        let from_ms = activity.now_ms - activity.now_ms.rem_euclid(HOUR_MS) - HOUR_MS;
        let is_recent = |one: &&ActivityCount| one.name == provider && one.at_ms >= from_ms;
        Self { provider, counts: activity.requests.iter().filter(is_recent).collect() }
    }

    fn number(&self, outcome: &str) -> u64 {
        self.counts.iter().filter(|one| one.outcome == outcome).map(|one| one.counted_n).sum()
    }

    /// What needs a person about the requests with this outcome, with the list of them; `None` where there are none.
    fn need(&self, visit: &Visit, outcome: &str, (list, hint): (&str, &str), state: Markup) -> Option<Need> {
        let since_ms = self.counts.iter().find(|one| one.outcome == outcome)?.at_ms;
        Some([
            what(&visit.link(list), "Requests", Some(hint)),
            state,
            link::provider(visit, self.provider),
            text::figure(self.number(outcome), false),
            text::moment(since_ms, visit.now_ms),
        ])
    }
}

/// A provider without a verified request, though requests were received.
fn unauthenticated(visit: &Visit, one: &Recent<'_>) -> Option<Need> {
    let is_any_authenticated = Outcome::ALL.iter().any(|outcome| one.number(outcome.as_str()) > 0);
    let list = with_query("/rejected", &[("provider", Some(one.provider))]);
    let hint = "None of its requests was believed in this hour and the last: is its secret the right one?";
    let need = one.need(visit, "rejected", (&list, hint), chip(Mood::Bad, "rejected"));
    need.filter(|_| !is_any_authenticated)
}

/// A provider whose requests were refused before they were verified.
fn refused(visit: &Visit, one: &Recent<'_>) -> Option<Need> {
    let list = with_query("/rejected", &[("provider", Some(one.provider))]);
    let hint = "Too large, too slow or not a POST. What a sender does not send again is lost.";
    one.need(visit, "refused", (&list, hint), chip(Mood::Bad, "refused"))
}

/// A provider of which nothing was taken, though there were new events. Some that are not taken are usual: senders send
/// more types than a team needs.
fn untaken(visit: &Visit, one: &Recent<'_>) -> Option<Need> {
    let state = EventState::Ignored.as_str();
    let list = with_query("/events", &[("state", Some(state)), ("provider", Some(one.provider))]);
    let hint = "No route and no handler takes any of its new events of this hour and the last, and its sender was answered 200. \
                Compare their types with `on` of its routes: `hooklatch check` shows what follows from each.";
    let need = one.need(visit, "untaken", (&list, hint), chip(Mood::Needed, state));
    need.filter(|_| one.number("untaken") >= one.number("accepted"))
}

/// A path without a provider to which a sender of ours seems to post.
fn misdirected(visit: &Visit, one: &UnknownPathView) -> Option<Need> {
    let hint = match (&one.nearest_provider, &one.signature_of_kind) {
        (Some(name), _) => {
            format!("No provider has this path. Probably meant for {name}: correct the URL at the sender.")
        }
        (None, Some(kind)) => format!("No provider has this path. The requests are signed like {kind}."),
        (None, None) => return None,
    };
    Some([
        what(&visit.link("/rejected"), "Requests", Some(&hint)),
        chip(Mood::Bad, "404"),
        text::foreign(&one.path),
        text::figure(one.requests_n, false),
        text::moment(one.first_at_ms, visit.now_ms),
    ])
}

/// A provider whose events wait because an operator has paused it.
fn paused_provider(visit: &Visit, one: &ProviderView) -> Option<Need> {
    let waiting = one.waiting.iter().find(|count| count.state == EventState::Retry);
    let number = waiting.map_or((0, false), |count| (count.events_n, count.is_more));
    let (target, noun) = (path(&["senders", &one.name]), "Provider: its new events wait");
    Some(paused(visit, one.pause.as_ref()?, (&target, noun), link::provider(visit, &one.name), number))
}

/// A destination whose messages wait because an operator has paused it.
fn paused_destination(visit: &Visit, one: &DestinationView) -> Option<Need> {
    let waiting = one.backlog.iter().filter(|count| is_waiting(count.state));
    let is_more = waiting.clone().any(|count| count.is_more);
    let number = (waiting.map(|count| count.messages_n).sum(), is_more);
    let (target, noun) = (path(&["destinations", &one.name]), "Destination: its calls wait");
    Some(paused(visit, one.pause.as_ref()?, (&target, noun), link::destination(visit, &one.name), number))
}

fn paused(
    visit: &Visit,
    pause: &PauseView,
    (target, noun): (&str, &str),
    place: Markup,
    (number, is_more): (u64, bool),
) -> Need {
    let what = html! {
        a href=(visit.link(target)) { (noun) }
        p class="hint" {
            (text::foreign(&pause.actor)) " paused it until "
            (pause.until_ms.map_or_else(|| html! { "someone resumes it" }, |at_ms| text::moment(at_ms, visit.now_ms)))
            ": " (text::foreign(&pause.reason))
        }
    };
    let since = text::moment(pause.paused_at_ms, visit.now_ms);
    [what, chip(Mood::Needed, "paused"), place, text::figure(number, is_more), since]
}

/// True for a message that is sent without an operator.
fn is_waiting(state: MessageState) -> bool {
    matches!(state, MessageState::Ready | MessageState::Waiting | MessageState::Leased)
}

fn what(target: &str, noun: &str, hint: Option<&str>) -> Markup {
    html! { a href=(target) { (noun) } @if let Some(hint) = hint { p class="hint" { (hint) } } }
}

/// The table of causes, each with the way to the list of what it concerns.
fn causes(visit: &Visit, causes: &[CauseView]) -> Markup {
    let cells = |one: &CauseView| {
        let (path, what, key, place) = match one.subject {
            StuckSubject::Events => ("/events", "Events", "provider", link::provider(visit, &one.name)),
            StuckSubject::Messages => {
                ("/messages", "Messages", "destination", link::destination(visit, &one.name))
            }
        };
        let values = [("state", Some(one.state.as_str())), (key, Some(one.name.as_str()))];
        [
            html! { a href=(visit.link(&with_query(path, &values))) { (what) } },
            chip(if one.state == "held" { Mood::Needed } else { Mood::Bad }, &one.state),
            place,
            text::foreign_or_none(one.error.as_deref()),
            text::figure(one.counted_n, false),
            text::moment(one.newest_at_ms, visit.now_ms),
        ]
    };
    let headings = ["What", "State", "Where", "Cause", "Number", "Newest"];
    html! {
        (list::rows("Failures by cause", headings, "", causes, cells))
        p class="hint" { "Counted among the newest 2,000 failed events and the newest 2,000 held and dead messages." }
    }
}

/// Most providers whose address is shown.
const ADDRESSES_N_MAX: usize = 6;
/// The provider whose sample is sent first, where it is configured.
const FIRST_SENT: &str = "stripe";

/// The addresses to register with senders; with `serve --dev` the command that sends an event.
fn first_steps(visit: &Visit, providers: &[ProviderView]) -> Markup {
    if providers.is_empty() {
        return html! {
            p {
                "No provider is configured, so every request is answered 404. Write a table "
                code { "[providers.NAME]" } " into the configuration, for each sender one."
            }
        };
    }
    let is_dev = visit.state.dev_token.is_some();
    let first = providers.iter().find(|one| one.name == FIRST_SENT).or(providers.first());
    let mut shown: Vec<&ProviderView> = first.into_iter().collect();
    let others = providers.iter().filter(|one| first.is_some_and(|first| first.name != one.name));
    shown.extend(others.take(ADDRESSES_N_MAX - 1));
    let row = |(n, one): (usize, &&ProviderView)| {
        html! {
            tr {
                th scope="row" { (link::provider(visit, &one.name)) }
                td { (text::foreign(&one.sender.title)) }
                td { (text::copied(&format!("url-{n}"), &one.url)) }
            }
        }
    };
    let rows: Vec<Markup> = shown.iter().enumerate().map(row).collect();
    html! {
        @if let Some(first) = first.filter(|_| is_dev) {
            p { "Send a first signed event, from another terminal:" }
            p { (text::copied("first-event", &format!("hooklatch send {} --url {}", first.kind, first.url))) }
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

/// Most providers or destinations that are shown, the busiest ones.
const BUSIEST_N_MAX: usize = 10;

/// Draws both charts, each with its table.
fn over_time(visit: &Visit, view: &ActivityView) -> Markup {
    let requests = series(view, &REQUESTS, view.requests.iter());
    let attempts = series(view, &ATTEMPTS, view.attempts.iter());
    let by_provider = by_name(&view.requests, |some| series(view, &REQUESTS, some));
    let by_destination = by_name(&view.attempts, |some| series(view, &ATTEMPTS, some));
    let requests = html! {
        (chart(view, "requests", &requests))
        (busiest("Provider", by_provider, |name, word| {
            let list = if word == "rejected" { "/rejected" } else { "/events" };
            (link::provider(visit, name), visit.link(&with_query(list, &[("provider", Some(name))])))
        }))
    };
    let attempts = html! {
        (chart(view, "calls", &attempts))
        (busiest("Destination", by_destination, |name, word| {
            let state = (word == "done").then_some(word);
            let values = [("state", state), ("destination", Some(name))];
            (link::destination(visit, name), visit.link(&with_query("/messages", &values)))
        }))
    };
    html! {
        (list::section("requests", "Requests in the last day", &requests))
        (list::section("attempts", "Calls in the last day", &attempts))
        p class="hint" { "Counted by all nodes; what another node counted is here within a minute." }
    }
}

/// The counts of each name, as they are drawn.
fn by_name<'a>(
    counts: &'a [ActivityCount],
    series: impl Fn(std::vec::IntoIter<&'a ActivityCount>) -> Vec<Series>,
) -> Vec<(&'a str, Vec<Series>)> {
    let mut names: BTreeMap<&str, Vec<&ActivityCount>> = BTreeMap::new();
    for count in counts {
        names.entry(&count.name).or_default().push(count);
    }
    names.into_iter().map(|(name, counts)| (name, series(counts.into_iter()))).collect()
}

/// A row for each name, the busiest first; a column for each thing that was counted. `linked` gives the link of a name
/// and the address of the list of what was counted under a word.
fn busiest(
    heading: &str,
    mut rows: Vec<(&str, Vec<Series>)>,
    linked: impl Fn(&str, &str) -> (Markup, String),
) -> Markup {
    let total = |series: &[Series]| series.iter().map(Series::total).sum::<u64>();
    rows.sort_by_key(|(name, series)| (Reverse(total(series)), *name));
    let left_out_n = rows.len().saturating_sub(BUSIEST_N_MAX);
    rows.truncate(BUSIEST_N_MAX);
    let all = rows.iter().flat_map(|(_, series)| series);
    let counted: Vec<&str> = all.filter(|one| one.total() > 0).map(|one| one.word).collect();
    let is_column = |one: &&Series| counted.contains(&one.word);
    let words = rows.first().into_iter().flat_map(|(_, series)| series).filter(is_column).map(|one| one.word);
    let headings: Vec<&str> = [heading, "Last day"].into_iter().chain(words).collect();
    let row = |(name, series): &(&str, Vec<Series>)| {
        html! {
            tr {
                th scope="row" { (linked(name, "").0) }
                td { (drawing("spark", name, series)) }
                @for one in series.iter().filter(is_column) {
                    td {
                        @if one.total() == 0 { (text::figure(0, false)) }
                        @else { a href=(linked(name, one.word).1) { (text::figure(one.total(), false)) } }
                    }
                }
            }
        }
    };
    let drawn: Vec<Markup> = rows.iter().map(row).collect();
    html! {
        @if !drawn.is_empty() { (list::table(&format!("{heading}s in the last day"), &headings, &drawn)) }
        @if left_out_n > 0 { p class="hint" { "And " (left_out_n) " more with fewer." } }
    }
}
