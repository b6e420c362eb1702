//! The witness of SQLite's file: whether a copy that is put back would be noticed.

use super::check::WITNESS;
use hooklatch_contract::FindingView;
use hooklatch_core::times::rfc3339;
use hooklatch_store::{WitnessFinding, WitnessState};

pub(crate) fn witness(state: Option<&WitnessState>) -> Vec<FindingView> {
    let Some(state) = state else { return Vec::new() };
    let file = state.path.display();
    if let Some(why) = &state.failed {
        let words = format!("`{file}` cannot be written: {why}");
        let remedy = format!(
            "give Hooklatch's user the right to make `{file}` and the one that ends with .partial, and room for them; what \
             stands there and is no file has to go"
        );
        return vec![WITNESS.warning(words).cure(remedy)];
    }
    let at = |ms| rfc3339(ms).unwrap_or_else(|| ms.to_string());
    vec![match &state.finding {
        WitnessFinding::Same { at_ms } => WITNESS.well(format!("`{file}`, of {}", at(*at_ms))),
        WitnessFinding::Absent => WITNESS.note(format!("`{file}` is not there: the next start or change makes it")),
        WitnessFinding::Other => {
            WITNESS.note(format!("`{file}` is of another installation: the next start writes it anew"))
        }
        WitnessFinding::Unreadable(why) => WITNESS.warning(format!("`{file}` cannot be read: {why}")).cure(
            "if a copy of the database was put back, take it over (hooklatch restore-check --backed-up-at …, docs/backup.md); \
             then remove the file: the next start makes it anew",
        ),
        WitnessFinding::Older { at_ms } => {
            let words = format!("what ran last was here until {} at least, and the database is older", at(*at_ms));
            WITNESS.failure(words).cure("let nothing run on it, and ask hooklatch restore-check (docs/backup.md)")
        }
    }]
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use hooklatch_contract::FindingVerdict::{Failure, Note, Warning, Well};

    #[test]
    fn each_finding_of_the_witness_has_its_verdict_and_names_the_file() {
        for (finding, failed, want) in [
            (WitnessFinding::Same { at_ms: 0 }, None, Well),
            (WitnessFinding::Absent, None, Note),
            (WitnessFinding::Other, None, Note),
            (WitnessFinding::Unreadable("no".to_owned()), None, Warning),
            (WitnessFinding::Same { at_ms: 0 }, Some("no room"), Warning),
            (WitnessFinding::Older { at_ms: 0 }, None, Failure),
        ] {
            let failed = failed.map(str::to_owned);
            let state = WitnessState { path: PathBuf::from("/x/y.db.witness"), finding, failed };
            let found = witness(Some(&state));
            assert_eq!(found[0].verdict, want, "{state:?}");
            assert_eq!(found[0].is_bad(), found[0].remedy.is_some(), "{state:?}");
            assert!(want == Failure || found[0].found.contains("/x/y.db.witness"), "{state:?}");
        }
        assert_eq!(witness(None), []);
    }
}
