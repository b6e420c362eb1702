//! Reloads the configuration of a running app at SIGHUP: completely or not at all.
//!
//! A reload replaces `[providers]`, `[destinations]` and `admin.tokens`; TLS files are watched all the time
//! (`hooklatch_core::tls`). Where any other key has changed nothing is replaced, because nothing has checked a mixture
//! of two configurations. Everything that may fail happens first; then one part after the other is replaced, in an
//! order in which each step is consistent: destinations before the routes that lead to them.
//!
//! A request ends with the routes, providers and secrets that it began with, and a call with the settings of its
//! destination.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use tokio::signal::unix::Signal;
use tracing::{error, info};

use super::App;
use super::entries::Entries;
use super::entries::LookedAt;
use super::gauges;
use hooklatch_core::config::{Config, EffectiveSetting};
use hooklatch_core::current::Current;
use hooklatch_core::figures::plural;
use hooklatch_core::types::{EventState, MessageState, Name};
use hooklatch_operator::http::Routes;
use hooklatch_operator::http::operator::OperatorState;
use hooklatch_operator::http::token_gate::TokenGate;
use hooklatch_operator::load::{self, Kinds, Loaded};
use hooklatch_outbox::ReadyDestinations;
use hooklatch_receive::Receiver;
use hooklatch_receive::admit::{self, AdmitContext, Providers};
use hooklatch_store::OPEN_COUNTED_N_MAX;

/// Most keys that a log line names.
const KEYS_N_MAX: usize = 20;

/// The parts of a running app that a reload replaces, or builds others from.
pub(super) struct Reload {
    /// The app with its current configuration.
    pub(super) app: App,
    pub(super) config: Current<Config>,
    pub(super) providers: Providers,
    pub(super) receiver: Receiver,
    pub(super) looked_at: LookedAt,
    pub(super) admission: Arc<AdmitContext>,
    pub(super) gate: Arc<TokenGate>,
    pub(super) operator: Arc<OperatorState>,
    pub(super) receiver_routes: Current<Routes>,
    pub(super) operator_routes: Current<Routes>,
}

/// Everything that replaces the current parts, built without errors.
struct Prepared {
    entries: Entries,
    destinations: ReadyDestinations,
    operator_routes: Routes,
}

impl Reload {
    /// Reloads at each SIGHUP; signals during a reload count as one.
    pub(super) async fn run(mut self: Box<Self>, mut hangup: Signal) {
        while hangup.recv().await.is_some() {
            let failed = metrics::gauge!("hooklatch_reload_failed");
            match self.reload().await {
                Ok(changed) if changed.is_empty() => {
                    failed.set(0.0);
                    info!(
                        not_read_again = self.not_read_again(),
                        "reloaded the configuration: nothing has changed"
                    );
                }
                Ok(changed) => {
                    failed.set(0.0);
                    info!(changed, not_read_again = self.not_read_again(), "reloaded the configuration");
                }
                Err(why) => {
                    failed.set(1.0);
                    let error = format!("{why:#}").replace('\n', "; ");
                    error!(error, "did not reload the configuration: everything goes on as before");
                }
            }
        }
    }

    /// Reads the configuration and applies it. Returns the keys that have changed.
    async fn reload(&mut self) -> anyhow::Result<String> {
        let Some(source) = self.app.source.clone() else {
            bail!(
                "this program makes its configuration itself, so there is no file to read again: restart it"
            );
        };
        let kinds = Kinds::of(self.app.kinds.clone());
        let read = move || load::loaded(source.file.as_deref(), source.is_dev, &kinds);
        // Loading reads files, and some of them may be pipes.
        let loaded =
            tokio::task::spawn_blocking(read).await.context("could not read the configuration")??;
        let changed = changed(&self.app.config.settings, &loaded.config.settings);
        let changed: Vec<&str> = changed.iter().map(String::as_str).collect();
        if changed.is_empty() {
            return Ok(String::new());
        }
        let fixed: Vec<&str> = changed.iter().copied().filter(|key| !is_reloaded(key)).collect();
        ensure!(
            fixed.is_empty(),
            "{} changed, which only a restart applies: restart, or undo that change and reload again",
            listed(&fixed)
        );
        self.check_removed(&loaded.config).await?;
        let before = self.put_in(loaded);
        match self.prepared(&before.config, &changed).await {
            Ok(prepared) => self.replace(&before.config, prepared).await,
            Err(why) => {
                drop(self.put_in(before));
                return Err(why);
            }
        }
        Ok(listed(&changed))
    }

