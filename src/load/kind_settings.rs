//! `[providers.NAME.settings]`, against what its kind knows.

use crate::config::{Checker, Field, KindSettings, Table};
use crate::mistakes::nearest;
use crate::spec::{SettingForm, SettingSpec};

/// `settings = { … }` of a provider, against what its kind knows.
pub(super) fn settings(checker: &mut Checker<'_>, table: &mut Table, known: &[SettingSpec]) -> KindSettings {
    let mut settings = KindSettings::default();
    let Some(table) = table.table(checker, "settings") else { return settings };
    let key = table.key.clone();
    for (name, field) in table.entries(checker) {
        let Some(spec) = known.iter().find(|spec| spec.name == name) else {
            let names: Vec<&str> = known.iter().map(|spec| spec.name.as_str()).collect();
            let remedy = match (nearest(&name, names.iter().copied()), names.is_empty()) {
                (Some(near), _) => format!("did you mean `{key}.{near}`?"),
                (None, true) => "leave it out: this kind has no settings".to_owned(),
                (None, false) => format!("this kind knows {}", names.join(", ")),
            };
            checker.problem(&field, "is not a setting of this kind", remedy);
            continue;
        };
        setting(checker, &mut settings, spec, field);
    }
    for spec in known.iter().filter(|spec| spec.needed && !settings.has(&spec.name)) {
        // One problem is enough for a setting that is there and wrong.
        let path = format!("{key}.{}", spec.name);
        if !checker.problems.iter().any(|problem| problem.key.starts_with(&path)) {
            checker.missing(path, spec.hint.clone());
        }
    }
    settings
}

fn setting(checker: &mut Checker<'_>, settings: &mut KindSettings, spec: &SettingSpec, field: Field) {
    let is_list = matches!(field.value.kind, ::config::ValueKind::Array(_));
    let fields = match spec.form {
        SettingForm::List if is_list => field.list(checker).unwrap_or_default(),
        SettingForm::Text | SettingForm::List => vec![field],
        SettingForm::Named => {
            for field in field.list(checker).unwrap_or_default() {
                let Some(mut table) = field.table(checker) else { continue };
                let id = table.needed(checker, "id", "write { id = \"…\", key = … }");
                let id = id.and_then(|field| field.text(checker));
                let key = table.needed(checker, "key", "write { id = \"…\", key = … }");
                let key = key.and_then(|field| field.secret(checker));
                table.finish(checker);
                if let (Some(id), Some(key)) = (id, key) {
                    settings.push(&spec.name, Some(&id), key.reveal());
                }
            }
            return;
        }
    };
    for field in fields {
        let place = field.clone();
        if let Some(value) = field.secret(checker) {
            if !spec.words.is_empty() && !spec.words.iter().any(|word| value.is(word)) {
                let remedy = format!("write one of {}", spec.words.join(", "));
                checker.problem(&place, "is not one of the words for this setting", remedy);
                continue;
            }
            settings.push(&spec.name, None, value.reveal());
        }
    }
}
