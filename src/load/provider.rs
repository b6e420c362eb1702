//! `[providers.NAME]`: who may send, how it signs, and where its events go.

use super::server::BODY_BYTES;
use super::{age, kind_settings};
use crate::config::{
    Checker, Field, OnHandlerError, ProviderConfig, RetryConfig, RouteConfig, Secret, Table, entry_name,
    retry,
};
use crate::filter::{Filter, Place, Root};
use crate::json::RedactedPaths;
use crate::mistakes::{nearest, shown};
use crate::provider::Provider;
use crate::spec::{EventSpec, Spec};
use crate::types::{Name, OnConflict, TypePattern, stored_text};

/// Delays and bounds with which failing handlers are tried again unless `retry` says otherwise.
const RETRY: RetryConfig =
    RetryConfig { first_ms: 1_000, max_ms: 3_600_000, attempts_n: 30, age_max_ms: 259_200_000 };
/// Most patterns in `types`.
const TYPES_N_MAX: usize = 256;

/// The names that a provider's keys are checked against.
pub(super) struct KnownNames<'a> {
    /// The kinds there are.
    pub kinds: &'a [Provider],
    /// Kinds that are there and cannot be used, which is told elsewhere.
    pub broken_kinds: &'a [String],
    /// The names under `[destinations]`, right or wrong.
    pub destinations: &'a [String],
    /// `server.body_bytes_max`.
    pub body_bytes_max: u32,
}

/// Reads one provider; what is wrong with it is recorded.
pub(super) fn provider(
    checker: &mut Checker<'_>,
    name: &str,
    field: Field,
    known: &KnownNames<'_>,
) -> Option<(Name, ProviderConfig)> {
    let name = entry_name(checker, name, &field)?;
    let place = field.clone();
    let mut table = field.table(checker)?;
    if known.broken_kinds.contains(&kind_text(checker, &table, &name)) {
        return None;
    }
    let spec = spec(checker, &mut table, &place, &name, known.kinds);
    let settings =
        kind_settings::settings(checker, &mut table, spec.map_or(&[], |spec| spec.setting.as_slice()));
    let is_unverified_accepted = unverified(checker, &mut table, spec);
    let secrets = secrets(checker, &mut table, spec, is_unverified_accepted);
    let words = [("keep", OnHandlerError::Keep), ("reject", OnHandlerError::Reject)];
    let on_handler_error = table.word(checker, "on_handler_error", &words).unwrap_or(OnHandlerError::Keep);
    let age = age::age(checker, &mut table, spec);
    let words = [("keep", OnConflict::Keep), ("dispatch", OnConflict::Dispatch)];
    let on_conflict = table.word(checker, "on_conflict", &words);
    let types = subscribed_types(checker, &mut table, spec);
    let redact = pointers(checker, &mut table, "redact");
    let has_search = table.flag(checker, "search").unwrap_or(true);
    let is_payload_whole = payload(checker, &mut table);
    let allow_from = super::edge::nets(checker, &mut table, "allow_from");
    let is_first_party = table.flag(checker, "first_party").unwrap_or(false);
    let body_bytes_max = table.number_u32(checker, "body_bytes_max", BODY_BYTES);
    let of_kind = spec.and_then(|spec| spec.body_bytes_max).unwrap_or_default();
    let retry = retry(checker, &mut table, RETRY);
    let routes = match table.take(checker, "routes") {
        Some(field) => field.list(checker).unwrap_or_default(),
        None => Vec::new(),
    };
    let readable = Readable { spec, is_unverified_accepted, is_payload_whole };
    let one = |field| route(checker, field, known.destinations, &readable);
    let routes = routes.into_iter().filter_map(one).collect();
    table.finish(checker);
    let config = ProviderConfig {
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
    };
    Some((name, config))
}

/// The kind as it is written, right or wrong.
fn kind_text(checker: &Checker<'_>, table: &Table, name: &Name) -> String {
    let written = table.peek(checker, "kind").map(|field| field.value.kind);
    if let Some(::config::ValueKind::String(text)) = written { text } else { name.to_string() }
}

