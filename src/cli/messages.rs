//! `messages`: calls that are pending or were made, and operators' decisions about those that are held or dead.

use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use serde_json::json;

use super::bulk::{ActArgs, Filter, time};
use super::nouns::rule;
use super::output::Column::{Id, Loose, Whole};
use super::output::{Screen, Shown, Tone, fields};
use super::remote::{ListColumn, ListRow, PagingArgs, Remote, ServerCommand, rows, version_fact};
use super::shared::Usage;
use hooklatch_contract::{AttemptView, MessageAct, MessageDetail, MessageView, Risk};
use hooklatch_core::types::MessageState;

/// Filter for messages; what is not given leaves nothing out.
#[derive(Args)]
pub(super) struct FilterArgs {
    /// State in which they stand.
    #[arg(long, value_parser = PossibleValuesParser::new(MessageState::ALL.iter().map(|one| one.as_str())))]
    state: Option<String>,
    /// Name of the destination that they go to.
    #[arg(long)]
    destination: Option<String>,
    /// Name of the provider of their event.
    #[arg(long)]
    provider: Option<String>,
    /// Key of the lane that they are in.
    #[arg(long)]
    lane: Option<String>,
    /// Those written before this time: 2026-11-22T14:02:11Z, 2026-11-22, or 15m, 2h, 3d for so long ago.
    #[arg(long, value_name = "TIME")]
    created_before: Option<String>,
}

impl FilterArgs {
    fn filter(&self, now_ms: i64) -> Result<Filter, Usage> {
        Ok(Filter(vec![
            ("state", json!(self.state)),
            ("destination", json!(self.destination)),
            ("provider", json!(self.provider)),
            ("lane", json!(self.lane)),
            ("created_before_ms", time("created-before", self.created_before.as_ref(), now_ms)?),
        ]))
    }
}

#[derive(Subcommand)]
pub(super) enum Messages {
    /// List the newest messages.
    List {
        #[command(flatten)]
        which: FilterArgs,
        #[command(flatten)]
        paging: PagingArgs,
    },
    /// Count the messages that a filter finds; --state has to be said.
    Count(FilterArgs),
    /// Show one message, its attempts, and what people decided about it.
    Show {
        /// Id of the message.
        message_id: String,
    },
    /// Send it again, under the same key: a held or dead message, or all that are found.
    Send(DecideArgs),
    /// Say that it happened.
    Done(DecideArgs),
    /// Say that it shall not be sent.
    Discard(DecideArgs),
}

#[derive(Args)]
pub(super) struct DecideArgs {
    /// Id of one message; without it, all messages that --state and the other filters find.
    message_id: Option<String>,
    #[command(flatten)]
    which: FilterArgs,
    #[command(flatten)]
    act: ActArgs,
}

impl ServerCommand for Messages {
    fn run(&self, remote: &Remote) -> anyhow::Result<ExitCode> {
        let now_ms = remote.screen.now_ms;
        let (args, act) = match self {
            Self::List { which, paging } => {
                return which
                    .filter(now_ms)?
                    .with_query(|query| remote.list::<MessageView>(&["messages"], query, Some(paging)));
            }
            Self::Count(which) => return which.filter(now_ms)?.count::<MessageView>(remote, "messages"),
            Self::Show { message_id } => return remote.show(&["messages", message_id], &[], in_full),
            Self::Send(args) => (args, ("send", "will be sent")),
            Self::Done(args) => (args, ("done", "done")),
            Self::Discard(args) => (args, ("discard", "discarded")),
        };
        let nouns: Vec<&str> = std::iter::once("messages").chain(args.message_id.as_deref()).collect();
        args.act.act::<MessageView>(remote, act, &nouns, &args.which.filter(now_ms)?)
    }
}

