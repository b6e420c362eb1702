//! The configured providers, each with its kind, its handlers and its keys; and what operators see of this node: the
//! state of their API, with the facts about providers and destinations, what the doctor needs, what-if with the
//! handlers of this program, and the row by which other nodes see that it runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::sync::{Semaphore, watch};
use tracing::debug;
use uuid::Uuid;

use super::App;
use super::gauges::NodeActivity;
use hooklatch_contract::{PolicyView, RetryView, SenderView};
use hooklatch_core::config::{DestinationConfig, ListenerTlsConfig, ProviderConfig, RetryConfig};
use hooklatch_core::mistakes::Mistake;
use hooklatch_core::stop::Stop;
use hooklatch_core::types::{Clock, Name};
use hooklatch_operator::doctor::{DoctorParts, FileFacts, NodeDoctor, ProbeKey};
use hooklatch_operator::http::api::{ApiState, DestinationFacts, ProbeFacts, ProviderFacts};
use hooklatch_operator::http::operator::{self, Readiness};
use hooklatch_operator::http::token_gate::TokenGate;
use hooklatch_operator::http::{OpenFiles, fit_n};
use hooklatch_outbox::NodeCalls;
use hooklatch_receive::admit::{
    AdmitContext, Admitter, CallerRules, Planner, ProviderEntry, ProviderTable, Templates, WhatIf,
    WhatIfParts,
};
use hooklatch_receive::fetch::Fetcher;
use hooklatch_receive::provider::{Kind, Provider};
use hooklatch_receive::{CountedRequests, Explainer, TestEvents, fingerprint};
use hooklatch_store::{
    BulkRules, NODE_SEEN_EVERY, OperatorStore, ProgramMigrations, Routed, Store, TokenBook,
};
use hooklatch_verify::KeySource;
use hooklatch_verify::spec::{Scheme, Source, Spec, words};

/// The configured providers by name.
pub(super) type Entries = Arc<ProviderTable>;

impl App {
    /// Builds every configured provider; or returns all problems, also of kinds that the program added.
    pub(super) fn entries(&self) -> anyhow::Result<Entries> {
        self.entries_after(&ProviderTable::new(), &[])
    }

    /// Builds them after a reload in which these keys have changed: the state of a provider that stays is kept.
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

/// The parts of this node that the operator API shows.
#[derive(Clone)]
pub(super) struct LookedAt {
    pub(super) calls: NodeCalls,
    pub(super) requests: CountedRequests,
    pub(super) readiness: watch::Receiver<Readiness>,
    pub(super) activity: Arc<NodeActivity>,
    /// The way into admission, for test events.
    pub(super) admitter: Admitter,
}

impl App {
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
        LookedAt { calls, requests, readiness, activity, admitter }: LookedAt,
        gate: Arc<TokenGate>,
    ) -> ApiState {
        let woken = Arc::clone(admission);
        let doctor = self.doctor(admission, calls.clone(), readiness, requests.clone());
        let (breakers, times) = (calls.clone(), calls);
        let requests = Arc::new(requests);
        let (delayed, paths) = (Arc::clone(&requests), requests);
        let turns = Arc::clone(&admission.turns);
        let what_if = self.what_if(&admission.store, admission.installation_id, Arc::clone(entries), turns);
        let server = &self.config.server;
        let test_events = TestEvents::new(
            entries,
            &self.kinds,
            (admitter, self.memory.clone()),
            admission.installation_id,
            server.events_n_max as usize,
        );
        ApiState {
            test_events,
            server_name: Some(server.name.clone()).filter(|name| !name.is_empty()),
            is_test: server.is_test,
            unsaved: Box::new(move || activity.unsaved()),
            what_if,
            traces: admission.traces.clone(),
            doctor,
            probes: self.probes(admission),
            delays_ms: Box::new(move |name| delayed.delays_ms(name)),
            unknown_paths: Box::new(move || paths.unknown_paths()),
            explainer: Explainer::new(Arc::clone(entries)),
            providers: self.provider_facts(entries, &admission.installation_id),
            people: OperatorStore::new(admission.store.clone()).routed(routed(Arc::clone(entries))),
            decided: Box::new(move || {
                (woken.wake_outbox)();
                woken.wake_retries.notify_one();
                woken.wake_pauses.notify_one();
            }),
            once: operator::once(admission.store.clone(), self.clock.clone()),
            clock: self.clock.clone(),
            gate,
            destinations: self.destination_facts(),
            settings: self.config.settings.clone(),
            bulk: BulkRules {
                approvals_n: self.config.admin.approvals_n,
                approval_ms: i64::from(self.config.admin.approval_h) * 3_600_000,
            },
            breaker: Box::new(move |name| breakers.state_of(name)),
            call_times: Box::new(move |name| times.times(name)),
        }
    }