/// The spec of the kind that is named; `None` after a problem.
fn spec<'a>(
    checker: &mut Checker<'_>,
    table: &mut Table,
    place: &Field,
    name: &Name,
    kinds: &'a [Provider],
) -> Option<&'a Spec> {
    let (field, text) = match table.take(checker, "kind") {
        Some(field) => {
            let text = field.text(checker)?;
            (field, text)
        }
        None => (place.clone(), name.to_string()),
    };
    // A kind of a program's own whose file is no spec is told when the app is built; here it is not known.
    let specs = || kinds.iter().filter_map(|kind| kind.spec().ok());
    if let Some(spec) = specs().find(|spec| spec.kind == text) {
        return Some(spec);
    }
    let names: Vec<&str> = specs().map(|spec| spec.kind.as_str()).collect();
    let remedy = match nearest(&text, names.iter().copied()) {
        Some(near) => format!("did you mean kind = \"{near}\"?"),
        None => format!("set `kind` to one of {}", names.join(", ")),
    };
    let field = field.at(table.path("kind"));
    checker.problem(&field, format!("there is no provider kind `{}`", shown(&text)), remedy);
    None
}

/// `unverified = "accept"`, which only a kind may say whose sender signs nothing.
fn unverified(checker: &mut Checker<'_>, table: &mut Table, spec: Option<&Spec>) -> bool {
    let Some(field) = table.take(checker, "unverified") else { return false };
    let Some(text) = field.text(checker) else { return false };
    let may_be = spec.is_some_and(|spec| spec.signature.may_be_unsigned);
    match text.as_str() {
        "refuse" => false,
        "accept" if may_be => true,
        "accept" => {
            checker.problem(
                &field,
                "this kind's sender signs its requests",
                "leave it out and write secrets",
            );
            false
        }
        _ => {
            let remedy = "write \"accept\" or \"refuse\"";
            checker.problem_shown(&field, "is not one of the words for this key", remedy);
            false
        }
    }
}

/// `secrets = [ … ]`, newest first. A kind that verifies with its settings may have none.
fn secrets(
    checker: &mut Checker<'_>,
    table: &mut Table,
    spec: Option<&Spec>,
    is_unverified_accepted: bool,
) -> Vec<Secret> {
    let is_by_kind = spec.is_none_or(|spec| spec.signature.may_be_unsigned || spec.needs_secrets());
    let is_needed = is_by_kind && !is_unverified_accepted;
    let remedy = "write secrets = [{ env = \"NAME\" }]; without one anybody could sign";
    let field =
        if is_needed { table.needed(checker, "secrets", remedy) } else { table.take(checker, "secrets") };
    let Some(field) = field else { return Vec::new() };
    let Some(list) = field.list(checker) else { return Vec::new() };
    if !list.is_empty() && is_unverified_accepted {
        let remedy = "leave one of them out: with a secret, what is not signed is refused";
        checker.problem(&field, "stands beside unverified = \"accept\"", remedy);
    }
    if list.is_empty() && is_needed {
        checker.problem(&field, "is an empty list", remedy);
    }
    list.into_iter().filter_map(|field| field.secret(checker)).collect()
}

/// `payload = ""`: handlers get the whole envelope.
fn payload(checker: &mut Checker<'_>, table: &mut Table) -> bool {
    let Some((field, text)) = table.text(checker, "payload") else { return false };
    if !text.is_empty() {
        let remedy =
            "write payload = \"\" for the whole envelope, or leave it out for the part that the kind names";
        checker.problem_shown(&field, "is neither the kind's own nor the whole", remedy);
    }
    text.is_empty()
}

/// What routes of a provider may read.
struct Readable<'a> {
    spec: Option<&'a Spec>,
    is_unverified_accepted: bool,
    is_payload_whole: bool,
}

impl Readable<'_> {
    /// Reports a place that the signature does not cover: whoever changed it would decide what follows.
    fn check(&self, checker: &mut Checker<'_>, field: &Field, place: &Place) {
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
                checker.problem(field, why, remedy);
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
            checker.problem(field, format!("reads {place}, which the signature does not cover"), remedy);
        }
    }
}

