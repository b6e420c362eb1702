//! All problems of a configuration as one error, for commands that cannot go on.

use std::path::Path;

use super::configuration::{Loaded, load};
use super::kind_list::Kinds;
use super::settings::Settings;
use crate::config::ConfigProblem;

/// Loads what this process is to run with; every problem is in the error's text.
pub(crate) fn loaded(file: Option<&Path>, is_dev: bool, kinds: &Kinds) -> anyhow::Result<Loaded> {
    let settings = if is_dev { Settings::of_dev(file, kinds) } else { Ok(Settings::of_process(file)) };
    settings.and_then(|settings| load(&settings, kinds)).map_err(|problems| unusable(&problems))
}

/// Makes one error of these problems.
pub(crate) fn unusable(problems: &[ConfigProblem]) -> anyhow::Error {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    anyhow::anyhow!("the configuration cannot be used:\n{}", lines.join("\n"))
}
