//! `resend_h`: for how long a sender can be made to send an event again.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};

use super::check::{HORIZON_H_MAX, REMEDY, bounded};
use hooklatch_core::mistakes::Mistake;

/// Time for which a person, or a call to the sender's API, can have an event sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resend {
    /// Hours after it happened.
    Hours(u32),
    /// For as long as the sender has the event, and its documentation names no end.
    Unbounded,
}

impl Resend {
    pub fn check(self) -> Result<(), Mistake> {
        match self {
            Self::Hours(hours) => bounded("resend_h", hours, HORIZON_H_MAX).map_err(|mistake| {
                let why =
                    format!("{}, \"unbounded\", or leave it out where none is known", mistake.flaw.brief());
                Mistake::said(mistake.key, why, REMEDY)
            }),
            Self::Unbounded => Ok(()),
        }
    }
}

struct HoursOrUnbounded;

impl Visitor<'_> for HoursOrUnbounded {
    type Value = Resend;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of hours or \"unbounded\"")
    }

    fn visit_i64<E: Error>(self, hours: i64) -> Result<Resend, E> {
        let hours = u32::try_from(hours).map_err(|_| E::invalid_value(Unexpected::Signed(hours), &self))?;
        Ok(Resend::Hours(hours))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Resend, E> {
        match text {
            "unbounded" => Ok(Resend::Unbounded),
            _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
        }
    }
}

impl<'de> Deserialize<'de> for Resend {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(HoursOrUnbounded)
    }
}
