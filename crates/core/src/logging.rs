//! Log lines: for people in a terminal, one JSON object a line otherwise. What a line says is written where it happens.
//!
//! [`install`] sets up the process's log, which is written without waiting for the reader. [`Sampler`] bounds the lines
//! of one kind that strangers can cause, [`Lines`] those of several kinds.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, IsTerminal, Stderr, Write};
use std::os::fd::AsFd;
use std::sync::{LazyLock, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets, filter_fn};
use tracing_subscriber::fmt::format::{Format, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{LogConfig, LogFormat};
use crate::plain::Plain;
use crate::types::Name;

/// Where the lines go, one at a time.
static FILE: LazyLock<NonBlockingWriter<Stderr>> =
    LazyLock::new(|| NonBlockingWriter::new(std::io::stderr()));

/// `silent`: beginnings of the names of libraries whose lines are not written, whatever the filter says.
fn is_written(target: &str, silent: &[&str]) -> bool {
    let library = target.split("::").next().unwrap_or_default();
    !silent.iter().any(|silent| library.starts_with(silent))
}

/// The target of a line for each row of the audit log. A collector keeps them, so no level turns them off.
pub const AUDIT_TARGET: &str = "hooklatch::audit";

/// The lines that are written: those of `log.filter`, and all of the audit log.
fn filter(directives: &str) -> anyhow::Result<Targets> {
    let filter = targets(directives)
        .with_context(|| format!("log.filter: `{directives}` is not a filter such as `info`"))?;
    Ok(filter.with_target(AUDIT_TARGET, LevelFilter::INFO))
}

/// Reads a `log.filter`: levels of modules. `EnvFilter` would read values of spans too, which nothing here has, and
/// brings an engine of regular expressions.
pub(crate) fn targets(directives: &str) -> anyhow::Result<Targets> {
    let directives = directives.split(',').map(str::trim).filter(|directive| !directive.is_empty());
    let directives: Vec<&str> = directives.collect();
    // `Targets` takes any text as a module, and nothing as the level ERROR.
    let is_of_module = |c: char| c.is_alphanumeric() || "_:-".contains(c);
    let is_read = |directive: &&str| {
        directive
            .split_once('=')
            .is_none_or(|(module, level)| !level.is_empty() && module.chars().all(is_of_module))
    };
    anyhow::ensure!(directives.iter().all(is_read), "it has more than levels of modules");
    Ok(directives.join(",").parse()?)
}

/// Lines for people: without targets, but for those of the audit log, which have no other mark.
struct HumanFormat {
    line: Format,
    audit_line: Format,
}

impl Default for HumanFormat {
    fn default() -> Self {
        Self { line: Format::default().with_target(false), audit_line: Format::default() }
    }
}

impl<S, N> FormatEvent<S, N> for HumanFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let is_audit = event.metadata().target() == AUDIT_TARGET;
        let format = if is_audit { &self.audit_line } else { &self.line };
        format.format_event(context, writer, event)
    }
}

/// Installs the process's log, without the lines of the libraries that are to be `silent`.
pub fn install(config: &LogConfig, silent: Vec<&'static str>) -> anyhow::Result<()> {
    let filter = filter(&config.filter)?;
    let is_json = match config.format {
        LogFormat::Auto => !std::io::stderr().is_terminal(),
        LogFormat::Human => false,
        LogFormat::Json => true,
    };
    let written = filter_fn(move |metadata| is_written(metadata.target(), &silent));
    // Values are foreign text, and a line is read by people in the end.
    let has_colours = !is_json && std::io::stderr().is_terminal();
    let builder = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .log_internal_errors(false)
        .with_writer(move || Plain::new(&*FILE, has_colours));
    let installed = if is_json {
        builder.json().flatten_event(true).finish().with(written).with(filter).try_init()
    } else {
        let builder = builder.with_ansi(has_colours).event_format(HumanFormat::default());
        builder.finish().with(written).with(filter).try_init()
    };
    installed.map_err(|error| anyhow::anyhow!("could not install the log: {error}"))
}

/// The second that is running for one kind of line. Seconds begin with the process, not with the first line of a flood:
/// around a boundary, twice as many lines as the bound may be written within one second.
struct RunningSecond {
    /// Counted from the process's first line.
    second: u64,
    taken_n: u64,
    left_out_n: u64,
}

impl RunningSecond {
    const NEW: Self = Self { second: 0, taken_n: 0, left_out_n: 0 };

    /// `Some` when a line may be written in `second`, with the number of those that were left out since the last one.
    fn take_at(&mut self, second: u64, lines_per_s: u64) -> Option<u64> {
        if self.second != second {
            (self.second, self.taken_n) = (second, 0);
        }
        if self.taken_n >= lines_per_s {
            self.left_out_n += 1;
            count_left_out();
            return None;
        }
        self.taken_n += 1;
        Some(std::mem::take(&mut self.left_out_n))
    }
}

