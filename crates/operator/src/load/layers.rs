//! Where a configuration comes from: the defaults, the layer of `serve --dev`, the file and the environment, as one
//! table.
//!
//! Every value keeps its origin (file or variable), so that a problem can name it. Values from the environment stay
//! text here; `config::Field` reads them as what the key wants.
//!
//! The layer of `serve --dev` has loopback addresses only, a database in a local folder, every kind with its published
//! secret or generated key, and everything routed to the built-in `echo`. Its secrets are published; that is why it
//! refuses any address but loopback. The keys with which `serve --dev` and `sign` play senders that have private ones
//! are made once for a working directory, for its owner alone to read.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use ::config::{FileFormat, Format, Map, Value, ValueKind};
use serde_json::{Value as Json, json};

use super::sections::reachable;
use hooklatch_core::config::{
    Checker, ConfigProblem, DEFAULTS_ORIGIN, DEV_TOKEN, ENV_PREFIX, Environment, is_secret_place, toml_value,
};
use hooklatch_receive::provider::{Kind, Provider, dev_secret, dev_settings};
use hooklatch_verify::DevKeys;
use hooklatch_verify::spec::Spec;

/// The defaults, and the manual: every key with its meaning, unit and range.
pub(super) const DEFAULTS: &str = include_str!("../../config.default.toml");
/// The file that is read when none is named.
const USER_FILE: &str = "hooklatch.toml";

/// The source of the values of this layer.
pub(crate) const DEV_ORIGIN: &str = "serve --dev";
/// URL of its database, relative to the working directory.
const DATABASE_URL: &str = "sqlite://.hooklatch/dev.db";
/// The path of the built-in destination on the operators' listener.
const ECHO_PATH: &str = "/dev/echo";

/// Name of the folder that the database of `serve --dev` is in, too.
const FOLDER: &str = ".hooklatch";
const FILE: &str = "dev_keys.pem";

/// One layer of keys and values, or all of them.
pub(super) type Layer = Map<String, Value>;

/// The sources that a configuration is read from.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The file that was named; `None` takes `hooklatch.toml` if it is there.
    pub file: Option<PathBuf>,
    /// Variables of the environment, by name.
    pub env: Environment,
    /// The keys of `serve --dev`; `None` when it is another command.
    pub dev: Option<DevKeys>,
}

impl Settings {
    /// This process's environment, and `file` where one was named.
    pub fn of_process(file: Option<&Path>) -> Self {
        Self { file: file.map(Path::to_path_buf), env: Environment::of_process(), dev: None }
    }

    /// Settings of `serve --dev`, with the keys of the working directory.
    pub(crate) fn of_dev(file: Option<&Path>, kinds: &[Provider]) -> Result<Self, Vec<ConfigProblem>> {
        let keys = dev_keys_of_folder(kinds).map_err(|error| {
            let why = format!("has no development keys: {error}");
            vec![ConfigProblem::new(DEV_ORIGIN, "", why, "start it in a folder that it may write to")]
        })?;
        Ok(Self { dev: Some(keys), ..Self::of_process(file) })
    }
}

/// The layers of one configuration, and the file among them.
pub(super) struct ConfigSources<'a> {
    settings: &'a Settings,
    /// The file that is read, if one is.
    file: Option<PathBuf>,
}

impl<'a> ConfigSources<'a> {
    /// The sources of `settings`: the named file, else `hooklatch.toml` where that exists.
    pub(crate) fn of(settings: &'a Settings) -> Self {
        let usual = || Some(PathBuf::from(USER_FILE)).filter(|path| path.exists());
        Self { settings, file: settings.file.clone().or_else(usual) }
    }

    /// A checker that has found nothing yet.
    pub(crate) fn checker(&self) -> Checker<'a> {
        let file = self.file.as_deref();
        let folder = file.and_then(Path::parent).map_or_else(PathBuf::new, Path::to_path_buf);
        let source = file.map_or_else(|| USER_FILE.to_owned(), |path| path.display().to_string());
        let mut checker = Checker::new(&self.settings.env, folder, source);
        checker.is_dev = self.settings.dev.is_some();
        checker
    }

    /// The layers as one table; or what keeps them from being read at all. `kinds` are those that `serve --dev` plays.
    pub(super) fn merged(&self, kinds: &[Provider]) -> Result<Layer, Vec<ConfigProblem>> {
        let mut problems: Vec<ConfigProblem> = self.settings.env.unreadable().collect();
        let mut layers = [
            toml_layer(DEFAULTS_ORIGIN, DEFAULTS),
            self.file.as_deref().map_or_else(|| Ok(Layer::new()), file_layer),
            env_layer(self.settings.env.all()),
        ]
        .map(|layer| layer.map_err(|more| problems.extend(more)).unwrap_or_default())
        .to_vec();
        if !problems.is_empty() {
            return Err(problems);
        }
        if let Some(keys) = &self.settings.dev {
            // The echo destination is on the operators' listener, so that has to be known first.
            let admin_listen = admin_listen(&merged(layers.clone()));
            layers.insert(1, dev_layer(kinds, keys, admin_listen));
        }
        Ok(merged(layers))
    }
}

