//! The manual is complete: it documents the keys that the program reads, and the defaults it shows are real.

use std::collections::BTreeSet;

use super::configuration::{Kinds, asked, load_for_tools};
use super::layers::{DEFAULTS, Settings};
use hooklatch_core::config::{Config, ConfigProblem};
use hooklatch_receive::provider::Provider;

/// Keys whose examples are no defaults.
const WITHOUT_DEFAULT: [&str; 33] = [
    "clear =",
    "when =",
    "payload =",
    "[server.tls]",
    "[admin.tls]",
    "client_needed",
    "keys =",
    "cert_file",
    "key_file",
    "client_ca_file",
    "redact",
    "allow_from",
    "ids_days",
    "tolerance_s",
    "max_age_s",
    "on_conflict",
    "types =",
    "ca =",
    "stream_len_max",
    "query",
    "statuses",
    "sign_secret",
    "method",
    "body =",
    "content_type",
    "private_hosts",
    "auth =",
    "hmac",
    "tls",
    "proxy",
    "connect_timeout_ms",
    "success",
    "capture",
];

fn kinds() -> Kinds {
    Kinds::of(vec![Provider::from_spec(include_str!("../../../../providers/stripe/provider.toml"))])
}

/// The manual with its examples uncommented.
fn uncommented() -> String {
    let line = |line: &str| match line.strip_prefix('#') {
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_lowercase() || c == '[') => rest.to_owned(),
        Some(_) => String::new(),
        None => line.to_owned(),
    };
    // The examples that stand beside an active key.
    DEFAULTS
        .replace("\ntokens = []\n", "\n")
        .replace("\nkeys = []\n", "\n")
        .lines()
        .map(line)
        .collect::<Vec<_>>()
        .join("\n")
}

fn keys(prefix: &str, value: &toml::Value, into: &mut BTreeSet<String>) {
    let is_users_own =
        ["providers", "destinations", "destinations.NAME.headers", "destinations.NAME.statuses"]
            .contains(&prefix);
    match value {
        toml::Value::Table(table) if table.contains_key("env") || table.contains_key("file") => {}
        toml::Value::Table(table) => {
            for (key, value) in table {
                let key = if is_users_own { "NAME" } else { key };
                let path = if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") };
                if !is_users_own {
                    into.insert(path.clone());
                }
                keys(&path, value, into);
            }
        }
        toml::Value::Array(list) => list.iter().for_each(|value| keys(&format!("{prefix}[]"), value, into)),
        _ => {}
    }
}

fn with_file(text: &str, name: &str) -> (tempfile::TempDir, Settings) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("a file");
    let pem = "-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\n";
    for name in ["ca.pem", "client.pem", "client.key"] {
        std::fs::write(folder.path().join(name), pem).expect("a file");
    }
    let key = rcgen::KeyPair::generate().expect("a key");
    let own = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("a name").self_signed(&key);
    let own = own.expect("a certificate").pem();
    std::fs::create_dir(folder.path().join("tls")).expect("a folder");
    for name in ["hooks.pem", "clients.pem", "ops.pem", "operators.pem"] {
        std::fs::write(folder.path().join("tls").join(name), &own).expect("a file");
    }
    for name in ["hooks.key", "ops.key"] {
        std::fs::write(folder.path().join("tls").join(name), key.serialize_pem()).expect("a file");
    }
    let env = [
        "HOOKLATCH_OPS_TOKEN",
        "STRIPE_WEBHOOK_SECRET",
        "BILLING_AUTHORIZATION",
        "BILLING_SIGN_SECRET",
        "BILLING_PASSWORD",
        "BILLING_HMAC",
    ]
    .map(|name| (name.to_owned(), "0123456789abcdef".to_owned()));
    let sealing = ("HOOKLATCH_KEY_2026_11".to_owned(), "0123456789abcdef".repeat(4));
    let env = env.into_iter().chain([sealing]);
    (folder, Settings { file: Some(path), env: env.collect(), dev: None })
}

#[test]
fn every_key_of_the_program_is_in_the_manual_and_the_other_way_round() {
    // `unknown = "query"` is needed for its `query` to be right.
    let text = uncommented().replace("unknown = \"retry\"", "unknown = \"query\"");
    // A kind has one of the two keys about age at most.
    let (_folder, settings) = with_file(&text.replace("max_age_s = 604800", ""), "manual.toml");
    load_for_tools(&settings, &kinds()).expect("the manual's examples are right");
    let mut documented = BTreeSet::new();
    keys("", &toml::Value::Table(text.parse().expect("TOML")), &mut documented);
    let asked = asked(&settings, &kinds());
    assert_eq!(asked.keys().cloned().collect::<BTreeSet<_>>(), documented);
    for (key, range) in asked.iter().filter_map(|(key, range)| Some((key, range.as_ref()?))) {
        let said = manual_text(key);
        let (least, most) = (range.start().to_string(), range.end().to_string());
        // Not below another key, which the manual names.
        let least = if key == "server.inflight_bytes_max" { "body_bytes_max" } else { &least };
        let is_said =
            |word: &str| said.split([' ', ',', ';', ':', '.', '(', ')', '`']).any(|one| one == word);
        assert!(
            is_said(least) && is_said(&most),
            "{key} is from {least} to {most}, and the manual says: {said}"
        );
    }
}