    /// Replaces the app's configuration, and returns the previous one.
    fn put_in(&mut self, loaded: Loaded) -> Loaded {
        let config = std::mem::replace(&mut self.app.config, loaded.config);
        let active = std::mem::replace(&mut self.app.active, loaded.active);
        Loaded { config, active }
    }

    /// Refuses to remove a provider or destination that events or messages wait for: they would never be processed.
    async fn check_removed(&self, config: &Config) -> anyhow::Result<()> {
        let now = &self.app.config;
        let providers = removed(&now.providers, &config.providers);
        let destinations = removed(&now.destinations, &config.destinations);
        if providers.is_empty() && destinations.is_empty() {
            return Ok(());
        }
        let open = self.admission.store.open_counts().await;
        let open =
            open.context("could not count what waits for a provider or destination that was removed")?;
        for name in destinations {
            let is_open = |state| !matches!(state, MessageState::Dead);
            let messages = open.messages.iter().filter(|one| one.destination == name && is_open(one.state));
            let open_n = messages.map(|one| one.messages_n).sum();
            ensure!(
                open_n == 0,
                "destinations.{name} was removed and has {}: put it back without routes to it and reload, let them end or \
                 decide about those on hold (`hooklatch messages list --destination {name}`), then remove it",
                counted(open_n, "open message")
            );
        }
        for name in providers {
            let waits = |state| matches!(state, EventState::Retry);
            let events = open.events.iter().filter(|one| one.provider == name && waits(one.state));
            let waiting_n = events.map(|one| one.events_n).sum();
            ensure!(
                waiting_n == 0,
                "providers.{name} was removed and has {}: put it back, reload, and remove it when they are \
                 dispatched (`hooklatch events list --provider {name} --state retry`)",
                counted(waiting_n, "waiting event")
            );
        }
        Ok(())
    }

    /// Builds everything that may fail; none of it is applied yet.
    async fn prepared(&self, before: &Config, changed: &[&str]) -> anyhow::Result<Prepared> {
        let app = &self.app;
        let entries = app.entries_after(&self.providers.get(), changed)?;
        if entries.keys().any(|name| !before.providers.contains_key(name)) {
            // A pause still holds for a provider that is configured again.
            let now_ms = app.clock.steady_ms();
            let paused =
                admit::load_pauses(&self.admission.store, &entries, (now_ms, &self.admission.queue_gate));
            paused.await.context("could not read which providers are paused")?;
        }
        let is_changed = |name: &Name| {
            let prefix = format!("destinations.{name}.");
            !before.destinations.contains_key(name) || changed.iter().any(|key| key.starts_with(&prefix))
        };
        let destinations = app.config.destinations.iter().filter(|(name, _)| is_changed(name));
        let destinations = destinations.map(|(name, config)| (name.clone(), config.clone())).collect();
        let destinations =
            self.looked_at.calls.ready(destinations).context("could not set up the destinations")?;
        let api = app.api(&self.admission, &entries, self.looked_at.clone(), Arc::clone(&self.gate));
        let operator_routes = app.operator_routes(&self.operator, api);
        Ok(Prepared { entries, destinations, operator_routes })
    }

