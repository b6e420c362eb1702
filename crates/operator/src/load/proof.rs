//! What a configuration does with the sample events of its kinds, and what in it is most likely not meant: `check`
//! prints both.
//!
//! Each sample goes through routes, lanes, plain handlers and templates, without a database and without calls. A
//! running server answers 200 to an event that no route takes, whose lane is missing or whose template names nothing,
//! so such a mistake is not visible there. All of it are warnings: a sample is an example, and a sender has types of
//! which there is no sample.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::configuration::{Kinds, Loaded, kind_of};
use super::layers::{ConfigSources, Settings};
use super::warnings::{meant_name, meant_type};
use hooklatch_core::config::{
    Config, ConfigProblem, EffectiveSetting, ProviderConfig, RouteConfig, SettingLayer,
};
use hooklatch_core::figures::plural;
use hooklatch_core::filter::{Place, Root};
use hooklatch_core::mistakes::shown;
use hooklatch_core::template::Limits;
use hooklatch_core::types::{IncomingEvent, Name, TypePattern};
use hooklatch_receive::admit::{TemplateError, Templates};
use hooklatch_receive::handler::{
    EventContent, EventTexts, Handled, HandlerError, Message, RawEvent, lane_of,
};
use hooklatch_receive::kind::sample_events;
use hooklatch_receive::provider::{ActiveProvider, Kind, Provider};
use hooklatch_verify::DevKeys;
use hooklatch_verify::spec::{EventSpec, Spec, Weakness};

/// Longest time that the handlers of one sample event may take.
const HANDLER_LIMIT: Duration = Duration::from_secs(5);

/// What follows from the samples, and what is most likely not meant.
#[derive(Default)]
pub struct Proof {
    pub samples: Vec<SampleResult>,
    pub warnings: Vec<ConfigProblem>,
}

/// What follows from one sample event at one provider.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct SampleResult {
    pub provider: String,
    pub event_type: String,
    pub outcome: SampleOutcome,
    /// The calls that would be made.
    pub calls: Vec<SampleCall>,
    /// The reason why it is ignored, failed or was not run.
    pub why: Option<String>,
}

impl SampleResult {
    fn new(provider: &Name, event_type: &str, outcome: SampleOutcome, why: Option<String>) -> Self {
        let (provider, event_type) = (provider.to_string(), event_type.to_owned());
        Self { provider, event_type, outcome, calls: Vec::new(), why }
    }
}

/// One call that would be made.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct SampleCall {
    pub destination: String,
    pub lane: Option<String>,
}

/// What would become of a sample event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SampleOutcome {
    /// Routes and handlers answered with these calls, or with none.
    Done,
    /// No route and no handler takes its type.
    Untaken,
    /// Its handler ignores it.
    Ignored,
    /// It would be kept as `failed`, or tried again.
    Failed,
    /// It could not be run here.
    NotRun,
}

/// Runs the samples of every configured provider, and looks for what is most likely not meant.
pub fn prove(settings: &Settings, loaded: &Loaded, kinds: &Kinds) -> Proof {
    let config = &loaded.config;
    let keys = DevKeys::generate().and_then(|text| DevKeys::parse(&text)).unwrap_or_default();
    let mut prover = Prover {
        config,
        templates: Templates::new(&config.destinations).unwrap_or_default(),
        keys,
        default_source: ConfigSources::of(settings).checker().default_source,
        reached_n: BTreeMap::new(),
        misfits: BTreeMap::new(),
        stuck: BTreeSet::new(),
        proof: Proof::default(),
    };
    if config.providers.is_empty() {
        let remedy = "write a [providers.NAME], as in README.md, or name the file with --config FILE";
        prover.warn("providers", None, "there is none, so that nothing can be received", remedy);
    }
    if config.admin.tokens.is_empty() {
        let remedy = "write tokens = [{ name = \"ops\", role = \"admin\", token = { env = \"HOOKLATCH_OPS_TOKEN\" } }]";
        let why = "there is none, so nobody can use the console or the API";
        prover.warn("admin.tokens", None, why, remedy);
    }
    for (name, active) in &loaded.active {
        let Some(provider) = config.providers.get(name) else { continue };
        let Some(kind) = kind_of(kinds, provider) else { continue };
        let Ok(spec) = kind.spec() else { continue };
        prover.provider(&Proven { name, provider, kind, spec, active });
    }
    prover.unused_handlers(kinds);
    prover.misfits();
    prover.proof
}

