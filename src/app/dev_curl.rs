//! The `curl` commands that the console shows under `serve --dev`: they send a stored request again.

use anyhow::Context;

use super::builder::App;
use hooklatch_console::{SignAgain, SignedAgain, SignedCopy};
use hooklatch_core::types::Name;
use hooklatch_operator::load::dev_keys_of_folder;
use hooklatch_receive::provider::{ActiveProvider, Kind, Provider, curl};
use hooklatch_verify::{DevKeys, SignAt};

impl App {
    /// Signs the event that the console shows with published secrets, as its sender would; `None` without `--dev`.
    pub(super) fn sign_again(&self) -> anyhow::Result<Option<SignAgain>> {
        if !self.has_echo {
            return Ok(None);
        }
        let keys = dev_keys_of_folder(&self.kinds).context("could not read or make development keys")?;
        let kinds = self.kinds.clone();
        let (providers, public_url) = (self.config.providers.clone(), self.config.server.public_url.clone());
        Ok(Some(Box::new(move |wanted: &SignedAgain<'_>| {
            let name = Name::parse(wanted.provider).ok();
            let config = name.as_ref().and_then(|name| Some((name, providers.get(name)?)));
            let (name, config) = config.ok_or("Its provider is not configured any more.")?;
            let kind = kinds.iter().find(|kind| kind.kind() == config.kind.as_str());
            let kind = kind.ok_or("Its kind is not there any more.")?;
            let ours = kind.activate(name, config, &public_url);
            let ours = ours.map_err(|_| "Its provider cannot be used as it is configured.")?;
            signed(kind, &ours, &keys, wanted)
        })))
    }
}

/// The command, if the provider `ours` accepts its signature.
fn signed(
    kind: &Provider,
    ours: &ActiveProvider,
    keys: &DevKeys,
    wanted: &SignedAgain<'_>,
) -> Result<SignedCopy, String> {
    let at = SignAt {
        now_s: wanted.now_s,
        url: ours.url().to_owned(),
        id: wanted.event_id.to_owned(),
        event_type: wanted.event_type.to_owned(),
    };
    let sender = kind.dev(keys).map_err(|why| format!("Nothing is published to sign it with: {why}."))?;
    let signed = sender.sign(wanted.body, &at).map_err(|why| format!("It cannot be signed: {why}."))?;
    let request = signed.request(&at).map_err(|why| format!("It cannot be sent: {why}."))?;
    let verified = ours.verify(request).map_err(|_| {
        let name = wanted.provider;
        format!(
            "This provider has secrets of its own, and does not believe the published one: download the body and sign it \
             with `hooklatch sign {name} --body FILE`."
        )
    })?;
    let read = ours.read(&verified);
    let event = match read.as_slice() {
        [event] if event.unreadable.is_none() => event,
        _ => {
            return Err(
                "What is stored is one event of a request that carried a list of them, so there is no \
                        request to repeat: use the provider's samples with `hooklatch send`."
                    .to_owned(),
            );
        }
    };
    let is_duplicate = event.key.event_id == wanted.event_id && event.window_ms.is_none();
    Ok(SignedCopy { command: curl(ours.spec().method, &at.url, &signed), is_duplicate })
}
