//! `[[setting]]`: the further settings of a provider of a kind. `[whose]`: whose event it is, by a setting of accounts;
//! a key with which the sender signs for all its customers proves that the sender sent an event, and not that it is
//! about the operator's account. `[accept]`: which events act, by a setting of environments.

use serde::Deserialize;

use super::event::Source;
use super::misfits::{misfit, pointer, refuse};
use super::provider_toml::Spec;
use super::signature::Scheme;
use hooklatch_core::mistakes::Mistake;

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

/// What binds an event to the operator's account: exactly one of `json`, `header`, `by_code`, `none` and `open`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WhoseSpec {
    /// JSON pointer into the body to the account; the first of several separated by `|` that is there. Signed.
    pub json: Option<String>,
    /// The header that names the account. Signed.
    pub header: Option<String>,
    /// True when the kind's code compares the account with the setting.
    #[serde(default)]
    pub by_code: bool,
    /// The setting that lists the operator's accounts; `*` in it allows every account.
    pub setting: Option<String>,
    /// The reason why no setting is needed, in one sentence: the key is the operator's own.
    pub none: Option<String>,
    /// What stays open, in one sentence: the key is shared and nothing that is signed names an account.
    pub open: Option<String>,
}

impl WhoseSpec {
    /// The place of the account, where it is read by the spec.
    pub fn source(&self) -> Option<Source> {
        let json = self.json.clone().map(Source::Json);
        json.or_else(|| self.header.clone().map(Source::Header))
    }
}

/// `[accept]`: which events are meant to act, where one secret signs real ones and those of a sandbox alike. The rest
/// is kept as `ignored`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcceptSpec {
    /// JSON pointer into the event to its environment; an event without it is accepted.
    pub json: String,
    /// The values that are accepted by default.
    pub values: Vec<String>,
    /// The setting that lists other values in their place.
    pub setting: String,
}

impl Spec {
    /// Checks that `[accept]` reads what is signed. A token signs nothing, and its holder can write any environment.
    pub(super) fn check_accept(&self) -> Result<(), Mistake> {
        let Some(accept) = &self.accept else { return Ok(()) };
        pointer("accept.json", &accept.json)?;
        if accept.values.is_empty() {
            return Err(misfit("accept.values", "every event would be ignored: name at least one value"));
        }
        let is_list = |one: &SettingSpec| one.name == accept.setting && one.form == SettingForm::List;
        refuse(
            !self.setting.iter().any(is_list),
            "accept.setting",
            format!("`{}` is not a [[setting]] with form = \"list\"", accept.setting),
        )?;
        let source = Source::Json(accept.json.clone());
        let mut signing = self.signatures().filter(|one| one.nothing_covered().is_none());
        match signing.find_map(|one| one.uncovered(&source)) {
            Some(what) => Err(misfit("accept.json", format!("the signature does not cover {what}"))),
            None => Ok(()),
        }
    }

    /// True when others may have the key with which requests are verified: it is public or fetched.
    pub fn has_public_key(&self) -> bool {
        let is_public = |scheme| {
            matches!(scheme, Scheme::Ed25519 | Scheme::EcdsaP256 | Scheme::RsaSha256 | Scheme::RsaSha1)
        };
        self.signatures().any(|one| is_public(one.scheme) || one.keys_fetched)
            || !self.fetch.is_empty()
            || self.setting.iter().any(|setting| setting.dev_key.is_some())
    }

    /// Checks that `[whose]` says one thing, of something that every signature covers, with a setting that must be
    /// there.
    pub(super) fn check_whose(&self) -> Result<(), Mistake> {
        let Some(whose) = &self.whose else { return Ok(()) };
        let said = [
            whose.json.is_some(),
            whose.header.is_some(),
            whose.by_code,
            whose.none.is_some(),
            whose.open.is_some(),
        ];
        if said.iter().filter(|is_said| **is_said).count() != 1 {
            return Err(misfit("whose", "write one of json, header, by_code, none and open"));
        }
        if whose.none.is_some() || whose.open.is_some() {
            return match whose.setting {
                Some(_) => Err(misfit("whose.setting", "nothing is compared with it: leave it out")),
                None => Ok(()),
            };
        }
        let Some(name) = &whose.setting else {
            return Err(misfit("whose.setting", "name the setting that lists the operator's accounts"));
        };
        let setting = self.setting.iter().find(|one| one.name == *name);
        let setting =
            setting.ok_or_else(|| misfit("whose.setting", format!("`{name}` is not a [[setting]]")))?;
        refuse(
            !setting.needed || (!whose.by_code && setting.form != SettingForm::List),
            "whose.setting",
            format!("[[setting]] `{name}` must have `needed = true` and `form = \"list\"`"),
        )?;
        let Some(source) = whose.source() else { return Ok(()) };
        if let Source::Json(pointers) = &source {
            pointer("whose.json", pointers)?;
        }
        let uncovered = self
            .signatures()
            .find_map(|signature| signature.nothing_covered().or_else(|| signature.uncovered(&source)));
        match uncovered {
            Some(what) => Err(misfit("whose", format!("the signature does not cover {what}"))),
            None => Ok(()),
        }
    }
}