/// One configured provider.
struct Proven<'a> {
    name: &'a Name,
    provider: &'a ProviderConfig,
    kind: &'a Provider,
    spec: &'a Spec,
    active: &'a ActiveProvider,
}

/// What a template lacks.
struct Misfit {
    /// The pointer into the payload that was probably meant.
    meant: Option<String>,
    types: BTreeSet<String>,
    events_n: usize,
}

struct Prover<'a> {
    config: &'a Config,
    templates: Templates,
    /// Keys with which senders are played that have private ones.
    keys: DevKeys,
    /// The file that is named where a key is missing.
    default_source: String,
    /// Number of sample events that reached a destination.
    reached_n: BTreeMap<String, usize>,
    /// What templates lack, by destination, key and reason.
    misfits: BTreeMap<(String, &'static str, String), Misfit>,
    /// Providers of which a handler did not answer in time.
    stuck: BTreeSet<Name>,
    proof: Proof,
}

impl Prover<'_> {
    /// Warns about a key, and names the file or variable that sets it; for a key that is not set, the file.
    fn warn(&mut self, key: &str, value: Option<&str>, why: &str, remedy: &str) {
        let is_set =
            |one: &&EffectiveSetting| one.layer != SettingLayer::Default && key.starts_with(&one.key);
        let found = self.config.settings.iter().find(is_set);
        let source = found.map_or(&self.default_source, |one| &one.source);
        self.push(ConfigProblem { value: value.map(shown), ..ConfigProblem::new(source, key, why, remedy) });
    }

    /// Warns about the handlers of this program for a kind.
    fn warn_program(&mut self, kind: &str, value: Option<&str>, why: &str, remedy: &str) {
        let key = format!("handlers of `{kind}`");
        let warning = ConfigProblem::new("this program", &key, why, remedy);
        self.push(ConfigProblem { value: value.map(shown), ..warning });
    }

    /// Two providers of one kind have the same handlers, which are reported once.
    fn push(&mut self, warning: ConfigProblem) {
        if !self.proof.warnings.contains(&warning) {
            self.proof.warnings.push(warning);
        }
    }

    /// A batch may hold several events of one type.
    fn add(&mut self, result: SampleResult) {
        if !self.proof.samples.contains(&result) {
            self.proof.samples.push(result);
        }
    }

    fn provider(&mut self, proven: &Proven<'_>) {
        let (mut events, mut known) = (Vec::new(), BTreeSet::new());
        for (event_type, sample) in proven.kind.sample_list() {
            let read = sample_events(proven.kind, event_type, sample, &self.keys);
            match read.unwrap_or_else(|| Err("only its sender can sign its samples".to_owned())) {
                Ok(read) => {
                    known.extend(read.iter().map(|event| event.event_type.clone()));
                    events.extend(read);
                }
                Err(why) => {
                    known.insert(event_type.to_owned());
                    self.add(SampleResult::new(proven.name, event_type, SampleOutcome::NotRun, Some(why)));
                }
            }
        }
        let key = format!("providers.{}", proven.name);
        if proven.active.handlers().patterns().next().is_none() {
            let why = "has no route, and this program has no handler for it: its events are stored and answered 200, and \
                       nothing follows";
            let remedy = format!("write a [[{key}.routes]] with on = [\"*\"] and to = \"NAME\"");
            self.warn(&key, None, why, &remedy);
        }
        self.patterns(proven, known);
        let reported = self.routes(proven, &events);
        let mut failures: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        for event in &events {
            let (name, event_type) = (proven.name, event.event_type.as_str());
            let result = match self.follow(proven, event) {
                Ok(result) => {
                    let failed = result.why.as_ref().filter(|_| result.outcome == SampleOutcome::Failed);
                    if let Some(why) = failed.filter(|_| !reported.contains(event_type)) {
                        failures.entry(why.clone()).or_default().insert(event_type);
                    }
                    result
                }
                Err(error) => {
                    let why = Some(error.to_string());
                    self.misfit(proven, event, error);
                    SampleResult::new(name, event_type, SampleOutcome::Failed, why)
                }
            };
            self.add(result);
        }
        for (why, types) in failures {
            let types: Vec<&str> = types.into_iter().collect();
            let why = format!("the samples of `{}` would fail: {why}", types.join("`, `"));
            self.warn(&key, None, &why, "correct the handler or the route, unless such an event is to fail");
        }
    }

    /// What follows from one event, without calls; the error is that of a template.
    fn follow(&mut self, proven: &Proven<'_>, event: &IncomingEvent) -> Result<SampleResult, TemplateError> {
        let (handlers, event_type) = (proven.active.handlers(), event.event_type.as_str());
        let result = |outcome, why| SampleResult::new(proven.name, event_type, outcome, why);
        if let Some(why) = &event.unreadable {
            return Ok(result(SampleOutcome::NotRun, Some(format!("cannot be read: {why}"))));
        }
        if !handlers.wants(event_type) {
            return Ok(result(SampleOutcome::Untaken, None));
        }
        let is_transactional = handlers.needs_transaction(event_type);
        let not_run = is_transactional.then(|| "its transactional handler is not run here".to_owned());
        let seen = seen(proven, event);
        let Some(handled) = self.dispatched(proven, &seen) else {
            let why = format!("its handler did not answer within {} s", HANDLER_LIMIT.as_secs());
            return Ok(result(SampleOutcome::Failed, Some(why)));
        };
        let effects = match handled {
            Ok(effects) => effects,
            Err(HandlerError::Ignore(_)) if is_transactional => {
                return Ok(result(SampleOutcome::NotRun, not_run));
            }
            Err(HandlerError::Ignore(why)) => {
                return Ok(result(SampleOutcome::Ignored, Some(why.to_owned())));
            }
            Err(error) => return Ok(result(SampleOutcome::Failed, Some(error.to_string()))),
        };
        for message in effects.messages() {
            *self.reached_n.entry(message.destination.clone()).or_default() += 1;
        }
        let key_of = |effect_name: &str| format!("key-{effect_name}");
        let effects = self.templates.fill(&seen, effects, Limits::alone(), key_of)?;
        Ok(match self.called(effects.messages()) {
            Ok(calls) => SampleResult { calls, ..result(SampleOutcome::Done, not_run) },
            Err(why) => result(SampleOutcome::Failed, Some(why)),
        })
    }

    /// What the handlers answer; `None` when they do not within [`HANDLER_LIMIT`]. The thread of such a one is left
    /// behind, and further events of its provider that handlers take are not waited for as long.
    fn dispatched(&mut self, proven: &Proven<'_>, seen: &RawEvent) -> Option<Handled> {
        let handlers = proven.active.handlers();
        if handlers.is_only_routed(&seen.event_type) {
            return Some(handlers.dispatch(seen, false));
        }
        let is_stuck = self.stuck.contains(proven.name);
        let limit = if is_stuck { HANDLER_LIMIT / 10 } else { HANDLER_LIMIT };
        let (answer, answered) = std::sync::mpsc::channel();
        let (handlers, seen) = (handlers.clone(), seen.clone());
        // The thread is not joined: the process ends with `check`.
        std::thread::spawn(move || drop(answer.send(handlers.dispatch(&seen, false))));
        let handled = answered.recv_timeout(limit).ok();
        if handled.is_none() {
            self.stuck.insert(proven.name.clone());
        }
        handled
    }

    /// The calls, unless one goes to a destination that is not configured.
    fn called(&self, messages: &[Message]) -> Result<Vec<SampleCall>, String> {
        let call = |message: &Message| {
            let destination = message.destination.clone();
            if !self.config.destinations.contains_key(destination.as_str()) {
                return Err(format!("no destination is called `{destination}`"));
            }
            Ok(SampleCall { destination, lane: lane_of(message).map(str::to_owned) })
        };
        messages.iter().map(call).collect()
    }

    fn misfit(&mut self, proven: &Proven<'_>, event: &IncomingEvent, error: TemplateError) {
        let TemplateError { destination, part, why, missing, .. } = error;
        let payload = || serde_json::from_slice(&event.payload).unwrap_or_default();
        let path = |name: &String| Some(format!("/{}", name.strip_prefix("payload.")?.replace('.', "/")));
        let meant = || missing.iter().find_map(|name| meant_pointer(proven.spec, &payload(), &path(name)?));
        let misfit = self.misfits.entry((destination, part, why)).or_insert_with(|| Misfit {
            meant: meant(),
            types: BTreeSet::new(),
            events_n: 0,
        });
        misfit.events_n += 1;
        misfit.types.insert(event.event_type.clone());
    }

    /// Warns of templates that did not fit the samples that reached their destination.
    fn misfits(&mut self) {
        for ((destination, part, why), misfit) in std::mem::take(&mut self.misfits) {
            let reached_n = self.reached_n.get(&destination).copied().unwrap_or_default();
            let which = part_of(&misfit.types, misfit.events_n, reached_n);
            let why = format!(
                "does not fit {which} that reach it: {why}; an event like that is kept as failed, and nothing is sent"
            );
            let remedy = match &misfit.meant {
                Some(meant) => format!("did you mean `payload{}`?", meant.replace('/', ".")),
                None => "templates see `payload`, `event`, `envelope`, `headers`, `message` and `idempotency_key`; give a value that some events \
                         lack a default: {{ payload.NAME | default(\"\") }}"
                    .to_owned(),
            };
            self.warn(&format!("destinations.{destination}.{part}"), None, &why, &remedy);
        }
    }

    /// Warns of conditions and lanes that do not fit the samples; returns the types of the events that fail for it.
    fn routes(&mut self, proven: &Proven<'_>, events: &[IncomingEvent]) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        for (n, route) in proven.provider.routes.iter().enumerate() {
            let is_taken = |event: &&IncomingEvent| {
                event.unreadable.is_none() && route.on.iter().any(|on| on.matches(&event.event_type))
            };
            let taken: Vec<RawEvent> =
                events.iter().filter(is_taken).map(|event| seen(proven, event)).collect();
            let key = format!("providers.{}.routes[{n}]", proven.name);
            let (passing, failing) = self.filtered(proven, route, &key, &taken);
            all.extend(failing);
            let Some(place) = &route.lane else { continue };
            let is_missing = |event: &&&RawEvent| EventTexts::new(event).id_text(place).is_err();
            let missing: Vec<&RawEvent> = passing.iter().filter(is_missing).copied().collect();
            let Some(first) = missing.first() else { continue };
            let types: BTreeSet<String> = missing.iter().map(|event| event.event_type.clone()).collect();
            let remedy = meant_place(proven.spec, first, place)
                .unwrap_or_else(|| "write a place that every such event has, or narrow `on`".to_owned());
            let which = part_of(&types, missing.len(), passing.len());
            let why = format!(
                "leads nowhere in {which} that the route takes: an event like that is kept as failed, and nothing is sent"
            );
            self.warn(&format!("{key}.lane"), Some(place.as_str()), &why, &remedy);
            all.extend(types);
        }
        all
    }

    /// The events that `when` of a route lets pass, and the types of those that fail for it, after a warning where it
    /// does not fit the samples.
    fn filtered<'e>(
        &mut self,
        proven: &Proven<'_>,
        route: &RouteConfig,
        key: &str,
        taken: &'e [RawEvent],
    ) -> (Vec<&'e RawEvent>, BTreeSet<String>) {
        let Some(filter) = &route.when else { return (taken.iter().collect(), BTreeSet::new()) };
        let (key, text) = (format!("{key}.when"), filter.to_string());
        let is_partly_signed = proven.spec.signature.weak == Some(Weakness::Body);
        if is_partly_signed && proven.spec.event.iter().any(|event| event.covered.is_none()) {
            let why = "reads what the signature may not cover: anyone who has one genuine request can change it, and have the \
                       event left out";
            self.warn(
                &key,
                Some(&text),
                why,
                "decide in a handler that asks the sender, unless that is acceptable",
            );
        }
        let (mut passing, mut failing, mut types) = (Vec::new(), Vec::new(), BTreeSet::new());
        for event in taken {
            match filter.passes(&EventTexts::new(event)) {
                Ok(true) => passing.push(event),
                Ok(false) => {}
                Err(why) => {
                    types.insert(event.event_type.clone());
                    failing.push((event, why));
                }
            }
        }
        if let Some((event, why)) = failing.first() {
            let which = part_of(&types, failing.len(), taken.len());
            let meant = filter.places().iter().find_map(|place| {
                let is_missing = EventTexts::new(event).id_text(place).is_err();
                is_missing.then(|| meant_place(proven.spec, event, place)).flatten()
            });
            let remedy = meant.unwrap_or_else(|| {
                "ask whether it is there first, as in `payload.NAME is defined and …`, or narrow `on`"
                    .to_owned()
            });
            let why = format!(
                "cannot be decided for {which} that the route takes ({why}): an event like that is kept as failed, and nothing \
                 is sent"
            );
            self.warn(&key, Some(&text), &why, &remedy);
        } else if passing.is_empty() && !taken.is_empty() {
            let types = taken.iter().map(|event| event.event_type.clone()).collect();
            let which = part_of(&types, taken.len(), taken.len());
            let why = format!("is false for {which} that the route takes: nothing would be sent");
            self.warn(&key, Some(&text), &why, "correct it, unless only events unlike the samples are meant");
        }
        (passing, types)
    }

    /// Warns of patterns that fit no type that is known, and are near to one.
    fn patterns(&mut self, proven: &Proven<'_>, mut known: BTreeSet<String>) {
        let (name, kind) = (proven.name, proven.kind.kind());
        let rules = proven.spec.event.iter().flat_map(|event| &event.identity).flat_map(|one| &one.types);
        let named = proven.spec.event_types.as_ref();
        // Of such a type the sender's user chooses the rest.
        let composed: Vec<TypePattern> = named
            .iter()
            .flat_map(|types| &types.list)
            .filter(|one| one.ends_with('*'))
            .filter_map(|one| TypePattern::parse(one).ok())
            .collect();
        let rules: Vec<&TypePattern> = rules.chain(&composed).collect();
        let exact = rules.iter().map(|one| one.as_str()).filter(|one| !one.ends_with('*'));
        known.extend(exact.map(str::to_owned));
        known.extend(named.iter().flat_map(|types| types.list.iter().cloned()));
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let why =
            format!("fits no type that Hooklatch knows of `{kind}`, so that such events may be ignored");
        // What to do about a pattern that fits no known type. Where the sender's types are not collected, only one that
        // is almost known is reported.
        let remedy = |pattern: &TypePattern| {
            let is_known =
                known.iter().any(|one| pattern.matches(one)) || rules.iter().any(|one| overlap(one, pattern));
            if is_known {
                return None;
            }
            match (meant_type(pattern.as_str(), &known), named) {
                (Some(meant), _) => {
                    Some(format!("did you mean \"{meant}\"? Leave it if the sender has such a type"))
                }
                (None, Some(types)) => Some(format!(
                    "`hooklatch providers {kind} --json` lists those of {}; leave it if the sender has such a type",
                    types.source
                )),
                (None, None) => None,
            }
        };
        let routes = &proven.provider.routes;
        let routed = routes.iter().enumerate().flat_map(|(n, route)| {
            route.on.iter().enumerate().map(move |(i, pattern)| (format!("routes[{n}].on[{i}]"), pattern))
        });
        let types = &proven.provider.types;
        let listed = types.iter().enumerate().map(|(i, pattern)| (format!("types[{i}]"), pattern));
        let is_read_by_list = proven.spec.event.iter().any(EventSpec::is_type_unsigned) && !types.is_empty();
        for (key, pattern) in routed.chain(listed) {
            let key = format!("providers.{name}.{key}");
            if let Some(remedy) = remedy(pattern) {
                self.warn(&key, Some(pattern.as_str()), &why, &remedy);
            } else if is_read_by_list && !types.iter().any(|one| overlap(one, pattern)) {
                let why = format!(
                    "is not in providers.{name}.types, so that such events are kept as `unknown` and not taken"
                );
                self.warn(&key, Some(pattern.as_str()), &why, "add it to `types`");
            }
        }
        for pattern in proven.kind.handlers().patterns() {
            if let Some(remedy) = remedy(pattern) {
                self.warn_program(kind, Some(pattern.as_str()), &why, &remedy);
            }
        }
    }

    /// Warns of handlers that nothing calls.
    fn unused_handlers(&mut self, kinds: &[Provider]) {
        for kind in kinds.iter().filter(|kind| kind.handlers().patterns().next().is_some()) {
            let name = kind.kind();
            if !self.config.providers.values().any(|one| one.kind.as_str() == name) {
                let remedy = format!("write [providers.{name}] with its secrets, or take them out");
                let why = "no provider of this kind is configured, so that they never run";
                self.warn_program(name, None, why, &remedy);
            }
        }
    }
}

