//! From a kind to one `[providers.NAME]`: with an operator's configuration, for development, or to judge single
//! requests.

use std::sync::Arc;

use super::active::ActiveProvider;
use super::definition::Provider;
use super::dev::{dev_secret, dev_settings};
use super::refusal::{of_key, said};
use super::verifier::{ActiveOptions, Verifier};
use hooklatch_core::config::{KindSettings, ProviderConfig, Secret};
use hooklatch_core::json::RedactedPaths;
use hooklatch_core::mistakes::{Mistake, shown};
use hooklatch_core::types::Name;
use hooklatch_verify::spec::{Source, Spec};
use hooklatch_verify::{DevKeys, KeysExt, Unverified};

/// What a caller of ours lacks to show who it is.
fn caller_mistake(spec: &Spec, config: &ProviderConfig) -> Option<Mistake> {
    let is_by_certificate = config.settings.text("auth") == Some("mtls");
    match (spec.first_party, is_by_certificate) {
        (true, true) if !config.settings.has("client_certificates") => {
            let (why, remedy) = (
                "there is none, so that no caller is accepted",
                "name the SHA-256 of each certificate in hex",
            );
            Some(Mistake::said("settings.client_certificates", why, remedy))
        }
        (true, false) if config.secrets.is_empty() => {
            let (why, remedy) =
                ("there is none, so that no caller is accepted", "write secrets = [{ env = \"NAME\" }]");
            Some(Mistake::said("secrets", why, remedy))
        }
        _ => None,
    }
}

/// The spec without those places of search ids whose values are not to be stored.
fn unredacted(spec: &Arc<Spec>, redact: &RedactedPaths) -> Arc<Spec> {
    let mut spec = Arc::clone(spec);
    if redact.is_empty() {
        return spec;
    }
    for event in &mut Arc::make_mut(&mut spec).event {
        for source in &mut event.search.0 {
            if let Source::Json(pointers) = source {
                let kept: Vec<&str> = pointers.split('|').filter(|one| !redact.covers(one)).collect();
                *pointers = kept.join("|");
            }
        }
        event.search.0.retain(|source| !matches!(source, Source::Json(pointers) if pointers.is_empty()));
    }
    spec
}

impl Provider {
    /// Makes one `[providers.NAME]` of it, or says all that is wrong.
    #[doc(hidden)]
    pub fn activate(
        &self,
        name: &Name,
        config: &ProviderConfig,
        public_url: &str,
    ) -> Result<ActiveProvider, Vec<Mistake>> {
        let spec = self.spec.as_ref().map_err(|error| vec![said("", error.to_string())])?;
        let mut mistakes = self.mistakes.clone();
        let mut handlers = self.handlers.clone();
        for route in &config.routes {
            for pattern in &route.on {
                handlers.add_route(pattern.clone(), route);
            }
        }
        let verifier = Verifier::new(spec, &config.secrets, &config.settings, config.is_unverified_accepted);
        let strong =
            verifier.as_ref().map_err(Clone::clone).and_then(|verifier| verifier.keys.check_strength(spec));
        mistakes.extend(strong.err().map(|error| of_key(spec, &error)));
        let redact = RedactedPaths::parse(config.redact.iter().map(String::as_str))
            .inspect_err(|(pointer, why)| {
                mistakes.push(said("redact", format!("`{}` {why}", shown(pointer))));
            })
            .unwrap_or_default();
        let options = ActiveOptions {
            on_conflict: config.on_conflict,
            types: config.types.clone(),
            redact,
            is_search_off: !config.has_search,
        };
        mistakes.extend(caller_mistake(spec, config));
        match verifier {
            Ok(verifier) if mistakes.is_empty() => {
                let spec = unredacted(spec, &options.redact);
                let mut active = self.active(name, &spec, verifier, public_url).with_age(config.age);
                if config.is_payload_whole {
                    active = active.with_whole_payload();
                }
                Ok(ActiveProvider { handlers, options, ..active })
            }
            _ => Err(mistakes),
        }
    }

    /// Judges single requests with `secrets` however short: for published vectors and for `explain`. Settings
    /// that are not there are taken from the spec's examples.
    #[doc(hidden)]
    pub fn judge_with(&self, secrets: &[Secret], settings: &KindSettings) -> Result<ActiveProvider, String> {
        let spec = self.spec.as_ref().map_err(ToString::to_string)?;
        let mut settings = settings.clone();
        for setting in spec.setting.iter().filter(|setting| setting.needed) {
            if let Some(dev) = setting.dev.as_deref().filter(|_| !settings.has(&setting.name)) {
                settings.push(&setting.name, None, dev);
            }
        }
        let verifier = Verifier::new(spec, secrets, &settings, false).map_err(|error| error.to_string())?;
        let name = Name::parse(&spec.kind).map_err(|error| error.to_string())?;
        Ok(self.active(&name, spec, verifier, "http://127.0.0.1:8080"))
    }

    /// Makes the provider that `serve --dev` has: with the published secret and settings, and with `keys` where the
    /// kind's sender signs with a private key.
    #[doc(hidden)]
    pub fn dev(&self, keys: &DevKeys) -> Result<ActiveProvider, String> {
        let spec = self.spec.as_ref().map_err(ToString::to_string)?;
        let secrets = if spec.takes_secrets() { vec![Secret::new(dev_secret(spec))] } else { Vec::new() };
        let settings = dev_settings(spec, keys);
        let is_accepted = secrets.is_empty() && spec.signature.may_be_unsigned;
        let mut verifier =
            Verifier::new(spec, &secrets, &settings, is_accepted).map_err(|error| error.to_string())?;
        let sort = spec.setting.iter().find_map(|setting| setting.dev_key);
        verifier.keys = verifier.keys.with_signer(sort.and_then(|sort| keys.signing(sort)));
        let name = Name::parse(&spec.kind).map_err(|error| error.to_string())?;
        Ok(self.active(&name, spec, verifier, "http://127.0.0.1:8080"))
    }

    fn active(&self, name: &Name, spec: &Arc<Spec>, verifier: Verifier, public_url: &str) -> ActiveProvider {
        // Where nothing has to be signed, no header is covered.
        let names = spec.headers.iter().filter(|_| verifier.unverified == Unverified::Refuse);
        ActiveProvider {
            header_names: names.map(|name| name.to_ascii_lowercase()).collect(),
            name: name.clone(),
            url: format!("{public_url}/webhooks/{name}"),
            spec: Arc::clone(spec),
            handlers: self.handlers.clone(),
            verifier,
            options: ActiveOptions::default(),
            verify_with: self.verify_with,
            sign_with: self.sign_with,
            handshake_with: self.handshake_with,
            open_with: self.open_with,
            answer_with: self.answer_with,
        }
    }
}
