//! What `serve --dev` lays between the defaults and the user's file: loopback only, a database in a local
//! folder, every kind with its published secret or generated key, and everything routed to the built-in `echo`.
//!
//! The dev secrets are no secrets; that is why this layer refuses any address but loopback.

use std::net::SocketAddr;

use ::config::{Map, Value};

use super::DevKind;
use super::field::{Checker, Field};
use super::layers::Layer;
use super::section::reachable;

/// Named as the source of what this layer says.
const ORIGIN: &str = "serve --dev";
/// Where its events are kept, relative to the working directory.
const DATABASE_URL: &str = "sqlite://.hooklatch/dev.db";
/// The path of the built-in destination on the operators' listener.
const ECHO_PATH: &str = "/dev/echo";

/// The layer, for these kinds. `admin_listen` is where `echo` will be reached.
pub(super) fn layer(kinds: &[DevKind], admin_listen: Option<SocketAddr>) -> Layer {
    let route = table([("on", list([text("*")])), ("to", text("echo"))]);
    let providers = kinds.iter().map(|dev| (dev.kind.to_string(), provider(dev, &route)));
    // Fast, so that a newcomer sees a failing call being repeated while looking.
    let retry = table([("first_ms", number(200)), ("max_ms", number(5_000)), ("attempts_n", number(50))]);
    let echo_at =
        admin_listen.map_or_else(|| "127.0.0.1:8081".to_owned(), |listen| reachable(listen).to_string());
    let echo = table([("url", text(&format!("http://{echo_at}{ECHO_PATH}"))), ("retry", retry)]);
    let mut root = Map::new();
    root.insert("database".to_owned(), table([("url", text(DATABASE_URL))]));
    let token = table([("name", text("dev")), ("role", text("operator")), ("token", text(super::DEV_TOKEN))]);
    root.insert("admin".to_owned(), table([("tokens", list([token]))]));
    root.insert("providers".to_owned(), Value::new(None, providers.collect::<Map<String, Value>>()));
    root.insert("destinations".to_owned(), table([("echo", echo)]));
    Layer::new(root)
}

fn provider(dev: &DevKind, route: &Value) -> Value {
    let mut provider = Map::new();
    provider.insert("routes".to_owned(), list([route.clone()]));
    if let Some(secret) = &dev.secret {
        provider.insert("secrets".to_owned(), list([text(secret.reveal())]));
    }
    if dev.is_unsigned {
        provider.insert("unverified".to_owned(), text("accept"));
    }
    let mut settings: Map<String, Value> = Map::new();
    for setting in dev.settings.iter() {
        let value = text(setting.value.reveal());
        let value = match &setting.id {
            Some(id) => list([table([("id", text(id)), ("key", value)])]),
            None => value,
        };
        settings.insert(setting.name.clone(), value);
    }
    provider.insert("settings".to_owned(), Value::new(None, settings));
    Value::new(None, provider)
}

/// With `--dev`, refuses a listener that others can reach: anyone may know the dev secrets.
pub(super) fn check_loopback(checker: &mut Checker<'_>, field: &Field) {
    let is_open = match &field.value.kind {
        config::ValueKind::String(text) => {
            text.parse::<SocketAddr>().is_ok_and(|listen| !listen.ip().is_loopback())
        }
        _ => false,
    };
    if is_open && checker.is_dev {
        let why = "can be reached from other machines, and the dev secrets are public";
        checker.problem_shown(field, why, "use 127.0.0.1 or [::1] with --dev, or serve without --dev");
    }
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
