//! `[retention]`: how long what is kept is kept; and of the ids of a provider's events, why so long.

use std::collections::BTreeMap;

use crate::types::Name;

/// Days that "without end" counts as: a recorded request of a kind whose signature covers no time, and an event that
/// its sender sends again at any time. Days.
pub(crate) const ENDLESS_DAYS: u32 = 400;

/// Time for which the counts of requests and attempts are kept. Days.
pub(crate) const ACTIVITY_DAYS: u32 = 400;

/// `[retention]`: how long things are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RetentionConfig {
    /// Interval between two looks for what is old; 0 for never. Milliseconds.
    pub every_ms: u64,
    /// Age at which bodies, and what was made of them, are deleted. Days.
    pub bodies_days: u32,
    /// Age at which attempts of finished messages are deleted. Days.
    pub attempts_days: u32,
    /// Age at which finished messages are deleted. Days; no less than the two above.
    pub messages_days: u32,
    /// Age at which lanes without messages are deleted. Days.
    pub lanes_days: u32,
    /// Age at which requests that were not believed are deleted. Days.
    pub rejections_days: u32,
    /// Age at which the last use of a secret is forgotten. Days.
    pub secret_uses_days: u32,
    /// Longest wait of a secret that a sender taught us for somebody to look at it. Days.
    pub taught_days: u32,
    /// Age up to which a repeated request of an operator is recognized. Days.
    pub answers_days: u32,
    /// Age at which the record of what people decided is deleted. Days.
    pub audit_days: u32,
    /// Age at which ids are forgotten, as the operator set it for every provider; as each kind needs when absent. Days.
    pub ids_days: Option<u32>,
    /// Days for which each provider needs its ids, and why.
    pub ids_of: BTreeMap<Name, IdsKept>,
}

/// The need of one provider for the ids of its events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdsKept {
    /// Days, unless the operator says otherwise.
    pub days: u32,
    /// The reason for these days, in words that go on after the provider's name.
    pub why: String,
    /// The least that the operator may say. Days.
    pub days_min: u32,
    /// The reason for that least number of days.
    pub why_min: String,
}

impl RetentionConfig {
    /// Days for which the ids of `provider` are remembered; never less than its kind's floor. Of a provider that is no
    /// longer configured nobody knows what it needs.
    pub fn ids_days_for(&self, provider: &Name) -> u32 {
        let needed = self.ids_of.get(provider).map_or(ENDLESS_DAYS, |kept| kept.days);
        self.ids_days.unwrap_or(needed)
    }

    /// Days for which ids are remembered of providers that are no longer configured.
    pub fn ids_days_unknown(&self) -> u32 {
        self.ids_days.unwrap_or(ENDLESS_DAYS)
    }

    /// The provider that decides how long ids are remembered (the first by name of those that need it equally long),
    /// for how many days it needs them, and why: by what its kind needs, or, where the operator said for how long, by
    /// the least that could be said.
    pub fn deciding(&self) -> Option<(&Name, u32, &str)> {
        let needs = self.ids_of.iter().map(|(name, kept)| match self.ids_days {
            None => (name, kept.days, kept.why.as_str()),
            Some(_) => (name, kept.days_min, kept.why_min.as_str()),
        });
        needs.rev().max_by_key(|(_, days, _)| *days)
    }
}