fn count_left_out() {
    metrics::counter!("hooklatch_log_lines_left_out_total").increment(1);
}

/// Seconds since the process's first line.
fn second_now() -> u64 {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    FIRST.get_or_init(Instant::now).elapsed().as_secs()
}

/// Bounds the lines that strangers can cause: a number a second, and the next one says how many were left out. A
/// request costs them nothing, and its line fills our disk.
pub struct Sampler {
    lines_per_s: u64,
    state: Mutex<RunningSecond>,
}

impl Sampler {
    /// A bound for one kind of line: `lines_per_s` a second.
    pub const fn new(lines_per_s: u64) -> Self {
        Self { lines_per_s, state: Mutex::new(RunningSecond::NEW) }
    }

    /// `Some` when a line may be written now, with the number of those that were left out since the last one.
    pub fn take(&self) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.take_at(second_now(), self.lines_per_s)
    }
}

/// Lines a second of each sort; a sort is a provider and a word of a closed set.
const LINES_PER_S: u64 = 10;

/// Decides which lines are written. One flood leaves the lines of others alone.
#[derive(Default)]
pub struct Lines {
    sorts: Mutex<BTreeMap<(Name, &'static str), RunningSecond>>,
}

impl Lines {
    /// `Some` when a line of this sort may be written now, with the number of those left out since the last one that
    /// was.
    pub fn may_write(&self, provider: &Name, word: &'static str) -> Option<u64> {
        let mut sorts = self.sorts.lock().unwrap_or_else(PoisonError::into_inner);
        let second = sorts.entry((provider.clone(), word)).or_insert(RunningSecond::NEW);
        second.take_at(second_now(), LINES_PER_S)
    }

    /// The number of lines of each sort that were left out and not reported yet; they count as reported from here on.
    pub fn left_out(&self) -> Vec<(Name, &'static str, u64)> {
        let mut sorts = self.sorts.lock().unwrap_or_else(PoisonError::into_inner);
        let unreported = sorts.iter_mut().filter(|(_, second)| second.left_out_n > 0);
        unreported
            .map(|((name, word), second)| (name.clone(), *word, std::mem::take(&mut second.left_out_n)))
            .collect()
    }
}

/// What a pipe takes at once, or not at all, when it says that it takes something. Bytes.
const PART_BYTES: usize = 4096;
/// Longest wait for a reader that was quick enough until now: it may have lost its processor.
const WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
const NO_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// A writer of whole lines that leaves out what its file does not take in time, and never fails.
#[derive(Debug)]
struct NonBlockingWriter<W> {
    state: Mutex<State<W>>,
}

#[derive(Debug)]
struct State<W> {
    file: W,
    /// True when the last line was not taken: the writer does not wait for the next one.
    is_stuck: bool,
    /// True when a part of a line was taken: the next one begins on a line of its own.
    is_cut: bool,
}

impl<W: Write + AsFd> NonBlockingWriter<W> {
    fn new(file: W) -> Self {
        Self { state: Mutex::new(State { file, is_stuck: false, is_cut: false }) }
    }

    /// Writes a line, or counts that it was left out.
    fn line(&self, line: &[u8]) {
        // The rest of a line that was cut is lost: the flag has a line end written before the next line.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_taken = (!state.is_cut || state.takes(b"\n")) && {
            state.is_cut = false;
            line.chunks(PART_BYTES).all(|part| {
                let is_taken = state.takes(part);
                state.is_cut |= is_taken;
                is_taken
            })
        };
        state.is_stuck = !is_taken;
        if is_taken {
            state.is_cut = false;
        } else {
            count_left_out();
        }
    }
}

impl<W: Write + AsFd> State<W> {
    fn takes(&mut self, part: &[u8]) -> bool {
        let wait = if self.is_stuck { NO_WAIT } else { WAIT };
        let is_full = poll(&mut [PollFd::new(&self.file, PollFlags::OUT)], Some(&wait)) == Ok(0);
        !is_full && self.file.write_all(part).is_ok()
    }
}

