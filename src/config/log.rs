//! `[log]`: what is logged, and how it looks.

/// `[log]`
#[derive(Debug, Clone)]
pub struct LogConfig {
    /// A `tracing` filter such as `info` or `hooklatch=debug`.
    pub filter: String,
    /// `auto` (human in a terminal, JSON otherwise), `human` or `json`.
    pub format: LogFormat,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Human in a terminal, JSON otherwise.
    Auto,
    /// For people.
    Human,
    /// One JSON object a line.
    Json,
}
