//! The configured providers, each with its kind, its handlers and its keys; and what operators are told of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use super::builder::App;
use crate::admit::{AdmitContext, CallerRules, ProviderEntry};
use crate::config::{DestinationConfig, ProviderConfig};
use crate::fetch::Fetcher;
use crate::http::api::{ApiState, DestinationFacts, ProviderFacts};
use crate::http::keys;
use crate::http::token_gate::TokenGate;
use crate::mistakes::Mistake;
use crate::outbox::Breakers;
use crate::provider::Provider;
use crate::receive::fingerprint;
use crate::spec::Spec;
use crate::store::{PeopleDoor, ProgramMigrations, Store, TokenBook};
use crate::tail::TailHub;
use crate::types::Name;
use crate::verify::KeySource;

/// The configured providers by name.
pub(super) type Entries = Arc<BTreeMap<Name, Arc<ProviderEntry>>>;

impl App {
    /// Every configured provider, ready; or all that is wrong with them, and with what the program brought along.
    pub(super) fn entries(&self) -> anyhow::Result<Entries> {
        let mut entries = BTreeMap::new();
        let unusable = self.kinds.iter().filter_map(|kind| kind.spec().err());
        let mut mistakes: Vec<String> = unusable.map(ToString::to_string).collect();
        mistakes.extend(ProgramMigrations::mistakes(&self.migrations));
        for (name, config) in &self.config.providers {
            match self.entry(name, config) {
                Ok(entry) => drop(entries.insert(name.clone(), Arc::new(entry))),
                Err(more) => mistakes.extend(more.into_iter().map(|why| format!("providers.{name}: {why}"))),
            }
        }
        anyhow::ensure!(mistakes.is_empty(), "{}", mistakes.join("\n"));
        Ok(Arc::new(entries))
    }

    fn entry(&self, name: &Name, config: &ProviderConfig) -> Result<ProviderEntry, Vec<Mistake>> {
        let Some(kind) = self.kinds.iter().find(|kind| kind.kind() == config.kind.as_str()) else {
            return Err(vec![Mistake::said("", format!("no provider kind is called `{}`", config.kind), "")]);
        };
        let mut provider = match self.active.get(name) {
            Some(active) => active.clone(),
            None => kind.activate(name, config, &self.config.server.public_url)?,
        };
        let fetcher = self.fetcher(kind, config).map_err(|why| vec![Mistake::said("[fetch]", why, "")])?;
        if let Some(fetcher) = &fetcher {
            provider = provider.with_key_source(Arc::clone(fetcher) as Arc<dyn KeySource>);
        }
        let caller = self.caller_rules(name, config, provider.spec().first_party);
        Ok(ProviderEntry {
            provider,
            fetcher,
            caller,
            on_handler_error: config.on_handler_error,
            allow_from: config.allow_from.clone(),
            is_first_party: config.is_first_party,
            retry: config.retry,
            admit_seconds: metrics::histogram!("hooklatch_admit_seconds", "provider" => name.to_string()),
            waiting_n: AtomicUsize::new(0),
        })
    }

    /// The rules for a program of the team's own; `None` for other senders.
    fn caller_rules(&self, name: &Name, config: &ProviderConfig, is_caller: bool) -> Option<CallerRules> {
        let status = |setting: &str| config.settings.text(setting).and_then(|text| text.parse().ok());
        let kept_days = self.config.retention.ids_days_for(name);
        is_caller.then(|| CallerRules {
            accepted_status: status("accepted_status").unwrap_or(202),
            mismatch_status: status("mismatch_status").unwrap_or(409),
            kept_ms: i64::from(kept_days) * 86_400_000,
        })
    }

    /// Makes the fetcher of a kind whose keys are at the sender's own hosts; `None` for other kinds.
    fn fetcher(&self, kind: &Provider, config: &ProviderConfig) -> Result<Option<Arc<Fetcher>>, String> {
        let spec = kind.shared_spec()?;
        if spec.fetch.is_empty() && spec.confirm.is_empty() {
            return Ok(None);
        }
        let fetcher = Fetcher::new(&spec, &config.settings, &self.config.fetch, &self.clock)?;
        Ok(Some(Arc::new(fetcher)))
    }

    /// The tokens of operators: those of the configuration, and those that are made at run time.
    pub(super) fn token_gate(&self, store: &Store) -> Arc<TokenGate> {
        let book = TokenBook::new(store.clone());
        Arc::new(TokenGate::new(self.config.admin.tokens.clone(), book, self.clock.clone()))
    }

    /// The state of the operators' API.
    pub(super) fn api(
        &self,
        admission: &Arc<AdmitContext>,
        entries: &Entries,
        (breakers, tail): (Breakers, TailHub),
        gate: Arc<TokenGate>,
    ) -> anyhow::Result<ApiState> {
        let facts = |(name, entry): (&Name, &Arc<ProviderEntry>)| ProviderFacts {
            name: name.clone(),
            kind: entry.provider.spec().kind.clone(),
            url: entry.provider.url().to_owned(),
            identity: identity_rules(entry.provider.spec()),
            horizon_h: entry.provider.spec().horizon_h,
            is_unverified: self.config.providers.get(name).is_some_and(|one| one.is_unverified_accepted),
            fingerprints: entry
                .provider
                .secrets()
                .map(|secret| fingerprint(&admission.installation_id, name, secret))
                .collect(),
        };
        let woken = Arc::clone(admission);
        let turns = Arc::clone(&admission.turns);
        let what_if =
            self.what_if(&admission.store, admission.installation_id, Arc::clone(entries), turns)?;
        Ok(ApiState {
            what_if,
            providers: entries.iter().map(facts).collect(),
            people: PeopleDoor::new(admission.store.clone()),
            decided: Box::new(move || {
                (woken.wake_outbox)();
                woken.wake_retries.notify_one();
            }),
            once: keys::once(admission.store.clone(), self.clock.clone()),
            clock: self.clock.clone(),
            tail,
            gate,
            destinations: self.destination_facts(),
            breaker: Box::new(move |name| breakers.state_of(name)),
        })
    }

    fn destination_facts(&self) -> BTreeMap<Name, DestinationFacts> {
        let facts = |(name, config): (&Name, &DestinationConfig)| {
            let facts = DestinationFacts {
                kind: config.target.kind(),
                concurrency_n: config.concurrency_n,
                rate_per_s: config.rate_per_s,
            };
            (name.clone(), facts)
        };
        self.config.destinations.iter().map(facts).collect()
    }
}

/// The rules by which events of a kind are told apart, as rows have them, in the order in which they are tried.
fn identity_rules(spec: &Spec) -> String {
    let mut rules: Vec<String> = Vec::new();
    for one in spec.event.iter().flat_map(|event| &event.identity) {
        let rule = format!("{}/{}", one.is.as_str(), one.version);
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    if rules.is_empty() { "content/1".to_owned() } else { rules.join(", ") }
}