impl<W: Write + AsFd> Write for &NonBlockingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{self, Read};
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("not poisoned").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_of_the_audit_log_are_written_with_their_target_whatever_the_filter_says() {
        for directives in ["warn", "off", "warn,hooklatch::audit=off", "error,hooklatch=off"] {
            let written = Written::default();
            let writer = written.clone();
            let subscriber = tracing_subscriber::fmt()
                .with_max_level(LevelFilter::TRACE)
                .with_ansi(false)
                .event_format(HumanFormat::default())
                .with_writer(move || writer.clone())
                .finish()
                .with(filter(directives).expect("a filter"));
            tracing::subscriber::with_default(subscriber, || {
                tracing::info!(target: AUDIT_TARGET, audit_seq = 7, "audit row written");
                tracing::info!(target: "hooklatch::app", "started");
                tracing::error!(target: "other", "broken");
            });
            let text = String::from_utf8(written.0.lock().expect("not poisoned").clone()).expect("text");
            assert!(text.contains("hooklatch::audit: audit row written audit_seq=7"), "{directives}: {text}");
            assert!(!text.contains("started") && !text.contains("other"), "{directives}: {text}");
        }
    }

    #[test]
    fn a_filter_may_have_spaces_and_commas_too_many() {
        let (loose, tidy) =
            (targets(" info, hooklatch_outbox=debug ,"), targets("info,hooklatch_outbox=debug"));
        assert_eq!(loose.expect("a filter"), tidy.expect("a filter"));
    }

    #[test]
    fn a_filter_of_anything_but_levels_of_modules_is_refused() {
        for text in ["*=info", "!x=debug", "[span]=debug", "hooklatch[span{f}]=debug", "hooklatch=", "a=b=c"]
        {
            assert!(targets(text).is_err(), "{text}");
        }
    }

    #[test]
    fn log_lines_of_libraries_about_messages_are_not_written_with_any_filter() {
        let written = Written::default();
        let writer = written.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(LevelFilter::TRACE)
            .with_writer(move || writer.clone())
            .finish()
            .with(filter("trace,lapin=trace").expect("a filter"))
            .with(filter_fn(|metadata| is_written(metadata.target(), &["amq_protocol", "lapin", "rskafka"])));
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(target: "lapin::returned_messages", "canary");
            tracing::error!(target: "amq_protocol_tcp", "canary");
            tracing::error!(target: "rskafka::client::partition", "canary");
            tracing::warn!(target: "hooklatch::outbox::destinations::redis", "ours");
        });
        let text = String::from_utf8(written.0.lock().expect("not poisoned").clone()).expect("text");
        assert!(text.contains("ours") && !text.contains("canary"), "{text}");
    }

    #[test]
    fn of_a_flood_of_lines_some_a_second_are_written_and_the_others_counted() {
        let mut second = RunningSecond::NEW;
        let taken: Vec<_> = (0..1_000).filter_map(|_| second.take_at(7, 3)).collect();
        assert_eq!(taken, [0, 0, 0]);
        assert_eq!((second.take_at(8, 3), second.take_at(8, 3)), (Some(997), Some(0)));
    }

    #[test]
    fn a_flood_is_cut_and_counted_and_hides_nothing_of_others() {
        let sampler = Lines::default();
        let name = |text: &str| Name::parse(text).expect("a name");
        let written_n =
            (0..1_000).filter(|_| sampler.may_write(&name("stripe"), "mismatch").is_some()).count();
        // The loop may have crossed into another second.
        assert!((10..=30).contains(&written_n), "{written_n}");
        assert_eq!(sampler.may_write(&name("github"), "mismatch"), Some(0));
        assert_eq!(sampler.may_write(&name("stripe"), "stale"), Some(0));
        let left_out_n: u64 = sampler.left_out().iter().map(|(_, _, n)| n).sum();
        assert!(left_out_n > 0 && left_out_n <= 990, "{left_out_n}");
        assert_eq!(sampler.left_out(), []);
    }

    #[test]
    fn lines_without_a_reader_are_left_out_and_later_lines_are_complete() {
        let (near, mut far) = UnixStream::pair().expect("a pair");
        let writer = NonBlockingWriter::new(near);
        let line = |n: usize| format!("{n} {}\n", "x".repeat(3 * PART_BYTES));
        // More than the system buffers for a reader.
        for n in 0..1_000 {
            (&writer).write_all(line(n).as_bytes()).expect("never fails");
        }
        far.set_nonblocking(true).expect("set");
        let mut read = Vec::new();
        let ended = far.read_to_end(&mut read);
        assert_eq!(ended.map_err(|error| error.kind()).expect_err("open"), io::ErrorKind::WouldBlock);
        (&writer).write_all(b"there again\n").expect("never fails");
        drop(writer);
        far.read_to_end(&mut read).expect("the rest");
        let text = String::from_utf8(read).expect("text");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.last(), Some(&"there again"));
        let whole_n = lines.iter().enumerate().filter(|(n, one)| **one == line(*n).trim_end()).count();
        assert!((1..1_000).contains(&whole_n) && lines.len() - whole_n <= 2, "{whole_n} of {}", lines.len());
    }

    #[test]
    fn a_full_disk_is_not_an_error_of_the_writer() {
        let Ok(full) = File::options().write(true).open("/dev/full") else { return };
        let writer = NonBlockingWriter::new(full);
        for _ in 0..3 {
            (&writer).write_all(b"line\n").expect("never fails");
        }
    }
}