impl ListRow for MessageView {
    const NOUN: &'static str = "message";
    const COLUMNS: &'static [ListColumn<Self>] = &[
        (Whole("written (UTC)"), |one, screen| screen.time(one.created_at_ms)),
        (Id("message id"), |one, _| Shown::text(one.message_id.to_string())),
        (Whole("destination"), |one, _| Shown::text(&one.destination)),
        (Id("event id"), |one, _| Shown::text(&one.event_id)),
        (Whole("state"), |one, _| Shown::message_state(one.state)),
        (Whole("attempts"), |one, _| Shown::number(one.attempts_n.into())),
        (Loose("what it means"), |one, _| {
            Shown::or_dash(one.judgement.as_ref().map(|judged| &judged.headline))
        }),
        (Loose("last error"), |one, _| Shown::or_dash(one.last_error.as_deref())),
    ];
}

impl ListRow for AttemptView {
    const COLUMNS: &'static [ListColumn<Self>] = &[
        (Whole("attempt"), |one, _| Shown::number(one.attempt_n.into())),
        (Whole("began (UTC)"), |one, screen| screen.time(one.started_at_ms)),
        (Whole("took ms"), |one, _| {
            let took_ms = one.finished_at_ms.map(|ms| ms.saturating_sub(one.started_at_ms));
            Shown::or_dash(took_ms.map(|ms| ms.to_string()))
        }),
        (Whole("result"), |one, _| Shown::attempt(one.result)),
        (Whole("status"), |one, _| Shown::or_dash(one.http_status.map(|status| status.to_string()))),
        (Whole("node"), |one, _| Shown::text(&one.node)),
        (Loose("error"), |one, _| Shown::or_dash(one.error.as_deref())),
        (Loose("answer"), |one, _| Shown::or_dash(one.response.as_deref())),
    ];
}

/// A message with all its facts.
fn in_full(view: &MessageDetail, screen: &Screen, version: Option<&str>) -> String {
    let mut parts = vec![facts(view, screen, version)];
    if !view.attempts.is_empty() {
        parts.push(rows(screen, &view.attempts, true));
    }
    parts.extend(view.damaged.iter().map(|row| Shown::text(row.sentence()).as_str().to_owned()));
    if !view.decisions.is_empty() {
        parts.push(rows(screen, &view.decisions, true));
    }
    parts.join("\n\n")
}

fn facts(view: &MessageDetail, screen: &Screen, version: Option<&str>) -> String {
    let message = &view.message;
    let event = format!("{} {} ({})", message.provider, message.event_id, message.event_type);
    let mut facts = vec![
        ("message", Shown::text(message.message_id.to_string())),
        ("event", Shown::text(event)),
        ("effect", Shown::text(&message.effect_name)),
        ("destination", Shown::text(&message.destination)),
        ("state", Shown::message_state(message.state)),
    ];
    if let Some(judgement) = &message.judgement {
        facts.push(("means", Shown::text(&judgement.headline)));
        for one in &judgement.acts {
            let name = match one.act {
                MessageAct::Done => "if done",
                MessageAct::Send => "if sent",
                MessageAct::Discard => "if discarded",
            };
            let tone = if one.risk == Risk::None { Tone::Good } else { Tone::Bad };
            let sentence = format!("{}. {}", one.risk.in_words(), one.sentence);
            facts.push((name, Shown::text(sentence).in_tone(tone)));
        }
    }
    facts.extend(message.lane.as_deref().map(|lane| ("lane", Shown::text(lane))));
    facts.extend(message.last_error.as_deref().map(|error| ("error", Shown::text(error))));
    facts.push(("key", Shown::text(&message.idempotency_key)));
    facts.push(("written", screen.time(message.created_at_ms)));
    let name = match message.state {
        MessageState::Ready => "due",
        MessageState::Leased => "lease until",
        MessageState::Waiting => "waiting since",
        MessageState::Held => "held since",
        MessageState::Dead => "dead since",
        MessageState::Done | MessageState::Discarded => "finished",
    };
    facts.push((name, screen.time(message.finished_at_ms.unwrap_or(message.visible_at_ms))));
    facts.extend(view.policy.iter().map(|policy| ("unknown", Shown::text(rule(policy)))));
    facts.extend(view.key_known_until_ms().map(|ms| ("key known until", screen.time(ms))));
    facts.extend(version_fact(version));
    fields(screen, &facts)
}