/// A sample event as dispatch sees it.
fn seen(proven: &Proven<'_>, event: &IncomingEvent) -> RawEvent {
    let EventContent { payload, envelope, headers } = proven.active.content(event);
    RawEvent {
        provider: proven.name.clone(),
        event_id: event.key.event_id.clone(),
        event_type: event.event_type.clone(),
        payload,
        envelope,
        headers,
        received_at_ms: event.received_at_ms,
        attempt_n: 1,
        ahead: hooklatch_receive::handler::ParsedAhead::default(),
    }
}

/// A remedy that names the place that was probably meant by one where an event has nothing.
fn meant_place(spec: &Spec, event: &RawEvent, place: &Place) -> Option<String> {
    let (payload, envelope): (Value, Value) =
        (serde_json::from_slice(&event.payload).ok()?, event.envelope.json().ok()?);
    let pointer = place.pointer.as_str();
    let (root, meant) = match place.root {
        Root::Payload if payload.pointer(pointer).is_some() => return None,
        Root::Payload => match meant_pointer(spec, &payload, pointer) {
            Some(meant) => ("payload", meant),
            None if envelope.pointer(pointer).is_some() => ("envelope", pointer.to_owned()),
            None => return None,
        },
        Root::Envelope if envelope.pointer(pointer).is_some() => return None,
        Root::Envelope => ("envelope", meant_name(&envelope, pointer)?),
        Root::Header(_) => return None,
    };
    let is_pointer = root == "payload" && place.as_str().starts_with('/');
    let meant = if is_pointer { meant } else { format!("{root}{}", meant.replace('/', ".")) };
    Some(format!("did you mean \"{meant}\"?"))
}

