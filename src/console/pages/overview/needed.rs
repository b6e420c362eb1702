//! Whatever goes on only when somebody decides, or looks after it.

use maud::{Markup, html};

use crate::api::{
    ActivityView, BacklogEvents, BacklogMessages, BacklogView, DestinationView, OperationState,
    OperationView, PauseView, ProviderActivity, ProviderView, RequestMinute, UnknownPathView,
};
use crate::console::contract::{path, with_query};
use crate::console::parts::chip::{Mood, chip};
use crate::console::parts::{chip, link, list, moment};
use crate::console::visit::Visit;
use crate::types::{EventState, MessageState};

/// Most rows that are shown.
const ROWS_N_MAX: usize = 40;

/// The answers in which something may need a person.
pub(super) struct OverviewAnswers<'a> {
    pub(super) backlog: &'a BacklogView,
    pub(super) destinations: &'a [DestinationView],
    pub(super) providers: &'a [ProviderView],
    pub(super) activity: &'a ActivityView,
}

/// A row of the table, cell by cell.
struct Need {
    what: Markup,
    state: Markup,
    place: Markup,
    number: Markup,
    since: Markup,
}

/// The table of what needs a person; a sentence where nothing does.
pub(super) fn draw(visit: &Visit, answers: &OverviewAnswers<'_>) -> Markup {
    let needs = needs(visit, answers);
    if needs.is_empty() {
        return list::nothing("Nothing does. Events come in and go out by themselves.");
    }
    let left_out_n = needs.len().saturating_sub(ROWS_N_MAX);
    let row = |need: Need| {
        let Need { what, state, place, number, since } = need;
        html! { tr { td { (what) } td { (state) } td { (place) } td { (number) } td { (since) } } }
    };
    let rows: Vec<Markup> = needs.into_iter().take(ROWS_N_MAX).map(row).collect();
    html! {
        (list::table("What needs a person", &["What", "State", "Where", "Number", "Since"], &rows))
        @if left_out_n > 0 { p class="hint" { "And " (left_out_n) " more of these." } }
    }
}

fn needs(visit: &Visit, answers: &OverviewAnswers<'_>) -> Vec<Need> {
    let OverviewAnswers { backlog, destinations, providers, activity } = answers;
    let messages = backlog.messages.iter();
    let is_decided =
        |one: &&BacklogMessages| matches!(one.count.state, MessageState::Held | MessageState::Dead);
    let is_event_decided = |one: &&BacklogEvents| {
        matches!(one.count.state, EventState::Conflict | EventState::Unreadable | EventState::Failed)
    };
    let is_astray = |one: &&BacklogMessages| !one.is_configured && !is_decided(one);
    let is_event_astray = |one: &&BacklogEvents| !one.is_configured && one.count.state == EventState::Retry;
    let mut needs: Vec<Need> =
        messages.clone().filter(is_decided).map(|one| of_messages(visit, one, None)).collect();
    needs.extend(backlog.events.iter().filter(is_event_decided).map(|one| of_events(visit, one, None)));
    needs.extend(backlog.operations.iter().map(|one| of_operation(visit, one)));
    needs.extend(activity.providers.iter().filter_map(|one| disbelieved(visit, one)));
    needs.extend(activity.providers.iter().filter_map(|one| refused(visit, one)));
    needs.extend(backlog.unknown_paths.iter().filter_map(|one| misdirected(visit, one)));
    needs.extend(activity.providers.iter().filter_map(|one| untaken(visit, one)));
    let nobody = "Nothing of that name is configured: add it again, or discard them.";
    needs.extend(messages.filter(is_astray).map(|one| of_messages(visit, one, Some(nobody))));
    let nobody = "Nothing of that name is configured: add it again.";
    needs
        .extend(backlog.events.iter().filter(is_event_astray).map(|one| of_events(visit, one, Some(nobody))));
    needs.extend(providers.iter().filter_map(|one| paused_provider(visit, one)));
    needs.extend(destinations.iter().filter_map(|one| paused(visit, one)));
    needs
}

fn of_events(visit: &Visit, one: &BacklogEvents, hint: Option<&str>) -> Need {
    let values = [("state", Some(one.count.state.as_str())), ("provider", Some(one.provider.as_str()))];
    Need {
        what: what(&visit.link(&with_query("/events", &values)), "Events", hint),
        state: chip::event(one.count.state),
        place: link::provider(visit, &one.provider),
        number: moment::figure(one.count.events_n, one.count.is_more),
        since: moment::moment(one.count.oldest_received_at_ms, visit.now_ms),
    }
}

fn of_messages(visit: &Visit, one: &BacklogMessages, hint: Option<&str>) -> Need {
    let values = [("state", Some(one.count.state.as_str())), ("destination", Some(one.destination.as_str()))];
    Need {
        what: what(&visit.link(&with_query("/messages", &values)), "Messages", hint),
        state: chip::message(one.count.state),
        place: link::destination(visit, &one.destination),
        number: moment::figure(one.count.messages_n, one.count.is_more),
        // What goes to nowhere may be due later.
        since: moment::moment(one.count.oldest_visible_at_ms.min(visit.now_ms), visit.now_ms),
    }
}

/// An operation that goes on only after a person's decision.
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
    Need {
        what: what(&target, "Operation", Some(hint)),
        state: chip(mood, one.state.as_str()),
        place: moment::foreign(&one.actor),
        number: moment::figure(one.total_n, false),
        since: moment::moment(one.created_at_ms, visit.now_ms),
    }
}

