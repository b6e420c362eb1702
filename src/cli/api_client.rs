//! The operators' API of a running server, as the commands ask it.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use serde_json::{Value, json};

use super::shared::{Usage, runtime, say};
use crate::config::DEV_TOKEN;
use crate::load::{Kinds, Settings, load_for_tools};
use crate::plain;
use crate::types::Role;

/// Arguments that say how a running server is reached.
#[derive(Args)]
pub(super) struct ReachArgs {
    /// The operator side; `admin.listen` of the configuration by default.
    #[arg(long, global = true)]
    pub(super) url: Option<String>,
    /// A token of `admin.tokens`; by default the first one in the configuration, or that of `serve --dev`.
    #[arg(long, global = true, env = "HOOKLATCH_TOKEN", hide_env_values = true)]
    pub(super) token: Option<String>,
    /// Print the server's JSON instead of a table.
    #[arg(long, global = true)]
    pub(super) json: bool,
}

/// One decision, for each of several events.
pub(super) struct EventDecision<'a> {
    /// The API's word for it, such as `rerun`.
    pub(super) act: &'a str,
    /// Name of the events' provider.
    pub(super) provider: &'a str,
    /// The reason, for the audit log.
    pub(super) reason: &'a str,
    /// Words that are said of each event afterwards.
    pub(super) done: &'a str,
}

/// The operators' API of one server.
pub(super) struct ApiClient {
    base: reqwest::Url,
    token: String,
    pub(super) is_json: bool,
}

impl ApiClient {
    pub(super) fn new(reach: &ReachArgs, file: Option<&Path>, kinds: &Kinds) -> anyhow::Result<Self> {
        // Without a usable configuration the arguments may still say all that is needed.
        let admin = load_for_tools(&Settings::of_process(file), kinds).ok().map(|config| config.admin);
        let listen =
            admin.as_ref().map_or_else(|| "127.0.0.1:8081".to_owned(), |admin| admin.listen.to_string());
        let url = reach.url.clone().unwrap_or_else(|| format!("http://{listen}"));
        let base = reqwest::Url::parse(&url).map_err(|error| Usage(format!("--url `{url}`: {error}")))?;
        let configured = admin.and_then(|admin| {
            let best = admin.tokens.into_iter().max_by_key(|token| token.role >= Role::Operator)?;
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
            let more = ["state", "counted_n"].iter().find_map(|name| body.get(name));
            anyhow::bail!("{status}: {why}{}", more.map(|more| format!(" ({more})")).unwrap_or_default())
        })
    }

    /// A repeated command is another request: its key is new.
    pub(super) fn post(&self, url: reqwest::Url, order: &Value) -> anyhow::Result<Value> {
        let key = uuid::Uuid::new_v4().to_string();
        self.ask(|client| client.post(url).header("idempotency-key", key).body(order.to_string()))
    }

    /// Decides the same about these events of a provider, one after the other.
    pub(super) fn decide_events(
        &self,
        decision: &EventDecision<'_>,
        event_ids: &[String],
    ) -> anyhow::Result<()> {
        for event_id in event_ids {
            let url = self.url(&["events", decision.provider, event_id, "decide"], &[])?;
            let order = json!({ "act": decision.act, "reason": decision.reason });
            self.post(url, &order).with_context(|| event_id.clone())?;
            say(format!("{event_id}: {}", decision.done));
        }
        Ok(())
    }

    /// Shows the list called `list` of an answer: as a table with these columns, or as it is with `--json`.
    pub(super) fn show_list(&self, found: &Value, list: &str, columns: &[&str]) {
        if self.is_json { say(found) } else { say(table(found, list, columns)) }
    }
}

/// A head and a line for each row, with tabs between its fields; `-` where a row has nothing.
fn table(found: &Value, list: &str, columns: &[&str]) -> String {
    let rows = found.get(list).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let text = |row: &Value, name: &str| match row.get(name) {
        // A tab or a line end in it would be taken for one of the table.
        Some(Value::String(text)) => plain::line(text).into_owned(),
        None | Some(Value::Null) => "-".to_owned(),
        Some(other) => other.to_string(),
    };
    let line = |row: &Value| columns.iter().map(|name| text(row, name)).collect::<Vec<_>>().join("\t");
    std::iter::once(columns.join("\t")).chain(rows.iter().map(line)).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(base: &str) -> ApiClient {
        let base = reqwest::Url::parse(base).expect("a URL");
        ApiClient { base, token: "t".to_owned(), is_json: false }
    }

    #[test]
    fn what_a_person_names_stays_one_part_of_the_path() {
        #[track_caller]
        fn check(base: &str, path: &[&str], query: &[(&str, Option<&str>)], want: &str) {
            assert_eq!(client(base).url(path, query).expect("a URL").as_str(), want);
        }
        let base = "http://127.0.0.1:8081";
        check(base, &["events"], &[], "http://127.0.0.1:8081/v1/events");
        check("http://ops.test/hooks/", &["events"], &[], "http://ops.test/hooks/v1/events");
        check(
            base,
            &["events", "stripe", "a/b?c#d"],
            &[],
            "http://127.0.0.1:8081/v1/events/stripe/a%2Fb%3Fc%23d",
        );
        check(base, &["messages"], &[("state", None)], "http://127.0.0.1:8081/v1/messages");
        let query = [("state", Some("held")), ("provider", None), ("destination", Some("a&b"))];
        check(base, &["messages"], &query, "http://127.0.0.1:8081/v1/messages?state=held&destination=a%26b");
        assert!(client("data:text/plain,x").url(&["events"], &[]).is_err());
    }

    #[test]
    fn a_row_stays_one_line_whatever_a_stranger_wrote_in_it() {
        let found = json!({ "events": [
            { "event_id": "evt_1", "attempts_n": 2, "error": null },
            { "event_id": "a\tb\nc\u{1b}[2J", "attempts_n": 0 },
        ]});
        let shown = table(&found, "events", &["event_id", "attempts_n", "error"]);
        assert_eq!(shown, "event_id\tattempts_n\terror\nevt_1\t2\t-\na\\u0009b\\u000ac\\u001b[2J\t0\t-");
        assert_eq!(table(&json!({}), "events", &["event_id"]), "event_id");
    }
}
