//! HTTP as a kind of destination. Its keys are read in `parse`.

use super::destination::HttpDestination;
use super::parse;
use crate::destinations::client::DestinationClient;
use crate::destinations::client_settings::ClientSettings;
use crate::destinations::error::DestinationError;
use crate::destinations::kind::{Connect, DestinationKind, KindKey, Reading};
use hooklatch_core::config::{DestinationConfig, UnknownPolicy};

/// Calls over HTTP, to one address or to what a template makes of an event.
pub(crate) struct Http;

impl DestinationKind for Http {
    fn name(&self) -> &'static str {
        "http"
    }

    fn schemes(&self) -> &'static [&'static str] {
        &["http", "https"]
    }

    fn keys(&self) -> &'static [KindKey] {
        const {
            &[
                KindKey::read_by_kind("headers"),
                KindKey::read_by_kind("query"),
                KindKey::read_by_kind("retry_after_max_ms"),
                KindKey::read_by_kind("sign_secret"),
                KindKey::read_by_kind("statuses"),
                KindKey::read_by_kind("method"),
                KindKey::read_by_kind("private_hosts"),
                KindKey::read_by_kind("auth"),
                KindKey::read_by_kind("hmac"),
                KindKey::read_by_kind("tls"),
                KindKey::read_by_kind("proxy"),
                KindKey::read_by_kind("http_version"),
                KindKey::read_by_kind("connect_timeout_ms"),
                KindKey::read_by_kind("success"),
                KindKey::read_by_kind("capture"),
            ]
        }
    }

    fn unknown(&self, reading: &mut Reading<'_, '_>) -> UnknownPolicy {
        parse::unknown(reading)
    }

    fn parse(&self, reading: &mut Reading<'_, '_>, config: &mut DestinationConfig) {
        parse::parse(reading, config);
    }

    fn connect(&self) -> Option<Connect> {
        Some(connect)
    }
}

fn connect(settings: &ClientSettings<'_>) -> Result<DestinationClient, DestinationError> {
    Ok(DestinationClient::Http(Box::new(HttpDestination::new(settings)?)))
}
