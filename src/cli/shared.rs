//! The things that every command needs: output that steers no terminal, mistakes in arguments, exit codes (docs/cli.md
//! has the same table), a runtime.

use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use futures_util::future::LocalBoxFuture;

use super::api_client::ApiError;
use hooklatch_core::config::{DatabaseConfig, EncryptionConfig};
use hooklatch_core::disk::beside;
use hooklatch_core::mistakes::{nearest, shown};
use hooklatch_core::plain;
use hooklatch_operator::load::Kinds;
use hooklatch_operator::setup::{self, Opened};
use hooklatch_outbox::{http_client, http_client_trusting};
use hooklatch_receive::provider::{Kind, Provider};
use hooklatch_store::sqlite_path;

/// Arguments that do not fit together or name what does not exist: what clap cannot know. Exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Usage(pub(super) String);

/// The way in which a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// It was done, or is so.
    Done = 0,
    /// It failed, or is not so.
    Failed = 1,
    /// Arguments that cannot be.
    Usage = 2,
    /// What was named is not there, or out of the token's reach.
    NotFound = 3,
    /// The server refused it as things stand: another state, another number, changed meanwhile.
    Refused = 4,
    /// No server was reached, or none that could answer now: whether an order was done may be unknown.
    Unreached = 5,
    /// The token is missing or wrong, or its role does not suffice.
    Denied = 6,
    /// Shown and not done: the number or an approval is missing.
    NotDone = 7,
    /// Nothing fails, and something is to be warned of.
    Warned = 8,
}

/// The table of exit codes, for `--help` and the man page.
pub(super) const EXIT_CODES: &str = "Exit codes:
  0  success
  1  failure, or a check did not pass
  2  invalid arguments
  3  not found, or outside the token's scope
  4  conflict with the current state: another state or number, changed meanwhile
  5  no server reached, or no answer: the outcome may be unknown, and the error says what to do
  6  no valid token, or insufficient role
  7  not done yet: --yes NUMBER:SET or another person's approval is missing
  8  warnings, no failures";

/// What was named is not there, and this is what was looked for.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct NotFound(pub(super) String);

impl Ending {
    /// The code for the shell.
    pub(super) fn code(self) -> ExitCode {
        ExitCode::from(self as u8)
    }

    /// The exit code with which an error ends a command.
    pub(super) fn of(error: &anyhow::Error) -> Self {
        if error.is::<Usage>() {
            return Self::Usage;
        }
        if error.is::<NotFound>() {
            return Self::NotFound;
        }
        match error.downcast_ref::<ApiError>() {
            // A proxy that gave up says no more than a time-out of ours.
            Some(
                ApiError::Foreign { status: 502..=504, .. }
                | ApiError::Unreached { .. }
                | ApiError::Lost { .. },
            ) => Self::Unreached,
            None | Some(ApiError::Foreign { .. }) => Self::Failed,
            Some(ApiError::Refused(problem)) => match problem.status {
                400 | 405 | 413 => Self::Usage,
                401 | 403 => Self::Denied,
                404 => Self::NotFound,
                409 | 412 | 422 | 428 => Self::Refused,
                429 | 502..=504 => Self::Unreached,
                _ => Self::Failed,
            },
        }
    }
}

/// True once the reader of our stdout has gone away.
static IS_READER_GONE: AtomicBool = AtomicBool::new(false);

/// Writes lines to stdout, without control characters that strangers may have sent. A closed pipe is not an error.
pub(super) fn say(lines: impl Display) {
    note_closed_pipe(writeln!(std::io::stdout(), "{}", plain::text(&lines.to_string())));
}

/// Remembers that the reader has closed the pipe (`| head -1`), so that endless output stops.
pub(super) fn note_closed_pipe(written: std::io::Result<()>) {
    if written.is_err_and(|error| error.kind() == ErrorKind::BrokenPipe) {
        IS_READER_GONE.store(true, Ordering::Relaxed);
    }
}

/// True once no process reads our stdout any more.
pub(super) fn is_reader_gone() -> bool {
    IS_READER_GONE.load(Ordering::Relaxed)
}

/// Does the same as [`say`], on stderr.
pub(super) fn complain(lines: impl Display) {
    drop(writeln!(std::io::stderr(), "{}", plain::text(&lines.to_string())));
}

/// A token or secret of the command line. `-` reads the first line of standard input, once: every user of the machine
/// can read command lines.
pub(super) fn typed_secret(given: Option<&str>) -> anyhow::Result<Option<String>> {
    static LINE: OnceLock<String> = OnceLock::new();
    if given != Some("-") {
        return Ok(given.map(str::to_owned));
    }
    if LINE.get().is_none() {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).context("could not read the secret from standard input")?;
        drop(LINE.set(line.trim().to_owned()));
    }
    match LINE.get() {
        Some(line) if !line.is_empty() => Ok(Some(line.clone())),
        _ => Err(Usage("standard input has no secret: write it on the first line".to_owned()).into()),
    }
}

