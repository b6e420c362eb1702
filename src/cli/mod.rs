//! The command line. A user's own `main.rs` calls [`main`] with kinds of its own and gets every command.
//!
//! Exit codes: see `shared.rs`. Results go to stdout, everything else to stderr.
//!
//! Here is the list of commands; `help.rs` lays out their `--help`; `shared.rs` has what all of them need. `serve.rs`
//! runs a server; `check.rs`, `providers/`, `sign.rs` (but for what it sends) and `new_kind/` need none; `database.rs`
//! and `restore.rs` open the database themselves.
//!
//! Commands of the operator API: `remote.rs` is their common shape, and chooses the server, `api_client.rs` queries it,
//! `output.rs` prints. The nouns: `events.rs`, `messages.rs`, `operations.rs`, which also acts on all that a filter
//! finds, `records.rs`; `doctor.rs` checks all of a server.
//!
//! Commands hold no rules of the product: each calls the module that has them.

mod api_client;
mod check;
mod database;
mod doctor;
mod events;
mod help;
mod messages;
mod new_kind;
mod operations;
mod output;
mod providers;
mod records;
mod remote;
mod restore;
mod serve;
mod shared;
mod sign;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;

use self::remote::{Noun, Standalone};
use self::shared::{EXIT_CODES, Ending, complain, with_causes};
use crate::app::App;
use hooklatch_operator::load::kinds;
use hooklatch_receive::provider::Provider;

/// A webhook receiver that a team can trust with money.
#[derive(Parser)]
#[command(name = "hooklatch", after_help = EXIT_CODES)]
pub(super) struct Cli {
    /// Configuration file. Default: `hooklatch.toml` if it exists, else the built-in defaults.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start the server.
    Serve {
        /// Development mode: loopback only, SQLite in .hooklatch/, published secrets, a built-in echo destination.
        #[arg(long)]
        dev: bool,
    },
    /// Validate the configuration and show what each sample event would do.
    Check {
        /// Print one JSON object instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Diagnose a running installation: proxies, clocks, secrets, database, versions.
    Doctor(doctor::DoctorArgs),
    /// Apply database migrations.
    Migrate,
    /// List provider kinds, or describe one.
    Providers(providers::ProvidersArgs),
    /// Create the folder of a new provider kind.
    NewKind(new_kind::NewKindArgs),
    /// Print a signed request as a curl command.
    Sign(sign::SignArgs),
    /// Send signed sample events to a test server.
    Send(sign::SendArgs),
    /// Explain why a saved request verifies or not.
    Explain(check::ExplainArgs),
    /// Run this program's handlers on stored events and report what would differ, without writing.
    WhatIf(database::WhatIfArgs),
    /// Verify files of signed requests (test vectors).
    Vectors(check::VectorsArgs),
    /// List, inspect, rerun and dispatch events.
    Events(Noun<events::Events>),
    /// List, inspect, send, settle and discard messages.
    Messages(Noun<messages::Messages>),
    /// List, inspect, pause and resume destinations.
    Destinations(Noun<messages::Destinations>),
    /// List lanes (messages sent in order) and what blocks them.
    Lanes(Noun<messages::Lanes>),
    /// Show the configuration of a running server.
    Settings(Noun<records::Settings>),
    /// List rejected requests.
    Rejected(Noun<records::Rejected>),
    /// Follow, approve, continue and cancel bulk operations.
    Operations(Noun<operations::Operations>),
    /// Search by any id: event, object, message or idempotency key.
    Search(Standalone<records::Search>),
    /// Stream events as they arrive.
    Tail(Standalone<events::Tail>),
    /// Show how many requests and calls ended in which way, hour by hour.
    Statistics(Standalone<records::Statistics>),
    /// Show the audit log.
    Audit(Noun<records::Audit>),
    /// List, create and revoke API tokens.
    Tokens(Noun<records::Tokens>),
    /// Show the server and the permissions of the token.
    Whoami(Standalone<records::Whoami>),
    /// Print the secret that a sender posted during pairing, once.
    Pairing(Standalone<records::Pairing>),
    /// Create a test event on a running server; it has no effects without --route.
    TestEvent(Standalone<sign::TestEvent>),
    /// Delete the bodies of events. Their ids, digests and outcomes are kept.
    Erase(Standalone<events::Erase>),
    /// List the encryption keys in use, or re-encrypt with the newest.
    Keys(database::KeysArgs),
    /// Delete rows older than `[retention]` now.
    Prune(database::PruneArgs),
    /// Back up the SQLite database, also while the server runs.
    Backup(database::BackupArgs),
    /// Examine a restored database and take it over.
    RestoreCheck(restore::RestoreArgs),
    /// Print a shell completion script.
    Completions {
        /// Shell.
        shell: Shell,
    },
    /// Print the man page.
    Man {
        /// Write one page for each command into this folder instead.
        #[arg(long, value_name = "FOLDER")]
        folder: Option<PathBuf>,
    },
    /// Check whether a server is ready, for container health checks.
    Health {
        /// URL of the operator listener, without a path. Default: `admin.listen` of the configuration; with TLS the
        /// certificate of `admin.tls` is trusted.
        #[arg(long)]
        url: Option<String>,
        /// PEM file with the CA of its certificate, with --url.
        #[arg(long, value_name = "FILE", env = "HOOKLATCH_CA_FILE")]
        ca_file: Option<PathBuf>,
    },
}

/// The list of commands, as its help shows it or for scripts and manuals.
pub(super) fn program(is_help: bool) -> clap::Command {
    help::laid_out(Cli::command().version(version(std::env::args_os().next())), is_help)
}

/// The version of the library; a program that embeds it is named beside it.
fn version(program: Option<OsString>) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let program = program.map(PathBuf::from);
    match program.as_deref().and_then(Path::file_stem).and_then(OsStr::to_str) {
        None | Some("hooklatch") => version.to_owned(),
        Some(own) => format!("{version}, the library in the program `{own}`"),
    }
}

