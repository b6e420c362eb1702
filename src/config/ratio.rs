//! Reads a number from 0 to 1.

use ::config::ValueKind;

use super::field::{Checker, Field};

impl Field {
    /// A number from 0 to 1, with or without a fraction.
    pub(crate) fn ratio(&self, checker: &mut Checker<'_>) -> Option<f64> {
        let ratio = match &self.value.kind {
            ValueKind::Float(ratio) => Some(*ratio),
            ValueKind::I64(0) | ValueKind::U64(0) => Some(0.0),
            ValueKind::I64(1) | ValueKind::U64(1) => Some(1.0),
            // Variables are texts.
            ValueKind::String(text) if self.is_env_text() => text.trim().parse().ok(),
            _ => None,
        };
        let Some(ratio) = ratio.filter(|ratio| (0.0..=1.0).contains(ratio)) else {
            checker.problem_shown(self, "is not a number from 0 to 1", "write a part of all, such as 0.01");
            return None;
        };
        checker.read.plain(&self.key, &self.source, format!("{ratio:?}"));
        Some(ratio)
    }
}
