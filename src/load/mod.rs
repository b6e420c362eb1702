//! From what an operator wrote to a configuration with its providers ready, or to everything that is wrong with it.
//!
//! It stands above the kinds and asks them what they need, so that a provider is made once, and making it is its check.
//! What a configuration is, key by key, is `config`. In reading order:
//!
//! 1. `configuration`: the way as a whole. Start at [`load`].
//! 2. `settings`, `sources`, `layers`, `dev` (with `dev_keys`): where the keys come from, as one table.
//! 3. `kind_list`: the kinds that a configuration may name.
//! 4. A file for each section: `server` (with `listen`, `edge` and `tls`), `admin`, `database`, `encryption`, `provider` (with `age` and
//!    `kind_settings`), `retention`, `tracing`; `section` has the small ones.
//! 5. `profiles`: the servers that an operator's commands reach, in a file of the person's own.
//! 6. `effective`: what is in force, for people. `refusal`: all problems as one error.
//! 7. What is allowed and most likely not meant: `warnings` of keys, `variables` of the environment, and `proof` (with
//!    `meant`), which runs the samples of the kinds.

mod admin;
mod age;
mod configuration;
mod database;
mod dev;
mod dev_keys;
mod edge;
mod effective;
mod encryption;
mod kind_list;
mod kind_settings;
mod layers;
mod listen;
mod meant;
mod profiles;
mod proof;
mod provider;
mod refusal;
mod retention;
mod section;
mod server;
mod settings;
mod sources;
#[cfg(test)]
mod tests;
mod tls;
mod tracing;
mod variables;
mod warnings;

pub use configuration::{Loaded, load, load_for_tools};
pub(crate) use dev_keys::of_folder as dev_keys_of_folder;
pub use kind_list::Kinds;
pub(crate) use kind_list::{kinds, kinds_beside};
pub(crate) use listen::reachable;
pub(crate) use profiles::{Profile, find_profile, profiles_file};
pub(crate) use proof::{SampleCall, SampleOutcome, SampleResult, prove};
pub(crate) use refusal::{loaded, unusable};
pub use settings::Settings;
pub(crate) use warnings::warnings;
