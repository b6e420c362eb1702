//! The sum of what several handlers of one event answer.

use std::collections::HashSet;

use super::answer::{Handled, HandlerError, ignore, refuse};
use super::effects::{Effects, Message};
use super::event::RawEvent;
use crate::read::json_text;

/// Adds up what several handlers of one event answer. One that ignores the event does not stop the others.
#[derive(Default)]
pub(super) struct Dispatch {
    effects: Effects,
    handled_n: usize,
    ignored: Option<&'static str>,
}

impl Dispatch {
    pub(super) fn add(&mut self, answer: Handled) -> Result<(), HandlerError> {
        match answer {
            Ok(effects) => {
                self.handled_n += 1;
                self.effects.messages.extend(effects.messages);
                Ok(())
            }
            Err(HandlerError::Ignore(why)) => {
                self.ignored = Some(why);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// `lane` points into the payload. Without a value there the order would be lost silently, so the event
    /// is refused, kept and shown.
    pub(super) fn add_route(
        &mut self,
        to: &str,
        lane: Option<&str>,
        event: &RawEvent,
    ) -> Result<(), HandlerError> {
        self.handled_n += 1;
        if self.effects.messages.iter().any(|m| m.name == to) {
            return Ok(());
        }
        let mut message = Message::to(to);
        if let Some(pointer) = lane {
            let value = json_text(&event.payload, pointer);
            message = message.lane(value.map_err(|why| {
                HandlerError::Refused(format!("lane of the route, in what handlers get: {why}"))
            })?);
        }
        self.effects.messages.push(message);
        Ok(())
    }

    pub(super) fn finish(self) -> Handled {
        if self.handled_n == 0 {
            return ignore(self.ignored.unwrap_or("no handler or route takes this type"));
        }
        let mut names = HashSet::new();
        for message in &self.effects.messages {
            message.checked().map_err(HandlerError::Refused)?;
            if !names.insert(message.name.as_str()) {
                return refuse(format!(
                    "two effects are named `{}`; name one with `.named(…)`",
                    message.name
                ));
            }
        }
        Ok(self.effects)
    }
}
