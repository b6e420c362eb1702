//! An event as a line of a list.

use crate::api::EventView;
use crate::cli::desk::ListRow;
use crate::cli::output::{Column, Screen, Shown, told};

impl ListRow for EventView {
    const NOUN: &'static str = "event";
    const COLUMNS: &'static [Column] = &[
        Column::Whole("received (UTC)"),
        Column::Whole("provider"),
        Column::Id("event id"),
        Column::Whole("type"),
        Column::Whole("state"),
        Column::Whole("calls"),
        Column::Loose("error"),
    ];

    fn cells(&self, screen: &Screen) -> Vec<Shown> {
        vec![
            Shown::text(told(self.received_at_ms, screen.now_ms)),
            Shown::text(&self.provider),
            Shown::text(&self.event_id),
            Shown::text(&self.event_type),
            Shown::event_state(self.state),
            Shown::delivery(&self.delivery),
            Shown::or_dash(self.error.as_deref().or(self.delivery.error.as_deref())),
        ]
    }
}
