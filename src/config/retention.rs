//! `[retention]`: how long what is kept is kept; and of the ids of a provider's events, why so long.

use std::collections::BTreeMap;

use crate::types::Name;

/// What no end counts as: a recorded request of a kind whose signature covers no time, and an event that its sender sends
/// again at any time. Days.
pub(crate) const ENDLESS_DAYS: u32 = 400;

/// `[retention]`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RetentionConfig {
    /// How often what is old is looked for; 0 for never. Milliseconds.
    pub every_ms: u64,
    /// How long bodies are kept, and what was made of them. Days.
    pub bodies_days: u32,
    /// How long attempts of finished messages are kept. Days.
    pub attempts_days: u32,
    /// How long finished messages are kept. Days; no less than the two above.
    pub messages_days: u32,
    /// How long lanes without messages are kept. Days.
    pub lanes_days: u32,
    /// How long requests that were not believed are kept. Days.
    pub rejections_days: u32,
    /// How long it is kept when a secret matched. Days.
    pub secret_uses_days: u32,
    /// How long a secret that a sender taught us waits for somebody to look at it. Days.
    pub taught_days: u32,
    /// How long a repeated request of an operator is known. Days.
    pub answers_days: u32,
    /// How long it is kept what people decided. Days.
    pub audit_days: u32,
    /// What the operator set for every provider; as long as its kind needs when absent. Days.
    pub ids_days: Option<u32>,
    /// How long each provider needs its ids, and why.
    pub ids_of: BTreeMap<Name, IdsKept>,
}

/// How long the ids of one provider's events are needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdsKept {
    /// Unless the operator says otherwise. Days.
    pub days: u32,
    /// What makes it so long, in words that go on after the provider's name.
    pub why: String,
    /// The least that the operator may say. Days.
    pub days_min: u32,
    /// What makes that so long.
    pub why_min: String,
}

impl RetentionConfig {
    /// How long the ids of `provider` are remembered. Days; never less than its kind's floor. Of a provider that is no
    /// longer configured nobody knows what it needs.
    pub fn ids_days_for(&self, provider: &Name) -> u32 {
        let needed = self.ids_of.get(provider).map_or(ENDLESS_DAYS, |kept| kept.days);
        self.ids_days.unwrap_or(needed)
    }

    /// The same for providers that are no longer configured.
    pub fn ids_days_unknown(&self) -> u32 {
        self.ids_days.unwrap_or(ENDLESS_DAYS)
    }

    /// The provider that decides how long ids are remembered (the first by name of those that need it equally long), for
    /// how many days it needs them, and why: by what its kind needs, or, where the operator said for how long, by the least
    /// that could be said.
    pub fn deciding(&self) -> Option<(&Name, u32, &str)> {
        let needs = self.ids_of.iter().map(|(name, kept)| match self.ids_days {
            None => (name, kept.days, kept.why.as_str()),
            Some(_) => (name, kept.days_min, kept.why_min.as_str()),
        });
        needs.rev().max_by_key(|(_, days, _)| *days)
    }
}
