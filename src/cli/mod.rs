//! The command line. A user's own `main.rs` calls [`main`] with kinds of its own and gets every command.
//!
//! Exit codes: 0 fine, 1 what was asked about is not (or the command failed), 2 usage. What a program may
//! read goes to stdout, everything else to stderr.

mod check;
mod explain;
mod logging;
mod send;
mod serve;
mod sign;
mod vectors;

use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::config::{self, Config, ConfigProblem, ConfigSource, Environment, KindFacts, Secret, Settings};
use crate::provider::{Provider, dev_secret};
use crate::types::Name;

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
    /// Say why a saved request is or is not believed.
    Explain(explain::ExplainArgs),
    /// Judge files of signed requests.
    Vectors(vectors::VectorsArgs),
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
    let kinds = kinds(own);
    let file = cli.config.as_deref();
    let result = match cli.command {
        Command::Serve { dev } => serve::serve(file, dev, kinds),
        Command::Check { json } => Ok(check::check(file, json, &kinds)),
        Command::Migrate => serve::migrate(file, &kinds),
        Command::Providers(args) => check::providers(&args, &kinds),
        Command::Sign(args) => sign::sign(&args, file, &kinds),
        Command::Send(args) => send::send(&args, file, &kinds),
        Command::Explain(args) => explain::explain(&args, file, &kinds),
        Command::Vectors(args) => vectors::vectors(&args, &kinds),
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

/// The built-in kinds, with those of `own` added or put in their place.
pub(crate) fn kinds(own: Vec<Provider>) -> Vec<Provider> {
    let mut all = crate::providers::builtin();
    all.retain(|kind| own.iter().all(|one| one.kind() != kind.kind()));
    all.extend(own);
    all
}

/// One line to stdout. A reader that went away is no error of ours.
fn say(line: impl Display) {
    drop(writeln!(std::io::stdout(), "{line}"));
}

/// One line to stderr.
fn complain(line: impl Display) {
    drop(writeln!(std::io::stderr(), "{line}"));
}

/// The kind called `name`, or which there are.
fn find_kind<'a>(kinds: &'a [Provider], name: &str) -> anyhow::Result<&'a Provider> {
    kinds.iter().find(|kind| kind.kind() == name).ok_or_else(|| {
        let known: Vec<&str> = kinds.iter().map(Provider::kind).collect();
        Usage(format!("no provider kind is called `{name}`; there are {}", known.join(", "))).into()
    })
}

/// Reads the configuration and checks all of it, the strength of secrets included.
pub(crate) fn load(
    file: Option<&Path>,
    is_dev: bool,
    kinds: &[Provider],
) -> Result<Config, Vec<ConfigProblem>> {
    let (settings, facts) = settings(file, is_dev, kinds);
    config::load_judged(&settings, &facts, &|name, provider| {
        let kind = kinds.iter().find(|kind| kind.kind() == provider.kind.as_str());
        kind.and_then(|kind| kind.activate(name, provider, "").err()).unwrap_or_default()
    })
}

/// As [`load`], for tools that only sign or judge: they may do so with a secret that `serve` refuses.
fn load_for_tools(file: Option<&Path>, kinds: &[Provider]) -> Result<Config, Vec<ConfigProblem>> {
    let (settings, facts) = settings(file, false, kinds);
    config::load(&settings, &facts)
}

fn settings(file: Option<&Path>, is_dev: bool, kinds: &[Provider]) -> (Settings, Vec<KindFacts>) {
    let mut facts = Vec::new();
    let mut secrets = Vec::new();
    for kind in kinds {
        // A kind with a broken spec is reported when the app is built; here it is simply not known.
        let (Ok(spec), Ok(name)) = (kind.spec(), Name::parse(kind.kind())) else { continue };
        secrets.push((name.clone(), Secret::new(dev_secret(spec))));
        facts.push(KindFacts {
            kind: name,
            horizon_h: spec.horizon_h,
            has_signed_time: spec.has_signed_time(),
            has_signed_url: spec.signature.signed.contains("{url}"),
        });
    }
    let settings = Settings {
        source: ConfigSource { file: file.map(Path::to_path_buf) },
        env: Environment::of_process(),
        dev: is_dev.then_some(secrets),
    };
    (settings, facts)
}

/// As [`load`], with every problem in the error's text.
fn loaded(file: Option<&Path>, is_dev: bool, kinds: &[Provider]) -> anyhow::Result<Config> {
    load(file, is_dev, kinds).map_err(|problems| unusable(&problems))
}

fn unusable(problems: &[ConfigProblem]) -> anyhow::Error {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    anyhow::anyhow!("the configuration cannot be used:\n{}", lines.join("\n"))
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}
