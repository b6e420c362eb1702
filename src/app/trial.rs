//! An app for tests of handlers: no network, a database in a folder of the test, and simulated senders with published
//! secrets.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use anyhow::Context;
use axum::Router;
use axum::body::Body;
use http_body_util::BodyExt;
use tower::ServiceExt;

use super::App;
use super::running::Background;
use hooklatch_contract::MessageFilter;
use hooklatch_core::types::Clock;
use hooklatch_operator::load::{self, Loaded, Settings};
use hooklatch_receive::provider::{ActiveProvider, Kind, Provider, dev_secret, dev_settings, filled_sample};
use hooklatch_store::{Row, Store, Value};
use hooklatch_verify::{DevKeys, SignAt};

/// URL that the simulated senders call. Some of them sign it.
const URL: &str = "http://127.0.0.1:8080";
/// Most messages that are listed.
const MESSAGES_N_MAX: u32 = 1_000;

/// A Hooklatch for a test: your kinds with your handlers, without network.
///
/// Each kind is a provider of its own name, whose sender is played: [`Trial::send`] signs one of the kind's samples,
/// with secrets that are published, as `hooklatch serve --dev` does. Calls to destinations are written as messages, and
/// fail.
pub struct Trial {
    router: Router,
    background: Background,
    senders: BTreeMap<String, PlayedSender>,
    /// Fills samples, so that the same sample under the same id is the same text. Unix seconds.
    filled_at_s: i64,
}

struct PlayedSender {
    kind: Provider,
    active: ActiveProvider,
}

impl Trial {
    /// Starts an app on a new SQLite database in `folder`, with these kinds and destinations; `more` adds what else is
    /// the program's own, its tables as a rule. Variables of the environment (`HOOKLATCH__…`) change nothing in it.
    pub async fn start(
        folder: &Path,
        kinds: Vec<Provider>,
        destinations: &[&str],
        more: impl FnOnce(App) -> App,
    ) -> anyhow::Result<Self> {
        let generated = DevKeys::generate().context("the system has no random numbers")?;
        let keys = DevKeys::parse(&generated).unwrap_or_default();
        let file = folder.join("hooklatch.toml");
        // Of this file alone: what the environment says is for the real one, whose database and destinations a test
        // must never reach.
        let settings = Settings { file: Some(file.clone()), ..Settings::default() };
        let all = load::kinds_beside(&settings, kinds.clone());
        if !all.problems.is_empty() {
            return Err(load::unusable(&all.problems));
        }
        std::fs::write(&file, config_text(folder, &kinds, destinations, &keys)?)?;
        let mut senders = BTreeMap::new();
        for kind in &kinds {
            let active = kind.dev(&keys).map_err(anyhow::Error::msg)?;
            senders.insert(kind.kind().to_owned(), PlayedSender { kind: kind.clone(), active });
        }
        let config = load::load_for_tools(&settings, &all).map_err(|why| load::unusable(&why))?;
        let app = App::of_loaded(Loaded { config, active: BTreeMap::new() }, all);
        let (router, background) = more(app).mount().await?;
        let filled_at_s = Clock::system().now_ms() / 1_000;
        Ok(Self { router, background, senders, filled_at_s })
    }

    /// Sends the kind's sample of this type under this id, signed; gives back the outcome: `accepted`, `duplicate`, …
    /// as in the header `hooklatch-outcome`. An error when the request was not believed.
    pub async fn send(&self, kind: &str, event_type: &str, id: &str) -> anyhow::Result<String> {
        let sample = self.sender(kind)?.kind.sample(event_type)?;
        self.send_body(kind, &filled_sample(sample, id, self.filled_at_s), event_type, id).await
    }

