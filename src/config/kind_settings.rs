//! `[providers.NAME.settings]`: what else a kind's scheme needs, such as a webhook id or public keys.

use super::Secret;
use super::field::{Checker, Field, Table};
use super::load::{SettingFacts, SettingShape};
use super::problem::nearest;

/// The settings of one provider, by name and, where they have one, by id. It does not print their values.
#[derive(Clone, Default)]
pub struct KindSettings(Vec<KindSetting>);

/// One text of a setting.
#[derive(Debug, Clone)]
pub struct KindSetting {
    /// The setting's name.
    pub name: String,
    /// Which of several it is, such as a key's id.
    pub id: Option<String>,
    /// The text.
    pub value: Secret,
}

impl KindSettings {
    /// The one text of a setting; the first of several.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.all(name).next().map(|setting| setting.value.reveal())
    }

    /// The text of a setting with this id.
    pub fn of_id(&self, name: &str, id: &str) -> Option<&str> {
        self.all(name).find(|setting| setting.id.as_deref() == Some(id)).map(|setting| setting.value.reveal())
    }

    /// Every text of a setting, in the order of the config.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &KindSetting> {
        self.0.iter().filter(move |setting| setting.name == name)
    }

    /// Every text of every setting.
    pub fn iter(&self) -> impl Iterator<Item = &KindSetting> {
        self.0.iter()
    }

    /// Adds one text.
    pub fn push(&mut self, name: &str, id: Option<&str>, value: impl Into<String>) {
        let (name, id) = (name.to_owned(), id.map(str::to_owned));
        self.0.push(KindSetting { name, id, value: Secret::new(value) });
    }

    /// Whether it has this setting.
    pub fn has(&self, name: &str) -> bool {
        self.all(name).next().is_some()
    }
}

impl std::fmt::Debug for KindSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.iter().map(|setting| (&setting.name, &setting.id))).finish()
    }
}

/// `settings = { … }` of a provider, against what its kind knows.
pub(super) fn settings(checker: &mut Checker<'_>, table: &mut Table, known: &[SettingFacts]) -> KindSettings {
    let mut settings = KindSettings::default();
    let Some(table) = table.table(checker, "settings") else { return settings };
    let key = table.key.clone();
    for (name, field) in table.entries(checker) {
        let Some(facts) = known.iter().find(|facts| facts.name == name) else {
            let names: Vec<&str> = known.iter().map(|facts| facts.name.as_str()).collect();
            let remedy = match (nearest(&name, names.iter().copied()), names.is_empty()) {
                (Some(near), _) => format!("did you mean `{key}.{near}`?"),
                (None, true) => "leave it out: this kind has no settings".to_owned(),
                (None, false) => format!("this kind knows {}", names.join(", ")),
            };
            checker.problem(&field, "is not a setting of this kind", remedy);
            continue;
        };
        setting(checker, &mut settings, facts, field);
    }
    for facts in known.iter().filter(|facts| facts.is_needed && !settings.has(&facts.name)) {
        // One problem is enough for a setting that is there and wrong.
        let path = format!("{key}.{}", facts.name);
        if !checker.problems.iter().any(|problem| problem.key.starts_with(&path)) {
            checker.missing(path, facts.hint.clone());
        }
    }
    settings
}

fn setting(checker: &mut Checker<'_>, settings: &mut KindSettings, facts: &SettingFacts, field: Field) {
    let is_list = matches!(field.value.kind, ::config::ValueKind::Array(_));
    let fields = match facts.shape {
        SettingShape::List if is_list => field.list(checker).unwrap_or_default(),
        SettingShape::Text | SettingShape::List => vec![field],
        SettingShape::Named => {
            for field in field.list(checker).unwrap_or_default() {
                let Some(mut table) = field.table(checker) else { continue };
                let id = table.needed(checker, "id", "write { id = \"…\", key = … }");
                let id = id.and_then(|field| field.text(checker));
                let key = table.needed(checker, "key", "write { id = \"…\", key = … }");
                let key = key.and_then(|field| field.secret(checker));
                table.finish(checker);
                if let (Some(id), Some(key)) = (id, key) {
                    settings.push(&facts.name, Some(&id), key.reveal());
                }
            }
            return;
        }
    };
    for field in fields {
        if let Some(value) = field.secret(checker) {
            settings.push(&facts.name, None, value.reveal());
        }
    }
}
