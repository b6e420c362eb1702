//! `new-kind`: writes the folder of a working kind for an invented sender, and lists what is left to do. Also builds
//! the signed requests that every kind must have, by its own spec, for that folder and for `sign --vectors`: they prove
//! that the spec is consistent; only a recorded request proves that the sender does the same.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use serde_json::{Map, Value, json};

use super::shared::{Usage, say};
use hooklatch_core::config::KindSettings;
use hooklatch_core::types::Name;
use hooklatch_operator::load::Kinds;
use hooklatch_receive::provider::{
    ActiveProvider, Kind, Provider, dev_secret, dev_settings, filled_sample, tamper,
};
use hooklatch_receive::vectors::{Judged, Vector, judge_one};
use hooklatch_verify::spec::{DevKey, EventMethod, Scheme, SecretFormat, SettingForm, Spec};
use hooklatch_verify::{DevKeys, SignAt, Signed};

const SPEC: &str = include_str!("provider.toml");
/// The guide that documents every key, for users who have only the program.
const GUIDE: &str = include_str!("../../../providers/README.md");
const PAIRS: &str = include_str!("identity.json");
const SAMPLE: &str = "{\n  \"id\": \"evt___ID__\",\n  \"type\": \"{TYPE}\",\n  \"created\": __NOW__,\n  \"data\": { \"id\": \"thing_1\" }\n}\n";
const TYPES: [&str; 3] = ["thing.created", "thing.changed", "thing.deleted"];

#[derive(Args)]
pub(super) struct NewKindArgs {
    /// Name of the kind and of its folder.
    #[arg(required_unless_present = "guide")]
    name: Option<String>,
    /// Print the guide instead, which documents every key of `provider.toml`.
    #[arg(long, conflicts_with_all = ["name", "folder"])]
    guide: bool,
    /// Parent folder. Default: `[kinds] folder` of the configuration, else `kinds`.
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

/// Writes the folder; an existing one is not changed.
pub(super) fn new_kind(args: &NewKindArgs, kinds: &Kinds) -> anyhow::Result<ExitCode> {
    let Some(name) = args.name.as_deref() else {
        say(GUIDE.trim_end());
        return Ok(ExitCode::SUCCESS);
    };
    Name::parse(name).map_err(|why| Usage(why.to_string()))?;
    let configured = kinds.folder.as_ref().map(|folder| folder.path.clone());
    let parent = args.folder.clone().or(configured).unwrap_or_else(|| PathBuf::from("kinds"));
    let folder = parent.join(name);
    if folder.exists() {
        anyhow::bail!("`{}` is there already: choose another name, or move it away", folder.display());
    }
    write(&folder, name)?;
    say(steps(&parent, &folder, name));
    Ok(ExitCode::SUCCESS)
}

fn write(folder: &Path, name: &str) -> anyhow::Result<()> {
    // Some proxies drop headers with an underscore.
    let spec = SPEC.replace("{NAME}", name).replace("{STEM}", &name.replace('_', "-"));
    let samples = TYPES.map(|one| (one.to_owned(), SAMPLE.replace("{TYPE}", one)));
    let kind = Provider::from_spec(&spec).with_samples(samples.to_vec());
    let vectors = kind_vectors(&kind, None, &DevKeys::default())?;
    let mut files = vec![
        ("provider.toml".to_owned(), spec),
        ("identity.json".to_owned(), PAIRS.to_owned()),
        ("vectors.json".to_owned(), format!("{vectors}\n")),
    ];
    files.extend(samples.map(|(one, text)| (format!("samples/{one}.json"), text)));
    let samples = folder.join("samples");
    std::fs::create_dir_all(&samples).with_context(|| format!("could not make `{}`", samples.display()))?;
    for (file, text) in files {
        let file = folder.join(file);
        std::fs::write(&file, text).with_context(|| format!("could not write `{}`", file.display()))?;
    }
    Ok(())
}

/// What is left to do, for a built-in kind where the folder is the one of the source tree.
fn steps(parent: &Path, folder: &Path, name: &str) -> String {
    let text = if parent.join("mod.rs").is_file() {
        include_str!("builtin_steps.txt")
    } else {
        include_str!("steps.txt")
    };
    let text = text.replace("{AT}", &folder.display().to_string());
    let text = text.replace("{PARENT}", &parent.display().to_string()).replace("{NAME}", name);
    text.replace("{VARIABLE}", &name.to_uppercase().replace('-', "_")).trim_end().to_owned()
}

/// The time at which they are signed unless `--now` says otherwise. Unix seconds.
const NOW_S: i64 = 1_767_225_600;
/// Public keys whose private halves were discarded, for a receiver that trusts another sender.
const STRANGE_ED25519: &str = "9274bb97b2766ca423943fc76b1da23c66f777b2ed61547787f9e3db43cdbe4e";
const STRANGE_P256: &str = "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEWuhowuCaDHYNnOnLRtopENtZxklz7YDS0ftt4vbar7b/TYfA4uZxAf8dt5e0bpc8Y0JYKRbAxOEXyw/b+k2I3w==";
const STRANGE_P521: &str = "MIGbMBAGByqGSM49AgEGBSuBBAAjA4GGAAQAXpsdA93xSjwtPN+08lTkHjfSQbZPMjri+N76QbTtgLRQtlYh45RhJcX2FBmvThlvw0TVnrMwzwkc2SkVXfSuvbwBxSkjZfNZrdsZIEnyt4OfJNrj+Woaufs+zu7V1KGetv43+LzqjrzhpxJ6+haGE4Bn8Kydr52d5vES770SbNfNOPI=";
/// Certificate of an RSA key that no sender has.
const STRANGE_CERTIFICATE: &str = include_str!("stranger.pem");

/// A kind, its spec, and its provider, which signs.
struct VectorSigner<'a> {
    kind: &'a Provider,
    spec: &'a Spec,
    sender: &'a ActiveProvider,
}

