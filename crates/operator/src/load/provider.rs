//! `[providers.NAME]`: who may send, how it signs, and where its events go, against what its kind knows.

use ::config::ValueKind;

use super::configuration::Kinds;
use hooklatch_core::config::{
    AgeConfig, BODY_BYTES, Field, KindSettings, ProviderConfig, RetryConfig, RouteConfig, Secret, Table,
    entry_name,
};
use hooklatch_core::filter::{Filter, Place, Root};
use hooklatch_core::json::RedactedPaths;
use hooklatch_core::mistakes::{nearest, shown};
use hooklatch_core::types::{Name, OnConflict, TypePattern, stored_text};
use hooklatch_receive::provider::{Kind, Provider};
use hooklatch_verify::spec::{EventSpec, SettingForm, SettingSpec, Spec};

/// Delays and bounds of retries of failing handlers, the defaults of `retry`.
const RETRY: RetryConfig =
    RetryConfig { first_ms: 1_000, max_ms: 3_600_000, attempts_n: 30, age_max_ms: 259_200_000 };
/// Most patterns in `types`.
const TYPES_N_MAX: usize = 256;
/// Longest that a request may have been under way, unless the kind allows for more. Seconds; no longer than the
/// shortest retention of ids.
const TOLERANCE_S_MAX: u64 = 86_400;
/// Shortest bound of a time that its sender bounds nowhere: its first attempt has to pass. Seconds.
const AGE_S_MIN: u64 = 60;
/// Longest. Seconds; what a kind without a bound counts as.
const AGE_S_MAX: u64 = 400 * 86_400;

/// The names that a provider's keys are checked against.
pub(super) struct ConfiguredNames<'a> {
    /// The kinds there are, and those that cannot be used, which is reported elsewhere.
    pub kinds: &'a Kinds,
    /// The names under `[destinations]`, right or wrong.
    pub destinations: &'a [String],
    /// `server.body_bytes_max`.
    pub body_bytes_max: u32,
}

/// Reads one provider; what is wrong with it is recorded.
pub(crate) fn provider(
    name: &str,
    field: &Field<'_>,
    known: &ConfiguredNames<'_>,
) -> Option<(Name, ProviderConfig)> {
    let name = entry_name(name, field)?;
    let mut table = field.table()?;
    let written = table.take("kind");
    let kind = match &written {
        Some(field) => field.text(),
        None => Some(name.to_string()),
    };
    if kind.as_ref().is_some_and(|kind| known.kinds.broken.contains(kind)) {
        return None;
    }
    let place = written.as_ref().unwrap_or(field).at(table.path("kind"));
    let spec = kind.and_then(|kind| spec(&kind, &place, known.kinds));
    let config = keys(&mut table, spec, known);
    table.finish();
    Some((name, config?))
}

/// The keys of a provider; all are read even where its kind is not known.
fn keys(table: &mut Table<'_>, spec: Option<&Spec>, known: &ConfiguredNames<'_>) -> Option<ProviderConfig> {
    let settings = settings(table, spec.map_or(&[], |spec| spec.setting.as_slice()));
    let is_unverified_accepted = unverified(table, spec);
    let secrets = secrets(table, spec, is_unverified_accepted);
    let on_handler_error = table.get("on_handler_error").unwrap_or_default();
    let age = age(table, spec);
    let words = [("keep", OnConflict::Keep), ("dispatch", OnConflict::Dispatch)];
    let on_conflict = table.word("on_conflict", &words);
    let types = subscribed_types(table, spec);
    let redact = table.list("redact").iter().filter_map(pointer).collect();
    let has_search = table.get("search").unwrap_or(true);
    let is_payload_whole = payload(table);
    let allow_from = table.get("allow_from").unwrap_or_default();
    let is_first_party = table.get("first_party").unwrap_or_default();
    let body_bytes_max = table.number("body_bytes_max", BODY_BYTES);
    let of_kind = spec.and_then(|spec| spec.body_bytes_max).unwrap_or_default();
    let retry = RetryConfig::read(table, RETRY);
    let readable = Readable { spec, is_unverified_accepted, is_payload_whole };
    let route = |field: &Field<'_>| field.section(|table| route(table, known.destinations, &readable));
    let routes = table.list("routes").iter().filter_map(|field| route(field).flatten()).collect();
    Some(ProviderConfig {
        kind: Name::parse(&spec?.kind).ok()?,
        secrets,
        settings,
        is_unverified_accepted,
        on_handler_error,
        age,
        on_conflict,
        types,
        redact,
        has_search,
        is_payload_whole,
        allow_from,
        is_first_party,
        body_bytes_max: body_bytes_max.unwrap_or_else(|| known.body_bytes_max.max(of_kind)),
        routes,
        retry,
    })
}

