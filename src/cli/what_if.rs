//! `hooklatch what-if`: the effects that the handlers of this program would have on stored events. For use before a
//! deploy: it opens the database itself, writes nothing to it, and needs no server. With `--live` it queries a running
//! server instead, which runs its own handlers.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;

use super::api_client::ApiAnswer;
use super::events::EventFilterArgs;
use super::output::with_times;
use super::remote::ReachArgs;
use super::remote::Remote;
use super::shared::{Ending, Usage, block_on, complain, opened_alone, say};
use crate::app::App;
use hooklatch_contract::{
    WHAT_IF_N_DEFAULT, WHAT_IF_N_MAX, WhatIfCall, WhatIfChange, WhatIfEffect, WhatIfEvent, WhatIfOrder,
    WhatIfView,
};
use hooklatch_core::figures::plural;
use hooklatch_core::plain;
use hooklatch_core::types::{Clock, EventKey, Name, Principal, Role};
use hooklatch_operator::load::{Kinds, loaded};
use hooklatch_receive::admit::{ShownBytes, WhatIf};
use hooklatch_store::{EventPlace, EventQuery, PeopleDoor, Store};

#[derive(Args)]
pub(super) struct WhatIfArgs {
    /// Name of one event's provider; without it, the newest events that the filter finds.
    #[arg(value_name = "PROVIDER", requires = "event_id")]
    of: Option<String>,
    /// Id of that event, as its sender has it.
    event_id: Option<String>,
    #[command(flatten)]
    which: EventFilterArgs,
    /// At most this many events, 1 to 100.
    #[arg(long, default_value_t = WHAT_IF_N_DEFAULT, value_parser = clap::value_parser!(u32).range(1..=i64::from(WHAT_IF_N_MAX)))]
    limit: u32,
    /// Continue after the events of an earlier run: the cursor that it printed.
    #[arg(long)]
    cursor: Option<String>,
    /// Ask a running server, which runs its own handlers: those that are deployed.
    #[arg(long)]
    live: bool,
    #[command(flatten)]
    reach: ReachArgs,
}

/// The events to run.
enum Which {
    One(EventKey),
    Many(EventQuery),
}

/// `hooklatch what-if`: on PostgreSQL, and with `--live`, also beside running servers.
pub(super) fn what_if(
    args: &WhatIfArgs,
    file: Option<&Path>,
    kinds: Kinds,
    more: impl FnOnce(App) -> App,
) -> anyhow::Result<ExitCode> {
    let which = which(args)?;
    if args.live {
        let remote = Remote::open(&args.reach, file, &kinds)?;
        return Ok(show(args, &query_server(&remote, args, which)?));
    }
    let app = more(App::of_loaded(loaded(file, false, &kinds)?, kinds));
    let view = block_on(async {
        let config = app.config();
        let instead = "Or use a copy of its file; `hooklatch what-if --live` asks the server, which runs its own handlers.";
        let opened = opened_alone(&config.database, &config.encryption, instead).await?;
        for all in app.migrations() {
            if let Err(why) = opened.store.program_check(all).await {
                complain(format!("hooklatch: {why}; a handler that needs them will fail"));
            }
        }
        let what_if = app.what_if_alone(&opened.store).await?;
        let view = run_offline(&opened.store, &what_if, which).await;
        opened.store.close().await;
        view
    })?;
    let Some(view) = view else {
        complain("hooklatch: there is no such event");
        return Ok(Ending::NotFound.code());
    };
    Ok(show(args, &view))
}

fn show(args: &WhatIfArgs, view: &WhatIfView) -> ExitCode {
    if args.reach.json {
        say(with_times(serde_json::to_value(view).unwrap_or_default()));
    } else {
        print_view(view);
    }
    let has_compared_nothing = view.unchanged_n == 0 && view.not_run_n > 0;
    if view.changed_n > 0 || has_compared_nothing { Ending::Failed } else { Ending::Done }.code()
}

/// The answer of a running server.
fn query_server(remote: &Remote, args: &WhatIfArgs, which: Which) -> anyhow::Result<WhatIfView> {
    let answer: ApiAnswer<WhatIfView> = match which {
        Which::One(EventKey { provider, event_id }) => {
            let answer =
                remote.api.post_query(&["events", provider.as_str(), &event_id, "what-if"], None::<&()>);
            answer.with_context(|| format!("event {event_id} of {provider}"))?
        }
        Which::Many(query) => {
            let limit = Some(i64::from(query.limit));
            let order = WhatIfOrder { filter: query.filter, limit, cursor: args.cursor.clone() };
            remote.api.post_query(&["what-if"], Some(&order))?
        }
    };
    Ok(answer.view)
}

