//! The process's log: for people in a terminal, one JSON object a line otherwise.

use std::fmt;
use std::io::{IsTerminal, Stderr};
use std::sync::LazyLock;

use anyhow::Context;
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::format::{Format, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

use super::non_blocking::NonBlockingWriter;
use crate::config::{LogConfig, LogFormat};
use crate::plain::Plain;

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
fn filter(directives: &str) -> anyhow::Result<EnvFilter> {
    let filter = EnvFilter::try_new(directives)
        .with_context(|| format!("log.filter: `{directives}` is not a filter such as `info`"))?;
    Ok(filter.add_directive(format!("{AUDIT_TARGET}=info").parse()?))
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
        .with_env_filter(filter)
        .log_internal_errors(false)
        .with_writer(move || Plain::new(&*FILE, has_colours));
    let installed = if is_json {
        builder.json().flatten_event(true).finish().with(written).try_init()
    } else {
        let builder = builder.with_ansi(has_colours).event_format(HumanFormat::default());
        builder.finish().with(written).try_init()
    };
    installed.map_err(|error| anyhow::anyhow!("could not install the log: {error}"))
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

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
                .with_env_filter(filter(directives).expect("a filter"))
                .with_ansi(false)
                .event_format(HumanFormat::default())
                .with_writer(move || writer.clone())
                .finish();
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
    fn log_lines_of_libraries_about_messages_are_not_written_with_any_filter() {
        let written = Written::default();
        let writer = written.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter("trace,lapin=trace")
            .with_writer(move || writer.clone())
            .finish()
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
}
