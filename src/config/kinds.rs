//! `[kinds]`: a folder of kinds that are read when the program starts.

use std::path::PathBuf;

/// Path of `[kinds] folder`, and the source that says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindsFolder {
    /// Path of the folder; one that is not absolute is taken from the folder of the config file.
    pub path: PathBuf,
    /// Name of the file or variable that says it.
    pub source: String,
}