/// The spec of this kind; `None` after a problem.
fn spec<'a>(kind: &str, place: &Field<'_>, kinds: &'a [Provider]) -> Option<&'a Spec> {
    // A kind of a program's own whose file is not a spec is reported when the app is built; here it is not known.
    let specs = || kinds.iter().filter_map(|kind| kind.spec().ok());
    if let Some(spec) = specs().find(|spec| spec.kind == kind) {
        return Some(spec);
    }
    let names: Vec<&str> = specs().map(|spec| spec.kind.as_str()).collect();
    let remedy = match nearest(kind, names.iter().copied()) {
        Some(near) => format!("did you mean kind = \"{near}\"?"),
        None => format!("set `kind` to one of {}", names.join(", ")),
    };
    place.problem(format!("there is no provider kind `{}`", shown(kind)), remedy);
    None
}

/// `unverified = "accept"`, which is only for kinds whose sender signs nothing.
fn unverified(table: &mut Table<'_>, spec: Option<&Spec>) -> bool {
    let Some(field) = table.take("unverified") else { return false };
    let is_accepted = field.word(&[("accept", true), ("refuse", false)]);
    let may_be = spec.is_some_and(|spec| spec.signature.may_be_unsigned);
    if is_accepted == Some(true) && !may_be {
        field.problem("this kind's sender signs its requests", "leave it out and write secrets");
    }
    is_accepted == Some(true) && may_be
}

/// `secrets = [ … ]`, newest first. A kind that verifies with its settings may have none.
fn secrets(table: &mut Table<'_>, spec: Option<&Spec>, is_unverified_accepted: bool) -> Vec<Secret> {
    let is_by_kind = spec.is_none_or(|spec| spec.signature.may_be_unsigned || spec.needs_secrets());
    let is_needed = is_by_kind && !is_unverified_accepted;
    let remedy = "write secrets = [{ env = \"NAME\" }]; without one anybody could sign";
    let field = if is_needed { table.needed("secrets", remedy) } else { table.take("secrets") };
    let Some((field, list)) = field.and_then(|field| Some((field.clone(), field.list()?))) else {
        return Vec::new();
    };
    if !list.is_empty() && is_unverified_accepted {
        let remedy = "leave one of them out: with a secret, what is not signed is refused";
        field.problem("stands beside unverified = \"accept\"", remedy);
    }
    if list.is_empty() && is_needed {
        field.problem("is an empty list", remedy);
    }
    list.iter().filter_map(Field::secret).collect()
}

/// `tolerance_s` and `max_age_s`: how old a signed time may be. A kind has one of the two at most.
fn age(table: &mut Table<'_>, spec: Option<&Spec>) -> AgeConfig {
    let (tolerance, max_age) = (table.take("tolerance_s"), table.take("max_age_s"));
    // What is wrong with the kind is reported already.
    let Some(spec) = spec else { return AgeConfig::default() };
    let (own_s, is_unbounded) = (spec.tolerance_s(), spec.is_age_unchecked());
    let untimed = |field: &Field<'_>| {
        field.problem_shown("this kind knows no signed time whose age it could check", "leave it out");
    };
    let mut age = AgeConfig::default();
    if let Some(field) = tolerance {
        match own_s {
            Some(own_s) => age.tolerance_s = field.number(&(1..=TOLERANCE_S_MAX.max(own_s.into()))),
            None if is_unbounded => field.problem_shown(
                "this kind's sender says nowhere how old a signed time may be",
                "write max_age_s, which sets a bound of your own",
            ),
            None => untimed(&field),
        }
    }
    if let Some(field) = max_age {
        match own_s {
            Some(own_s) => {
                let why = format!("this kind's sender has a bound of its own, {own_s} s");
                field.problem_shown(why, "write tolerance_s to widen or narrow that");
            }
            None if is_unbounded => age.max_age_s = field.number(&(AGE_S_MIN..=AGE_S_MAX)),
            None => untimed(&field),
        }
    }
    age
}