/// Secrets and settings that a receiver trusts.
struct TrustedKeys {
    secrets: Vec<String>,
    settings: KindSettings,
}

/// One vector to build: the keys that verify it, when it is signed, and the expected result.
struct VectorCase<'a> {
    suffix: &'static str,
    trusted: &'a TrustedKeys,
    signed_at_s: i64,
    is_tampered: bool,
    expect: &'static str,
    note: &'static str,
}

/// The list, in the format of `vectors.json`: valid, tampered, signed with another secret and, if a time is signed,
/// stale. Each names its secrets and settings as the configuration does.
pub(super) fn kind_vectors(kind: &Provider, now_s: Option<i64>, keys: &DevKeys) -> anyhow::Result<String> {
    let now_s = now_s.unwrap_or(NOW_S);
    let spec = kind.spec().map_err(Clone::clone)?;
    if spec.signature.scheme == Scheme::Unsigned {
        anyhow::bail!("kind `{}` signs nothing: there is nothing that a vector could show", spec.kind);
    }
    let sender = kind.dev(keys).map_err(|why| anyhow::anyhow!("{why}"))?;
    let (ours, another) = (trusted(spec, keys), another(spec, keys));
    let case = |suffix, expect, note| VectorCase {
        suffix,
        trusted: &ours,
        signed_at_s: now_s,
        is_tampered: false,
        expect,
        note,
    };
    let mut cases = vec![
        case("ok", "valid", "signed by the rule"),
        VectorCase { is_tampered: true, ..case("tampered", "invalid", "one byte changed after signing") },
        VectorCase {
            trusted: &another,
            ..case("wrong-secret", "invalid", "signed with a secret that is not configured")
        },
    ];
    if let Some(tolerance_s) = spec.signature.tolerance_s {
        let signed_at_s = now_s - i64::from(tolerance_s) - 1;
        cases.push(VectorCase { signed_at_s, ..case("stale", "invalid", "signed a second too long ago") });
    }
    let (event_type, sample) = kind.sample_list().first().copied().context("the kind has no samples")?;
    let signer = VectorSigner { kind, spec, sender: &sender };
    let mut lines = Vec::new();
    for case in cases {
        // The signed time may be a field of the body.
        let body = filled_sample(sample, "1", case.signed_at_s);
        let at = SignAt {
            now_s: case.signed_at_s,
            url: format!("https://hooks.example.com/webhooks/{}", spec.kind),
            id: "1".to_owned(),
            event_type: event_type.to_owned(),
        };
        let vector = vector(&signer, &case, body.as_bytes(), &at, now_s)?;
        lines.push(format!("  {vector}"));
    }
    Ok(format!("[\n{}\n]", lines.join(",\n")))
}

