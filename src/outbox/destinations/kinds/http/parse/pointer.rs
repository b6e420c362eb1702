//! A JSON pointer into an answer.

use crate::config::{Checker, Field};

/// A JSON pointer, or a problem that shows how to write it.
pub(super) fn pointer(checker: &mut Checker<'_>, field: &Field) -> Option<String> {
    let text = field.text(checker)?;
    if !text.is_empty() && !text.starts_with('/') {
        let remedy = format!("write it as \"/{}\"", text.trim_start_matches("$.").replace('.', "/"));
        checker.problem_shown(field, "is not a JSON pointer", remedy);
    }
    Some(text)
}
