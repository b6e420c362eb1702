//! The configured providers, each with its kind, its handlers and its keys; and the view of them that operators get.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::App;
use hooklatch_core::config::ProviderConfig;
use hooklatch_core::mistakes::Mistake;
use hooklatch_core::types::Name;
use hooklatch_receive::admit::{CallerRules, ProviderEntry, ProviderTable, Templates};
use hooklatch_receive::fetch::Fetcher;
use hooklatch_receive::provider::Provider;
use hooklatch_store::ProgramMigrations;
use hooklatch_verify::KeySource;

/// The configured providers by name.
pub(super) type Entries = Arc<ProviderTable>;

impl App {
    /// Builds every configured provider; or returns all problems, also of kinds that the program added.
    pub(super) fn entries(&self) -> anyhow::Result<Entries> {
        self.entries_after(&ProviderTable::new(), &[])
    }

    /// The same after a reload in which these keys have changed: the state of a provider that stays is kept.
    pub(super) fn entries_after(&self, before: &ProviderTable, changed: &[&str]) -> anyhow::Result<Entries> {
        let mut entries = BTreeMap::new();
        let unusable = self.kinds.iter().filter_map(|kind| kind.spec().err());
        let mut mistakes: Vec<String> = unusable.map(ToString::to_string).collect();
        mistakes.extend(ProgramMigrations::mistakes(&self.migrations));
        let destinations = Templates::new(&self.config.destinations);
        let destinations = Arc::new(destinations.map_err(anyhow::Error::msg)?);
        for (name, config) in &self.config.providers {
            let before = before.get(name).map(|entry| (&**entry, is_sender_as_before(name, changed)));
            match self.entry(name, config, &destinations, before) {
                Ok(entry) => drop(entries.insert(name.clone(), Arc::new(entry))),
                Err(more) => mistakes.extend(more.into_iter().map(|why| format!("providers.{name}: {why}"))),
            }
        }
        anyhow::ensure!(mistakes.is_empty(), "{}", mistakes.join("\n"));
        Ok(Arc::new(entries))
    }

    /// One provider; `before` is what it was before a reload, and whether its sender's keys are where they were.
    fn entry(
        &self,
        name: &Name,
        config: &ProviderConfig,
        destinations: &Arc<Templates>,
        before: Option<(&ProviderEntry, bool)>,
    ) -> Result<ProviderEntry, Vec<Mistake>> {
        let Some(kind) = self.kinds.iter().find(|kind| kind.kind() == config.kind.as_str()) else {
            return Err(vec![Mistake::said("", format!("no provider kind is called `{}`", config.kind), "")]);
        };
        let mut provider = match self.active.get(name) {
            Some(active) => active.clone(),
            None => kind.activate(name, config, &self.config.server.public_url)?,
        };
        let fetcher = match before {
            // It has fetched keys, which the sender may not serve right now.
            Some((before, true)) => before.fetcher.clone(),
            _ => self.fetcher(kind, config).map_err(|why| vec![Mistake::said("[fetch]", why, "")])?,
        };
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
            body_bytes_max: config.body_bytes_max as usize,
            retry: config.retry,
            admit_seconds: metrics::histogram!("hooklatch_admit_seconds", "provider" => name.to_string()),
            destinations: Arc::clone(destinations),
            pause: before.map(|(before, _)| Arc::clone(&before.pause)).unwrap_or_default(),
            waiting_n: before.map(|(before, _)| Arc::clone(&before.waiting_n)).unwrap_or_default(),
        })
    }

    /// The rules for a first-party caller; `None` for other senders.
    fn caller_rules(&self, name: &Name, config: &ProviderConfig, is_caller: bool) -> Option<CallerRules> {
        let status = |setting: &str| config.settings.text(setting).and_then(|text| text.parse().ok());
        let kept_days = self.config.retention.ids_days_for(name);
        is_caller.then(|| CallerRules {
            accepted_status: status("accepted_status").unwrap_or(202),
            mismatch_status: status("mismatch_status").unwrap_or(422),
            kept_ms: i64::from(kept_days) * 86_400_000,
        })
    }

    /// Builds the fetcher of a kind whose keys are at the sender's hosts; `None` for other kinds.
    fn fetcher(&self, kind: &Provider, config: &ProviderConfig) -> Result<Option<Arc<Fetcher>>, String> {
        let spec = kind.shared_spec()?;
        if spec.fetch.is_empty() && spec.confirm.is_empty() {
            return Ok(None);
        }
        let fetcher = Fetcher::new(&spec, &config.settings, &self.config.fetch, &self.clock)?;
        Ok(Some(Arc::new(fetcher)))
    }
}

/// True when only secrets and routes of this provider have changed.
fn is_sender_as_before(name: &Name, changed: &[&str]) -> bool {
    let prefix = format!("providers.{name}.");
    let mut of_provider = changed.iter().filter_map(|key| key.strip_prefix(&prefix));
    of_provider.all(|key| key.starts_with("secrets") || key.starts_with("routes"))
}