fn file_layer(path: &Path) -> Result<Layer, Vec<ConfigProblem>> {
    let source = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| {
        let why = format!("cannot be read: {error}");
        vec![ConfigProblem::new(&source, "", why, "check the path and its rights")]
    })?;
    toml_layer(&source, &text)
}

fn admin_listen(root: &Layer) -> Option<SocketAddr> {
    let ValueKind::Table(admin) = &root.get("admin")?.kind else { return None };
    let ValueKind::String(listen) = &admin.get("listen")?.kind else { return None };
    listen.parse().ok()
}

/// The layers, lowest first, as one table.
fn merged(layers: Vec<Layer>) -> Layer {
    let mut all = Layer::new();
    for layer in layers {
        merge(&mut all, layer);
    }
    all
}

/// Lays `over` on `under`: tables key by key, everything else replaced. A variable that holds a table in TOML is one:
/// the keys that it leaves out keep their values. A table that names the place of a secret is one value.
fn merge(under: &mut Layer, over: Layer) {
    for (key, mut value) in over {
        let Some(ValueKind::Table(below)) = under.get_mut(&key).map(|below| &mut below.kind) else {
            under.insert(key, value);
            continue;
        };
        if let (ValueKind::String(text), Some(origin)) = (&value.kind, value.origin())
            && text.trim_start().starts_with('{')
            && let Some(table @ Value { kind: ValueKind::Table(_), .. }) = toml_value(origin, text.trim())
        {
            value = table;
        }
        match value.kind {
            ValueKind::Table(above) if !(is_secret_place(below.keys()) && is_secret_place(above.keys())) => {
                merge(below, above);
            }
            _ => drop(under.insert(key, value)),
        }
    }
}

/// A TOML text as a layer; or every mistake of its syntax, with lines.
pub(super) fn toml_layer(origin: &str, text: &str) -> Result<Layer, Vec<ConfigProblem>> {
    let (_, mistakes) = toml::de::DeTable::parse_recoverable(text);
    if !mistakes.is_empty() {
        return Err(mistakes.iter().map(|mistake| syntax_problem(origin, text, mistake)).collect());
    }
    FileFormat::Toml.parse(Some(&origin.to_owned()), text).map_err(|error| {
        vec![ConfigProblem::new(origin, "", format!("is not TOML: {error}"), "correct the file")]
    })
}

/// The parser's own text would quote the line, which may hold a secret; its message alone does not.
fn syntax_problem(origin: &str, text: &str, mistake: &toml::de::Error) -> ConfigProblem {
    let place = mistake.span().map_or_else(String::new, |span| {
        let before = text.get(..span.start).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        format!("line {line}, column {column}: ")
    });
    let remedy = if mistake.message().starts_with("duplicate key") {
        "keep one of the two: a table or key may appear once"
    } else {
        "correct that line; the other keys were not looked at"
    };
    ConfigProblem::new(origin, "", format!("{place}{}", mistake.message().replace('\n', ", ")), remedy)
}

/// Variables that begin with [`ENV_PREFIX`] as a layer: `A__B` is the key `b` of the table `a`.
pub(super) fn env_layer(variables: &BTreeMap<String, String>) -> Result<Layer, Vec<ConfigProblem>> {
    let mut root = Map::new();
    let mut problems = Vec::new();
    for (name, text) in variables {
        let Some(path) = name.strip_prefix(ENV_PREFIX) else { continue };
        let path = path.to_ascii_lowercase();
        let parts: Vec<&str> = path.split("__").collect();
        if !insert(&mut root, &parts, Value::new(Some(name), text.as_str())) {
            let why = "is set more than once, or both as a value and as a table";
            problems.push(ConfigProblem::new(name, &parts.join("."), why, "unset one of the variables"));
        }
    }
    if problems.is_empty() { Ok(root) } else { Err(problems) }
}

fn insert(table: &mut Map<String, Value>, parts: &[&str], value: Value) -> bool {
    match parts {
        [] => false,
        [last] => {
            let is_free = !table.contains_key(*last);
            if is_free {
                table.insert((*last).to_owned(), value);
            }
            is_free
        }
        [first, rest @ ..] => {
            let below = table
                .entry((*first).to_owned())
                .or_insert_with(|| Value::new(None, Map::<String, Value>::new()));
            match &mut below.kind {
                ValueKind::Table(below) => insert(below, rest, value),
                _ => false,
            }
        }
    }
}

