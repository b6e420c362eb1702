//! From what an operator wrote to a configuration with its providers ready, or to everything that is wrong with it.
//!
//! It stands above the kinds and asks them what they need, so that a provider is made once, and making it is its check.
//! What a configuration is, key by key, is `config`. In reading order:
//!
//! 1. `configuration`: the kinds there are, the way as a whole, and what is in force in the end. Start at [`load`].
//! 2. `layers`: where the keys come from, as one table.
//! 3. `sections` and `provider`: the rules of the program and of the kinds for keys.
//! 4. `profiles`: the servers that an operator's commands reach, in a file of the operator's own.
//! 5. What is allowed and most likely not meant: `warnings` of keys, and `proof`, which runs the samples of the kinds.

mod configuration;
mod layers;
mod profiles;
mod proof;
mod provider;
mod sections;
#[cfg(test)]
mod tests;
mod warnings;

pub use configuration::{Kinds, Loaded, kinds, kinds_beside, load, load_for_tools, loaded, unusable};
pub use layers::{Settings, dev_keys_of_folder};
pub use profiles::{Profile, find_profile, profiles_file};
pub use proof::{SampleCall, SampleOutcome, SampleResult, prove};
pub use sections::reachable;
pub use warnings::warnings;
