//! How a command ends, as its exit code. docs/cli.md has the same table.

use std::process::ExitCode;

use super::api_client::ApiError;
use super::shared::Usage;

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
    /// No server was reached, or none that could answer now.
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
  0  done, or it is so
  1  failed, or the check did not hold
  2  invalid arguments
  3  what was named is not there, or is out of the token's reach
  4  refused as things stand: another state, another number, changed meanwhile
  5  no server was reached, or none that could answer now
  6  the token is missing or wrong, or its role does not suffice
  7  shown, and not done: --yes NUMBER:SET is missing, or another person has to approve it
  8  nothing fails, and there are warnings";

/// What was named is not there, and this is what was looked for.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct NotFound(pub(super) String);

impl Ending {
    /// The same for the shell.
    pub(super) fn code(self) -> ExitCode {
        ExitCode::from(self as u8)
    }

    /// The way in which an error ends a command.
    pub(super) fn of(error: &anyhow::Error) -> Self {
        if error.is::<Usage>() {
            return Self::Usage;
        }
        if error.is::<NotFound>() {
            return Self::NotFound;
        }
        match error.downcast_ref::<ApiError>() {
            None | Some(ApiError::Foreign { .. }) => Self::Failed,
            Some(ApiError::Unreached { .. } | ApiError::Lost { .. }) => Self::Unreached,
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

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;
    use crate::api::ProblemView;

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
        check(ApiError::Foreign { server: text(), status: 200, why: text() }.into(), Ending::Failed);
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
        let told =
            EXIT_CODES.lines().skip(1).map(|line| line.trim_start().split(' ').next().map(str::to_owned));
        let codes = all.iter().map(|one| Some((*one as u8).to_string()));
        assert!(told.eq(codes), "{EXIT_CODES}");
        let page = include_str!("../../docs/cli.md");
        for one in all {
            assert!(page.contains(&format!("| {} |", one as u8)), "docs/cli.md does not tell {one:?}");
        }
    }
}
