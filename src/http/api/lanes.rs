//! `/v1/lanes`: lanes with open messages, and why they do not move.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;

use super::super::error::Problem;
use super::super::reply::view_reply;
use super::asking::Asking;
use super::judged::Judge;
use super::query::{cursor, limit, name, query};
use super::state::ApiState;
use crate::store::LanePlace;

pub(super) async fn list(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    let values = query(raw.as_deref(), ["destination", "cursor", "limit"])?;
    let destination = name(&values, "destination")?;
    let from = cursor(&values, place)?;
    let found = people.lanes(destination.as_ref(), from, limit(&values)?).await?;
    let (mut page, next) = found;
    let judge = Judge::of(&state, &people, page.items.iter().map(|lane| &lane.head)).await?;
    for lane in &mut page.items {
        lane.blocked_by = judge.judge(&mut lane.head).lane_blocked_by().map(str::to_owned);
    }
    page.next = next.as_ref().map(written);
    Ok(view_reply(StatusCode::OK, &page))
}

/// The place as a cursor: a lane's key may hold any character.
fn written(place: &LanePlace) -> String {
    URL_SAFE_NO_PAD.encode(serde_json::json!(place).to_string())
}

fn place(text: &str) -> Option<LanePlace> {
    let place: LanePlace = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
    // No column has a NUL, and no database a comparison for it.
    Some(place).filter(|LanePlace(destination, lane)| !destination.contains('\0') && !lane.contains('\0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_was_written_whatever_the_lane_is_called() {
        for lane in ["", "in_1", "a/b?c=d", "\u{202e}\n\"", &"é".repeat(127)] {
            let at = LanePlace("billing".to_owned(), lane.to_owned());
            assert_eq!(place(&written(&at)), Some(at));
        }
        for wrong in ["", "x", "e30", &URL_SAFE_NO_PAD.encode("[\"a\",\"\\u0000\"]")] {
            assert_eq!(place(wrong), None, "{wrong}");
        }
    }
}