/// Returns what `serve --dev` trusts: the keys of the sender that `sign` simulates.
fn trusted(spec: &Spec, keys: &DevKeys) -> TrustedKeys {
    let secrets = if spec.takes_secrets() { vec![dev_secret(spec)] } else { Vec::new() };
    TrustedKeys { secrets, settings: dev_settings(spec, keys) }
}

/// Other secrets and keys, which sign nothing.
fn another(spec: &Spec, keys: &DevKeys) -> TrustedKeys {
    let ours = trusted(spec, keys);
    let other = match spec.signature.secret {
        // From its beginning: of some the first characters alone count.
        SecretFormat::Text => format!("another-{}", dev_secret(spec)),
        _ => dev_secret(&Spec { kind: "another".to_owned(), ..spec.clone() }),
    };
    let secrets = ours.secrets.iter().map(|_| other.clone()).collect();
    let is_secret = |name: &str| {
        spec.signature.keys.as_deref() == Some(name) || spec.secret_settings().any(|(known, _)| known == name)
    };
    let mut settings = KindSettings::default();
    for one in ours.settings.iter() {
        let key = spec.setting.iter().find(|known| known.name == one.name).and_then(|known| known.dev_key);
        let text = match key {
            Some(DevKey::Ed25519) => STRANGE_ED25519,
            Some(DevKey::P256) => STRANGE_P256,
            Some(DevKey::P521) => STRANGE_P521,
            Some(DevKey::Rsa | DevKey::Certificate | DevKey::Chain) => STRANGE_CERTIFICATE,
            None if is_secret(&one.name) => &other,
            // Nothing is verified with the operator's own key.
            Some(DevKey::RsaPrivate) | None => one.value.reveal(),
        };
        settings.push(&one.name, one.id.as_deref(), text);
    }
    TrustedKeys { secrets, settings }
}

/// Renders settings in the format of `[providers.NAME.settings]`.
fn written(spec: &Spec, settings: &KindSettings) -> Value {
    let mut written = Map::new();
    for known in spec.setting.iter().filter(|known| settings.has(&known.name)) {
        let all = settings.all(&known.name);
        let value = match known.form {
            SettingForm::Text => json!(settings.text(&known.name)),
            SettingForm::List => all.map(|one| json!(one.value.reveal())).collect(),
            SettingForm::Named => all.map(|one| json!({ "id": one.id, "key": one.value.reveal() })).collect(),
        };
        written.insert(known.name.clone(), value);
    }
    written.into()
}

