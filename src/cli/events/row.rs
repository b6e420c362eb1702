//! An event as a line of a list.

use crate::api::EventView;
use crate::cli::desk::ListRow;
use crate::cli::output::{Cell, Column, Screen, told};

impl ListRow for EventView {
    const NOUN: &'static str = "event";
    const COLUMNS: &'static [Column] = &[
        Column::Whole("received (UTC)"),
        Column::Whole("provider"),
        Column::Whole("event id"),
        Column::Whole("type"),
        Column::Whole("state"),
        Column::Loose("error"),
    ];

    fn cells(&self, screen: &Screen) -> Vec<Cell> {
        vec![
            Cell::text(told(self.received_at_ms, screen.now_ms)),
            Cell::text(&self.provider),
            Cell::text(&self.event_id),
            Cell::text(&self.event_type),
            Cell::event_state(self.state),
            Cell::or_dash(self.error.as_deref()),
        ]
    }
}
