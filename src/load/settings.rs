//! The settings that a load begins with: the file that was named, the environment, and whether it is for `serve --dev`.

use std::path::{Path, PathBuf};

use super::dev_keys;
use crate::config::{ConfigProblem, Environment};
use crate::provider::Provider;
use crate::verify::DevKeys;

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
        let keys = dev_keys::of_folder(kinds).map_err(|error| {
            vec![ConfigProblem {
                source: "serve --dev".to_owned(),
                key: String::new(),
                value: None,
                why: format!("has no development keys: {error}"),
                remedy: "start it in a folder that it may write to".to_owned(),
            }]
        })?;
        Ok(Self { dev: Some(keys), ..Self::of_process(file) })
    }
}
