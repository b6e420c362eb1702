//! From what an operator wrote to a configuration with its providers ready, or to everything that is wrong with it.
//!
//! It stands above the kinds and asks them what they need, so that a provider is made once, and making it is its check.
//! What a configuration is, key by key, is `config`. In reading order:
//!
//! 1. `configuration`: the way as a whole, and what is in force in the end. Start at [`load`].
//! 2. `layers` and `dev`: where the keys come from, as one table.
//! 3. `kind_list`: the kinds that a configuration may name.
//! 4. `sections` and `provider`: the rules of the program and of the kinds for keys.
//! 5. `profiles`: the servers that an operator's commands reach, in a file of the person's own.
//! 6. What is allowed and most likely not meant: `warnings` of keys, and `proof` (with `meant`), which runs the samples of
//!    the kinds.

mod configuration;
mod dev;
mod kind_list;
mod layers;
mod meant;
mod profiles;
mod proof;
mod provider;
mod sections;
#[cfg(test)]
mod tests;
mod warnings;

pub use configuration::{Loaded, load, load_for_tools};
pub use configuration::{loaded, unusable};
pub use dev::keys_of_folder as dev_keys_of_folder;
pub use kind_list::Kinds;
pub use kind_list::{kinds, kinds_beside};
pub use layers::Settings;
pub use profiles::{Profile, find_profile, profiles_file};
pub use proof::{SampleCall, SampleOutcome, SampleResult, prove};
pub use sections::reachable;
pub use warnings::warnings;
