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
    /// Say all that is wrong with the configuration, and what follows from each sample event.
    Check {
        /// One JSON object instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Say what only a live system shows: proxies that rewrite, clocks, secrets, the database, versions.
    Doctor(doctor::DoctorArgs),
    /// Bring the database's schema up to date.
    Migrate,
    /// List the provider kinds, or describe one.
    Providers(providers::ProvidersArgs),
    /// Make the folder of a new kind, and list what is left to do.
    NewKind(new_kind::NewKindArgs),
    /// Print a signed request as a ready curl command.
    Sign(sign::SignArgs),
    /// Send signed samples to a test server.
    Send(sign::SendArgs),
    /// Say why a saved request is or is not believed.
    Explain(check::ExplainArgs),
    /// Before a deploy: run this program's handlers on stored events without writing, and report what would differ.
    WhatIf(database::WhatIfArgs),
    /// Judge files of signed requests.
    Vectors(check::VectorsArgs),
    /// Show events of a running server, and decide about them.
    Events(Noun<events::Events>),
    /// Show messages of a running server, and decide about held and dead ones.
    Messages(Noun<messages::Messages>),
    /// Show destinations of a running server; pause and resume them.
    Destinations(Noun<messages::Destinations>),
    /// Show lanes of a running server: messages that go one after the other.
    Lanes(Noun<messages::Lanes>),
    /// Show the configuration that a running server has in force.
    Settings(Noun<records::Settings>),
    /// Show requests that a running server did not believe.
    Rejected(Noun<records::Rejected>),
    /// Show what acts on all that a filter found; wait for it, or cancel it.
    Operations(Noun<operations::Operations>),
    /// Look for whatever id you hold: of an event, an object, a message, a key.
    Search(Standalone<records::Search>),
    /// Show events as they come in.
    Tail(Standalone<events::Tail>),
    /// Show how many requests and calls ended in which way, hour by hour.
    Statistics(Standalone<records::Statistics>),
    /// Show the audit log.
    Audit(Noun<records::Audit>),
    /// Show, make and revoke tokens of the operators' API.
    Tokens(Noun<records::Tokens>),
    /// Say which server is reached, and what the token may do there.
    Whoami(Standalone<records::Whoami>),
    /// Show the secret that a sender sent to a running server while its provider was pairing: once.
    Pairing(Standalone<records::Pairing>),
    /// Make a test event on a running server: it is marked as one, and nothing follows from it unless you ask for that.
    TestEvent(Standalone<sign::TestEvent>),
    /// Delete the bytes of events, and what was made of them; their ids, digests and outcomes stay.
    Erase(Standalone<events::Erase>),
    /// Say which keys of `[encryption]` are in use, or bring what older ones sealed under the newest.
    Keys(database::KeysArgs),
    /// Delete what is older than `[retention]` says, as a running server does by itself.
    Prune(database::PruneArgs),
    /// Copy the SQLite database to a file, beside a running server.
    Backup(database::BackupArgs),
    /// After a restore: say what may be missing and what may be sent twice, and take the database over.
    RestoreCheck(restore::RestoreArgs),
    /// Print a script that completes commands and options in a shell.
    Completions {
        /// Name of the shell.
        shell: Shell,
    },
    /// Print the man page.
    Man {
        /// Write a page for each command into this folder instead.
        #[arg(long, value_name = "FOLDER")]
        folder: Option<PathBuf>,
    },
    /// Ask a running server whether it is ready (for container health checks).
    Health {
        /// URL of the operator side, without a path; `admin.listen` of the configuration by default, and behind TLS the
        /// certificate of `admin.tls` is believed.
        #[arg(long)]
        url: Option<String>,
        /// The authority of its certificate, where that is your own and --url is given: a PEM file.
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
