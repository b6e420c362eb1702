//! Places in the list of events, as callers carry them: opaque to them, a number to us.

use std::fmt;

/// A place in the list of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventPlace {
    /// Events with a lower number come next, the newest first.
    Before(i64),
    /// Events with a higher number come next, the oldest first.
    After(i64),
}

impl EventPlace {
    /// Reads what [`EventPlace`] writes; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let (way, digits) = text.split_at_checked(1)?;
        // One text for one place: nothing but digits, and none that say nothing.
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        let number = digits.parse().ok().filter(|_| is_number)?;
        match way {
            "b" => Some(Self::Before(number)),
            "a" => Some(Self::After(number)),
            _ => None,
        }
    }
}

impl fmt::Display for EventPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Before(number) => write!(f, "b{number}"),
            Self::After(number) => write!(f, "a{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_back_and_nothing_else_is_one() {
        for place in [EventPlace::Before(0), EventPlace::After(4_096), EventPlace::Before(i64::MAX)] {
            assert_eq!(EventPlace::parse(&place.to_string()), Some(place));
        }
        for odd in
            ["", "a", "b", "c1", "b-1", "b+1", "b 1", "1", "b1 ", "a99999999999999999999", "é1", "b1\0"]
        {
            assert_eq!(EventPlace::parse(odd), None, "{odd:?}");
        }
    }
}
