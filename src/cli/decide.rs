//! A decision about one subject: the order, its reason, its key and its version.

use clap::Args;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::api_client::{ApiAnswer, OrderPlace};
use super::desk::Desk;
use super::shared::say;
use crate::api::{Order, OrderResult};

/// Arguments of everything that changes something.
#[derive(Args)]
pub(super) struct WhyArgs {
    /// The reason, for the audit log: one line, 255 bytes at most.
    #[arg(long)]
    pub(super) reason: String,
    /// Idempotency key of the order; by default one is drawn, and kept until the server has answered.
    #[arg(long)]
    pub(super) key: Option<String>,
}

/// An argument of what is about one subject that may have changed since somebody looked.
#[derive(Args)]
pub(super) struct VersionArgs {
    /// Decide only if it is still at this version, which `show` prints.
    #[arg(long, value_name = "VERSION")]
    pub(super) if_match: Option<String>,
}

impl VersionArgs {
    /// The version as a header has it: in quotes, whether or not a shell took them away.
    pub(super) fn header(&self) -> Option<String> {
        let version = self.if_match.as_deref()?;
        let is_whole = version.starts_with('"') || version.starts_with("W/") || version == "*";
        Some(if is_whole { version.to_owned() } else { format!("\"{version}\"") })
    }
}

impl Desk {
    /// Orders `act`, and prints what came of it.
    pub(super) fn decide<A: Serialize + Copy>(
        &self,
        path: &[&str],
        act: A,
        why: &WhyArgs,
        if_match: Option<&str>,
    ) -> anyhow::Result<ApiAnswer<OrderResult>> {
        self.order(path, &Order { act, reason: why.reason.clone() }, why, if_match)
    }

    /// Sends any order. The same order to the same path is the same command.
    pub(super) fn order<T: DeserializeOwned>(
        &self,
        path: &[&str],
        order: &impl Serialize,
        why: &WhyArgs,
        if_match: Option<&str>,
    ) -> anyhow::Result<ApiAnswer<T>> {
        let meaning = serde_json::to_string(order)?;
        self.api.post(&OrderPlace { path, meaning: &meaning, key: why.key.as_deref(), if_match }, order)
    }

    /// Prints that something was done about `subject`.
    pub(super) fn tell_done(&self, answer: &ApiAnswer<OrderResult>, subject: &str, done: &str) {
        if self.screen.is_json {
            return say(&answer.raw);
        }
        say(format!("{subject}: {done}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_a_header_with_its_quotes_or_without() {
        #[track_caller]
        fn check(given: &str, want: &str) {
            let version = VersionArgs { if_match: Some(given.to_owned()) };
            assert_eq!(version.header().as_deref(), Some(want));
        }
        check("\"5f1d\"", "\"5f1d\"");
        check("5f1d", "\"5f1d\"");
        check("*", "*");
        assert_eq!(VersionArgs { if_match: None }.header(), None);
    }
}