/// The comments of the manual above this key, and above the table that it is written in.
fn manual_text(key: &str) -> String {
    let names: Vec<&str> = key.rsplit('.').take(2).collect();
    let (mut text, mut comment, mut is_over) = (String::new(), String::new(), false);
    for line in DEFAULTS.lines() {
        if let Some(words) = line.strip_prefix("# ") {
            if std::mem::take(&mut is_over) {
                comment.clear();
            }
            comment.extend([" ", words]);
            continue;
        }
        is_over = true;
        if line.trim_start_matches('#').split([' ', '=']).next().is_some_and(|name| names.contains(&name)) {
            text.push_str(&comment);
        }
    }
    text
}

#[test]
fn defaults_that_the_manual_shows_are_those_of_the_program() {
    let shown: String = uncommented()
        .lines()
        // These have no default to show.
        .filter(|line| !WITHOUT_DEFAULT.iter().any(|key| line.starts_with(key)))
        .fold(String::new(), |all, line| all + line + "\n");
    let (_folder, settings) = with_file(&shown, "shown.toml");
    let shown = Config {
        warnings: Vec::new(),
        settings: Vec::new(),
        ..load_for_tools(&settings, &kinds()).expect("right")
    };
    let least = "[admin]\ntokens = [{ name = \"ops\", role = \"operator\", token = { env = \"HOOKLATCH_OPS_TOKEN\" }, \
        providers = [\"stripe\"], destinations = [\"billing\"] }]\n\
        [providers.stripe]\nsecrets = [\"s\"]\nroutes = [{ on = [\"invoice.*\", \"charge.refunded\"], to = \"billing\" }]\n\
        [destinations.billing]\nurl = \"https://billing.internal/events\"\nheaders = { authorization = \"x\" }\n\
        [destinations.events]\nurl = \"nats://127.0.0.1:4222\"\nsubject = \"webhooks.events\"\n\
        [destinations.orders]\nurl = \"amqp://127.0.0.1:5672/%2f\"\nrouting_key = \"orders\"\n\
        [destinations.audit]\nurl = \"redis://127.0.0.1:6379/0\"\nstream = \"webhooks\"\n\
        [destinations.lake]\nurl = \"kafka://127.0.0.1:9092\"\ntopic = \"webhooks\"\n\
        [destinations.inbox]\nurl = \"postgres://hooklatch@127.0.0.1:5432/billing\"\ntable = \"hooklatch_messages\"\n";
    let (_folder, settings) = with_file(least, "least.toml");
    let least = Config {
        warnings: Vec::new(),
        settings: Vec::new(),
        ..load_for_tools(&settings, &kinds()).expect("right")
    };
    assert_eq!(format!("{shown:#?}"), format!("{least:#?}"));
}

/// The configuration of this file with these variables.
fn load_with(text: &str, variables: &[(&str, &str)]) -> Result<Config, Vec<ConfigProblem>> {
    let (_folder, settings) = with_file(text, "hooklatch.toml");
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let env = settings.env.all().clone().into_iter().chain(variables).collect();
    load_for_tools(&Settings { env, ..settings }, &kinds())
}

#[test]
fn a_variable_with_a_table_keeps_the_keys_that_it_leaves_out() {
    let text = "[retention]\nmessages_days = 91\n[destinations.billing]\nurl = \"http://127.0.0.1:9/\"\n";
    let load = |variables: &[(&str, &str)]| load_with(text, variables);
    let plain = load(&[]).expect("a configuration");
    let config = load(&[
        ("HOOKLATCH__RETENTION", "{ bodies_days = 7 }"),
        ("HOOKLATCH__OUTBOX", "{}"),
        ("HOOKLATCH__SERVER", " { name = \"q\" }"),
    ])
    .expect("a configuration");
    assert_eq!((config.retention.bodies_days, config.retention.messages_days), (7, 91));
    assert_eq!(config.retention.audit_days, plain.retention.audit_days);
    assert_eq!((config.outbox.poll_ms, config.server.listen), (plain.outbox.poll_ms, plain.server.listen));
    let problems = load(&[("HOOKLATCH__RETENTION", "30")]).expect_err("no table");
    assert!(problems.iter().any(|one| one.key == "retention"), "{problems:?}");
}

#[test]
fn a_variable_with_the_place_of_a_secret_replaces_that_of_the_file() {
    let text = "[destinations.billing]\nurl = \"http://127.0.0.1:9/\"\nheaders = { a = \"1\", b = \"2\" }\n\
                sign_secret = { env = \"BILLING_SIGN_SECRET\" }\n";
    let key = "HOOKLATCH__DESTINATIONS__BILLING__SIGN_SECRET";
    for (variables, want) in [
        (vec![], "variable BILLING_SIGN_SECRET"),
        (vec![(key.to_owned(), "{ file = \"client.key\" }")], "file client.key"),
        (vec![(format!("{key}__FILE"), "client.key")], "file client.key"),
        (vec![(key.to_owned(), "{ env = \"BILLING_HMAC\" }")], "variable BILLING_HMAC"),
    ] {
        let variables: Vec<(&str, &str)> =
            variables.iter().map(|(name, text)| (name.as_str(), *text)).collect();
        let config = load_with(text, &variables).expect("a configuration");
        let one = config.settings.iter().find(|one| one.key == "destinations.billing.sign_secret");
        assert_eq!(one.and_then(|one| one.secret_in.as_deref()), Some(want), "{variables:?}");
    }
    let headers = [("HOOKLATCH__DESTINATIONS__BILLING__HEADERS", "{ b = \"3\", c = \"4\" }")];
    let config = load_with(text, &headers).expect("a configuration");
    let names =
        config.settings.iter().filter_map(|one| one.key.strip_prefix("destinations.billing.headers."));
    assert_eq!(names.collect::<Vec<_>>(), ["a", "b", "c"]);
}
