//! The sum of what several handlers of one event answer.

use std::collections::HashSet;

use super::answer::{Handled, HandlerError, ignore, refuse};
use super::effects::{Effects, Message};
use super::handlers::Route;
use super::texts::EventTexts;

/// The reason of an event that routes would take by its type, and none by its `when`.
pub(crate) const NO_MATCH: &str = "no route takes it: `when` is false";

/// Adds up what several handlers of one event answer. One that ignores the event does not stop the others.
#[derive(Default)]
pub(crate) struct Dispatch {
    effects: Effects,
    handled_n: usize,
    ignored: Option<&'static str>,
    /// True when the `when` of a route was false.
    is_filtered: bool,
}

impl Dispatch {
    pub(crate) fn add(&mut self, answer: Handled) -> Result<(), HandlerError> {
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

    /// A `when` that cannot be decided would drop events silently, and a lane without a value lose their order: such
    /// an event is refused, kept and shown.
    pub(super) fn add_route(&mut self, route: &Route, texts: &EventTexts<'_>) -> Result<(), HandlerError> {
        let of_route = |key: &str, why: String| {
            HandlerError::Refused(format!("{key} of the route to `{}`: {why}", route.to))
        };
        if let Some(filter) = &route.when
            && !filter.passes(texts).map_err(|why| of_route("when", why))?
        {
            self.is_filtered = true;
            return Ok(());
        }
        self.handled_n += 1;
        if self.effects.messages.iter().any(|m| m.name == route.to) {
            return Ok(());
        }
        let mut message = Message::to(&route.to);
        if let Some(place) = &route.lane {
            message = message.lane(texts.id_text(place).map_err(|why| of_route("lane", why))?);
        }
        self.effects.messages.push(message);
        Ok(())
    }

    pub(crate) fn finish(self) -> Handled {
        if self.handled_n == 0 {
            let none = if self.is_filtered { NO_MATCH } else { "no handler or route takes this type" };
            return ignore(self.ignored.unwrap_or(none));
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