/// Runs the command that the arguments of this process name. `own` kinds are added to the built-in ones; one with
/// the name of a built-in kind replaces it. Installs the log as configured.
pub fn main(own: Vec<Provider>) -> ExitCode {
    main_with(own, |app| app)
}

/// Does the same as [`main`]; `more` customises the app, for example with the program's own tables:
///
/// ```no_run
/// const LEDGER: [(&str, &str); 1] = [("0001_ledger", "CREATE TABLE ledger (invoice TEXT PRIMARY KEY)")];
///
/// fn main() -> std::process::ExitCode {
///     hooklatch::cli::main_with(Vec::new(), |app| app.migrate("ledger", LEDGER))
/// }
/// ```
pub fn main_with(own: Vec<Provider>, more: impl FnOnce(App) -> App) -> ExitCode {
    let cli = Cli::from_arg_matches(&program(true).get_matches()).unwrap_or_else(|error| error.exit());
    let file = cli.config.as_deref();
    let listening = matches!(cli.command, Command::Serve { .. }).then(serve::listen);
    let kinds = kinds(file, own);
    let result = match cli.command {
        Command::Serve { dev } => listening
            .unwrap_or_else(serve::listen)
            .and_then(|listening| serve::serve(listening, file, dev, kinds, more)),
        Command::Check { json } => Ok(check::check(file, json, &kinds)),
        Command::Doctor(args) => doctor::doctor(&args, file, &kinds),
        Command::Migrate => serve::migrate(file, kinds, more),
        Command::Providers(args) => providers::providers(&args, file, &kinds),
        Command::NewKind(args) => new_kind::new_kind(&args, &kinds),
        Command::Sign(args) => sign::sign(&args, file, &kinds),
        Command::Send(args) => sign::send(&args, file, &kinds),
        Command::Explain(args) => check::explain(&args, file, &kinds),
        Command::WhatIf(args) => database::what_if(&args, file, kinds, more),
        Command::Vectors(args) => check::vectors(&args, &kinds),
        Command::Events(one) => one.run(file, &kinds),
        Command::Messages(one) => one.run(file, &kinds),
        Command::Destinations(one) => one.run(file, &kinds),
        Command::Lanes(one) => one.run(file, &kinds),
        Command::Settings(one) => one.run(file, &kinds),
        Command::Rejected(one) => one.run(file, &kinds),
        Command::Operations(one) => one.run(file, &kinds),
        Command::Search(one) => one.run(file, &kinds),
        Command::Tail(one) => one.run(file, &kinds),
        Command::Statistics(one) => one.run(file, &kinds),
        Command::Audit(one) => one.run(file, &kinds),
        Command::Tokens(one) => one.run(file, &kinds),
        Command::Whoami(one) => one.run(file, &kinds),
        Command::Completions { shell } => Ok(help::completions(program(false), shell)),
        Command::Man { folder } => help::man(program(false), folder.as_deref()),
        Command::Pairing(one) => one.run(file, &kinds),
        Command::TestEvent(one) => one.run(file, &kinds),
        Command::Erase(one) => one.run(file, &kinds),
        Command::Keys(args) => database::keys(&args, file, &kinds),
        Command::Prune(args) => database::prune(&args, file, &kinds),
        Command::Backup(args) => database::backup(&args, file, &kinds),
        Command::RestoreCheck(args) => restore::restore_check(&args, file, &kinds),
        Command::Health { url: Some(url), ca_file } => serve::health(&url, ca_file.as_deref()),
        Command::Health { url: None, .. } => serve::own_health(file, &kinds),
    };
    result.unwrap_or_else(|error| {
        complain(format!("hooklatch: {}", with_causes(&error)));
        Ending::of(&error).code()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_ones_own_does_not_pass_for_hooklatch() {
        let own = env!("CARGO_PKG_VERSION");
        for (program, want) in [
            (None, own.to_owned()),
            (Some("/usr/bin/hooklatch"), own.to_owned()),
            (Some("target/debug/ledger"), format!("{own}, the library in the program `ledger`")),
        ] {
            assert_eq!(version(program.map(OsString::from)), want);
        }
    }
}
