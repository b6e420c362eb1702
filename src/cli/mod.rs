//! The command line. A user's own `main.rs` calls [`main`] with kinds of its own and gets every command.
//!
//! Exit codes: 0 fine, 1 what was asked about is not (or the command failed), 2 usage. What a program may
//! read goes to stdout, everything else to stderr.

mod bench;
mod check;
mod docs;
mod erase;
mod explain;
mod messages;
mod prune;
mod retention;
mod send;
mod serve;
mod sign;
mod taught;
mod vectors;
mod words;

use std::fmt::Display;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::load::{Kinds, Settings, kinds, load, load_for_tools, loaded, unusable};
use crate::plain;
use crate::provider::Provider;

/// A webhook receiver that a team can trust with money.
#[derive(Parser)]
#[command(name = "hooklatch", version)]
struct Cli {
    /// The configuration file; without it `hooklatch.toml` if that exists, else the defaults.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Receive, admit, send.
    Serve {
        /// For a first look: loopback only, SQLite in .hooklatch/, published secrets, a built-in echo.
        #[arg(long)]
        dev: bool,
    },
    /// Say all that is wrong with the configuration.
    Check {
        /// One JSON object instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Bring the database's schema up to date.
    Migrate,
    /// List the provider kinds, or describe one.
    Providers(check::ProvidersArgs),
    /// Print a signed request as a ready curl command.
    Sign(sign::SignArgs),
    /// Send signed samples to a running server.
    Send(send::SendArgs),
    /// Load a running server, or one of its own, and say how fast it is.
    Bench(bench::BenchArgs),
    /// Say why a saved request is or is not believed.
    Explain(explain::ExplainArgs),
    /// Judge files of signed requests.
    Vectors(vectors::VectorsArgs),
    /// Show events of a running server.
    Events(messages::EventsArgs),
    /// Show messages of a running server, and decide about held and dead ones.
    Messages(messages::MessagesArgs),
    /// Pause and resume destinations of a running server.
    Destinations(messages::DestinationsArgs),
    /// Show the secret that a sender taught a running server while its provider was pairing: once.
    Taught(taught::TaughtArgs),
    /// Delete the bytes of events, and what was made of them; their ids, digests and outcomes stay.
    Erase(erase::EraseArgs),
    /// Delete what is older than `[retention]` says, as a running server does by itself.
    Prune(prune::PruneArgs),
    /// Ask a running server whether it is ready (for container health checks).
    Health {
        /// The operator side.
        #[arg(long, default_value = "http://127.0.0.1:8081")]
        url: String,
    },
}

/// Runs the command of this process's arguments, with `own` kinds beside, or instead of, the built-in ones.
pub fn main(own: Vec<Provider>) -> ExitCode {
    let cli = Cli::parse();
    let file = cli.config.as_deref();
    let kinds = kinds(file, own);
    let result = match cli.command {
        Command::Serve { dev } => serve::serve(file, dev, kinds),
        Command::Check { json } => Ok(check::check(file, json, &kinds)),
        Command::Migrate => serve::migrate(file, &kinds),
        Command::Providers(args) => check::providers(&args, file, &kinds),
        Command::Sign(args) => sign::sign(&args, file, &kinds),
        Command::Send(args) => send::send(&args, file, &kinds),
        Command::Bench(args) => bench::bench(&args, file, &kinds),
        Command::Explain(args) => explain::explain(&args, file, &kinds),
        Command::Vectors(args) => vectors::vectors(&args, &kinds),
        Command::Events(args) => messages::events(&args, file, &kinds),
        Command::Messages(args) => messages::messages(&args, file, &kinds),
        Command::Destinations(args) => messages::destinations(&args, file, &kinds),
        Command::Taught(args) => taught::taught(&args, file, &kinds),
        Command::Erase(args) => erase::erase(&args, file, &kinds),
        Command::Prune(args) => prune::prune(&args, file, &kinds),
        Command::Health { url } => send::health(&url),
    };
    result.unwrap_or_else(|error| {
        complain(format!("hooklatch: {error:#}"));
        if error.is::<Usage>() { ExitCode::from(2) } else { ExitCode::FAILURE }
    })
}

/// Arguments that do not fit together or name what does not exist: what clap cannot know. Exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Usage(String);

/// Lines to stdout, such that what strangers wrote steers no terminal. A reader that went away is no error of ours.
fn say(lines: impl Display) {
    drop(writeln!(std::io::stdout(), "{}", plain::text(&lines.to_string())));
}

/// As [`say`], to stderr.
fn complain(lines: impl Display) {
    drop(writeln!(std::io::stderr(), "{}", plain::text(&lines.to_string())));
}

/// The kind called `name`, or which there are.
fn find_kind<'a>(kinds: &'a Kinds, name: &str) -> anyhow::Result<&'a Provider> {
    kinds.iter().find(|kind| kind.kind() == name).ok_or_else(|| {
        tell_problems(kinds);
        let known: Vec<&str> = kinds.iter().map(Provider::kind).collect();
        Usage(format!("no provider kind is called `{name}`; there are {}", known.join(", "))).into()
    })
}

/// What is wrong with the kinds of a folder, for commands that can do without them.
fn tell_problems(kinds: &Kinds) {
    kinds.problems.iter().for_each(complain);
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}
