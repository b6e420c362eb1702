//! Secrets that can be guessed are refused when the program starts, for every kind; and what is allowed but most
//! likely a mistake is warned about.

use hooklatch_core::config::{AgeConfig, KindSettings, OnHandlerError, ProviderConfig, RetryConfig, Secret};
use hooklatch_core::mistakes::Mistake;
use hooklatch_core::types::Name;
use hooklatch_receive::provider::{Kind, Provider, dev_secret};
use hooklatch_receive::providers::builtin;
use hooklatch_verify::spec::{Scheme, SecretFormat, SettingForm, Spec};

/// A secret of `n` bytes of key, written as the kind's sender does.
fn secret(spec: &Spec, n: usize) -> String {
    use base64::Engine;
    let base64 = base64::engine::general_purpose::STANDARD.encode("k".repeat(n));
    match spec.signature.secret {
        SecretFormat::Hex => "4b".repeat(n),
        SecretFormat::Base64 => base64,
        SecretFormat::Whsec | SecretFormat::WhsecOrText => format!("whsec_{base64}"),
        SecretFormat::Text => "k".repeat(n),
    }
}

/// The problems of a provider of this kind; required settings that are not secrets have the published values.
fn mistakes(kind: &Provider, secrets: &[String], mut settings: KindSettings) -> Vec<Mistake> {
    let spec = kind.spec().unwrap();
    for one in &spec.setting {
        if let Some(dev) = one.dev.as_ref().filter(|_| !settings.has(&one.name)) {
            settings.push(&one.name, (one.form == SettingForm::Named).then_some("dev"), dev);
        }
    }
    let name = Name::parse(kind.kind()).unwrap();
    let config = ProviderConfig {
        kind: name.clone(),
        secrets: secrets.iter().map(|secret| Secret::new(secret.as_str())).collect(),
        settings,
        is_unverified_accepted: false,
        on_handler_error: OnHandlerError::Keep,
        age: AgeConfig::default(),
        on_conflict: None,
        types: Vec::new(),
        redact: Vec::new(),
        has_search: true,
        is_payload_whole: false,
        allow_from: Vec::new(),
        is_first_party: false,
        body_bytes_max: 1 << 20,
        routes: Vec::new(),
        retry: RetryConfig { first_ms: 1, max_ms: 1, attempts_n: 1, age_max_ms: 1 },
    };
    kind.activate(&name, &config, "").err().unwrap_or_default()
}

#[test]
fn no_kind_starts_with_a_secret_that_can_be_guessed() {
    for kind in builtin() {
        let spec = kind.spec().unwrap();
        let is_guessed = |mistakes: &[Mistake], start: &str| {
            mistakes
                .iter()
                .map(ToString::to_string)
                .any(|one| one.starts_with(start) && one.ends_with("can be guessed"))
        };
        let floor = spec.signature.secret_bytes_min;
        assert!(floor >= 16 || ["dropbox", "payfast", "twitch"].contains(&kind.kind()), "{}", kind.kind());
        let own = vec![dev_secret(spec)];
        if spec.takes_secrets() && !spec.signature.scheme.is_public() {
            for n in [1, 7, floor - 1] {
                let found = mistakes(&kind, &[secret(spec, n)], KindSettings::default());
                assert!(is_guessed(&found, "secrets: secret 1"), "{}: {n}: {found:?}", kind.kind());
                let both = [own.clone(), vec![secret(spec, n)]].concat();
                let found = mistakes(&kind, &both, KindSettings::default());
                assert!(is_guessed(&found, "secrets: secret 2"), "{}: {n}: {found:?}", kind.kind());
            }
            let found = mistakes(&kind, &[secret(spec, floor)], KindSettings::default());
            assert!(!is_guessed(&found, ""), "{}: {found:?}", kind.kind());
            assert!(!is_guessed(&mistakes(&kind, &own, KindSettings::default()), ""), "{}", kind.kind());
        }
        let needed = if spec.takes_secrets() { own } else { Vec::new() };
        let of_scheme = spec.signature.keys.iter().filter(|_| spec.signature.scheme.is_mac());
        let named: Vec<(&str, usize)> =
            spec.secret_settings().chain(of_scheme.map(|name| (name.as_str(), floor))).collect();
        for (name, floor) in named {
            let one = spec.setting.iter().find(|one| one.name == name).unwrap();
            let id = (one.form == SettingForm::Named).then_some("dev");
            let with = |text: String| {
                let mut settings = KindSettings::default();
                settings.push(name, id, text);
                mistakes(&kind, &needed, settings)
            };
            let found = with("k".repeat(floor - 1));
            assert!(is_guessed(&found, &format!("settings.{name}: ")), "{}: {found:?}", kind.kind());
            assert!(!is_guessed(&with("k".repeat(floor)), ""), "{}", kind.kind());
        }
    }
}

