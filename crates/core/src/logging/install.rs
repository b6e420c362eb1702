//! The process's log: for people in a terminal, one JSON object a line otherwise.

use std::io::{IsTerminal, Stderr};
use std::sync::LazyLock;

use anyhow::Context;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt;
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

/// Installs the process's log, without the lines of the libraries that are to be `silent`.
pub fn install(config: &LogConfig, silent: Vec<&'static str>) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&config.filter)
        .with_context(|| format!("log.filter: `{}` is not a filter such as `info`", config.filter))?;
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
    } else if has_colours {
        builder.with_target(false).finish().with(written).try_init()
    } else {
        builder.with_target(false).with_ansi(false).finish().with(written).try_init()
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
