//! `messages`: shows calls that are to be made, and decides about those that wait for a person.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::api_client::{ApiClient, ReachArgs};
use super::shared::{runtime, say};
use crate::load::Kinds;
use crate::stop::pass;

/// Pause between two looks at an operation that runs.
const LOOK_EVERY: Duration = Duration::from_millis(200);

#[derive(Args)]
pub(super) struct MessagesArgs {
    #[command(flatten)]
    reach: ReachArgs,
    #[command(subcommand)]
    command: MessagesCommand,
}

/// Filter for messages; what is not given does not count.
#[derive(Args)]
struct FilterArgs {
    /// ready, leased, done, dead, held or discarded.
    #[arg(long)]
    state: Option<String>,
    /// Name of the destination that they go to.
    #[arg(long)]
    destination: Option<String>,
    /// Name of the provider that their event came from.
    #[arg(long)]
    provider: Option<String>,
}

#[derive(Subcommand)]
enum MessagesCommand {
    /// List the newest messages.
    List {
        #[command(flatten)]
        which: FilterArgs,
        /// At most this many, 1 to 500.
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// One message, its attempts, and what people decided about it.
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
struct DecideArgs {
    /// One message; without it, those that --state, --destination and --provider find.
    message_id: Option<String>,
    #[command(flatten)]
    which: FilterArgs,
    /// The reason, for the audit log.
    #[arg(long)]
    reason: String,
    /// Act on several. Without it they are only counted.
    #[arg(long)]
    yes: bool,
}

/// Runs `hooklatch messages …`.
pub(super) fn messages(args: &MessagesArgs, file: Option<&Path>, kinds: &Kinds) -> anyhow::Result<ExitCode> {
    let api = ApiClient::new(&args.reach, file, kinds)?;
    match &args.command {
        MessagesCommand::List { which, limit } => {
            let limit = limit.to_string();
            let mut query = which.query();
            query.push(("limit", Some(&limit)));
            let found = api.get(&["messages"], &query)?;
            let columns = ["message_id", "destination", "event_id", "state", "attempts_n", "last_error"];
            api.show_list(&found, "messages", &columns);
        }
        MessagesCommand::Show { message_id } => {
            say(format!("{:#}", api.get(&["messages", message_id], &[])?));
        }
        MessagesCommand::Send(args) => return decide(&api, "send", args),
        MessagesCommand::Done(args) => return decide(&api, "done", args),
        MessagesCommand::Discard(args) => return decide(&api, "discard", args),
    }
    Ok(ExitCode::SUCCESS)
}

impl FilterArgs {
    fn query(&self) -> Vec<(&'static str, Option<&str>)> {
        vec![
            ("state", self.state.as_deref()),
            ("destination", self.destination.as_deref()),
            ("provider", self.provider.as_deref()),
        ]
    }
}

/// Decides about one message, or about all that are found.
fn decide(api: &ApiClient, act: &str, args: &DecideArgs) -> anyhow::Result<ExitCode> {
    let (decided, changed_n) = if let Some(id) = &args.message_id {
        let order = json!({ "act": act, "reason": args.reason });
        (api.post(api.url(&["messages", id, "decide"], &[])?, &order)?, "messages_n")
    } else {
        let counted = api.get(&["messages", "count"], &args.which.query())?;
        let counted_n = ["counted_n", "messages_n"].iter().find_map(|name| counted.get(name).cloned());
        let counted_n = counted_n.unwrap_or_default();
        if !args.yes {
            say(format!("{counted_n} messages are found; --yes acts on them"));
            return Ok(ExitCode::SUCCESS);
        }
        let said = args.which.query().into_iter().filter_map(|(name, value)| Some((name, value?)));
        let filter: BTreeMap<&str, &str> = said.collect();
        let order = json!({
            "subject": { "messages": { "act": act, "filter": filter } }, "counted_n": counted_n,
            "reason": args.reason,
        });
        (watched(api, api.post(api.url(&["operations"], &[])?, &order)?)?, "changed_n")
    };
    say(if api.is_json {
        decided.to_string()
    } else {
        format!("{} changed", decided.get(changed_n).unwrap_or(&Value::Null))
    });
    Ok(ExitCode::SUCCESS)
}

/// Waits for the end of an operation, however long it takes; it goes on if we do not.
fn watched(api: &ApiClient, mut operation: Value) -> anyhow::Result<Value> {
    while operation.get("state").and_then(Value::as_str) == Some("running") {
        runtime()?.block_on(pass(LOOK_EVERY));
        let id = operation.get("operation_id").and_then(Value::as_str).unwrap_or_default();
        operation = api.get(&["operations", id], &[])?;
    }
    Ok(operation)
}
