//! A kind of destination, as a trait. One implementation for each, in `kinds/`; the list is `kinds::kinds`.
//!
//! A kind says things and does things. What it says (schemes, keys, the rules of their values) is in every build, so
//! that a configuration is checked in the same way everywhere and a missing feature is named. What it does, it does in
//! [`DestinationKind::connect`], behind its feature: without the feature the method is not written, and the trait's own
//! says that there is nothing to connect with.

use super::client::DestinationClient;
use super::client_settings::ClientSettings;
use super::error::DestinationError;
use super::key::{self, KindKey};
use super::reading::Reading;
use crate::config::{DestinationConfig, Secret, Target, UnknownPolicy};
use crate::types::UnknownWord;

/// Makes a client for one destination. It connects to nothing yet.
pub(super) type Connect = fn(&ClientSettings<'_>) -> Result<DestinationClient, DestinationError>;

/// One kind of destination.
pub(super) trait DestinationKind: Sync {
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
        let place = reading.table.peek(reading.checker, "unknown");
        match (reading.unknown(), place) {
            (UnknownWord::Hold, _) => UnknownPolicy::Hold,
            (UnknownWord::Query, Some(field)) => {
                let why = "is \"query\", and only http:// and https:// can be asked";
                reading.checker.problem(&field, why, "write \"retry\" or \"hold\"");
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
            reading.checker.problem(&field, "has spaces or control characters", self.url_form());
        } else if !self.is_url(&url) {
            reading.checker.problem(&field, "is not a url with a host", self.url_form());
        }
        let mut target = Target::new(self.name(), Secret::new(url));
        for key in self.keys() {
            if let Some(value) = key::read(key, reading) {
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
pub(super) fn schemes_text(kind: &dyn DestinationKind) -> String {
    let schemes: Vec<String> = kind.schemes().iter().map(|scheme| format!("{scheme}://")).collect();
    schemes.join(" and ")
}
