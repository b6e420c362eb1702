//! A choice of events, as arguments.

use clap::Args;

use crate::api::EventFilter;
use crate::cli::output::parse_time;
use crate::cli::shared::Usage;
use crate::cli::states::event_states;
use crate::types::EventState;

/// Filter for events; what is not given leaves nothing out.
#[derive(Args, Debug)]
pub(crate) struct EventFilterArgs {
    /// State in which they stand.
    #[arg(long, value_parser = event_states())]
    state: Option<EventState>,
    /// Name of their provider.
    #[arg(long)]
    provider: Option<String>,
    /// Type in the sender's words, exactly.
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// Object that they are about, exactly.
    #[arg(long)]
    object: Option<String>,
    /// Those that came at this time or later: 2026-11-22T14:02:11Z, 2026-11-22, or 15m, 2h, 3d for so long ago.
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Those that came before this time.
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
}

impl EventFilterArgs {
    /// True when nothing is chosen.
    pub(crate) fn is_empty(&self) -> bool {
        let texts = [&self.provider, &self.event_type, &self.object, &self.from, &self.to];
        self.state.is_none() && texts.iter().all(|text| text.is_none())
    }

    /// The filter as the API has it; times that are told as "so long ago" become times.
    pub(crate) fn filter(&self, now_ms: i64) -> anyhow::Result<EventFilter> {
        let time = |name: &str, text: &Option<String>| {
            let text = text.as_deref();
            text.map(|text| parse_time(text, now_ms).map_err(|why| Usage(format!("--{name}: {why}"))))
                .transpose()
        };
        Ok(EventFilter {
            state: self.state,
            provider: self.provider.clone(),
            event_type: self.event_type.clone(),
            object: self.object.clone(),
            delivery: None,
            received_from_ms: time("from", &self.from)?,
            received_to_ms: time("to", &self.to)?,
        })
    }
}

/// The values of a query that say the same.
pub(crate) fn event_query(filter: &EventFilter) -> Vec<(&'static str, Option<String>)> {
    vec![
        ("state", filter.state.map(|state| state.as_str().to_owned())),
        ("provider", filter.provider.clone()),
        ("type", filter.event_type.clone()),
        ("object", filter.object.clone()),
        ("delivery", filter.delivery.map(|calls| calls.as_str().to_owned())),
        ("received_from_ms", filter.received_from_ms.map(|ms| ms.to_string())),
        ("received_to_ms", filter.received_to_ms.map(|ms| ms.to_string())),
    ]
}