fn which(args: &WhatIfArgs) -> anyhow::Result<Which> {
    let filter = args.which.filter(None, Clock::system().now_ms())?;
    if let Some((provider, event_id)) = args.of.as_ref().zip(args.event_id.as_ref()) {
        if !filter.is_empty() || args.cursor.is_some() {
            return Err(Usage("name one event, or choose many by a filter".to_owned()).into());
        }
        let provider = Name::parse(provider).map_err(|why| Usage(format!("PROVIDER: {why}")))?;
        return Ok(Which::One(EventKey { provider, event_id: event_id.clone() }));
    }
    let place = args.cursor.as_deref().map(|text| {
        let place = EventPlace::parse(text).filter(|place| matches!(place, EventPlace::Before(_)));
        place.ok_or_else(|| Usage("--cursor: no run of this command told it".to_owned()))
    });
    Ok(Which::Many(EventQuery { filter: filter.read()?, place: place.transpose()?, limit: args.limit }))
}

/// Runs the handlers; `None` when the one event that was named is not there.
async fn run_offline(store: &Store, what_if: &WhatIf, which: Which) -> anyhow::Result<Option<WhatIfView>> {
    let place = what_if.place().await.context("nobody else asks here")?;
    let mut view = WhatIfView::default();
    let query = match which {
        Which::One(key) => {
            let Some(event) = store.event_committed(&key).await? else { return Ok(None) };
            view.add(what_if.run(&place, event, ShownBytes::ONE).await);
            return Ok(Some(view));
        }
        Which::Many(query) => query,
    };
    // The user who runs this has the database, and so access to everything in it.
    let name = Name::parse("what-if").map_err(|why| anyhow::anyhow!("{why}"))?;
    let people = PeopleDoor::new(store.clone()).open(Principal::everywhere(name, Role::Viewer));
    let page = people.event_page(query, Clock::system().now_ms()).await?;
    (view.next, view.looked_back_to_ms) = (page.next, page.looked_back_to_ms);
    for event in page.items {
        let key = EventKey { provider: Name::parse(&event.provider)?, event_id: event.event_id };
        if let Some(event) = store.event_committed(&key).await? {
            view.add(what_if.run(&place, event, ShownBytes::EACH).await);
        }
    }
    Ok(Some(view))
}

/// Prints the result for people: differences in full, the rest as counts.
fn print_view(view: &WhatIfView) {
    view.items.iter().for_each(print_event);
    say(format!(
        "{}: {} unchanged, {} changed, {} not run",
        plural(view.items.len() as u64, "event"),
        view.unchanged_n,
        view.changed_n,
        view.not_run_n
    ));
    view.not_undone.iter().for_each(complain);
    if let Some(next) = &view.next {
        complain(format!("there are more: --cursor {next}"));
    }
}

fn print_event(event: &WhatIfEvent) {
    let why = event.why.as_deref().map(|why| format!(": {}", plain::line(why))).unwrap_or_default();
    let (id, kind) = (plain::line(&event.event_id), plain::line(&event.event_type));
    say(format!(
        "{:<9}  {} {id} ({kind}) stands as {}, would be {}{why}",
        event.verdict.as_str(),
        event.provider,
        event.state.as_str(),
        event.said.as_str()
    ));
    event.effects.iter().filter(|effect| effect.change != WhatIfChange::Same).for_each(print_effect);
}

fn print_effect(effect: &WhatIfEffect) {
    let fields =
        if effect.fields.is_empty() { String::new() } else { format!(" {}", effect.fields.join(", ")) };
    say(format!("  {:<7}  effect {}{fields}", effect.change.as_str(), plain::line(&effect.effect_name)));
    for (word, call) in [("was", &effect.was), ("now", &effect.now)] {
        if let Some(call) = call {
            say(format!("    {word}  {}", in_words(call)));
        }
    }
}

fn in_words(call: &WhatIfCall) -> String {
    let lane = call.lane.as_deref().map(|lane| format!(" in lane {}", plain::line(lane))).unwrap_or_default();
    let body = match &call.body {
        _ if call.is_event_body => "the event's own bytes".to_owned(),
        None => "a body that is not shown".to_owned(),
        Some(body) if call.is_cut => format!("{}…", plain::line(body)),
        Some(body) => plain::line(body).into_owned(),
    };
    let headers = call.headers.iter().map(|(name, value)| format!(" {name}: {};", plain::line(value)));
    let headers: String = headers.collect();
    format!("{} {}{}{lane}{headers} {body}", call.method, call.destination, plain::line(&call.path))
}
