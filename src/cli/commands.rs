//! The list of commands, and what each exit code means.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use super::shared::{Usage, complain};
use super::{
    bench, check, destinations, erase, events, explain, health, keys, messages, providers, prune, send,
    serve, sign, taught, vectors,
};
use crate::app::App;
use crate::load::kinds;
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
    /// Receive events, admit them, and make the calls that follow.
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
    Providers(providers::ProvidersArgs),
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
    Events(events::EventsArgs),
    /// Show messages of a running server, and decide about held and dead ones.
    Messages(messages::MessagesArgs),
    /// Pause and resume destinations of a running server.
    Destinations(destinations::DestinationsArgs),
    /// Show the secret that a sender taught a running server while its provider was pairing: once.
    Taught(taught::TaughtArgs),
    /// Delete the bytes of events, and what was made of them; their ids, digests and outcomes stay.
    Erase(erase::EraseArgs),
    /// Say which keys of `[encryption]` are in use, or bring what older ones sealed under the newest.
    Keys(keys::KeysArgs),
    /// Delete what is older than `[retention]` says, as a running server does by itself.
    Prune(prune::PruneArgs),
    /// Ask a running server whether it is ready (for container health checks).
    Health {
        /// URL of the operator side, without a path.
        #[arg(long, default_value = "http://127.0.0.1:8081")]
        url: String,
    },
}

/// Runs the command that the arguments of this process name. `own` kinds stand beside the built-in ones; one that has
/// the name of a built-in kind takes its place. Installs the log as configured.
pub fn main(own: Vec<Provider>) -> ExitCode {
    main_with(own, |app| app)
}

/// Does the same as [`main`], with an app to which `more` adds what is the program's own, its tables as a rule:
///
/// ```no_run
/// const LEDGER: [(&str, &str); 1] = [("0001_ledger", "CREATE TABLE ledger (invoice TEXT PRIMARY KEY)")];
///
/// fn main() -> std::process::ExitCode {
///     hooklatch::cli::main_with(Vec::new(), |app| app.migrate("ledger", LEDGER))
/// }
/// ```
pub fn main_with(own: Vec<Provider>, more: impl FnOnce(App) -> App) -> ExitCode {
    let cli = Cli::parse();
    let file = cli.config.as_deref();
    let kinds = kinds(file, own);
    let result = match cli.command {
        Command::Serve { dev } => serve::serve(file, dev, kinds, more),
        Command::Check { json } => Ok(check::check(file, json, &kinds)),
        Command::Migrate => serve::migrate(file, kinds, more),
        Command::Providers(args) => providers::providers(&args, file, &kinds),
        Command::Sign(args) => sign::sign(&args, file, &kinds),
        Command::Send(args) => send::send(&args, file, &kinds),
        Command::Bench(args) => bench::bench(&args, file, &kinds),
        Command::Explain(args) => explain::explain(&args, file, &kinds),
        Command::Vectors(args) => vectors::vectors(&args, &kinds),
        Command::Events(args) => events::events(&args, file, &kinds),
        Command::Messages(args) => messages::messages(&args, file, &kinds),
        Command::Destinations(args) => destinations::destinations(&args, file, &kinds),
        Command::Taught(args) => taught::taught(&args, file, &kinds),
        Command::Erase(args) => erase::erase(&args, file, &kinds),
        Command::Keys(args) => keys::keys(&args, file, &kinds),
        Command::Prune(args) => prune::prune(&args, file, &kinds),
        Command::Health { url } => health::health(&url),
    };
    result.unwrap_or_else(|error| {
        complain(format!("hooklatch: {error:#}"));
        if error.is::<Usage>() { ExitCode::from(2) } else { ExitCode::FAILURE }
    })
}