/// The layer, for these kinds. `admin_listen` is where `echo` will be reached.
fn dev_layer(kinds: &[Provider], keys: &DevKeys, admin_listen: Option<SocketAddr>) -> Layer {
    let providers = kinds.iter().filter_map(|kind| {
        let spec = kind.spec().ok()?;
        Some((spec.kind.clone(), dev_provider(spec, keys)?))
    });
    let echo_at =
        admin_listen.map_or_else(|| "127.0.0.1:8081".to_owned(), |listen| reachable(listen).to_string());
    let root = dev_value(json!({
        "database": { "url": DATABASE_URL },
        "admin": { "tokens": [{ "name": "dev", "role": "admin", "token": DEV_TOKEN }] },
        "server": { "test": true },
        "providers": providers.collect::<serde_json::Map<_, _>>(),
        "destinations": { "echo": {
            "url": format!("http://{echo_at}{ECHO_PATH}"),
            // Fast, so that a newcomer sees a failing call being repeated while looking.
            "retry": { "first_ms": 200, "max_ms": 5_000, "attempts_n": 50 },
        } },
    }));
    root.into_table().unwrap_or_default()
}

/// One kind, with what is published for it; `None` where only the sender's own keys would do.
fn dev_provider(spec: &Spec, keys: &DevKeys) -> Option<Json> {
    let settings = dev_settings(spec, keys);
    let wanted = spec.signature.keys.as_ref();
    let mut needed = spec.setting.iter().filter(|setting| setting.needed || Some(&setting.name) == wanted);
    if !needed.all(|setting| settings.has(&setting.name)) {
        return None;
    }
    let values = settings.iter().map(|setting| {
        let text = setting.value.reveal();
        let value = setting.id.as_ref().map_or_else(|| json!(text), |id| json!([{ "id": id, "key": text }]));
        (setting.name.clone(), value)
    });
    let mut provider = json!({
        "routes": [{ "on": ["*"], "to": "echo" }],
        "settings": values.collect::<serde_json::Map<_, _>>(),
    });
    let more = provider.as_object_mut()?;
    if spec.needs_types() {
        more.insert("types".to_owned(), json!(["*"]));
    }
    if spec.takes_secrets() {
        more.insert("secrets".to_owned(), json!([dev_secret(spec)]));
    } else if spec.signature.may_be_unsigned {
        more.insert("unverified".to_owned(), json!("accept"));
    }
    Some(provider)
}

/// A value of this layer.
fn dev_value(value: Json) -> Value {
    let kind = match value {
        Json::Null => ValueKind::Nil,
        Json::Bool(bool) => bool.into(),
        Json::Number(number) => number.as_i64().map_or(ValueKind::Nil, ValueKind::I64),
        Json::String(text) => text.into(),
        Json::Array(list) => ValueKind::Array(list.into_iter().map(dev_value).collect()),
        Json::Object(map) => {
            let entries = map.into_iter().map(|(key, value)| (key, dev_value(value)));
            return Value::new(None, entries.collect::<Map<String, Value>>());
        }
    };
    Value::new(Some(&DEV_ORIGIN.to_owned()), kind)
}

/// The keys of the working directory, where one of `kinds` needs any.
pub fn dev_keys_of_folder(kinds: &[Provider]) -> io::Result<DevKeys> {
    let needs = |kind: &Provider| kind.spec().is_ok_and(hooklatch_verify::spec::Spec::needs_generated_keys);
    if kinds.iter().any(needs) { load_or_generate(Path::new(FOLDER)) } else { Ok(DevKeys::default()) }
}

/// The keys in `folder`, made there when there are none.
fn load_or_generate(folder: &Path) -> io::Result<DevKeys> {
    let path = folder.join(FILE);
    if !path.exists() {
        generate(folder, &path)?;
    }
    let unreadable = || {
        let why = format!("`{}` holds no development keys: remove it, and others are made", path.display());
        io::Error::other(why)
    };
    DevKeys::parse(&fs::read_to_string(&path)?).ok_or_else(unreadable)
}

/// Written whole under another name first, so that a process that starts at the same time reads all of it, and linked,
/// so that the first one stays.
fn generate(folder: &Path, path: &Path) -> io::Result<()> {
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
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn keys_are_made_once_and_are_for_their_owner_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(FILE);
        load_or_generate(folder.path()).expect("made");
        let first = fs::read_to_string(&path).expect("a file");
        assert_eq!(fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o600);
        generate(folder.path(), &path).expect("another start");
        load_or_generate(folder.path()).expect("loaded");
        assert_eq!(fs::read_to_string(&path).expect("a file"), first);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
        fs::write(&path, "no keys").expect("written");
        assert!(load_or_generate(folder.path()).expect_err("unreadable").to_string().contains("remove it"));
    }
}