/// A provider of which nothing was believed, though requests came.
fn disbelieved(visit: &Visit, one: &ProviderActivity) -> Option<Need> {
    let is_believed = |minute: &RequestMinute| {
        let events_n = minute.accepted_n + minute.duplicate_n + minute.conflict_n + minute.replayed_n;
        events_n + minute.superseded_n + minute.unreadable_n > 0
    };
    let rejected_n: u64 = one.minutes.iter().map(|minute| minute.rejected_n).sum();
    if rejected_n == 0 || one.minutes.iter().any(is_believed) {
        return None;
    }
    let first = one.minutes.iter().find(|minute| minute.rejected_n > 0)?;
    let target = with_query("/rejected", &[("provider", Some(one.provider.as_str()))]);
    let hint = "None of its requests was believed in the last hour: is its secret the right one?";
    Some(Need {
        what: what(&visit.link(&target), "Requests", Some(hint)),
        state: chip(Mood::Bad, "rejected"),
        place: link::provider(visit, &one.provider),
        number: moment::figure(rejected_n, false),
        since: moment::moment(first.at_ms, visit.now_ms),
    })
}

/// A provider whose requests were refused before they were verified.
fn refused(visit: &Visit, one: &ProviderActivity) -> Option<Need> {
    let refused_n: u64 = one.minutes.iter().map(|minute| minute.refused_n).sum();
    let first = one.minutes.iter().find(|minute| minute.refused_n > 0)?;
    let target = with_query("/rejected", &[("provider", Some(one.provider.as_str()))]);
    let hint = "Too large, too slow or not a POST. What a sender does not send again is lost.";
    Some(Need {
        what: what(&visit.link(&target), "Requests", Some(hint)),
        state: chip(Mood::Bad, "refused"),
        place: link::provider(visit, &one.provider),
        number: moment::figure(refused_n, false),
        since: moment::moment(first.at_ms, visit.now_ms),
    })
}

/// A provider of which nothing was taken, though new events came. Some that are not taken are usual: senders send more
/// types than anybody needs.
fn untaken(visit: &Visit, one: &ProviderActivity) -> Option<Need> {
    let untaken_n: u64 = one.minutes.iter().map(|minute| minute.untaken_n).sum();
    let accepted_n: u64 = one.minutes.iter().map(|minute| minute.accepted_n).sum();
    let first = one.minutes.iter().find(|minute| minute.untaken_n > 0).filter(|_| untaken_n >= accepted_n)?;
    let values = [("state", Some(EventState::Ignored.as_str())), ("provider", Some(one.provider.as_str()))];
    let hint = "No route and no handler takes any of its new events of the last hour, and its sender was answered 200. Compare \
                their types with `on` of its routes: `hooklatch check` shows what follows from each.";
    Some(Need {
        what: what(&visit.link(&with_query("/events", &values)), "Requests", Some(hint)),
        state: chip(Mood::Needed, EventState::Ignored.as_str()),
        place: link::provider(visit, &one.provider),
        number: moment::figure(untaken_n, false),
        since: moment::moment(first.at_ms, visit.now_ms),
    })
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
    Some(Need {
        what: what(&visit.link("/rejected"), "Requests", Some(&hint)),
        state: chip(Mood::Bad, "404"),
        place: moment::foreign(&one.path),
        number: moment::figure(one.requests_n, false),
        since: moment::moment(one.first_at_ms, visit.now_ms),
    })
}

/// A provider whose events wait because an operator has paused it.
fn paused_provider(visit: &Visit, one: &ProviderView) -> Option<Need> {
    let pause = one.pause.as_ref()?;
    let waiting = one.waiting.iter().find(|count| count.state == EventState::Retry);
    Some(Need {
        what: what_paused(visit, &path(&["senders", &one.name]), "Provider: its new events wait", pause),
        state: chip(Mood::Needed, "paused"),
        place: link::provider(visit, &one.name),
        number: waiting
            .map_or_else(|| moment::figure(0, false), |count| moment::figure(count.events_n, count.is_more)),
        since: moment::moment(pause.paused_at_ms, visit.now_ms),
    })
}

fn what_paused(visit: &Visit, target: &str, noun: &str, pause: &PauseView) -> Markup {
    html! {
        a href=(visit.link(target)) { (noun) }
        p class="hint" {
            (moment::foreign(&pause.actor)) " paused it until "
            @match pause.until_ms {
                Some(until_ms) => (moment::moment(until_ms, visit.now_ms)),
                None => "someone resumes it",
            }
            ": " (moment::foreign(&pause.reason))
        }
    }
}

fn paused(visit: &Visit, one: &DestinationView) -> Option<Need> {
    let pause = one.pause.as_ref()?;
    Some(Need {
        what: what_paused(visit, &path(&["destinations", &one.name]), "Destination: its calls wait", pause),
        state: chip(Mood::Needed, "paused"),
        place: link::destination(visit, &one.name),
        number: open_messages(one),
        since: moment::moment(pause.paused_at_ms, visit.now_ms),
    })
}

/// The messages that wait for a destination.
fn open_messages(one: &DestinationView) -> Markup {
    let waiting = one.backlog.iter().filter(|count| is_waiting(count.state));
    moment::figure(
        waiting.clone().map(|count| count.messages_n).sum(),
        waiting.clone().any(|count| count.is_more),
    )
}

/// True for a message that goes out by itself.
pub(super) fn is_waiting(state: MessageState) -> bool {
    matches!(state, MessageState::Ready | MessageState::Waiting | MessageState::Leased)
}

fn what(target: &str, noun: &str, hint: Option<&str>) -> Markup {
    html! { a href=(target) { (noun) } @if let Some(hint) = hint { p class="hint" { (hint) } } }
}
