//! A kind of destination, with the keys of `[destinations.NAME]` that belong to it; and the list of kinds, one file
//! each. Only this list and a kind's own file name a kind. How to add one: docs/destinations.md.
//!
//! A kind has data and a client. Its data (schemes, keys, the rules of their values) is in every build, so that a
//! configuration is checked in the same way everywhere and a missing feature is named. Its client is behind its
//! feature: without it, [`DestinationKind::connect`] is `None`.

mod http;
mod kafka;
mod nats;
mod postgres_table;
mod rabbitmq;
mod redis;

use std::ops::RangeInclusive;

pub(crate) use http::HttpDestination;
pub use http::{BareCalls, http_client, http_client_trusting};

use crate::destinations::{ClientSettings, DestinationClient, DestinationError};
use hooklatch_core::config::{DestinationConfig, Field, Secret, Table, Target, UnknownPolicy};
use hooklatch_core::types::UnknownWord;

/// Every kind of destination, HTTP first: a table whose url names none of them is read as HTTP.
pub(crate) static KINDS: [DestinationKind; 6] =
    [http::HTTP, nats::NATS, rabbitmq::RABBITMQ, redis::REDIS, kafka::KAFKA, postgres_table::POSTGRES_TABLE];

/// The fields of a kind that does not say otherwise: those of most brokers.
const BROKER: DestinationKind = DestinationKind {
    name: "",
    schemes: &[],
    keys: &[],
    own_keys: &[],
    feature: None,
    silent: &[],
    url_form: "write it as SCHEME://USER:PASSWORD@HOST:PORT",
    is_url: has_host,
    unknown,
    parse,
    connect: None,
};

/// One kind of destination.
pub(crate) struct DestinationKind {
    /// Name of the kind in [`Target`], and of its tests.
    pub(crate) name: &'static str,
    /// Schemes of its urls, without `://`.
    pub(crate) schemes: &'static [&'static str],
    /// Keys of `[destinations.NAME]` that mean something to this kind alone, with the rules of their values.
    keys: &'static [(&'static str, KeyRule)],
    /// Such keys that the kind parses itself.
    own_keys: &'static [&'static str],
    /// Cargo feature that it needs; `None` for a kind that is in every build.
    pub(crate) feature: Option<&'static str>,
    /// Beginnings of log targets of its client library, where the library logs the messages it carries.
    pub(crate) silent: &'static [&'static str],
    /// The form of its url, as a remedy.
    url_form: &'static str,
    /// True when a url, which has one of its schemes, names a host.
    is_url: fn(&str) -> bool,
    /// Parses `unknown`.
    pub(crate) unknown: fn(&mut Reading<'_, '_>) -> UnknownPolicy,
    /// Parses its url and its keys into a configuration that has what is common to all destinations; mistakes are
    /// recorded.
    pub(crate) parse: fn(&Self, &mut Reading<'_, '_>, &mut DestinationConfig),
    /// Makes its clients; `None` in a program that was built without its feature.
    pub(crate) connect: Option<Connect>,
}

/// Makes a client for one destination. It connects to nothing yet.
type Connect = fn(&ClientSettings<'_>) -> Result<DestinationClient, DestinationError>;

/// The rule of a key's value.
enum KeyRule {
    /// A text: its value when it is absent, or `None` for a key that must be there; a check; and the remedy for a text
    /// that may not be its value.
    Text(Option<&'static str>, fn(&str) -> bool, &'static str),
    /// A whole number in this range; it may be absent.
    Number(RangeInclusive<u64>),
}

impl DestinationKind {
    /// Names of the keys that mean something to this kind alone.
    pub(crate) fn key_names(&self) -> impl Iterator<Item = &'static str> {
        self.keys.iter().map(|(name, _)| *name).chain(self.own_keys.iter().copied())
    }

    /// Its schemes as text: `nats:// and tls://`.
    pub(crate) fn schemes_text(&self) -> String {
        let schemes: Vec<String> = self.schemes.iter().map(|scheme| format!("{scheme}://")).collect();
        schemes.join(" and ")
    }
}

/// The table of one `[destinations.NAME]` while it is read.
pub(crate) struct Reading<'r, 'c> {
    /// The keys that were not taken yet.
    pub(crate) table: &'r mut Table<'c>,
    /// `url`, with the text that it stands for; `None` when it is absent or could not be read.
    pub(crate) url: Option<(Field<'c>, String)>,
    /// `outbox.lease_ms`; `None` when it could not be read. Milliseconds.
    pub(crate) lease_ms: Option<u64>,
}

impl Reading<'_, '_> {
    /// Takes `unknown`; `Retry` when it is absent and after a problem.
    fn unknown(&mut self) -> UnknownWord {
        let words: Vec<_> = UnknownWord::ALL.iter().map(|word| (word.as_str(), *word)).collect();
        self.table.word("unknown", &words).unwrap_or(UnknownWord::Retry)
    }

    /// The value of a key, as text; `None` when it is absent, and after a problem.
    fn value(&mut self, name: &'static str, rule: &KeyRule) -> Option<String> {
        match rule {
            KeyRule::Text(default, is_right, remedy) => {
                let Some(field) = self.table.take(name) else {
                    if default.is_none() {
                        self.table.missing(name, format!("write {name} = \"…\""));
                    }
                    return default.map(str::to_owned);
                };
                field.parsed(|text| {
                    let wrong = || (format!("is no {}", name.replace('_', " ")), *remedy);
                    if is_right(text) { Ok(text.to_owned()) } else { Err(wrong()) }
                })
            }
            KeyRule::Number(range) => self.table.number(name, range.clone()).map(|n: u64| n.to_string()),
        }
    }
}

fn has_host(url: &str) -> bool {
    reqwest::Url::parse(url).is_ok_and(|url| url.host_str().is_some_and(|host| !host.is_empty()))
}

/// Most kinds cannot be asked whether an effect happened.
fn unknown(reading: &mut Reading<'_, '_>) -> UnknownPolicy {
    let place = reading.table.peek("unknown");
    match (reading.unknown(), place) {
        (UnknownWord::Hold, _) => UnknownPolicy::Hold,
        (UnknownWord::Query, Some(field)) => {
            let why = "is \"query\", and only http:// and https:// can be asked";
            field.problem(why, "write \"retry\" or \"hold\"");
            UnknownPolicy::Retry
        }
        (UnknownWord::Retry | UnknownWord::Query, _) => UnknownPolicy::Retry,
    }
}

/// Most kinds have only the url and keys with rules.
fn parse(kind: &DestinationKind, reading: &mut Reading<'_, '_>, config: &mut DestinationConfig) {
    let Some((field, url)) = reading.url.clone() else { return };
    if url.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        field.problem("has spaces or control characters", kind.url_form);
    } else if !(kind.is_url)(&url) {
        field.problem("is not a url with a host", kind.url_form);
    }
    let mut target = Target::new(kind.name, Secret::new(url));
    for (name, rule) in kind.keys {
        if let Some(value) = reading.value(name, rule) {
            target = target.with(name, value);
        }
    }
    config.target = target;
}
