//! The sources of a configuration: the defaults, the layer of `serve --dev`, the file and the environment.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use ::config::{Map, Value, ValueKind};

use super::dev;
use super::layers::{self, Layer};
use super::settings::Settings;
use crate::config::{Checker, ConfigProblem, DEFAULTS_ORIGIN, ReadValues};
use crate::provider::Provider;

/// The defaults, and the manual: every key with its meaning, unit and range.
pub(super) const DEFAULTS: &str = include_str!("../../config.default.toml");
/// The file that is read when none is named.
const USER_FILE: &str = "hooklatch.toml";

/// The layers of one configuration, and the file among them.
pub(super) struct ConfigSources<'a> {
    settings: &'a Settings,
    /// The file that is read, if one is.
    file: Option<PathBuf>,
}

impl<'a> ConfigSources<'a> {
    /// The sources of `settings`: the named file, else `hooklatch.toml` where that exists.
    pub(super) fn of(settings: &'a Settings) -> Self {
        let usual = || Some(PathBuf::from(USER_FILE)).filter(|path| path.exists());
        Self { settings, file: settings.file.clone().or_else(usual) }
    }

    /// A checker that has found nothing yet.
    pub(super) fn checker(&self) -> Checker<'a> {
        let file = self.file.as_deref();
        Checker {
            env: &self.settings.env,
            folder: file.and_then(Path::parent).map_or_else(PathBuf::new, Path::to_path_buf),
            is_dev: self.settings.dev.is_some(),
            default_source: file.map_or_else(|| USER_FILE.to_owned(), |path| path.display().to_string()),
            problems: Vec::new(),
            warnings: Vec::new(),
            secret_files: BTreeSet::new(),
            asked: BTreeMap::new(),
            read: ReadValues::default(),
        }
    }

    /// The layers as one table; or what keeps them from being read at all. `kinds` are those that `serve --dev` plays.
    pub(super) fn merged(&self, kinds: &[Provider]) -> Result<Map<String, Value>, Vec<ConfigProblem>> {
        let mut problems = Vec::new();
        let mut keep = |layer: Result<Layer, Vec<ConfigProblem>>| {
            layer.unwrap_or_else(|more| {
                problems.extend(more);
                Layer::default()
            })
        };
        let defaults = keep(layers::toml_layer(DEFAULTS_ORIGIN, DEFAULTS));
        let user = keep(self.file.as_deref().map_or_else(|| Ok(Layer::default()), file_layer));
        let env = keep(layers::env_layer(self.settings.env.all()));
        if !problems.is_empty() {
            return Err(problems);
        }
        let all = |dev: Layer| {
            layers::merged(vec![defaults.clone(), dev, user.clone(), env.clone()]).map_err(|error| {
                let why = format!("the layers do not fit together: {error}");
                vec![whole_problem(DEFAULTS_ORIGIN, why, "report this as a bug")]
            })
        };
        let Some(keys) = &self.settings.dev else { return all(Layer::default()) };
        // The echo destination is on the operators' listener, so that has to be known first.
        let admin_listen = admin_listen(&all(Layer::default())?);
        all(dev::layer(kinds, keys, admin_listen))
    }
}

fn file_layer(path: &Path) -> Result<Layer, Vec<ConfigProblem>> {
    let source = path.display().to_string();
    match std::fs::read_to_string(path) {
        Ok(text) => layers::toml_layer(&source, &text),
        Err(error) => {
            let why = format!("cannot be read: {error}");
            Err(vec![whole_problem(&source, why, "check the path and its rights")])
        }
    }
}

fn whole_problem(source: &str, why: String, remedy: &str) -> ConfigProblem {
    ConfigProblem {
        source: source.to_owned(),
        key: String::new(),
        value: None,
        why,
        remedy: remedy.to_owned(),
    }
}

fn admin_listen(root: &Map<String, Value>) -> Option<SocketAddr> {
    let ValueKind::Table(admin) = &root.get("admin")?.kind else { return None };
    let ValueKind::String(listen) = &admin.get("listen")?.kind else { return None };
    listen.parse().ok()
}
