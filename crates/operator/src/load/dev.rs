//! The layer of `serve --dev` between the defaults and the user's file: loopback only, a database in a local folder,
//! every kind with its published secret or generated key, and everything routed to the built-in `echo`.
//!
//! The dev secrets are no secrets; that is why this layer refuses any address but loopback. The keys with which
//! `serve --dev` and `sign` play senders that have private ones are made once for a working directory, for its owner alone
//! to read.

use std::fs;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use ::config::{Map, Value};

use super::layers::Layer;
use super::sections::reachable;
use hooklatch_core::config::DEV_TOKEN;
use hooklatch_receive::provider::{Kind, Provider, dev_secret, dev_settings};
use hooklatch_verify::DevKeys;
use hooklatch_verify::spec::Spec;

/// The source of the values of this layer.
pub(crate) const ORIGIN: &str = "serve --dev";
/// URL of its database, relative to the working directory.
const DATABASE_URL: &str = "sqlite://.hooklatch/dev.db";
/// The path of the built-in destination on the operators' listener.
const ECHO_PATH: &str = "/dev/echo";

/// The layer, for these kinds. `admin_listen` is where `echo` will be reached.
pub(crate) fn layer(kinds: &[Provider], keys: &DevKeys, admin_listen: Option<SocketAddr>) -> Layer {
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
    let token = table([("name", text("dev")), ("role", text("admin")), ("token", text(DEV_TOKEN))]);
    let test = Value::new(Some(&ORIGIN.to_owned()), true);
    let root = [
        ("database", table([("url", text(DATABASE_URL))])),
        ("admin", table([("tokens", list([token]))])),
        ("server", table([("test", test)])),
        ("providers", Value::new(None, providers.collect::<Map<String, Value>>())),
        ("destinations", table([("echo", echo)])),
    ];
    root.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
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

/// Name of the folder that the database of `serve --dev` is in, too.
const FOLDER: &str = ".hooklatch";
const FILE: &str = "dev_keys.pem";

/// The keys of the working directory, where one of `kinds` needs any.
pub fn keys_of_folder(kinds: &[Provider]) -> io::Result<DevKeys> {
    let needs = |kind: &Provider| kind.spec().is_ok_and(hooklatch_verify::spec::Spec::needs_generated_keys);
    if kinds.iter().any(needs) { kept(Path::new(FOLDER)) } else { Ok(DevKeys::default()) }
}

/// The keys in `folder`, made there when there are none.
fn kept(folder: &Path) -> io::Result<DevKeys> {
    let path = folder.join(FILE);
    if !path.exists() {
        make(folder, &path)?;
    }
    let unreadable = || {
        let why = format!("`{}` holds no development keys: remove it, and others are made", path.display());
        io::Error::other(why)
    };
    DevKeys::parse(&fs::read_to_string(&path)?).ok_or_else(unreadable)
}

/// Written whole under another name first, so that a process that starts at the same time reads all of it, and linked,
/// so that the first one stays.
fn make(folder: &Path, path: &Path) -> io::Result<()> {
    let text = DevKeys::generate().ok_or_else(|| io::Error::other("the system has no random numbers"))?;
    fs::create_dir_all(folder)?;
    let draft = folder.join(format!("{FILE}.{}", std::process::id()));
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(text.as_bytes())?;
    let linked = fs::hard_link(&draft, path);
    fs::remove_file(&draft)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn keys_are_made_once_and_are_for_their_owner_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(FILE);
        kept(folder.path()).expect("made");
        let first = fs::read_to_string(&path).expect("a file");
        assert_eq!(fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o600);
        make(folder.path(), &path).expect("another start");
        kept(folder.path()).expect("kept");
        assert_eq!(fs::read_to_string(&path).expect("a file"), first);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
        fs::write(&path, "no keys").expect("written");
        assert!(kept(folder.path()).expect_err("unreadable").to_string().contains("remove it"));
    }
}
