//! `[[setting]]`: the further settings of a provider of a kind.

use serde::Deserialize;

/// `[[setting]]`: a further setting of a provider of this kind.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettingSpec {
    /// Its key under `[providers.NAME.settings]`.
    pub name: String,
    /// Form of the setting: one text, several, or texts with ids.
    #[serde(default)]
    pub form: SettingForm,
    /// True when a provider cannot do without it.
    #[serde(default)]
    pub needed: bool,
    /// The only texts that it may have; empty for any.
    #[serde(default)]
    pub words: Vec<String>,
    /// Place where the operator finds it.
    pub hint: String,
    /// Fewest bytes that it may have, where it is a secret.
    #[serde(default)]
    pub bytes_min: usize,
    /// The value about which `check` warns,
    pub warn_is: Option<String>,
    /// or the word without which it does,
    pub warn_lacks: Option<String>,
    /// and what it says then.
    pub warn: Option<String>,
    /// True when it is the operator's own private RSA key, in PEM, by which the kind's code signs answers.
    #[serde(default)]
    pub signs_answers: bool,
    /// The published value of examples: the default of `serve --dev`, `sign` and published vectors.
    pub dev: Option<String>,
    /// The sort of public key that the example is, if it is one; `sign` signs with its private half.
    pub dev_key: Option<DevKey>,
    /// The id of that example, where the setting has ids.
    #[serde(default = "dev_id")]
    pub dev_id: String,
}

fn dev_id() -> String {
    "dev".to_owned()
}

/// The sorts of keys that `serve --dev` trusts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DevKey {
    /// Generated once for a working directory.
    Ed25519,
    /// Generated once for a working directory.
    P256,
    /// Published with Hooklatch, because nothing here can generate one.
    Rsa,
    /// The private half of that RSA key, where the operator signs answers.
    #[serde(rename = "rsa-private")]
    RsaPrivate,
    /// A certificate of that RSA key.
    Certificate,
    /// Published as well: a key on P-521.
    P521,
    /// Published as well: the root of a chain of certificates, whose first one signs.
    Chain,
}

impl DevKey {
    /// True when it has to be generated before it can be used.
    pub fn is_generated(self) -> bool {
        matches!(self, Self::Ed25519 | Self::P256)
    }
}

/// Forms of a setting.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SettingForm {
    /// One text or secret.
    #[default]
    Text,
    /// A text or a list of them.
    List,
    /// A table of ids and texts.
    Named,
}
