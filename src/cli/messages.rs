//! `events` and `messages`: the operators' API from the command line.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{Kinds, Settings, Usage, load_for_tools, runtime, say};
use crate::config::{AdminRole, DEV_TOKEN};
use crate::plain;

/// How to reach the server.
#[derive(Args)]
pub(super) struct Reach {
    /// The operator side; `admin.listen` of the configuration by default.
    #[arg(long, global = true)]
    pub(super) url: Option<String>,
    /// A token of `admin.tokens`; by default the first one in the configuration, or that of `serve --dev`.
    #[arg(long, global = true, env = "HOOKLATCH_TOKEN", hide_env_values = true)]
    pub(super) token: Option<String>,
    /// The server's JSON instead of a table.
    #[arg(long, global = true)]
    pub(super) json: bool,
}

#[derive(Args)]
pub(super) struct EventsArgs {
    #[command(flatten)]
    reach: Reach,
    #[command(subcommand)]
    command: EventsCommand,
}

#[derive(Subcommand)]
enum EventsCommand {
    /// The newest events.
    List {
        /// done, ignored, retry, failed, superseded, replayed, unreadable, conflict or dismissed.
        #[arg(long)]
        state: Option<String>,
        /// At most this many, 1 to 500.
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Dispatch it once more: its messages are new ones, under new keys, and what they do is done again.
    Rerun(DecideEvent),
    /// Dispatch what was kept beside another event, a conflict or a replay: an event of its own from now on.
    Dispatch(DecideEvent),
    /// Say that nothing is to be done about a conflict.
    Dismiss(DecideEvent),
    /// One event, what else came under its id, and its messages.
    Show {
        /// The provider's name.
        provider: String,
        /// The provider's id.
        event_id: String,
    },
}

#[derive(Args)]
struct DecideEvent {
    /// The provider's name.
    provider: String,
    /// The event's id.
    event_id: String,
    /// Why, for the audit log.
    #[arg(long)]
    reason: String,
}

#[derive(Args)]
pub(super) struct MessagesArgs {
    #[command(flatten)]
    reach: Reach,
    #[command(subcommand)]
    command: MessagesCommand,
}

/// Which messages.
#[derive(Args)]
struct Which {
    /// ready, leased, done, dead, held or discarded.
    #[arg(long)]
    state: Option<String>,
    /// Where they go.
    #[arg(long)]
    destination: Option<String>,
    /// Where their event came from.
    #[arg(long)]
    provider: Option<String>,
}

#[derive(Subcommand)]
enum MessagesCommand {
    /// The newest messages.
    List {
        #[command(flatten)]
        which: Which,
        /// At most this many, 1 to 500.
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// One message, its attempts, and what people decided about it.
    Show {
        /// Its id.
        message_id: String,
    },
    /// Send it again, under the same key: a held or dead message, or all that are found.
    Send(Decide),
    /// Say that it happened.
    Done(Decide),
    /// Say that it shall not be sent.
    Discard(Decide),
}

#[derive(Args)]
struct Decide {
    /// One message; without it, those that --state, --destination and --provider find.
    message_id: Option<String>,
    #[command(flatten)]
    which: Which,
    /// Why, for the audit log.
    #[arg(long)]
    reason: String,
    /// Act on several. Without it they are only counted.
    #[arg(long)]
    yes: bool,
}

#[derive(Args)]
pub(super) struct DestinationsArgs {
    #[command(flatten)]
    reach: Reach,
    #[command(subcommand)]
    command: DestinationsCommand,
}

#[derive(Subcommand)]
enum DestinationsCommand {
    /// Those that are paused.
    Paused,
    /// Take nothing for it, on any node, until it is resumed; calls under way end as they do.
    Pause(Switch),
    /// Go on.
    Resume(Switch),
}

#[derive(Args)]
struct Switch {
    /// The destination's name.
    name: String,
    /// Why, for the audit log.
    #[arg(long)]
    reason: String,
}

/// `hooklatch destinations …`.
pub(super) fn destinations(
    args: &DestinationsArgs,
    file: Option<&Path>,
    kinds: &Kinds,
) -> anyhow::Result<ExitCode> {
    let api = Api::new(&args.reach, file, kinds)?;
    let (act, switch) = match &args.command {
        DestinationsCommand::Paused => {
            let found = api.get(&["destinations", "paused"], &[])?;
            api.table(&found, "paused", &["destination", "paused_at_ms", "actor", "reason"]);
            return Ok(ExitCode::SUCCESS);
        }
        DestinationsCommand::Pause(switch) => ("pause", switch),
        DestinationsCommand::Resume(switch) => ("resume", switch),
    };
    let url = api.url(&["destinations", &switch.name, "decide"], &[])?;
    api.post(url, &json!({ "act": act, "reason": switch.reason }))?;
    say(format!("{}: {act}d", switch.name));
    Ok(ExitCode::SUCCESS)
}

/// `hooklatch events …`.
pub(super) fn events(args: &EventsArgs, file: Option<&Path>, kinds: &Kinds) -> anyhow::Result<ExitCode> {
    let api = Api::new(&args.reach, file, kinds)?;
    match &args.command {
        EventsCommand::List { state, limit } => {
            let found =
                api.get(&["events"], &[("state", state.as_deref()), ("limit", Some(&limit.to_string()))])?;
            api.table(
                &found,
                "events",
                &["received_at_ms", "provider", "event_id", "type", "state", "error"],
            );
        }
        EventsCommand::Rerun(event) => api.decide_event("rerun", event, "will be dispatched again")?,
        EventsCommand::Dispatch(event) => api.decide_event("dispatch", event, "will be dispatched")?,
        EventsCommand::Dismiss(event) => api.decide_event("dismiss", event, "dismissed")?,
        EventsCommand::Show { provider, event_id } => {
            say(format!("{:#}", api.get(&["events", provider, event_id], &[])?));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// `hooklatch messages …`.
pub(super) fn messages(args: &MessagesArgs, file: Option<&Path>, kinds: &Kinds) -> anyhow::Result<ExitCode> {
    let api = Api::new(&args.reach, file, kinds)?;
    match &args.command {
        MessagesCommand::List { which, limit } => {
            let limit = limit.to_string();
            let mut query = which.query();
            query.push(("limit", Some(&limit)));
            let found = api.get(&["messages"], &query)?;
            let columns = ["message_id", "destination", "event_id", "state", "attempts_n", "last_error"];
            api.table(&found, "messages", &columns);
        }
        MessagesCommand::Show { message_id } => {
            say(format!("{:#}", api.get(&["messages", message_id], &[])?));
        }
        MessagesCommand::Send(decide) => return api.decide("send", decide),
        MessagesCommand::Done(decide) => return api.decide("done", decide),
        MessagesCommand::Discard(decide) => return api.decide("discard", decide),
    }
    Ok(ExitCode::SUCCESS)
}

impl Which {
    fn query(&self) -> Vec<(&'static str, Option<&str>)> {
        vec![
            ("state", self.state.as_deref()),
            ("destination", self.destination.as_deref()),
            ("provider", self.provider.as_deref()),
        ]
    }
}

/// The operators' API of one server.
pub(super) struct Api {
    base: reqwest::Url,
    token: String,
    is_json: bool,
}

impl Api {
    pub(super) fn new(reach: &Reach, file: Option<&Path>, kinds: &Kinds) -> anyhow::Result<Self> {
        // Without a usable configuration the arguments may still say all that is needed.
        let admin = load_for_tools(&Settings::of_process(file), kinds).ok().map(|config| config.admin);
        let listen =
            admin.as_ref().map_or_else(|| "127.0.0.1:8081".to_owned(), |admin| admin.listen.to_string());
        let url = reach.url.clone().unwrap_or_else(|| format!("http://{listen}"));
        let base = reqwest::Url::parse(&url).map_err(|error| Usage(format!("--url `{url}`: {error}")))?;
        let configured = admin.and_then(|admin| {
            let best = admin.tokens.into_iter().max_by_key(|token| token.role == AdminRole::Operator)?;
            Some(best.token.reveal().to_owned())
        });
        let token = reach.token.clone().or(configured).unwrap_or_else(|| DEV_TOKEN.to_owned());
        Ok(Self { base, token, is_json: reach.json })
    }

    pub(super) fn url(&self, path: &[&str], query: &[(&str, Option<&str>)]) -> anyhow::Result<reqwest::Url> {
        let mut url = self.base.clone();
        url.path_segments_mut()
            .map_err(|()| Usage("--url has no host".to_owned()))?
            .pop_if_empty()
            .push("v1")
            .extend(path);
        let given: Vec<(&str, &str)> =
            query.iter().filter_map(|(name, value)| Some((*name, (*value)?))).collect();
        if !given.is_empty() {
            url.query_pairs_mut().extend_pairs(given);
        }
        Ok(url)
    }

    pub(super) fn get(&self, path: &[&str], query: &[(&str, Option<&str>)]) -> anyhow::Result<Value> {
        let url = self.url(path, query)?;
        self.ask(|client| client.get(url))
    }

    fn ask(&self, make: impl FnOnce(&reqwest::Client) -> reqwest::RequestBuilder) -> anyhow::Result<Value> {
        runtime()?.block_on(async {
            let client = crate::outbox::http_client()?;
            let request = make(&client).bearer_auth(&self.token).timeout(Duration::from_secs(30));
            let response = request.send().await.with_context(|| format!("no answer from {}", self.base))?;
            let status = response.status();
            let body: Value = serde_json::from_slice(&response.bytes().await?).unwrap_or_default();
            if status.is_success() {
                return Ok(body);
            }
            let why =
                ["title", "outcome"].iter().find_map(|name| body.get(name)?.as_str()).unwrap_or_default();
            let more = ["state", "messages_n"].iter().find_map(|name| body.get(name));
            anyhow::bail!("{status}: {why}{}", more.map(|more| format!(" ({more})")).unwrap_or_default())
        })
    }

    /// A repeated command is another request: its key is new.
    pub(super) fn post(&self, url: reqwest::Url, order: &Value) -> anyhow::Result<Value> {
        let key = uuid::Uuid::new_v4().to_string();
        self.ask(|client| client.post(url).header("idempotency-key", key).body(order.to_string()))
    }

    /// One decision about an event.
    fn decide_event(&self, act: &str, event: &DecideEvent, done: &str) -> anyhow::Result<()> {
        self.decide_events(act, (&event.provider, &[&event.event_id]), &event.reason, done)
    }

    /// The same decision about several events of a provider, one after the other.
    pub(super) fn decide_events(
        &self,
        act: &str,
        (provider, event_ids): (&str, &[&String]),
        reason: &str,
        done: &str,
    ) -> anyhow::Result<()> {
        for event_id in event_ids {
            let url = self.url(&["events", provider, event_id, "decide"], &[])?;
            self.post(url, &json!({ "act": act, "reason": reason })).with_context(|| (*event_id).clone())?;
            say(format!("{event_id}: {done}"));
        }
        Ok(())
    }

    /// One decision about messages.
    fn decide(&self, act: &str, decide: &Decide) -> anyhow::Result<ExitCode> {
        let mut order = json!({ "act": act, "reason": decide.reason });
        let url = if let Some(id) = &decide.message_id {
            self.url(&["messages", id, "decide"], &[])?
        } else {
            let counted = self.get(&["messages", "count"], &decide.which.query())?;
            let messages_n = counted.get("messages_n").cloned().unwrap_or_default();
            if !decide.yes {
                say(format!("{messages_n} messages are found; --yes acts on them (1000 at most)"));
                return Ok(ExitCode::SUCCESS);
            }
            let said = decide.which.query().into_iter().filter_map(|(name, value)| Some((name, value?)));
            for (name, value) in said.collect::<Vec<_>>() {
                order.as_object_mut().context("an object")?.insert(name.to_owned(), value.into());
            }
            order.as_object_mut().context("an object")?.insert("messages_n".to_owned(), messages_n);
            self.url(&["messages", "decide"], &[])?
        };
        let decided = self.post(url, &order)?;
        say(if self.is_json {
            decided.to_string()
        } else {
            format!("{} changed", decided.get("messages_n").unwrap_or(&Value::Null))
        });
        Ok(ExitCode::SUCCESS)
    }

    pub(super) fn table(&self, found: &Value, list: &str, columns: &[&str]) {
        if self.is_json {
            return say(found);
        }
        let rows = found.get(list).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        say(columns.join("\t"));
        for row in rows {
            let text = |name: &&str| match row.get(name) {
                // A tab or a line end in it would be taken for one of the table.
                Some(Value::String(text)) => plain::line(text).into_owned(),
                None | Some(Value::Null) => "-".to_owned(),
                Some(other) => other.to_string(),
            };
            say(columns.iter().map(text).collect::<Vec<_>>().join("\t"));
        }
    }
}