/// Returns the kind called `name`; the error lists the existing ones.
pub(super) fn find_kind<'a>(kinds: &'a Kinds, name: &str) -> anyhow::Result<&'a Provider> {
    kinds.iter().find(|kind| kind.kind() == name).ok_or_else(|| {
        report_problems(kinds);
        Usage(unknown("no provider kind is called", name, kinds.iter().map(Provider::kind))).into()
    })
}

/// Most words that an error about an unknown word lists.
const LISTED_N_MAX: usize = 20;

/// The text of an error about an unknown word: with the nearest known word, or with all of them where they are few.
pub(super) fn unknown<'a>(what: &str, word: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let message = format!("{what} `{}`", shown(word));
    match nearest(word, known.clone()) {
        Some(meant) => format!("{message}; did you mean `{meant}`?"),
        None if known.clone().count() <= LISTED_N_MAX => {
            format!("{message}; there are {}", known.collect::<Vec<_>>().join(", "))
        }
        None => format!("{message}; `hooklatch providers` lists all {}", known.count()),
    }
}

/// Prints the problems of the kinds in a folder, for commands that can do without them.
pub(super) fn report_problems(kinds: &Kinds) {
    kinds.problems.iter().for_each(complain);
}

/// Beginning of a certificate in PEM.
const PEM_BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";

/// A client for a Hooklatch server, whose certificate may be from a private authority: the PEM file `ca`.
pub(super) fn client(ca: Option<&Path>) -> anyhow::Result<reqwest::Client> {
    let Some(path) = ca else { return Ok(http_client()?) };
    let unusable = || format!("--ca-file {}", path.display());
    let pem = std::fs::read(path).with_context(unusable)?;
    if !pem.windows(PEM_BEGIN.len()).any(|part| part == PEM_BEGIN) {
        let path = path.display();
        return Err(Usage(format!("--ca-file `{path}`: it holds no certificate in PEM")).into());
    }
    http_client_trusting(&pem).with_context(unusable)
}

/// An error with its causes, each once: the text of many errors contains their cause.
pub(super) fn with_causes(error: &anyhow::Error) -> String {
    let mut words = String::new();
    for cause in error.chain().map(ToString::to_string).filter(|cause| !cause.is_empty()) {
        if words.is_empty() {
            words = cause;
        } else if !words.contains(&cause) {
            words = format!("{words}: {cause}");
        }
    }
    words
}

/// Runs `work` on a runtime of its own and waits for nothing else: a DNS lookup may take half a minute,
/// and its thread cannot be cancelled.
pub(super) fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = runtime()?;
    let done = block_boxed(&runtime, Box::pin(work));
    runtime.shutdown_background();
    done
}

/// Waits for work of one type for each answer: for each type of work, the machine code of all that it awaits is made
/// three times.
pub(super) fn block_boxed<T>(runtime: &tokio::runtime::Runtime, work: LocalBoxFuture<'_, T>) -> T {
    runtime.block_on(work)
}

pub(super) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

/// The error of an SQLite file that another process has locked.
const HELD: &str = "is held by another process";
/// The advice of read-only commands, instead of a stop.
pub(super) const COPY: &str = "Or look at a copy: `hooklatch backup FILE`, and this command with HOOKLATCH__DATABASE__URL=sqlite://FILE.";

/// Opens the database for a command that needs no server. Beside a running server on SQLite the error has a remedy;
/// `instead` is the alternative that needs no stop.
pub(super) async fn opened_alone(
    database: &DatabaseConfig,
    encryption: &EncryptionConfig,
    instead: &str,
) -> anyhow::Result<Opened> {
    if let Some(path) = missing_file(database).filter(|_| database.create) {
        anyhow::bail!(
            "there is no database `{}`, and this command makes none: name the server's configuration with --config FILE, or run \
             it in the server's folder. `hooklatch serve` or `hooklatch migrate` makes one for a new installation",
            path.display()
        );
    }
    let opened = setup::store(database, encryption, false).await;
    let opened = opened.map_err(|error| beside_a_server(error, instead))?;
    anyhow::ensure!(opened.schema.is_usable(), "schema of the database is {}", opened.schema);
    Ok(opened)
}