    fn provider_facts(&self, entries: &Entries, installation_id: &Uuid) -> Vec<ProviderFacts> {
        let facts = |(name, entry): (&Name, &Arc<ProviderEntry>)| {
            let (spec, config) = (entry.provider.spec(), self.config.providers.get(name));
            let is_open = |setting: &String| {
                config.is_some_and(|one| one.settings.text(setting).is_some_and(|text| text == "open"))
            };
            let secrets = entry.provider.secrets();
            ProviderFacts {
                name: name.clone(),
                kind: spec.kind.clone(),
                url: entry.provider.url().to_owned(),
                identity: identity_rules(spec),
                horizon_h: spec.horizon_h,
                is_unverified: config.is_some_and(|one| one.is_unverified_accepted),
                is_pairing: spec.handshake.iter().filter_map(|one| one.armed_by.as_ref()).any(is_open),
                ids_days: self.config.retention.ids_days_for(name),
                sender: sender(spec),
                has_search: spec
                    .event
                    .iter()
                    .any(|event| !event.search.0.is_empty())
                    .then(|| config.is_none_or(|one| one.has_search)),
                headers: headers(spec),
                samples: self.samples(&spec.kind),
                fingerprints: secrets.map(|secret| fingerprint(installation_id, name, secret)).collect(),
            }
        };
        entries.iter().map(facts).collect()
    }

    /// The types of which a kind has sample events.
    fn samples(&self, kind: &str) -> Vec<String> {
        let kind = self.kinds.iter().find(|known| known.kind() == kind);
        let samples = kind.map(Provider::sample_list).unwrap_or_default();
        samples.into_iter().map(|(event_type, _)| event_type.to_owned()).collect()
    }

    fn destination_facts(&self) -> BTreeMap<Name, DestinationFacts> {
        let facts = |(name, config): (&Name, &DestinationConfig)| {
            let facts = DestinationFacts {
                kind: config.target.kind(),
                concurrency_n: config.concurrency_n,
                rate_per_s: config.rate_per_s,
                policy: policy(config),
            };
            (name.clone(), facts)
        };
        self.config.destinations.iter().map(facts).collect()
    }
}

/// The destinations of events by the configured routes.
fn routed(entries: Entries) -> Routed {
    Arc::new(move |provider, event_type| {
        let entry = entries.get(&Name::parse(provider).ok()?)?;
        entry.provider.handlers().routed_to(event_type)
    })
}

/// How a destination is called, and when calls are repeated.
fn policy(config: &DestinationConfig) -> PolicyView {
    let RetryConfig { first_ms, max_ms, attempts_n, age_max_ms } = config.retry;
    PolicyView {
        unknown: config.unknown.word(),
        key_valid_for_ms: config.key_valid_for_ms,
        host: host_of(config).map(|(host, port)| format!("{host}:{port}")),
        timeout_ms: config.timeout_ms,
        retry: RetryView { first_ms, max_ms, attempts_n, age_max_ms },
    }
}

/// Host and port of an HTTP destination, unless a template decides them.
fn host_of(config: &DestinationConfig) -> Option<(String, u16)> {
    let url = reqwest::Url::parse(&config.url).ok()?;
    let host = url.host_str().filter(|host| !host.contains(['{', '%']))?;
    Some((host.to_owned(), url.port_or_known_default()?))
}

/// The facts about the sender in a kind's spec.
fn sender(spec: &Spec) -> SenderView {
    SenderView {
        title: spec.title.clone(),
        docs: spec.docs.clone(),
        confidence: words::confidence(spec).to_owned(),
        secret_hint: spec.secret_hint.clone(),
        signed_by: words::signed_by(spec),
        weakness: spec.signature.weak.map(|weak| weak.as_str().to_owned()),
        identities: spec.event.iter().map(words::identities).collect(),
        answer_within_ms: spec.answer_within_ms,
    }
}

/// The headers that a kind reads: signatures first, and what its events are read from.
fn headers(spec: &Spec) -> Vec<String> {
    let of_signature = std::iter::once(&spec.signature).chain(&spec.alternative);
    let mut names: Vec<String> = Vec::new();
    for signature in of_signature {
        let prefix = |name: &String| match signature.scheme {
            Scheme::StandardWebhooks => {
                ["id", "timestamp", "signature"].map(|part| format!("{name}{part}")).to_vec()
            }
            _ => vec![name.trim_end_matches('*').to_owned()],
        };
        names.extend(signature.headers.iter().flat_map(prefix));
    }
    for event in &spec.event {
        names.extend(event.when_header.clone());
        for source in &event.event_type.0 {
            if let Source::Header(text) = source {
                names.extend(text.split('|').map(str::to_owned));
            }
        }
    }
    names
}

