//! `[log]`: what is logged, and how it looks.

/// `[log]`: the lines that a process writes.
#[derive(Debug, Clone)]
pub struct LogConfig {
    /// A `tracing` filter such as `info` or `hooklatch=debug`.
    pub filter: String,
    /// `auto` (human in a terminal, JSON otherwise), `human` or `json`.
    pub format: LogFormat,
}

/// Forms that a log line may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Human in a terminal, JSON otherwise.
    Auto,
    /// Lines for people to read.
    Human,
    /// One JSON object a line.
    Json,
}