/// Signs this case's request as `at` says, and renders it with `now_s` as the time of verification.
fn vector(
    signer: &VectorSigner<'_>,
    case: &VectorCase<'_>,
    body: &[u8],
    at: &SignAt,
    now_s: i64,
) -> anyhow::Result<Value> {
    let VectorSigner { kind, spec, sender } = *signer;
    let signed = sender.sign(body, at)?;
    let settings = written(spec, &case.trusted.settings);
    let written = |signed: &Signed| {
        let headers: Map<String, Value> =
            signed.headers.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        let mut vector = json!({
            "id": format!("{}-own-{}", kind.kind(), case.suffix), "kind": kind.kind(),
            "secrets": case.trusted.secrets, "url": at.url, "headers": headers,
            "body": String::from_utf8_lossy(&signed.body), "now": now_s, "expect": case.expect,
            "note": case.note, "origin": "hooklatch sign --vectors",
        });
        if let (Some(vector), EventMethod::Get) = (vector.as_object_mut(), spec.method) {
            vector.insert("method".to_owned(), json!("GET"));
            vector.insert("url".to_owned(), json!(signed.url_with_query(&at.url)));
            vector.insert("body".to_owned(), json!(""));
        }
        if let (Some(vector), false) = (vector.as_object_mut(), case.trusted.settings.iter().next().is_none())
        {
            vector.insert("settings".to_owned(), settings.clone());
        }
        vector
    };
    let judged = |written: &Value| {
        let vector: Vector = serde_json::from_value(written.clone()).ok()?;
        Some(judge_one(&vector, std::slice::from_ref(kind))).filter(|judged| !judged.is_wrong)
    };
    let variants = if case.is_tampered { tampered(&signed) } else { vec![signed] };
    let mut fitting = variants.iter().map(written).filter_map(|written| Some((judged(&written)?, written)));
    // A byte of no token may be missed as well, but shows less.
    let first = fitting.next();
    let by_signature = |(judged, _): &(Judged, Value)| judged.expect == "valid" || judged.step == "signature";
    let is_best = first.as_ref().is_none_or(by_signature);
    let best = if is_best { first } else { fitting.find(by_signature).or(first) };
    let fitting = best.map(|(_, written)| written);
    fitting.ok_or_else(|| {
        let (kind, suffix) = (kind.kind(), case.suffix);
        anyhow::anyhow!(
            "no vector `{kind}-own-{suffix}` can be made by this spec: record one from the sender"
        )
    })
}

/// The request with a byte changed: of its body; where that is not signed, of its headers; and where the token is in
/// the body, which is then all that decides, of any of the body's texts and numbers.
fn tampered(signed: &Signed) -> Vec<Signed> {
    let (mut body, mut headers) = (signed.clone(), signed.clone());
    tamper(&mut body.body);
    for (_, value) in &mut headers.headers {
        let mut bytes = value.clone().into_bytes();
        tamper(&mut bytes);
        *value = String::from_utf8_lossy(&bytes).into_owned();
    }
    let places = (1..=signed.body.len()).rev().map(|length| {
        let mut one = signed.clone();
        tamper(one.body.get_mut(..length).unwrap_or_default());
        one
    });
    [body, headers].into_iter().chain(places).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hooklatch_receive::vectors::judge;

    #[test]
    fn every_kind_makes_vectors_of_its_own_that_hold_without_any_configuration() {
        let keys = DevKeys::parse(&DevKeys::generate().expect("keys")).expect("readable");
        let kinds = hooklatch_receive::providers::builtin();
        let is_signed = |kind: &&Provider| kind.spec().expect("a spec").signature.scheme != Scheme::Unsigned;
        let wrong = kinds.iter().filter(is_signed).filter_map(|kind| {
            let made = match kind_vectors(kind, None, &keys) {
                Ok(made) => made,
                Err(why) => return Some(format!("{}: {why}", kind.kind())),
            };
            let judged = judge(&made, &kinds).expect("vectors");
            let spec = kind.spec().expect("a spec");
            let cases_n = if spec.signature.tolerance_s.is_some() { 4 } else { 3 };
            assert_eq!(judged.len(), cases_n, "{}", kind.kind());
            assert!(judged.iter().all(|one| !one.is_wrong), "{judged:#?}");
            // The one that fails for its key does so because of the key.
            let step = judged.iter().find(|one| one.id.ends_with("-wrong-secret")).map(|one| one.step);
            // A chain that leads elsewhere has no key to try.
            (!matches!(step, Some("signature" | "secret"))).then(|| format!("{}: {step:?}", kind.kind()))
        });
        assert_eq!(wrong.collect::<Vec<_>>(), Vec::<String>::new());
    }
}
