//! The names that a list may show.

use crate::types::{Name, Reach};

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
