//! Starts and stops the parts of Hooklatch: what `hooklatch serve` and a user's own `main.rs` run.
//!
//! Start order: store, schema, providers, admission, outbox, listeners. Stop order is the reverse, and each
//! part gets the time to finish its work. Every task of the process is spawned in `running.rs`.
//!
//! In reading order: [`App`] is a Hooklatch before it runs; `start.rs` starts it, with `database.rs` (open and
//! migrate), `entries.rs` (providers, and what operators see) and `listeners.rs`; `running.rs` is the running app with
//! its tasks, its stop, and the life of a process that runs only Hooklatch; `reload.rs` reloads its configuration.
//! `trial.rs` is an app for tests of handlers; `gauges/` are the metrics.
//!
//! Requests are handled in `http` and `receive`, not here.

mod database;
mod entries;
mod gauges;
mod listeners;
mod looks;
mod reload;
mod running;
mod start;
mod trial;

pub(crate) use database::{migrate, refuse_empty_elsewhere, refuse_restored};
pub use running::{Background, Running};
pub use trial::Trial;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use axum::Router;
use tokio::signal::unix::Signal;

use hooklatch_core::config::Config;
use hooklatch_core::logging;
use hooklatch_core::types::{Clock, Name};
use hooklatch_operator::http::echo::EchoState;
use hooklatch_operator::load::{self, Kinds, Loaded};
use hooklatch_receive::admit::MemoryRoom;
use hooklatch_receive::provider::{ActiveProvider, Kind, Provider};
use hooklatch_store::{MigrationStep, ProgramMigrations};

/// A Hooklatch before it runs: a configuration, the kinds it may use, the program's own tables.
pub struct App {
    config: Config,
    /// The providers that were built while the configuration was checked; the start builds the others.
    active: BTreeMap<Name, ActiveProvider>,
    kinds: Vec<Provider>,
    migrations: Vec<ProgramMigrations>,
    clock: Clock,
    has_echo: bool,
    /// The calls that the destination `echo` of `serve --dev` received.
    echo: EchoState,
    /// The files that the configuration is read from, also at a reload; `None` where the program built it.
    source: Option<ConfigSource>,
    /// Receives SIGHUP, where the program listened for it before there was an app.
    hangup: Option<Signal>,
    /// What requests under way may hold; shared by the receiver, which fills it, and by `/metrics`.
    memory: MemoryRoom,
    /// Logged at start, once the program has had the time to install its log.
    warnings: Vec<String>,
}

/// Where a configuration was read.
#[derive(Debug, Clone)]
struct ConfigSource {
    file: Option<PathBuf>,
    is_dev: bool,
}

impl App {
    /// Reads `file` (else `hooklatch.toml`, else the defaults) and the environment, knowing the built-in
    /// kinds, those of its `[kinds] folder` and `own` ones. Changes nothing in the process: a log is installed by
    /// [`App::install_log`], or by the program's own choice.
    pub fn load(file: Option<&Path>, own: Vec<Provider>) -> anyhow::Result<Self> {
        let kinds = load::kinds(file, own);
        let loaded = load::loaded(file, false, &kinds)?;
        let warnings = load::warnings(&loaded.config, &kinds);
        Ok(Self { warnings, ..Self::of_loaded(loaded, kinds) }.read_from(file, false))
    }

    /// Builds an app from a configuration whose providers are built already, of these kinds.
    pub(crate) fn of_loaded(loaded: Loaded, kinds: Kinds) -> Self {
        Self::of_kinds(loaded.config, loaded.active, kinds.all)
    }

    /// Makes SIGHUP reload the configuration from these files.
    pub(crate) fn read_from(self, file: Option<&Path>, is_dev: bool) -> Self {
        let file = file.map(Path::to_path_buf);
        Self { source: Some(ConfigSource { file, is_dev }), ..self }
    }

    /// Reloads at each SIGHUP since this signal stream was opened.
    pub(crate) fn reload_on(self, hangup: Signal) -> Self {
        Self { hangup: Some(hangup), ..self }
    }

    /// Starts from these kinds alone, without parsing the built-in ones again, whose specs take time to read.
    fn of_kinds(config: Config, active: BTreeMap<Name, ActiveProvider>, kinds: Vec<Provider>) -> Self {
        Self {
            memory: MemoryRoom::new(config.server.inflight_bytes_max as usize),
            config,
            active,
            kinds,
            migrations: Vec::new(),
            clock: Clock::system(),
            has_echo: false,
            echo: EchoState::default(),
            source: None,
            hangup: None,
            warnings: Vec::new(),
        }
    }

    /// Installs Hooklatch's log as `[log]` configures it. An error when the process has a log already.
    pub fn install_log(&self) -> anyhow::Result<()> {
        logging::install(&self.config.log, hooklatch_outbox::silent_log_targets())
    }

    /// Adds migrations for the program's own tables: the start applies `steps` after the schema of Hooklatch, each
    /// once, in order and in a transaction with the row that records it. Of several nodes one applies them. With
    /// `database.migrate = false` they are only checked, and `migrate` of [`cli::main_with`](crate::cli::main_with)
    /// applies them.
    ///
    /// `program` names the list in the table `hooklatch_program_migrations`. A step is never changed once it was
    /// applied: the start refuses another text under its name. Write a further step instead.
    ///
    /// ```no_run
    /// # fn main() -> anyhow::Result<()> {
    /// let app = hooklatch::App::load(None, Vec::new())?
    ///     .migrate("ledger", [("0001_ledger", "CREATE TABLE ledger (invoice TEXT PRIMARY KEY, amount BIGINT NOT NULL)")]);
    /// # drop(app);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn migrate(
        mut self,
        program: &str,
        steps: impl IntoIterator<Item = impl Into<MigrationStep>>,
    ) -> Self {
        let steps = steps.into_iter().map(Into::into).collect();
        self.migrations.push(ProgramMigrations::new(program, steps));
        self
    }

    /// The configuration it will run with.
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// The migrations of the program.
    pub(crate) fn migrations(&self) -> &[ProgramMigrations] {
        &self.migrations
    }

    /// Serves the built-in `echo` destination on the operator's listener, for `serve --dev`.
    pub(crate) fn echo(mut self) -> Self {
        self.has_echo = true;
        self
    }
}

/// What Hooklatch's own tests need of an app besides: not a part of what users of the library see.
pub trait AppExt: Sized {
    /// Starts from a checked configuration and the built-in kinds.
    fn new(config: Config) -> Self;

    /// Adds a kind with its handlers, or replaces the built-in one of the same name.
    #[must_use]
    fn provider(self, provider: Provider) -> Self;

    /// Uses another clock.
    #[must_use]
    fn clock(self, clock: Clock) -> Self;

    /// Does the same as [`App::router`], without the feature.
    fn mounted(self) -> impl Future<Output = anyhow::Result<(Router, Background)>>;
}

impl AppExt for App {
    fn new(config: Config) -> Self {
        Self::of_kinds(config, BTreeMap::new(), hooklatch_receive::providers::builtin())
    }

    fn provider(mut self, provider: Provider) -> Self {
        self.kinds.retain(|kind| kind.kind() != provider.kind());
        self.active.retain(|_, active| active.spec().kind != provider.kind());
        self.kinds.push(provider);
        self
    }

    fn clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    fn mounted(self) -> impl Future<Output = anyhow::Result<(Router, Background)>> {
        self.mount()
    }
}