/// The rules that identify events of a kind, as rows have them, in the order in which they are tried.
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

impl App {
    /// The doctor of this node.
    pub(super) fn doctor(
        &self,
        admission: &AdmitContext,
        calls: NodeCalls,
        readiness: watch::Receiver<Readiness>,
        requests: CountedRequests,
    ) -> NodeDoctor {
        let config = &self.config;
        let (wanted_n, others_n) = (config.server.connections_n_max as usize, self.files_n());
        let of_files = move || {
            let OpenFiles { n, n_max } = OpenFiles::of_process();
            let (open_n, open_n_max) = (n.unwrap_or(0), n_max.unwrap_or(u64::MAX));
            let fit_n = fit_n(wanted_n, others_n) as u64;
            FileFacts { open_n, open_n_max, wanted_n: wanted_n as u64, fit_n }
        };
        let tls = [("receiver", &config.server.tls), ("operator", &config.admin.tls)];
        let listeners: Vec<(&'static str, ListenerTlsConfig)> =
            tls.into_iter().filter_map(|(name, files)| Some((name, files.clone()?))).collect();
        let warnings = config.warnings.iter().map(ToString::to_string).chain(self.warnings.iter().cloned());
        NodeDoctor::new(DoctorParts {
            store: admission.store.clone(),
            clock: self.clock.clone(),
            calls,
            is_dev: self.has_echo,
            database: config.database.clone(),
            retention: config.retention.clone(),
            lease_ms: config.outbox.lease_ms,
            warnings: warnings.collect(),
            listeners,
            hosts: self.hosts(),
            files: Box::new(of_files),
            failing: Box::new(move || readiness.borrow().failing()),
            refusing_since_ms: Box::new(move |now_ms| requests.refusing_since_ms(now_ms, true)),
        })
    }

    /// What is needed to send probes to the receiver.
    pub(super) fn probes(&self, admission: &AdmitContext) -> ProbeFacts {
        ProbeFacts {
            key: ProbeKey::new(&admission.installation_id),
            public_url: self.config.server.public_url.clone(),
            body_bytes_max: self.config.server.body_bytes_max,
        }
    }

    /// The hosts of HTTP destinations, unless a template decides them.
    fn hosts(&self) -> Vec<(String, String, u16)> {
        let host =
            |(name, config): (&hooklatch_core::types::Name, &hooklatch_core::config::DestinationConfig)| {
                let (host, port) = host_of(config)?;
                let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
                Some((name.to_string(), host, port))
            };
        self.config.destinations.iter().filter_map(host).collect()
    }
}

/// Refreshes this node's row until the stop, then deletes it.
pub(super) async fn be_seen(store: &Store, clock: &Clock, node: &str, mut stop: Stop) {
    if let Err(error) = store.nodes_forget(clock.now_ms()).await {
        debug!(%error, "could not delete the rows of nodes that are gone");
    }
    while !stop.is_set() {
        if let Err(error) = store.node_seen(node, env!("CARGO_PKG_VERSION"), clock.now_ms()).await {
            debug!(%error, "could not write that this node is there");
        }
        stop.pause(NODE_SEEN_EVERY).await;
    }
    if let Err(error) = store.node_gone(node).await {
        debug!(%error, "could not write that this node is gone");
    }
}

impl App {
    /// What-if on this database; `turns` limits its transactions.
    pub(super) fn what_if(
        &self,
        store: &Store,
        installation_id: Uuid,
        entries: Entries,
        turns: Arc<Semaphore>,
    ) -> WhatIf {
        WhatIf::new(WhatIfParts {
            store: store.clone(),
            planner: Planner::new(self.clock.clone(), installation_id),
            entries,
            handler_timeout: Duration::from_millis(self.config.server.handler_timeout_ms),
            turns,
        })
    }

    /// What-if by itself, without a server around it.
    pub(crate) async fn what_if_alone(&self, store: &Store) -> anyhow::Result<WhatIf> {
        let entries = self.entries()?;
        let installation_id =
            store.installation_id().await.context("could not read the installation's id")?;
        let turns = Arc::new(Semaphore::new(store.handlers_n()));
        Ok(self.what_if(store, installation_id, entries, turns))
    }
}
