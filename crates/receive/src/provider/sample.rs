//! Sample events of a kind, built in or read when the program starts.

use std::sync::Arc;

/// Sample events: type and JSON text; built in, or read when the program starts.
#[derive(Debug, Clone)]
pub(super) enum Samples {
    BuiltIn(&'static [(&'static str, &'static str)]),
    Read(Arc<[(String, String)]>),
}

impl Samples {
    pub(crate) fn list(&self) -> Vec<(&str, &str)> {
        match self {
            Self::BuiltIn(list) => list.to_vec(),
            Self::Read(list) => list.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect(),
        }
    }
}