    /// Sends a body of your own in the same way.
    pub async fn send_body(
        &self,
        kind: &str,
        body: &str,
        event_type: &str,
        id: &str,
    ) -> anyhow::Result<String> {
        let sender = self.sender(kind)?;
        let at = SignAt {
            now_s: Clock::system().now_ms() / 1_000,
            url: sender.active.url().to_owned(),
            id: id.to_owned(),
            event_type: event_type.to_owned(),
        };
        let signed = sender.active.sign(body.as_bytes(), &at)?.request(&at)?;
        let path = signed.url.strip_prefix(URL).unwrap_or(&signed.url);
        let mut request = http::Request::post(path).body(Body::from(signed.body))?;
        *request.headers_mut() = signed.headers;
        let response = self.router.clone().oneshot(request).await?;
        let (status, outcome) = (response.status(), response.headers().get("hooklatch-outcome").cloned());
        let text = response.into_body().collect().await?.to_bytes();
        let outcome = outcome
            .with_context(|| format!("`{kind}` was answered {status}: {}", String::from_utf8_lossy(&text)))?;
        Ok(outcome.to_str()?.to_owned())
    }

    /// The rows that a statement finds, in your tables as a rule.
    pub async fn fetch(&self, sql: &'static str, values: &[Value]) -> anyhow::Result<Vec<Row>> {
        let mut admission = self.store().admission_begin().await?;
        let rows = admission.tx().fetch(sql, values).await;
        admission.commit().await?;
        Ok(rows?)
    }

    /// The destinations of the messages that were written, oldest first.
    pub async fn messages(&self) -> anyhow::Result<Vec<String>> {
        let newest_first = self.store().message_list(MessageFilter::default(), None, MESSAGES_N_MAX).await?;
        Ok(newest_first.into_iter().rev().map(|message| message.destination).collect())
    }

    /// Stops everything and closes the database.
    pub async fn stop(self) {
        drop(self.router);
        self.background.stop().await;
    }

    fn sender(&self, kind: &str) -> anyhow::Result<&PlayedSender> {
        self.senders.get(kind).with_context(|| format!("no kind of this trial is called `{kind}`"))
    }

    fn store(&self) -> &Store {
        &self.background.store
    }
}

/// The configuration of a trial, as TOML.
fn config_text(
    folder: &Path,
    kinds: &[Provider],
    destinations: &[&str],
    keys: &DevKeys,
) -> anyhow::Result<String> {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let database = quoted(&format!("sqlite://{}", folder.join("trial.db").display()));
    let mut toml = format!("[server]\npublic_url = \"{URL}\"\n[database]\nurl = {database}\n");
    for kind in kinds {
        let spec = kind.spec().map_err(|error| anyhow::anyhow!("{error}"))?;
        writeln!(toml, "[providers.{}]", spec.kind)?;
        if spec.takes_secrets() {
            writeln!(toml, "secrets = [{}]", quoted(&dev_secret(spec)))?;
        } else if spec.signature.may_be_unsigned {
            writeln!(toml, "unverified = \"accept\"")?;
        }
        if spec.needs_types() {
            writeln!(toml, "types = [\"*\"]")?;
        }
        for setting in dev_settings(spec, keys).iter() {
            let value = quoted(setting.value.reveal());
            match &setting.id {
                None => writeln!(toml, "settings.{} = {value}", setting.name)?,
                Some(id) => {
                    writeln!(toml, "settings.{} = [{{ id = {}, key = {value} }}]", setting.name, quoted(id))?;
                }
            }
        }
    }
    for name in destinations {
        writeln!(toml, "[destinations.{name}]\nurl = \"http://127.0.0.1:9/\"")?;
    }
    Ok(toml)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_parts_run_on_while_a_router_lives_whose_other_half_was_dropped() {
        let folder = tempfile::tempdir().expect("a folder");
        let trial = Trial::start(folder.path(), vec![hooklatch_receive::kind("stripe")], &[], |app| app);
        let Trial { router, background, .. } = trial.await.expect("a trial");
        let stop = background.stop.listener();
        drop(background);
        assert!(!stop.is_set(), "the router answers 200, so a worker has to send");
        drop(router);
        assert!(stop.is_set());
    }
}