fn route(
    checker: &mut Checker<'_>,
    field: Field,
    destinations: &[String],
    readable: &Readable<'_>,
) -> Option<RouteConfig> {
    let mut table = field.table(checker)?;
    let on = table.needed(checker, "on", "write on = [\"*\"] for every type");
    let on = on.map_or_else(Vec::new, |field| patterns(checker, &field, "write on = [\"*\"] for every type"));
    let to = table.needed(checker, "to", "name a destination");
    let to = to.and_then(|field| target(checker, &field, destinations));
    let latest = table.flag(checker, "latest").unwrap_or(false);
    let remedy =
        "write a place in the event, as in \"payload.customer\", \"envelope.account\" or \"/customer\"";
    let lane = expression(checker, &mut table, "lane", Place::parse, remedy).map(|(field, lane)| {
        readable.check(checker, &field, &lane);
        lane
    });
    let remedy = "write a condition, as in \"envelope.livemode and payload.amount > 0\"; docs/handlers.md has the whole language";
    let when = expression(checker, &mut table, "when", Filter::parse, remedy).map(|(field, when)| {
        when.places().iter().for_each(|place| readable.check(checker, &field, place));
        when
    });
    table.finish(checker);
    Some(RouteConfig { on, to: to?, latest, lane, when })
}

/// A key that holds an expression; an empty one is none.
fn expression<T>(
    checker: &mut Checker<'_>,
    table: &mut Table,
    key: &'static str,
    parse: impl Fn(&str) -> Result<T, String>,
    remedy: &str,
) -> Option<(Field, T)> {
    let (field, text) = table.text(checker, key).filter(|(_, text)| !text.is_empty())?;
    match parse(&text) {
        Ok(parsed) => Some((field, parsed)),
        Err(why) => {
            checker.problem_shown(&field, why, remedy);
            None
        }
    }
}

/// A list of JSON pointers. Each is read again where it is used; here its own place in the list is told.
fn pointers(checker: &mut Checker<'_>, table: &mut Table, key: &'static str) -> Vec<String> {
    let Some(field) = table.take(checker, key) else { return Vec::new() };
    let mut pointers = Vec::new();
    for one in field.list(checker).unwrap_or_default() {
        let Some(text) = one.text(checker) else { continue };
        match RedactedPaths::parse([text.as_str()]) {
            Ok(_) => pointers.push(text),
            Err((_, why)) => checker.problem_shown(&one, why, "write it as /customer/email or /lines/*/name"),
        }
    }
    pointers
}

/// `types = [ … ]`, which a kind needs where one signed body would be an event of each type.
fn subscribed_types(checker: &mut Checker<'_>, table: &mut Table, spec: Option<&Spec>) -> Vec<TypePattern> {
    let remedy = "list the types that the sender was told to send: no signature of this kind covers the type, so whoever holds one \
                  request could have it accepted once for each; write types = [\"*\"] to allow every type";
    let field = if spec.is_some_and(Spec::needs_types) {
        table.needed(checker, "types", remedy)
    } else {
        table.take(checker, "types")
    };
    field.map_or_else(Vec::new, |field| types(checker, &field))
}

/// `types = [ … ]`: what the sender was told to send.
fn types(checker: &mut Checker<'_>, field: &Field) -> Vec<TypePattern> {
    let types = patterns(checker, field, "name the types that the sender was told to send, or leave it out");
    if types.len() > TYPES_N_MAX {
        let why = format!("has {} entries, the limit is {TYPES_N_MAX}", types.len());
        checker.problem(field, why, "write a beginning and `*` where several types have it in common");
    }
    types
}

fn patterns(checker: &mut Checker<'_>, field: &Field, when_empty: &str) -> Vec<TypePattern> {
    let list = field.list(checker).unwrap_or_default();
    if list.is_empty() && matches!(field.value.kind, config::ValueKind::Array(_)) {
        checker.problem(field, "is an empty list", when_empty);
    }
    let mut patterns = Vec::new();
    for field in list {
        let Some(text) = field.text(checker) else { continue };
        let Ok(pattern) = TypePattern::parse(&text) else {
            let remedy = "write a type, `prefix.*` or `*`: the only `*` is the last character";
            checker.problem_shown(&field, "is not a type pattern", remedy);
            continue;
        };
        if let Err(why) = stored_text(&text) {
            checker.problem_shown(&field, why, "no event has such a type: write it as the sender does");
        }
        patterns.push(pattern);
    }
    patterns
}

fn target(checker: &mut Checker<'_>, field: &Field, destinations: &[String]) -> Option<Name> {
    let text = field.text(checker)?;
    if destinations.contains(&text) {
        // A bad name is reported where the destination is.
        return Name::parse(&text).ok();
    }
    let remedy = match nearest(&text, destinations.iter().map(String::as_str)) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => format!("add a table [destinations.{}]", shown(&text)),
    };
    checker.problem_shown(field, "is not a destination", remedy);
    None
}
