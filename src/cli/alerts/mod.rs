//! `hooklatch alerts`: alert rules for Prometheus, with the numbers of a configuration.
//!
//! The text of the rules is in `ops/prometheus/rules`, one file a rule, and nowhere else: the program carries these files
//! and prints them as they are. What they compare with is facts of the configuration (how long a key is valid, how long a
//! sender repeats), which are recorded as series of their own by the first group that is printed: then a rule asks for them
//! also while no node of ours can be asked. Why: `docs/adr/0066`.
//!
//! In reading order: `numbers` takes the facts out of a configuration; `files` has the texts; `reader` takes one apart, for
//! `--json`; `command` prints.

mod command;
mod files;
mod numbers;
mod reader;

pub(super) use command::{AlertsArgs, alerts};
