//! The layer of `serve --dev` between the defaults and the user's file: loopback only, a database in a local folder,
//! every kind with its published secret or generated key, and everything routed to the built-in `echo`.
//!
//! The dev secrets are no secrets; that is why this layer refuses any address but loopback.

use std::net::SocketAddr;

use ::config::{Map, Value};

use super::layers::Layer;
use super::listen::reachable;
use crate::config::DEV_TOKEN;
use crate::provider::{Provider, dev_secret, dev_settings};
use crate::spec::Spec;
use crate::verify::DevKeys;

/// Named as the source of what this layer says.
pub(super) const ORIGIN: &str = "serve --dev";
/// URL of its database, relative to the working directory.
const DATABASE_URL: &str = "sqlite://.hooklatch/dev.db";
/// The path of the built-in destination on the operators' listener.
const ECHO_PATH: &str = "/dev/echo";

/// The layer, for these kinds. `admin_listen` is where `echo` will be reached.
pub(super) fn layer(kinds: &[Provider], keys: &DevKeys, admin_listen: Option<SocketAddr>) -> Layer {
    let route = table([("on", list([text("*")])), ("to", text("echo"))]);
    let providers = kinds.iter().filter_map(|kind| {
        let spec = kind.spec().ok()?;
        Some((spec.kind.clone(), provider(spec, keys, &route)?))
    });
    // Fast, so that a newcomer sees a failing call being repeated while looking.
    let retry = table([("first_ms", number(200)), ("max_ms", number(5_000)), ("attempts_n", number(50))]);
    let echo_at =
        admin_listen.map_or_else(|| "127.0.0.1:8081".to_owned(), |listen| reachable(listen).to_string());
    let echo = table([("url", text(&format!("http://{echo_at}{ECHO_PATH}"))), ("retry", retry)]);
    let mut root = Map::new();
    root.insert("database".to_owned(), table([("url", text(DATABASE_URL))]));
    let token = table([("name", text("dev")), ("role", text("admin")), ("token", text(DEV_TOKEN))]);
    root.insert("admin".to_owned(), table([("tokens", list([token]))]));
    let test = Value::new(Some(&ORIGIN.to_owned()), true);
    root.insert("server".to_owned(), table([("test", test)]));
    root.insert("providers".to_owned(), Value::new(None, providers.collect::<Map<String, Value>>()));
    root.insert("destinations".to_owned(), table([("echo", echo)]));
    Layer::new(root)
}

/// One kind, with what is published for it; `None` where only the sender's own keys would do.
fn provider(spec: &Spec, keys: &DevKeys, route: &Value) -> Option<Value> {
    let settings = dev_settings(spec, keys);
    let wanted = spec.signature.keys.as_ref();
    let mut needed = spec.setting.iter().filter(|setting| setting.needed || Some(&setting.name) == wanted);
    if !needed.all(|setting| settings.has(&setting.name)) {
        return None;
    }
    let mut provider = Map::new();
    provider.insert("routes".to_owned(), list([route.clone()]));
    if spec.needs_types() {
        provider.insert("types".to_owned(), list([text("*")]));
    }
    if spec.takes_secrets() {
        provider.insert("secrets".to_owned(), list([text(&dev_secret(spec))]));
    } else if spec.signature.may_be_unsigned {
        provider.insert("unverified".to_owned(), text("accept"));
    }
    let mut values: Map<String, Value> = Map::new();
    for setting in settings.iter() {
        let value = text(setting.value.reveal());
        let value = match &setting.id {
            Some(id) => list([table([("id", text(id)), ("key", value)])]),
            None => value,
        };
        values.insert(setting.name.clone(), value);
    }
    provider.insert("settings".to_owned(), Value::new(None, values));
    Some(Value::new(None, provider))
}

fn text(text: &str) -> Value {
    Value::new(Some(&ORIGIN.to_owned()), text)
}

fn number(number: i64) -> Value {
    Value::new(Some(&ORIGIN.to_owned()), number)
}

fn list<const N: usize>(values: [Value; N]) -> Value {
    Value::new(Some(&ORIGIN.to_owned()), Vec::from(values))
}

fn table<const N: usize>(entries: [(&str, Value); N]) -> Value {
    let map: Map<String, Value> = entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    Value::new(None, map)
}