/// The pointer that was probably meant by one that leads nowhere in `payload`.
fn meant_pointer(spec: &Spec, payload: &Value, pointer: &str) -> Option<String> {
    // The sender's own page counts from the top of the body, and so do its readers.
    let prefixes = spec.event.iter().map(|event| event.payload.as_str()).filter(|prefix| !prefix.is_empty());
    let mut shorter = prefixes.filter_map(|prefix| pointer.strip_prefix(prefix));
    let found = shorter.find(|rest| payload.pointer(rest).is_some_and(|value| value != payload));
    found.map(str::to_owned).or_else(|| meant_name(payload, pointer))
}

/// True when some type may fit both patterns.
fn overlap(one: &TypePattern, other: &TypePattern) -> bool {
    let fits = |one: &TypePattern, other: &TypePattern| one.matches(other.as_str().trim_end_matches('*'));
    fits(one, other) || fits(other, one)
}

/// How many of the samples, and which.
fn part_of(types: &BTreeSet<String>, part_n: usize, all_n: usize) -> String {
    let list: Vec<&str> = types.iter().map(String::as_str).collect();
    format!("{part_n} of {} (`{}`)", plural(all_n as u64, "sample event"), list.join("`, `"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::load;
    use hooklatch_receive::handler::{Effects, Event, Handled, ignore, refuse};
    use hooklatch_store::Tx;

    /// What `check` finds of this configuration, with these kinds beside the built-in ones.
    fn proven(text: &str, own: Vec<Provider>) -> Proof {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("hooklatch.toml");
        let tokens = "admin.tokens = [{ name = \"a\", role = \"admin\", token = \"0123456789abcdef\" }]\n";
        std::fs::write(&file, format!("{tokens}{text}")).expect("written");
        let settings = Settings { file: Some(file), ..Settings::default() };
        let kinds = crate::load::kinds_beside(&settings, own);
        let loaded = load(&settings, &kinds).unwrap_or_else(|problems| panic!("{problems:?}"));
        prove(&settings, &loaded, &kinds)
    }

    #[test]
    fn every_built_in_kind_has_samples_of_which_something_follows_and_no_warning() {
        let keys = DevKeys::generate().and_then(|text| DevKeys::parse(&text)).expect("keys");
        let settings = Settings { dev: Some(keys), ..Settings::default() };
        let kinds = Kinds::of(hooklatch_receive::providers::builtin());
        let loaded = load(&settings, &kinds).unwrap_or_else(|problems| panic!("{problems:?}"));
        let proof = prove(&settings, &loaded, &kinds);
        assert!(proof.warnings.is_empty(), "`serve --dev` is warned of nothing: {:?}", proof.warnings);
        let odd: Vec<_> = proof.samples.iter().filter(|one| one.outcome != SampleOutcome::Done).collect();
        assert!(odd.is_empty() && proof.samples.len() > 400, "{odd:#?}");
    }

    #[test]
    fn plain_handlers_are_run_and_their_outcomes_are_reported() {
        async fn in_tx(_: &mut Tx, _: Event<Value>) -> Handled {
            Ok(Effects::new())
        }
        let kind = hooklatch_receive::kind("stripe")
            .on("invoice.paid", |_: Event<Value>| Ok(Effects::new().call("receipts", ())))
            .on("charge.refunded", |_: Event<Value>| refuse("no account"))
            .on("plan.created", |_: Event<Value>| ignore("not needed"))
            .on("payment_intent.succeded", |_: Event<Value>| Ok(Effects::new()))
            .on_tx("payment_intent.succeeded", in_tx);
        let unused = hooklatch_receive::kind("github").on("push", |_: Event<Value>| Ok(Effects::new()));
        let stripe = "[providers.stripe]\nsecrets = [\"whsec_0123456789abcdef\"]\n";
        let proof = proven(stripe, vec![kind, unused]);
        let of = |event_type: &str| {
            let one = proof.samples.iter().find(|one| one.event_type == event_type).expect("a sample");
            (one.outcome, one.why.as_deref().unwrap_or_default())
        };
        assert_eq!(of("invoice.paid"), (SampleOutcome::Failed, "no destination is called `receipts`"));
        assert_eq!(of("charge.refunded"), (SampleOutcome::Failed, "no account"));
        assert_eq!(of("plan.created"), (SampleOutcome::Ignored, "not needed"));
        assert_eq!(of("payment_intent.succeeded").0, SampleOutcome::NotRun);
        assert_eq!(of("v1.billing.meter.error_report_triggered").0, SampleOutcome::Untaken);
        let reported: Vec<String> = proof.warnings.iter().map(ToString::to_string).collect();
        for part in [
            "providers.stripe: the samples of `charge.refunded` would fail: no account",
            "providers.stripe: the samples of `invoice.paid` would fail: no destination is called `receipts`",
            "this program: handlers of `stripe`: `payment_intent.succeded` fits no type",
            "did you mean \"payment_intent.succeeded\"?",
            "this program: handlers of `github`: no provider of this kind is configured",
        ] {
            assert!(reported.iter().any(|one| one.contains(part)), "no `{part}` in {reported:#?}");
        }
        assert_eq!(reported.len(), 4, "{reported:#?}");
    }

    #[test]
    fn event_types_of_a_kind_name_those_of_its_samples() {
        let mut wrong = Vec::new();
        for (kind, make) in hooklatch_receive::providers::KINDS {
            let made = make();
            let Some((spec, types)) =
                made.spec().ok().and_then(|spec| Some((spec, spec.event_types.as_ref()?)))
            else {
                continue;
            };
            // Types that a user composes stand in no list: the table of their identity names them.
            let composed: Vec<&TypePattern> =
                spec.event.iter().flat_map(|event| &event.identity).flat_map(|one| &one.types).collect();
            let is_named = |event_type: &str| {
                let is_it = |one: &String| {
                    one.strip_suffix('*').map_or(one == event_type, |stem| event_type.starts_with(stem))
                };
                types.list.iter().any(is_it) || composed.iter().any(|one| one.matches(event_type))
            };
            for (event_type, sample) in made.sample_list() {
                let events = sample_events(&made, event_type, sample, &DevKeys::default());
                let events = events.and_then(Result::ok).unwrap_or_default();
                wrong.extend(
                    events
                        .iter()
                        .filter(|event| !is_named(&event.event_type))
                        .map(|event| format!("{kind}: {}", event.event_type)),
                );
            }
        }
        assert!(wrong.is_empty(), "samples of types that the list does not have: {wrong:#?}");
    }

    #[test]
    fn a_handler_that_never_returns_is_reported_and_blocks_nothing() {
        let kind = hooklatch_receive::kind("stripe").on("invoice.*", |_: Event<Value>| -> Handled {
            loop {
                std::thread::park();
            }
        });
        let proof = proven("[providers.stripe]\nsecrets = [\"whsec_0123456789abcdef\"]\n", vec![kind]);
        let one = proof.samples.iter().find(|one| one.event_type == "invoice.paid").expect("a sample");
        let why = one.why.as_deref().unwrap_or_default();
        assert_eq!((one.outcome, why), (SampleOutcome::Failed, "its handler did not answer within 5 s"));
        let reported = proof.warnings.iter().any(|one| one.to_string().contains("did not answer within 5 s"));
        assert!(reported, "{:?}", proof.warnings);
    }
}