    /// Applies everything. Nothing here fails.
    async fn replace(&mut self, before: &Config, prepared: Prepared) {
        let Prepared { entries, destinations, operator_routes } = prepared;
        // The counts of what is removed go with it.
        self.looked_at.activity.save(&self.admission.store, self.app.clock.now_ms()).await;
        self.looked_at.calls.replace(destinations);
        gauges::set_kinds(before, &self.providers.get(), 0.0);
        gauges::publish_info(&self.app.config, &entries);
        self.providers.set(Arc::clone(&entries));
        self.receiver = self.receiver.reloaded(&entries);
        self.looked_at.activity.forget_removed();
        let installation_id = self.admission.installation_id;
        self.receiver_routes.set(self.app.receiver_routes(self.receiver.clone(), &installation_id));
        self.operator_routes.set(operator_routes);
        self.config.set(self.app.config.clone());
        self.gate.configure(self.app.config.admin.tokens.clone()).await;
        // Events or messages that waited for a missing provider or destination may be due.
        self.admission.wake_retries.notify_one();
    }

    /// The secrets that a running process cannot read again. Credentials are files, which can be replaced.
    fn not_read_again(&self) -> String {
        let is_fixed = |place: &&String| place.starts_with("variable ");
        let secrets = self.app.config.settings.iter().filter_map(|one| {
            let place = one.secret_in.as_ref().filter(is_fixed)?;
            Some(format!("{} ({place})", one.key))
        });
        let secrets: Vec<String> = secrets.collect();
        listed(&secrets.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

/// True for a key that a reload applies. Not `redact`: the task that deletes what is redacted runs from the start, or
/// never.
fn is_reloaded(key: &str) -> bool {
    let of_table = key.starts_with("providers.") || key.starts_with("destinations.");
    (of_table || key.starts_with("admin.tokens")) && !is_redact(key)
}

/// True for `providers.NAME.redact`.
fn is_redact(key: &str) -> bool {
    let rest = key.strip_prefix("providers.").and_then(|rest| rest.split_once('.'));
    rest.is_some_and(|(_, key)| key == "redact" || key.starts_with("redact["))
}

/// The keys whose values differ, or that one of the two has alone.
fn changed(before: &[EffectiveSetting], after: &[EffectiveSetting]) -> BTreeSet<String> {
    let marks = |settings: &[EffectiveSetting]| -> BTreeMap<String, u64> {
        settings.iter().map(|one| (one.key.clone(), one.mark)).collect()
    };
    let (before, after) = (marks(before), marks(after));
    let keys = before.keys().chain(after.keys());
    keys.filter(|key| before.get(*key) != after.get(*key)).cloned().collect()
}

/// The names that only the first of two tables has.
fn removed<T>(before: &BTreeMap<Name, T>, after: &BTreeMap<Name, T>) -> Vec<String> {
    before.keys().filter(|name| !after.contains_key(*name)).map(ToString::to_string).collect()
}

/// These keys in one text, the first of many.
fn listed(keys: &[&str]) -> String {
    let left_n = keys.len().saturating_sub(KEYS_N_MAX);
    let named: Vec<&str> = keys.iter().copied().take(KEYS_N_MAX).collect();
    let more = if left_n > 0 { format!(" and {left_n} more") } else { String::new() };
    format!("{}{more}", named.join(", "))
}

/// A count in words, with "at least" where counting stopped at its limit.
fn counted(n: u64, noun: &str) -> String {
    let least = if n >= u64::from(OPEN_COUNTED_N_MAX) { "at least " } else { "" };
    format!("{least}{}", plural(n, noun))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_providers_destinations_and_tokens_are_reloaded() {
        for (key, want) in [
            ("providers.stripe.secrets[0]", true),
            ("providers.stripe.routes[0].to", true),
            ("providers.redact.kind", true),
            ("providers.stripe.redact", false),
            ("providers.stripe.redact[0]", false),
            ("destinations.billing.url", true),
            ("admin.tokens[0].token", true),
            ("admin.tokens", true),
            ("admin.listen", false),
            ("server.public_url", false),
            ("outbox.lease_ms", false),
            ("encryption.keys[0].key", false),
            ("retention.ids_days", false),
        ] {
            assert_eq!(is_reloaded(key), want, "{key}");
        }
    }

    #[test]
    fn a_line_names_the_first_keys_and_counts_the_others() {
        assert_eq!(listed(&["a", "b"]), "a, b");
        let many = vec!["k"; KEYS_N_MAX + 3];
        assert!(listed(&many).ends_with("k, k and 3 more"), "{}", listed(&many));
    }
}
