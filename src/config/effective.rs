//! One value that is in force, for people.

/// A key of the configuration with its value and where that came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectiveSetting {
    /// The key as a dotted path; lists of tables have `[0]`, `[1]`, ….
    pub key: String,
    /// The value as TOML writes it; `None` for a secret. Of a URL, what opens nothing.
    pub value: Option<String>,
    /// The variable or file that a secret stands in, where it is not written in the configuration itself.
    pub secret_in: Option<String>,
    /// The file or variable that says it.
    pub source: String,
    /// The layer that this is of.
    pub layer: ConfigLayer,
    /// True when it is the default, whoever says it.
    pub is_default: bool,
    /// Stands for the whole value in this process, secret or not: another one has another number.
    pub mark: u64,
}

/// A layer of the configuration; each goes before those above it here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigLayer {
    /// What holds when nobody says anything.
    Default,
    /// What `serve --dev` says.
    Dev,
    /// What the configuration file says.
    File,
    /// A variable of the environment.
    Environment,
}
