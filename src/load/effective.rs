//! What is in force, as a list for people: every value that was read, with the layer that it came from.

use std::collections::BTreeMap;

use ::config::{Map, Value, ValueKind};

use super::dev;
use super::layers;
use super::sources::DEFAULTS;
use crate::config::DEFAULTS_ORIGIN;
use crate::config::{ConfigLayer, ENV_PREFIX, EffectiveSetting, ReadValue, ReadValues, mark_of, quoted};

/// The list, by key; a list of plain values is one of them.
pub(super) fn settings(read: ReadValues) -> Vec<EffectiveSetting> {
    let defaults = defaults();
    let values = joined(read.into_values());
    let settings = values.into_iter().map(|(key, value)| {
        let layer = layer(&value.source);
        let is_default = layer == ConfigLayer::Default
            || value.text.as_ref().is_some_and(|text| defaults.get(&key) == Some(text));
        let ReadValue { source, text, secret_in, mark } = value;
        EffectiveSetting { key, value: text, secret_in, source, layer, is_default, mark }
    });
    settings.collect()
}

fn layer(source: &str) -> ConfigLayer {
    match source {
        DEFAULTS_ORIGIN => ConfigLayer::Default,
        dev::ORIGIN => ConfigLayer::Dev,
        source if source.starts_with(ENV_PREFIX) => ConfigLayer::Environment,
        _ => ConfigLayer::File,
    }
}

/// Writes `key[0]`, `key[1]`, … as one list under `key`, where nothing of it is secret.
fn joined(values: BTreeMap<String, ReadValue>) -> Vec<(String, ReadValue)> {
    let mut lists: BTreeMap<String, BTreeMap<usize, ReadValue>> = BTreeMap::new();
    let mut all = BTreeMap::new();
    for (key, value) in values {
        match (place(&key), &value.text) {
            (Some((list, n)), Some(_)) => drop(lists.entry(list.to_owned()).or_default().insert(n, value)),
            _ => drop(all.insert(key, value)),
        }
    }
    for (key, items) in lists {
        let source = items.values().next().map(|value| value.source.clone()).unwrap_or_default();
        let mark = mark_of(&items.values().map(|value| value.mark.to_string()).collect::<Vec<_>>().join(" "));
        let texts: Vec<String> = items.into_values().filter_map(|value| value.text).collect();
        let text = Some(format!("[{}]", texts.join(", ")));
        all.insert(key, ReadValue { source, text, secret_in: None, mark });
    }
    all.into_iter().collect()
}

/// The list and the place in it, for a key that ends with one.
fn place(key: &str) -> Option<(&str, usize)> {
    let (list, n) = key.strip_suffix(']')?.rsplit_once('[')?;
    Some((list, n.parse().ok()?))
}

/// What the defaults say, as it would be read.
fn defaults() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let layer = layers::toml_layer(DEFAULTS_ORIGIN, DEFAULTS);
    if let Some(root) = layer.ok().and_then(|layer| layers::merged(vec![layer]).ok()) {
        gather(&mut found, "", &root);
    }
    found
}

fn gather(found: &mut BTreeMap<String, String>, above: &str, table: &Map<String, Value>) {
    for (name, value) in table {
        let key = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
        match &value.kind {
            ValueKind::Table(table) => gather(found, &key, table),
            _ => {
                if let Some(text) = written(value) {
                    found.insert(key, text);
                }
            }
        }
    }
}

