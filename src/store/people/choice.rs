//! The names that a list may show, and the place where a list by number begins that is about a time.

use crate::store::db::{DbResult, Door};
use crate::types::{Name, Reach, UnixMs};

/// Numbers of events follow their times to within the life of a block and the difference of two nodes' clocks. A list
/// by number that begins at a time begins so much beyond it. Milliseconds.
const ORDER_MARGIN_MS: i64 = 60_000;

/// The names that are wanted and in reach; `None`: all of them. An empty list shows nothing.
pub(super) fn within(reach: &Reach, wanted: Option<&str>) -> Option<Vec<String>> {
    match wanted {
        None => reach.names(),
        Some(name) => Some(Some(name.to_owned()).filter(|name| reach.has(name)).into_iter().collect()),
    }
}

/// Those of `names` that are in reach.
pub(super) fn in_reach(reach: &Reach, names: impl IntoIterator<Item = Name>) -> Vec<Name> {
    names.into_iter().filter(|name| reach.has(name.as_str())).collect()
}

/// A number that all events have that came before `at_ms` are below, and few that came later: found by halving.
pub(super) async fn seq_beyond(db: &mut Door<'_>, at_ms: UnixMs) -> DbResult<i64> {
    let at_ms = at_ms.saturating_add(ORDER_MARGIN_MS);
    let sql = "/* seq_beyond */ SELECT COALESCE((SELECT event_seq FROM processed_webhook_events
        ORDER BY event_seq LIMIT 1), 0) AS lowest, COALESCE((SELECT event_seq FROM processed_webhook_events
        ORDER BY event_seq DESC LIMIT 1), 0) AS highest";
    let ends = db.fetch_one(sql, &[]).await?;
    let (mut low, mut high) = (ends.int("lowest")?, ends.int("highest")?.saturating_add(1));
    while low < high {
        let middle = low + (high - low) / 2;
        let sql = "/* seq_beyond */ SELECT event_seq, received_at_ms FROM processed_webhook_events
            WHERE event_seq >= $1 ORDER BY event_seq LIMIT 1";
        let row = db.fetch_optional(sql, &[middle.into()]).await?;
        match row {
            Some(row) if row.int("received_at_ms")? < at_ms => low = row.int("event_seq")?.saturating_add(1),
            _ => high = middle,
        }
    }
    Ok(high)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn what_is_wanted_out_of_reach_is_as_if_it_were_not_there() {
        let name = |text: &str| Name::parse(text).expect("a name");
        let some = Reach::These(BTreeSet::from([name("a"), name("b")]));
        let texts = |names: &[&str]| Some(names.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(within(&Reach::All, None), None);
        assert_eq!(within(&Reach::All, Some("c")), texts(&["c"]));
        assert_eq!(within(&some, None), texts(&["a", "b"]));
        assert_eq!(within(&some, Some("b")), texts(&["b"]));
        assert_eq!(within(&some, Some("c")), texts(&[]));
        assert_eq!(in_reach(&some, [name("c"), name("b")]), [name("b")]);
    }
}