/// `settings = { … }`, against what the kind knows.
fn settings(table: &mut Table<'_>, known: &[SettingSpec]) -> KindSettings {
    let mut settings = KindSettings::default();
    let (key, field) = (table.path("settings"), table.take("settings"));
    // A table that is none is reported, and its keys are not missed.
    let Some(entries) = field.map_or_else(|| Some(Vec::new()), |field| field.entries()) else {
        return settings;
    };
    for (name, field) in entries {
        if let Some(spec) = known.iter().find(|spec| spec.name == name) {
            setting(&mut settings, spec, &field);
            continue;
        }
        let names: Vec<&str> = known.iter().map(|spec| spec.name.as_str()).collect();
        let remedy = match nearest(&name, names.iter().copied()) {
            Some(near) => format!("did you mean `{key}.{near}`?"),
            None if names.is_empty() => "leave it out: this kind has no settings".to_owned(),
            None => format!("this kind knows {}", names.join(", ")),
        };
        field.problem("is not a setting of this kind", remedy);
    }
    for spec in known.iter().filter(|spec| spec.needed && !settings.has(&spec.name)) {
        // One problem is enough for a setting that is there and wrong.
        let path = format!("{key}.{}", spec.name);
        let is_reported = table.checker.found().problems.iter().any(|problem| problem.key.starts_with(&path));
        if !is_reported {
            table.checker.missing(&path, spec.hint.clone());
        }
    }
    settings
}

fn setting(settings: &mut KindSettings, spec: &SettingSpec, field: &Field<'_>) {
    let is_list = matches!(field.value.kind, ValueKind::Array(_));
    let fields = match spec.form {
        SettingForm::List if is_list => field.list().unwrap_or_default(),
        SettingForm::Text | SettingForm::List => vec![field.clone()],
        SettingForm::Named => {
            for field in field.list().unwrap_or_default() {
                let named = field.section(|table| {
                    let shape = "write { id = \"…\", key = … }";
                    let id = table.get_needed::<String>("id", shape);
                    (id, table.get_needed::<Secret>("key", shape))
                });
                if let Some((Some(id), Some(key))) = named {
                    settings.push(&spec.name, Some(&id), key.reveal());
                }
            }
            return;
        }
    };
    for field in fields {
        let Some(value) = field.secret() else { continue };
        if !spec.words.is_empty() && !spec.words.iter().any(|word| value.is(word)) {
            let remedy = format!("write one of {}", spec.words.join(", "));
            field.problem("is not one of the words for this setting", remedy);
            continue;
        }
        settings.push(&spec.name, None, value.reveal());
    }
}

/// `payload = ""`: handlers get the whole envelope.
fn payload(table: &mut Table<'_>) -> bool {
    let payload = table.take("payload").and_then(|field| {
        field.parsed(|text| {
            let remedy = "write payload = \"\" for the whole envelope, or leave it out for the part that the kind names";
            if text.is_empty() { Ok(()) } else { Err(("is neither the kind's own nor the whole", remedy)) }
        })
    });
    payload.is_some()
}

/// What routes of a provider may read.
struct Readable<'a> {
    spec: Option<&'a Spec>,
    is_unverified_accepted: bool,
    is_payload_whole: bool,
}

impl Readable<'_> {
    /// Reports a place that the signature does not cover: an attacker who changes it would decide what follows.
    fn check(&self, field: &Field<'_>, place: &Place) {
        let Some(spec) = self.spec else { return };
        if let Root::Header(name) = &place.root {
            let is_covered = spec.headers.iter().any(|one| one.eq_ignore_ascii_case(name));
            if self.is_unverified_accepted || !is_covered {
                let why = format!("reads the header `{}`, which no signature covers", shown(name));
                let remedy = match spec.headers.as_slice() {
                    _ if self.is_unverified_accepted => "read what is in the body".to_owned(),
                    [] => {
                        "read what is in the body: `hooklatch providers KIND` shows which headers are covered"
                            .to_owned()
                    }
                    names => format!("this kind has {}", names.join(", ")),
                };
                field.problem(why, remedy);
            }
            return;
        }
        let pointer = |event: &EventSpec| match place.root {
            Root::Payload if !self.is_payload_whole => format!("{}{}", event.payload, place.pointer),
            _ => place.pointer.clone(),
        };
        if let Some(event) = spec.event.iter().find(|event| !event.covers(&pointer(event))) {
            let remedy = format!(
                "read one of {}",
                event.covered.iter().flatten().cloned().collect::<Vec<_>>().join(", ")
            );
            field.problem(format!("reads {place}, which the signature does not cover"), remedy);
        }
    }
}