/// A plain value, or a list of such, as TOML writes it.
fn written(value: &Value) -> Option<String> {
    Some(match &value.kind {
        ValueKind::String(text) => quoted(text),
        ValueKind::Boolean(flag) => flag.to_string(),
        ValueKind::I64(number) => number.to_string(),
        ValueKind::U64(number) => number.to_string(),
        ValueKind::Array(list) => {
            format!("[{}]", list.iter().map(written).collect::<Option<Vec<_>>>()?.join(", "))
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Kinds, Settings, load_for_tools};
    use super::*;
    use crate::provider::Provider;

    /// What is in force with this file and these variables, by key.
    fn effective(toml: &str, env: &[(&str, &str)]) -> BTreeMap<String, EffectiveSetting> {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("own.toml");
        std::fs::write(&file, toml).expect("written");
        std::fs::write(folder.path().join("secret"), "whsec_s3cr3t_0123456789").expect("written");
        let env = env.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        let settings = Settings { file: Some(file), env, dev: None };
        let stripe = Provider::from_spec(include_str!("../../providers/stripe/provider.toml"));
        let kinds = Kinds::of(vec![stripe]);
        let config = load_for_tools(&settings, &kinds).expect("right");
        config.settings.into_iter().map(|setting| (setting.key.clone(), setting)).collect()
    }

    #[test]
    fn every_value_is_told_with_the_layer_that_it_came_from() {
        #[track_caller]
        fn check(
            found: &BTreeMap<String, EffectiveSetting>,
            key: &str,
            value: Option<&str>,
            layer: ConfigLayer,
            is_default: bool,
        ) {
            let setting = &found[key];
            let told = (setting.value.as_deref(), setting.layer, setting.is_default);
            assert_eq!(told, (value, layer, is_default), "{key}");
        }
        let found = effective(
            "[server]\nqueue_n_max = 77\nbody_bytes_max = 1048576\n[admin]\nhosts = [\"a.internal\", \"b.internal\"]\n\
             [database]\nurl = \"sqlite://x.db\"\n[providers.stripe]\nsecrets = [\"whsec_s3cr3t_0123456789\", { env = \"OTHER\" }, { file = \"secret\" }]\n\
             routes = [{ on = [\"*\"], to = \"billing\" }]\n\
             [destinations.billing]\nurl = \"https://u.internal/s3cr3t?s3cr3t\"\nheaders = { x-key = \"s3cr3t\" }\n",
            &[
                ("OTHER", "whsec_s3cr3t_9876543210"),
                ("HOOKLATCH__SERVER__EVENTS_N_MAX", "123"),
                (
                    "HOOKLATCH__ADMIN__TOKENS",
                    "[{ name = \"ops\", role = \"operator\", token = \"s3cr3t-0123456789\" }]",
                ),
            ],
        );
        check(&found, "server.queue_n_max", Some("77"), ConfigLayer::File, false);
        check(&found, "server.body_bytes_max", Some("1048576"), ConfigLayer::File, true);
        check(&found, "server.listen", Some("\"127.0.0.1:8080\""), ConfigLayer::Default, true);
        check(&found, "server.events_n_max", Some("123"), ConfigLayer::Environment, false);
        check(&found, "admin.hosts", Some(r#"["a.internal", "b.internal"]"#), ConfigLayer::File, false);
        check(&found, "admin.tokens[0].name", Some("\"ops\""), ConfigLayer::Environment, false);
        check(&found, "admin.tokens[0].token", None, ConfigLayer::Environment, false);
        check(&found, "database.url", Some("\"sqlite://x.db\""), ConfigLayer::File, false);
        check(&found, "providers.stripe.secrets[0]", None, ConfigLayer::File, false);
        check(&found, "providers.stripe.routes[0].on", Some(r#"["*"]"#), ConfigLayer::File, false);
        check(&found, "destinations.billing.url", Some("\"https://u.internal/…\""), ConfigLayer::File, false);
        check(&found, "destinations.billing.headers.x-key", None, ConfigLayer::File, false);
        let secret_in = |n: u32| found[&format!("providers.stripe.secrets[{n}]")].secret_in.clone();
        assert_eq!(secret_in(0), None);
        assert_eq!(secret_in(1).as_deref(), Some("variable OTHER"));
        assert_eq!(secret_in(2).as_deref(), Some("file secret"));
        assert_eq!(found["server.events_n_max"].source, "HOOKLATCH__SERVER__EVENTS_N_MAX");
        assert!(found["server.queue_n_max"].source.ends_with("own.toml"));
        let told = format!("{found:?}");
        assert!(!told.contains("s3cr3t"), "{told}");
    }

    #[test]
    fn every_key_that_has_a_default_is_in_the_list() {
        let found = effective("", &[]);
        let missing: Vec<String> = defaults().into_keys().filter(|key| !found.contains_key(key)).collect();
        assert!(missing.is_empty(), "{missing:?}");
        assert!(found.values().all(|setting| setting.is_default), "{found:?}");
    }
}