#[test]
fn every_setting_that_is_a_secret_has_a_floor() {
    // Other settings of kinds: public keys, names, switches, and credentials that Hooklatch shows to the sender.
    const NO_SECRETS: [&str; 56] = [
        "signed",
        "fields",
        "app_ids",
        "profile_ids",
        "subscription_ids",
        "unsigned_notices",
        "alipay_public_key_pem",
        "pairing",
        "base_path",
        "topic_arns",
        "public_keys",
        "public_key",
        "username",
        "public_keys_spki_b64",
        "api_key",
        "signing",
        "audience",
        "service_account",
        "public_key_pem",
        "certificate_pem",
        "webhook_id",
        "merchant_key",
        "jwks",
        "client_id",
        "api_secret",
        "environment",
        "access_key",
        "require",
        "required_components",
        "batches",
        "v2",
        "platform_certificates",
        "keys",
        "named_secrets",
        "bundle_ids",
        "environments",
        "app_apple_id",
        "root_certificates",
        "merchant_id",
        "merchant_ids",
        // The length of a private key is checked when it is read.
        "merchant_private_key",
        "trustly_public_key",
        "debits",
        "test_order",
        "signature_version",
        "merchant_no",
        "more_fields",
        "key_id",
        "key_ids",
        "integration_ids",
        "organization_ids",
        "workspace_ids",
        "auth",
        "client_certificates",
        "accepted_status",
        "mismatch_status",
    ];
    for kind in builtin() {
        let spec = kind.spec().unwrap();
        for one in &spec.setting {
            let has_floor = spec.secret_settings().any(|(name, _)| name == one.name);
            let is_of_scheme =
                spec.signature.keys.as_ref() == Some(&one.name) && spec.signature.scheme != Scheme::Code;
            let is_open = NO_SECRETS.contains(&one.name.as_str()) && !one.name.contains("secret");
            assert!(
                has_floor || is_of_scheme || is_open || one.name == "api_secret",
                "{}: {}",
                kind.kind(),
                one.name
            );
        }
    }
}

/// Whether `check` accepts a configuration, its output, and the output as JSON.
pub fn check(text: &str) -> (bool, String, serde_json::Value) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hooklatch.toml");
    std::fs::write(&file, text).unwrap();
    // A file that every user can read would be warned about as well.
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_hooklatch"));
        command.args(arguments).current_dir(folder.path()).output().unwrap()
    };
    let plain = run(&["check"]);
    let report = serde_json::from_slice(&run(&["check", "--json"]).stdout).unwrap();
    (plain.status.success(), String::from_utf8(plain.stderr).unwrap(), report)
}

#[test]
fn a_weak_secret_is_reported_by_file_key_length_and_remedy_and_never_shown() {
    let canary = "Zx9";
    for (provider, key) in [
        (format!("[providers.stripe]\nsecrets = [\"{canary}\"]"), "stripe.secrets"),
        (format!("[providers.telegram]\nsecrets = [\"{canary}\"]"), "telegram.secrets"),
        (format!("[providers.okta]\nsecrets = [\"{canary}\"]"), "okta.secrets"),
        (
            format!("[providers.chargebee]\nsettings = {{ username = \"u\", password = \"{canary}\" }}"),
            "chargebee.settings.password",
        ),
        (
            format!(
                "[providers.rfc9421]\nsettings = {{ required_components = \"content-digest\", \
                 named_secrets = [{{ id = \"a\", key = \"{canary}\" }}] }}"
            ),
            "rfc9421.settings.named_secrets",
        ),
        (
            format!(
                "[providers.ably]\nsettings = {{ named_secrets = [{{ id = \"a\", key = \"{canary}\" }}] }}"
            ),
            "ably.settings.named_secrets",
        ),
    ] {
        let (is_good, said, report) = check(&provider);
        assert!(!is_good, "{key}");
        let start = format!("hooklatch.toml: providers.{key}: ");
        assert!(said.contains(&start) && said.contains("3 bytes") && said.contains("openssl rand"), "{said}");
        assert!(!said.contains(canary), "{said}");
        assert_eq!(report["problems"][0]["key"], format!("providers.{key}"));
    }
}