fn route(table: &mut Table<'_>, destinations: &[String], readable: &Readable<'_>) -> Option<RouteConfig> {
    let remedy = "write on = [\"*\"] for every type";
    let on = table.needed("on", remedy).map_or_else(Vec::new, |field| patterns(&field, remedy));
    let to = table.needed("to", "name a destination").and_then(|field| target(&field, destinations));
    let latest = table.get("latest").unwrap_or_default();
    let remedy =
        "write a place in the event, as in \"payload.customer\", \"envelope.account\" or \"/customer\"";
    let lane = expression(table, "lane", Place::parse, remedy).map(|(field, lane)| {
        readable.check(&field, &lane);
        lane
    });
    let remedy = "write a condition, as in \"envelope.livemode and payload.amount > 0\"; docs/handlers.md has the whole language";
    let when = expression(table, "when", Filter::parse, remedy).map(|(field, when)| {
        when.places().iter().for_each(|place| readable.check(&field, place));
        when
    });
    Some(RouteConfig { on, to: to?, latest, lane, when })
}

/// A key that holds an expression; an empty one is none.
fn expression<'c, T>(
    table: &mut Table<'c>,
    key: &'static str,
    parse: impl Fn(&str) -> Result<T, String>,
    remedy: &str,
) -> Option<(Field<'c>, T)> {
    let (field, _) = table.filled_text(key)?;
    let parsed = field.parsed(|text| parse(text).map_err(|why| (why, remedy)))?;
    Some((field, parsed))
}

/// A JSON pointer. It is parsed again where it is used; here its own place in the list is reported.
fn pointer(field: &Field<'_>) -> Option<String> {
    field.parsed(|text| {
        let wrong = |(_, why)| (why, "write it as /customer/email or /lines/*/name");
        RedactedPaths::parse([text]).map(|_| text.to_owned()).map_err(wrong)
    })
}

/// `types = [ … ]`: what the sender is set to send. A kind needs it where one signed body would be an event of each
/// type.
fn subscribed_types(table: &mut Table<'_>, spec: Option<&Spec>) -> Vec<TypePattern> {
    let remedy = "list the types that the sender is configured to send: no signature of this kind covers the type, so anyone who holds one \
                  request could have it accepted once for each; write types = [\"*\"] to allow every type";
    let is_needed = spec.is_some_and(Spec::needs_types);
    let field = if is_needed { table.needed("types", remedy) } else { table.take("types") };
    let Some(field) = field else { return Vec::new() };
    let types = patterns(&field, "name the types that the sender is configured to send, or leave it out");
    if types.len() > TYPES_N_MAX {
        let why = format!("has {} entries, the limit is {TYPES_N_MAX}", types.len());
        field.problem(why, "write a beginning and `*` where several types have it in common");
    }
    types
}

fn patterns(field: &Field<'_>, when_empty: &str) -> Vec<TypePattern> {
    let list = field.list().unwrap_or_default();
    if list.is_empty() && matches!(field.value.kind, ValueKind::Array(_)) {
        field.problem("is an empty list", when_empty);
    }
    let pattern = |field: &Field<'_>| {
        field.parsed(|text| {
            let remedy = "write a type, `prefix.*` or `*`: the only `*` is the last character";
            let pattern = TypePattern::parse(text).map_err(|_| ("is not a type pattern", remedy));
            if let (Ok(_), Err(why)) = (&pattern, stored_text(text)) {
                field.problem_shown(why, "no event has such a type: write it as the sender does");
            }
            pattern
        })
    };
    list.iter().filter_map(pattern).collect()
}

fn target(field: &Field<'_>, destinations: &[String]) -> Option<Name> {
    let target = field.parsed(|text| {
        if destinations.iter().any(|one| one == text) {
            // A bad name is reported where the destination is.
            return Ok(Name::parse(text).ok());
        }
        let remedy = match nearest(text, destinations.iter().map(String::as_str)) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => format!("add a table [destinations.{}]", shown(text)),
        };
        Err(("is not a destination", remedy))
    });
    target.flatten()
}
