//! A choice of messages, as arguments.

use clap::Args;

use crate::api::MessageFilter;
use crate::cli::output::parse_time;
use crate::cli::shared::Usage;
use crate::cli::states::message_states;
use crate::types::MessageState;

/// Filter for messages; what is not given leaves nothing out.
#[derive(Args, Debug)]
pub(super) struct MessageFilterArgs {
    /// State in which they stand.
    #[arg(long, value_parser = message_states())]
    state: Option<MessageState>,
    /// Name of the destination that they go to.
    #[arg(long)]
    destination: Option<String>,
    /// Name of the provider that their event came from.
    #[arg(long)]
    provider: Option<String>,
    /// Key of the lane that they are in.
    #[arg(long)]
    lane: Option<String>,
    /// Those written before this time: 2026-11-22T14:02:11Z, 2026-11-22, or 15m, 2h, 3d for so long ago.
    #[arg(long, value_name = "TIME")]
    created_before: Option<String>,
}

impl MessageFilterArgs {
    /// True when nothing is chosen.
    pub(super) fn is_empty(&self) -> bool {
        let texts = [&self.destination, &self.provider, &self.lane, &self.created_before];
        self.state.is_none() && texts.iter().all(|text| text.is_none())
    }

    /// The filter as the API has it; a time that is told as "so long ago" becomes a time.
    pub(super) fn filter(&self, now_ms: i64) -> anyhow::Result<MessageFilter> {
        let before = self.created_before.as_deref().map(|text| parse_time(text, now_ms)).transpose();
        Ok(MessageFilter {
            state: self.state,
            destination: self.destination.clone(),
            provider: self.provider.clone(),
            lane: self.lane.clone(),
            created_before_ms: before.map_err(|why| Usage(format!("--created-before: {why}")))?,
        })
    }
}

/// The values of a query that say the same.
pub(super) fn message_query(filter: &MessageFilter) -> Vec<(&'static str, Option<String>)> {
    vec![
        ("state", filter.state.map(|state| state.as_str().to_owned())),
        ("destination", filter.destination.clone()),
        ("provider", filter.provider.clone()),
        ("lane", filter.lane.clone()),
        ("created_before_ms", filter.created_before_ms.map(|ms| ms.to_string())),
    ]
}
