//! What one rendering may spend: bytes of its result, bytes of the texts and lists it makes on the way, and time.
//!
//! The template engine counts steps alone. So everything here that makes a text draws on the budget of its thread
//! before it does, and ends the rendering when that is spent.

use std::cell::Cell;
use std::time::{Duration, Instant};
use std::{fmt, io};

use minijinja::{Error, ErrorKind, Value};
use rustix::time::{ClockId, clock_gettime};

/// Bytes that a rendering may make on the way, for each byte that its result may have.
const MADE_PER_RESULT: usize = 4;
/// What an entry of a list or a map takes. Bytes.
const ENTRY_BYTES: usize = 32;

/// What one rendering may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Longest result. Bytes.
    bytes_max: usize,
    /// Longest time that the thread works, from `since` on.
    time_max: Duration,
    since: Instant,
    worked: Duration,
}

impl Limits {
    /// Limits of which the time begins now.
    pub fn new(bytes_max: usize, time_max: Duration) -> Self {
        Self { bytes_max, time_max, since: Instant::now(), worked: worked() }
    }

    /// Limits of a result of at most `bytes_max` bytes, where that is less.
    pub(crate) fn at_most(self, bytes_max: usize) -> Self {
        Self { bytes_max: self.bytes_max.min(bytes_max), ..self }
    }

    /// True when the time is up. A process that is stopped, or waits for a busy processor, takes no time; the clock is
    /// read first because it costs less.
    pub fn is_late(&self) -> bool {
        self.since.elapsed() > self.time_max && worked().saturating_sub(self.worked) > self.time_max
    }
}

/// Time for which this thread has worked.
pub(crate) fn worked() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}

/// The reason why a rendering was ended.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ended {
    TooLong { bytes_max: usize },
    TooMuch { bytes_max: usize },
    TooSlow { time_max: Duration },
    NotANumber,
}

impl Ended {
    /// True when limits were passed.
    pub(super) fn is_limit(self) -> bool {
        !matches!(self, Self::NotANumber)
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { bytes_max } => write!(f, "the result is longer than {bytes_max} bytes"),
            Self::TooMuch { bytes_max } => {
                write!(f, "it makes more than {bytes_max} bytes of texts and lists on the way")
            }
            Self::TooSlow { time_max } => write!(f, "it takes longer than {time_max:?}"),
            Self::NotANumber => {
                f.write_str("calculates with a value that is not a number; join texts with `~`")
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Spending {
    limits: Limits,
    result_bytes: usize,
    made_bytes: usize,
    ended: Option<Ended>,
}

thread_local! {
    /// The rendering of this thread.
    static SPENDING: Cell<Option<Spending>> = const { Cell::new(None) };
}

/// Runs one rendering, and returns why it was ended, if it was.
pub(crate) fn within<T>(limits: Limits, run: impl FnOnce() -> T) -> (T, Option<Ended>) {
    /// Leaves no budget behind, whatever happens in between.
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            SPENDING.set(None);
        }
    }
    SPENDING.set(Some(Spending { limits, result_bytes: 0, made_bytes: 0, ended: None }));
    let _reset = Reset;
    let result = run();
    (result, SPENDING.get().and_then(|spending| spending.ended))
}

/// Adds to what is spent; false when that is too much.
fn spend(result_n: usize, made_n: usize) -> bool {
    let Some(mut spending) = SPENDING.get() else { return false };
    let limits = spending.limits;
    spending.result_bytes = spending.result_bytes.saturating_add(result_n);
    spending.made_bytes = spending.made_bytes.saturating_add(made_n);
    let made_max = limits.bytes_max.saturating_mul(MADE_PER_RESULT);
    let ended = if spending.result_bytes > limits.bytes_max {
        Some(Ended::TooLong { bytes_max: limits.bytes_max })
    } else if spending.made_bytes > made_max {
        Some(Ended::TooMuch { bytes_max: made_max })
    } else {
        limits.is_late().then_some(Ended::TooSlow { time_max: limits.time_max })
    };
    spending.ended = spending.ended.or(ended);
    SPENDING.set(Some(spending));
    spending.ended.is_none()
}

/// Ends the rendering.
pub(crate) fn end(why: Ended) -> Error {
    if let Some(spending) = SPENDING.get() {
        SPENDING.set(Some(Spending { ended: spending.ended.or(Some(why)), ..spending }));
    }
    Error::from(ErrorKind::InvalidOperation)
}

/// Draws bytes that are made on the way.
pub(crate) fn draw(bytes_n: usize) -> Result<(), Error> {
    if spend(0, bytes_n) { Ok(()) } else { Err(Error::from(ErrorKind::OutOfFuel)) }
}

/// Draws what a value takes as text, `times` over.
pub(super) fn draw_text(value: &Value, times: usize) -> Result<(), Error> {
    /// Counts what is written to it.
    struct Counter(usize);
    impl fmt::Write for Counter {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            draw(text.len().saturating_mul(self.0)).map_err(|_| fmt::Error)
        }
    }
    match value.as_str() {
        Some(text) => draw(text.len().saturating_mul(times)),
        None => fmt::write(&mut Counter(times), format_args!("{value}")).map_err(Error::from),
    }
}

/// Draws what it takes to hold a value once more, without what is in its entries.
pub(super) fn draw_entries(value: &Value) -> Result<(), Error> {
    draw(value.as_str().map_or_else(|| value.len().unwrap_or(1).saturating_mul(ENTRY_BYTES), str::len))
}

/// A text that draws on the budget while it grows.
#[derive(Default)]
pub(super) struct MadeText(pub(super) String);

impl fmt::Write for MadeText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        draw(text.len()).map_err(|_| fmt::Error)?;
        self.0.push_str(text);
        Ok(())
    }
}

impl io::Write for MadeText {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = std::str::from_utf8(bytes).map_err(io::Error::other)?;
        fmt::Write::write_str(self, text).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The result of a rendering.
#[derive(Default)]
pub(super) struct ResultBytes(pub(super) Vec<u8>);

impl io::Write for ResultBytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !spend(bytes.len(), 0) {
            return Err(io::Error::other("the budget is spent"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