/// The SQLite file, when it is missing: opening it would create it. `None` beside a witness, too: the store creates
/// nothing there, and says why.
pub(super) fn missing_file(database: &DatabaseConfig) -> Option<PathBuf> {
    let path = sqlite_path(&database.url).ok()?;
    (!path.exists() && !beside(&path, ".witness").exists()).then_some(path)
}

/// Adds the remedy where another process has locked the file.
pub(super) fn beside_a_server(error: anyhow::Error, instead: &str) -> anyhow::Error {
    let causes = with_causes(&error);
    if !causes.contains(HELD) {
        return error;
    }
    let held = causes.split(": ").find(|cause| cause.contains(HELD)).unwrap_or(HELD);
    let words = format!(
        "{held}, which is probably the running server, and on SQLite only one process may have it open. Stop the server \
         (systemctl stop hooklatch), run this command, start the server again; senders repeat what they send meanwhile. {instead}"
    );
    anyhow::anyhow!("{}", words.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hooklatch_contract::ProblemView;

    #[test]
    fn an_error_says_each_of_its_causes_once() {
        let error = anyhow::anyhow!("no such file").context("database refused `open`: no such file");
        let error = Err::<(), _>(error).context("could not open the database").expect_err("an error");
        assert_eq!(with_causes(&error), "could not open the database: database refused `open`: no such file");
    }

    #[test]
    fn what_hangs_beside_the_work_is_not_waited_for() {
        let (_open, never) = std::sync::mpsc::channel::<()>();
        let done = block_on(async {
            drop(tokio::task::spawn_blocking(move || never.recv()));
            Ok("done")
        });
        assert_eq!(done.expect("done"), "done");
    }

    #[test]
    fn a_ca_file_without_a_certificate_is_refused() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let refused = |path: &Path| client(Some(path)).expect_err("no certificate").to_string();
        assert!(refused(file.path()).contains("holds no certificate"));
        assert!(refused("/nowhere/ca.pem".as_ref()).contains("--ca-file /nowhere/ca.pem"));
        assert!(client(None).is_ok());
    }

    #[test]
    fn every_error_ends_a_command_as_the_table_says() {
        #[track_caller]
        fn check(error: anyhow::Error, want: Ending) {
            assert_eq!(Ending::of(&error), want, "{error}");
            assert_eq!(Ending::of(&error.context("evt_1")), want, "with what it was about");
        }
        let refused = |status| {
            anyhow::Error::from(ApiError::Refused(Box::new(ProblemView {
                kind: "about:blank".to_owned(),
                status,
                code: "x".to_owned(),
                title: "x".to_owned(),
                detail: None,
                state: None,
                counted_n: None,
                operation_id: None,
                rows: Vec::new(),
                rows_n: None,
            })))
        };
        for (status, want) in [
            (400, Ending::Usage),
            (401, Ending::Denied),
            (403, Ending::Denied),
            (404, Ending::NotFound),
            (409, Ending::Refused),
            (412, Ending::Refused),
            (422, Ending::Refused),
            (428, Ending::Refused),
            (429, Ending::Unreached),
            (500, Ending::Failed),
            (503, Ending::Unreached),
        ] {
            check(refused(status), want);
        }
        let text = || "x".to_owned();
        check(ApiError::Unreached { server: text(), why: text() }.into(), Ending::Unreached);
        check(ApiError::Lost { server: text(), why: text() }.into(), Ending::Unreached);
        for (status, want) in
            [(200, Ending::Failed), (500, Ending::Failed), (502, Ending::Unreached), (504, Ending::Unreached)]
        {
            check(ApiError::Foreign { server: text(), status, why: text() }.into(), want);
        }
        check(Usage(text()).into(), Ending::Usage);
        check(NotFound(text()).into(), Ending::NotFound);
        check(std::io::Error::other("x").into(), Ending::Failed);
        let with_context = Err::<(), _>(refused(404)).context("evt_1").expect_err("an error");
        check(with_context, Ending::NotFound);
    }

    #[test]
    fn the_table_of_the_help_has_every_code() {
        let all = [
            Ending::Done,
            Ending::Failed,
            Ending::Usage,
            Ending::NotFound,
            Ending::Refused,
            Ending::Unreached,
            Ending::Denied,
            Ending::NotDone,
            Ending::Warned,
        ];
        let listed =
            EXIT_CODES.lines().skip(1).map(|line| line.trim_start().split(' ').next().map(str::to_owned));
        let codes = all.iter().map(|one| Some((*one as u8).to_string()));
        assert!(listed.eq(codes), "{EXIT_CODES}");
        let page = include_str!("../../docs/cli.md");
        for one in all {
            assert!(page.contains(&format!("| {} |", one as u8)), "docs/cli.md does not tell {one:?}");
        }
    }
}
