//! The version of what can change, as an `ETag`: equal as long as nothing has changed that a decision is about.

use sha2::{Digest, Sha256};

use super::destination::DestinationView;
use super::event::EventView;
use super::message::MessageView;

/// A view of something that people decide about.
pub trait Tagged {
    /// Its version: a strong `ETag` with its quotes (RFC 9110, 8.8.3).
    fn etag(&self) -> String;
}

impl Tagged for EventView {
    fn etag(&self) -> String {
        let at = self.processed_at_ms.unwrap_or_default();
        tag(&[
            self.state.as_str(),
            &self.generation.to_string(),
            &self.attempts_n.to_string(),
            &at.to_string(),
        ])
    }
}

impl Tagged for MessageView {
    fn etag(&self) -> String {
        let finished = self.finished_at_ms.unwrap_or_default().to_string();
        let result = self.last_result.map_or("", |result| result.as_str());
        tag(&[
            self.state.as_str(),
            &self.attempts_n.to_string(),
            &self.visible_at_ms.to_string(),
            result,
            &finished,
        ])
    }
}

impl Tagged for DestinationView {
    fn etag(&self) -> String {
        match &self.pause {
            None => tag(&["running"]),
            Some(pause) => tag(&["paused", &pause.actor, &pause.paused_at_ms.to_string()]),
        }
    }
}

fn tag(parts: &[&str]) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        // With its length, so that no two lists of parts read the same.
        digest.update([u8::try_from(part.len()).unwrap_or(u8::MAX)]);
        digest.update(part);
    }
    let digest: [u8; 32] = digest.finalize().into();
    format!("\"{}\"", hex::encode(digest.get(..8).unwrap_or_default()))
}
