//! `[providers.NAME.settings]`: what else a kind's scheme needs, such as a webhook id or public keys.

use super::secret::Secret;

/// The settings of one provider, by name and, where they have one, by id. It does not print their values.
#[derive(Clone, Default)]
pub struct KindSettings(Vec<KindSetting>);

/// One text of a setting.
#[derive(Debug, Clone)]
pub struct KindSetting {
    /// Name of the setting.
    pub name: String,
    /// Id where a setting has several texts, such as a key's id.
    pub id: Option<String>,
    /// Text of the setting, which may be a secret.
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

    /// Adds one text to a setting.
    pub fn push(&mut self, name: &str, id: Option<&str>, value: impl Into<String>) {
        let (name, id) = (name.to_owned(), id.map(str::to_owned));
        self.0.push(KindSetting { name, id, value: Secret::new(value) });
    }

    /// True when it has this setting.
    pub fn has(&self, name: &str) -> bool {
        self.all(name).next().is_some()
    }
}

impl std::fmt::Debug for KindSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.iter().map(|setting| (&setting.name, &setting.id))).finish()
    }
}
