//! What comes in, as rows: the tail of the contract, with each event drawn as the list draws it.
//!
//! It is the tail's own stream that goes through here, so the look at the database is the one that all share, and what it
//! says of places and of what was left out holds here too.

use std::convert::Infallible;

use axum::body::{Body, BodyDataStream};
use axum::extract::{Extension, RawQuery};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use http::{HeaderMap, HeaderValue, header};

use super::filter::EventSieve;
use super::rows;
use crate::api::TailView;
use crate::console::contract::{LeftOff, with_query};
use crate::console::parts::field;
use crate::console::parts::frame::Place;
use crate::console::visit::Visit;
use crate::http::ConnectionEnd;

/// End of one server-sent event.
const FRAME_END: &[u8] = b"\n\n";

/// Answers with rows until somebody leaves. `after` in the address is for a page that was away for a while; a browser
/// that lost its connection says the same in a header.
pub(super) async fn follow(
    visit: Visit,
    end: Option<Extension<ConnectionEnd>>,
    headers: HeaderMap,
    raw: RawQuery,
) -> Response {
    let values = field::values(&raw);
    let after = field::value(&values, "after").and_then(|after| HeaderValue::from_str(after).ok());
    let sieve = match EventSieve::read(values, visit.now_ms) {
        Ok(sieve) => sieve,
        Err(trouble) => return visit.trouble(Place::Events, &trouble),
    };
    let left_off = LeftOff {
        after: headers.get("last-event-id").cloned().or(after),
        end: end.map(|Extension(end)| end),
    };
    let target = with_query("/tail", &[("provider", sieve.value("provider"))]);
    let told = visit.follow(&target, left_off).await;
    if !told.status().is_success() {
        return told;
    }
    let (parts, body) = told.into_parts();
    let drawing = Drawing { visit, sieve, told: body.into_data_stream(), waiting: Vec::new() };
    let mut response = (parts.status, parts.headers, Body::from_stream(drawn(drawing))).into_response();
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// An answer while it goes on.
struct Drawing {
    visit: Visit,
    sieve: EventSieve,
    told: BodyDataStream,
    /// Bytes of a server-sent event that is not whole yet.
    waiting: Vec<u8>,
}

fn drawn(drawing: Drawing) -> impl Stream<Item = Result<Bytes, Infallible>> {
    stream::unfold(drawing, |mut drawing| async move {
        loop {
            let piece = drawing.told.next().await?.ok()?;
            let text = drawing.take(&piece);
            if !text.is_empty() {
                return Some((Ok(Bytes::from(text)), drawing));
            }
        }
    })
}

impl Drawing {
    /// What becomes of the server-sent events that are whole with this piece.
    fn take(&mut self, piece: &[u8]) -> String {
        self.waiting.extend_from_slice(piece);
        let mut text = String::new();
        while let Some(at) = self.waiting.windows(FRAME_END.len()).position(|two| two == FRAME_END) {
            let frame: Vec<u8> = self.waiting.drain(..at + FRAME_END.len()).collect();
            text += &self.draw(&String::from_utf8_lossy(&frame));
        }
        text
    }

    fn draw(&self, frame: &str) -> String {
        let line = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name));
        let Some(view) = line("data: ").and_then(|data| serde_json::from_str(data).ok()) else {
            return frame.to_owned();
        };
        let id = line("id: ").unwrap_or_default();
        match view {
            TailView::Event { event } if self.sieve.takes(&event) => {
                told("row", id, &rows::new(&self.visit, &event).0)
            }
            // The place alone, from which it goes on.
            TailView::Event { .. } => format!("id: {id}\n\n"),
            TailView::Skipped { skipped_n } => told("skipped", id, &skipped_n.to_string()),
        }
    }
}

/// A server-sent event; a line of its data is a line of the text.
fn told(what: &str, id: &str, text: &str) -> String {
    let data = text.lines().fold(String::new(), |data, line| data + "data: " + line + "\n");
    format!("id: {id}\nevent: {what}\n{data}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_several_lines_stays_inside_its_server_sent_event() {
        assert_eq!(
            told("row", "a-1-2", "<tr>\n\n</tr>"),
            "id: a-1-2\nevent: row\ndata: <tr>\ndata: \ndata: </tr>\n\n"
        );
    }
}
