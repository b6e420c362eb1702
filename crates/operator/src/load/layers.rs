//! Where a configuration comes from: the defaults, the layer of `serve --dev`, the file and the environment, as one table.
//!
//! Every value keeps its origin (file or variable), so that a problem can name it. Values from the environment stay text
//! here; `config::Field` reads them as what the key wants.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use ::config::{FileFormat, Format, Map, Value, ValueKind};

use super::dev;
use hooklatch_core::config::{Checker, ConfigProblem, DEFAULTS_ORIGIN, ENV_PREFIX, Environment};
use hooklatch_receive::provider::Provider;
use hooklatch_verify::DevKeys;

/// The defaults, and the manual: every key with its meaning, unit and range.
pub(super) const DEFAULTS: &str = include_str!("../../config.default.toml");
/// The file that is read when none is named.
const USER_FILE: &str = "hooklatch.toml";

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
        let keys = dev::keys_of_folder(kinds).map_err(|error| {
            let why = format!("has no development keys: {error}");
            vec![ConfigProblem::new(dev::ORIGIN, "", why, "start it in a folder that it may write to")]
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
        let mut problems = Vec::new();
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
            layers.insert(1, dev::layer(kinds, keys, admin_listen));
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

/// Lays `over` on `under`: tables key by key, everything else replaced. A variable that holds a table in TOML is one: the
/// keys that it leaves out keep their values.
fn merge(under: &mut Layer, over: Layer) {
    for (key, value) in over {
        let origin = value.origin().map(str::to_owned);
        match (under.get_mut(&key).map(|below| &mut below.kind), value.kind) {
            (Some(ValueKind::Table(below)), ValueKind::Table(above)) => merge(below, above),
            (Some(ValueKind::Table(below)), ValueKind::String(text))
                if text.trim_start().starts_with('{') =>
            {
                match origin.as_deref().and_then(|origin| inline_table(origin, &text)) {
                    Some(above) => merge(below, above),
                    None => drop(under.insert(key, Value::new(origin.as_ref(), text))),
                }
            }
            (_, kind) => drop(under.insert(key, Value::new(origin.as_ref(), kind))),
        }
    }
}

/// The table that a text in TOML is; `None` where it is something else.
fn inline_table(origin: &str, text: &str) -> Option<Layer> {
    match toml_layer(origin, &format!("table = {text}")).ok()?.remove("table")?.kind {
        ValueKind::Table(table) => Some(table),
        _ => None,
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
