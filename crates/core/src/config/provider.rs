//! `[providers.NAME]`: who may send, how it signs, and where its events go; and how failures are tried again.

use std::fmt;

use ipnet::IpNet;

use super::reader::Table;
use super::secret::Secret;
use super::value::keywords;
use crate::filter::{Filter, Place};
use crate::types::{Name, OnConflict, TypePattern};

/// `[providers.NAME]`: one sender as it is configured.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of the file")]
pub struct ProviderConfig {
    /// The provider kind; the name unless set.
    pub kind: Name,
    /// Newest first; all are tried.
    pub secrets: Vec<Secret>,
    /// Settings that the kind's scheme needs besides secrets.
    pub settings: KindSettings,
    /// True when requests that nothing signs are taken.
    pub is_unverified_accepted: bool,
    /// Rule for a plain handler that fails.
    pub on_handler_error: OnHandlerError,
    /// Bounds of the age of a signed time.
    pub age: AgeConfig,
    /// Rule for other content under an event's key; the kind's own rule when absent.
    pub on_conflict: Option<OnConflict>,
    /// The only types that are believed where the type stands in an unsigned header: patterns. Empty for any.
    pub types: Vec<TypePattern>,
    /// JSON pointers to values that are not stored; `*` for every element of an array.
    pub redact: Vec<String>,
    /// True when its events are found by the ids in them that its kind names.
    pub has_search: bool,
    /// True when handlers get the whole envelope as payload, instead of the part that the kind names.
    pub is_payload_whole: bool,
    /// Addresses that may send its requests; empty for any.
    pub allow_from: Vec<IpNet>,
    /// True when the sender is ours and can act on 409 for `conflict`.
    pub is_first_party: bool,
    /// Largest body. Bytes.
    pub body_bytes_max: u32,
    /// Type patterns to destinations.
    pub routes: Vec<RouteConfig>,
    /// Delays and bounds with which failing handlers are tried again.
    pub retry: RetryConfig,
}

/// `[[providers.NAME.routes]]`: events that go to a destination as they are.
#[derive(Debug, Clone)]
pub struct RouteConfig {
    /// Patterns of the types that go there.
    pub on: Vec<TypePattern>,
    /// Name of a configured destination.
    pub to: Name,
    /// Only the newest version of an object.
    pub latest: bool,
    /// Place of the name of the lane.
    pub lane: Option<Place>,
    /// Condition without which it does not take an event.
    pub when: Option<Filter>,
}

keywords! {
    /// Rules for the event of a plain handler that fails.
    pub enum OnHandlerError {
        /// The event is kept as `retry`; the sender gets 200.
        Keep = "keep",
        /// The event is not kept; the sender gets 500 and sends it again.
        Reject = "reject",
    }
}

/// The operator's bounds of the age of a signed time. Seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AgeConfig {
    /// Tolerance in place of the kind's own; 1 to 86,400.
    pub tolerance_s: Option<u32>,
    /// Bound for a sender that signs a time and bounds its age nowhere; 60 to 34,560,000.
    pub max_age_s: Option<u32>,
}

/// The settings of one provider, by name and, where they have one, by id. It does not print their values.
#[derive(Clone, Default)]
pub struct KindSettings(Vec<KindSetting>);

/// One text of a setting.
#[derive(Debug, Clone)]
pub struct KindSetting {
    /// Name of the setting.
    pub name: String,
    /// Id where a setting has several texts, such as a key's id.
    pub id: Option<String>,
    /// Text of the setting, which may be a secret.
    pub value: Secret,
}

impl KindSettings {
    /// The one text of a setting; the first of several.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.all(name).next().map(|setting| setting.value.reveal())
    }

    /// The text of a setting with this id.
    pub fn of_id(&self, name: &str, id: &str) -> Option<&str> {
        self.all(name).find(|setting| setting.id.as_deref() == Some(id)).map(|setting| setting.value.reveal())
    }

    /// Every text of a setting, in the order of the config.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &KindSetting> {
        self.0.iter().filter(move |setting| setting.name == name)
    }

    /// Every text of every setting.
    pub fn iter(&self) -> impl Iterator<Item = &KindSetting> {
        self.0.iter()
    }

    /// Adds one text to a setting.
    pub fn push(&mut self, name: &str, id: Option<&str>, value: impl Into<String>) {
        let (name, id) = (name.to_owned(), id.map(str::to_owned));
        self.0.push(KindSetting { name, id, value: Secret::new(value) });
    }

    /// True when it has this setting.
    pub fn has(&self, name: &str) -> bool {
        self.all(name).next().is_some()
    }
}

impl fmt::Debug for KindSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.iter().map(|setting| (&setting.name, &setting.id))).finish()
    }
}

/// `retry = { first_ms, max_ms, attempts_n, age_max_ms }`: delays between attempts, and when to give up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryConfig {
    /// Upper bound of the first delay. Milliseconds.
    pub first_ms: u64,
    /// Upper bound of any delay. Milliseconds.
    pub max_ms: u64,
    /// Most attempts, the first included.
    pub attempts_n: u32,
    /// Oldest age at which another attempt is made, from the first. Milliseconds.
    pub age_max_ms: u64,
}

impl RetryConfig {
    /// Takes `retry` out of the table of a provider or a destination; what is not written is as in `default`.
    pub fn read(table: &mut Table<'_>, default: Self) -> Self {
        let retry = table.section("retry", |table| {
            let first_ms = table.number("first_ms", 1..=86_400_000).unwrap_or(default.first_ms);
            let max_field = table.take("max_ms");
            let max_ms = match &max_field {
                Some(field) => field.number(&(1..=604_800_000)).unwrap_or(u64::MAX),
                None => default.max_ms.max(first_ms),
            };
            if let Some(field) = max_field.filter(|_| max_ms < first_ms) {
                field.problem_shown(
                    "is below the first delay",
                    format!("make it at least first_ms, {first_ms}"),
                );
            }
            Self {
                first_ms,
                max_ms,
                attempts_n: table.number("attempts_n", 1..=1_000).unwrap_or(default.attempts_n),
                age_max_ms: table.number("age_max_ms", 1..=31_536_000_000).unwrap_or(default.age_max_ms),
            }
        });
        retry.unwrap_or(default)
    }
}
