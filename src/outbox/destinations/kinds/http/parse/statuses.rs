//! `statuses`: those that mean something else here than they usually do.

use std::collections::BTreeMap;

use crate::config::{Checker, StatusMeaning, Table};

/// `statuses`: what they mean here.
pub(super) fn statuses(checker: &mut Checker<'_>, table: &mut Table) -> BTreeMap<u16, StatusMeaning> {
    let Some(field) = table.take(checker, "statuses") else { return BTreeMap::new() };
    let Some(table) = field.table(checker) else { return BTreeMap::new() };
    let mut statuses = BTreeMap::new();
    for (name, field) in table.entries(checker) {
        let Some(code) = name.parse().ok().filter(|code| (200..=599).contains(code)) else {
            checker.problem(&field, "is not a status", "use numbers from 200 to 599");
            continue;
        };
        let meaning = match field.text(checker).as_deref() {
            Some("done") => StatusMeaning::Done,
            Some("retry") => StatusMeaning::Retry,
            Some("dead") => StatusMeaning::Dead,
            Some("unknown") => StatusMeaning::Unknown,
            Some(_) => {
                checker.problem_shown(
                    &field,
                    "is no meaning of a status",
                    "use done, retry, dead or unknown",
                );
                continue;
            }
            None => continue,
        };
        statuses.insert(code, meaning);
    }
    statuses
}
