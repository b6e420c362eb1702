//! A key of `[destinations.NAME]` that belongs to one kind of destination, and the rule of its value.

use std::ops::RangeInclusive;

use super::reading::Reading;

/// One key of one kind.
pub(super) struct KindKey {
    /// The key, as it is written.
    pub(super) name: &'static str,
    /// The rule of its value.
    pub(super) rule: KeyRule,
}

/// The rule of a key's value.
pub(super) enum KeyRule {
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
    pub(super) const fn needed(name: &'static str, is_right: fn(&str) -> bool, remedy: &'static str) -> Self {
        Self { name, rule: KeyRule::Text { is_right, remedy, default: None } }
    }

    /// A text that may be absent, which is the same as `default`.
    pub(super) const fn optional(
        name: &'static str,
        default: &'static str,
        is_right: fn(&str) -> bool,
        remedy: &'static str,
    ) -> Self {
        Self { name, rule: KeyRule::Text { is_right, remedy, default: Some(default) } }
    }

    /// A whole number that may be absent.
    pub(super) const fn number(name: &'static str, range: RangeInclusive<u64>) -> Self {
        Self { name, rule: KeyRule::Number(range) }
    }

    /// A key that its kind reads itself.
    pub(super) const fn read_by_kind(name: &'static str) -> Self {
        Self { name, rule: KeyRule::ReadByKind }
    }
}

/// The value of a key, as text; `None` when it is absent, and after a problem.
pub(super) fn read(key: &KindKey, reading: &mut Reading<'_, '_>) -> Option<String> {
    let (checker, table) = (&mut *reading.checker, &mut *reading.table);
    match &key.rule {
        KeyRule::Text { is_right, remedy, default } => {
            let Some(field) = table.take(checker, key.name) else {
                if default.is_none() {
                    checker.missing(table.path(key.name), format!("write {} = \"…\"", key.name));
                }
                return default.map(str::to_owned);
            };
            let text = field.text(checker)?;
            if !is_right(&text) {
                checker.problem_shown(&field, format!("is no {}", key.name.replace('_', " ")), *remedy);
                return None;
            }
            Some(text)
        }
        KeyRule::Number(range) => {
            table.number(checker, key.name, range.clone()).map(|number| number.to_string())
        }
        KeyRule::ReadByKind => None,
    }
}
