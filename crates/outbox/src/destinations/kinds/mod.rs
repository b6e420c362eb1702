//! A kind of destination, as a trait, with the keys of `[destinations.NAME]` that belong to one kind; and the list of
//! kinds, one file each. Only this list and a kind's own file name a kind. How to add one: docs/destinations.md.
//!
//! A kind has data and a client. Its data (schemes, keys, the rules of their values) is in every build, so that a
//! configuration is checked in the same way everywhere and a missing feature is named. Its client is behind its feature:
//! without it, [`DestinationKind::connect`] returns nothing to connect with.

mod http;
mod kafka;
mod nats;
mod postgres_table;
mod rabbitmq;
mod redis;

use std::ops::RangeInclusive;

pub(crate) use http::HttpDestination;
pub use http::{BareCalls, http_client, http_client_believing};

use crate::destinations::{ClientSettings, DestinationClient, DestinationError};
use hooklatch_core::config::{DestinationConfig, Field, Secret, Table, Target, UnknownPolicy};
use hooklatch_core::types::UnknownWord;

/// Every kind of destination, HTTP first: a table whose url names none of them is read as HTTP.
pub(crate) fn kinds() -> &'static [&'static dyn DestinationKind] {
    const KINDS: &[&dyn DestinationKind] = &[
        &http::Http,
        &nats::Nats,
        &rabbitmq::Rabbitmq,
        &redis::Redis,
        &kafka::Kafka,
        &postgres_table::PostgresTable,
    ];
    KINDS
}

/// Makes a client for one destination. It connects to nothing yet.
pub(crate) type Connect = fn(&ClientSettings<'_>) -> Result<DestinationClient, DestinationError>;

/// One kind of destination.
pub(crate) trait DestinationKind: Sync {
    /// Name of the kind in [`Target`], and of its tests.
    fn name(&self) -> &'static str;

    /// Schemes of its urls, without `://`.
    fn schemes(&self) -> &'static [&'static str];

    /// Keys of `[destinations.NAME]` that mean something to this kind alone.
    fn keys(&self) -> &'static [KindKey];

    /// Cargo feature that it needs; `None` for a kind that is in every build.
    fn feature(&self) -> Option<&'static str> {
        None
    }

    /// Beginnings of log targets of its client library, where the library logs what it carries.
    fn silent(&self) -> &'static [&'static str] {
        &[]
    }

    /// The form of its url, as a remedy.
    fn url_form(&self) -> &'static str {
        "write it as SCHEME://USER:PASSWORD@HOST:PORT"
    }

    /// True when `url`, which has one of its schemes, names a host.
    fn is_url(&self, url: &str) -> bool {
        reqwest::Url::parse(url).is_ok_and(|url| url.host_str().is_some_and(|host| !host.is_empty()))
    }

    /// Reads `unknown`. Most kinds cannot be asked whether an effect happened.
    fn unknown(&self, reading: &mut Reading<'_, '_>) -> UnknownPolicy {
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

    /// Reads its url and its keys into `config`, which has what is common to all destinations. Most kinds are done
    /// with the rules of their keys; what is wrong is recorded.
    fn parse(&self, reading: &mut Reading<'_, '_>, config: &mut DestinationConfig) {
        let Some((field, url)) = reading.url.clone() else { return };
        if url.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            field.problem("has spaces or control characters", self.url_form());
        } else if !self.is_url(&url) {
            field.problem("is not a url with a host", self.url_form());
        }
        let mut target = Target::new(self.name(), Secret::new(url));
        for key in self.keys() {
            if let Some(value) = reading.value(key) {
                target = target.with(key.name, value);
            }
        }
        config.target = target;
    }

    /// Makes its clients; `None` in a program that was built without its feature.
    fn connect(&self) -> Option<Connect> {
        None
    }
}

/// The schemes of a kind for people: `nats:// and tls://`.
pub(crate) fn schemes_text(kind: &dyn DestinationKind) -> String {
    let schemes: Vec<String> = kind.schemes().iter().map(|scheme| format!("{scheme}://")).collect();
    schemes.join(" and ")
}

/// One key of one kind.
pub(crate) struct KindKey {
    /// The key, as it is written.
    pub(crate) name: &'static str,
    /// The rule of its value.
    pub(crate) rule: KeyRule,
}

/// The rule of a key's value.
pub(crate) enum KeyRule {
    /// A text that has a rule.
    Text {
        /// True for a text that may be its value.
        is_right: fn(&str) -> bool,
        /// The remedy for a text that may not be its value.
        remedy: &'static str,
        /// Its value when it is absent; `None` for a key that must be there.
        default: Option<&'static str>,
    },
    /// A whole number in this range; it may be absent.
    Number(RangeInclusive<u64>),
    /// The kind reads it itself.
    ReadByKind,
}

impl KindKey {
    /// A text that must be there.
    pub(crate) const fn needed(name: &'static str, is_right: fn(&str) -> bool, remedy: &'static str) -> Self {
        Self { name, rule: KeyRule::Text { is_right, remedy, default: None } }
    }

    /// A text that may be absent, which is the same as `default`.
    pub(crate) const fn optional(
        name: &'static str,
        default: &'static str,
        is_right: fn(&str) -> bool,
        remedy: &'static str,
    ) -> Self {
        Self { name, rule: KeyRule::Text { is_right, remedy, default: Some(default) } }
    }

    /// A whole number that may be absent.
    pub(crate) const fn number(name: &'static str, range: RangeInclusive<u64>) -> Self {
        Self { name, rule: KeyRule::Number(range) }
    }

    /// A key that its kind reads itself.
    pub(crate) const fn read_by_kind(name: &'static str) -> Self {
        Self { name, rule: KeyRule::ReadByKind }
    }
}

/// The table of one `[destinations.NAME]` while it is read.
pub(crate) struct Reading<'r, 'c> {
    /// The keys that nothing took yet.
    pub(crate) table: &'r mut Table<'c>,
    /// `url`, with the text that it stands for; `None` when it is absent or could not be read.
    pub(crate) url: Option<(Field<'c>, String)>,
    /// `outbox.lease_ms`; `None` when it could not be read. Milliseconds.
    pub(crate) lease_ms: Option<u64>,
}

impl Reading<'_, '_> {
    /// Takes `unknown`; `Retry` when it is absent and after a problem.
    pub(crate) fn unknown(&mut self) -> UnknownWord {
        let words: Vec<_> = UnknownWord::ALL.iter().map(|word| (word.as_str(), *word)).collect();
        self.table.word("unknown", &words).unwrap_or(UnknownWord::Retry)
    }

    /// The value of a key, as text; `None` when it is absent, and after a problem.
    fn value(&mut self, key: &KindKey) -> Option<String> {
        match &key.rule {
            KeyRule::Text { is_right, remedy, default } => {
                let Some(field) = self.table.take(key.name) else {
                    if default.is_none() {
                        self.table.missing(key.name, format!("write {} = \"…\"", key.name));
                    }
                    return default.map(str::to_owned);
                };
                field.parsed(|text| {
                    let wrong = || (format!("is no {}", key.name.replace('_', " ")), *remedy);
                    if is_right(text) { Ok(text.to_owned()) } else { Err(wrong()) }
                })
            }
            KeyRule::Number(range) => {
                self.table.number(key.name, range.clone()).map(|number: u64| number.to_string())
            }
            KeyRule::ReadByKind => None,
        }
    }
}
