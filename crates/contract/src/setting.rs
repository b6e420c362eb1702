//! The configuration that is in force.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use hooklatch_core::config::SettingLayer;

/// A key of the configuration with its value, as the node that answers has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SettingView {
    /// The key as a dotted path; lists of tables have `[0]`, `[1]`, ….
    pub key: String,
    /// The value as TOML writes it; `null` for a secret. Of a URL that may hold one, scheme and host.
    pub value: Option<String>,
    /// True when it is a secret, whose value is never returned.
    pub is_secret: bool,
    /// The variable or the file that a secret stands in, where it is not written in the configuration itself.
    pub secret_in: Option<String>,
    /// The layer that sets it; each overrides those named before it.
    pub layer: SettingLayer,
    /// The file or variable that sets it.
    pub source: String,
    /// True when the value is the default, in whichever layer it is set.
    pub is_default: bool,
}
