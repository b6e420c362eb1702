//! What went wrong, for people.

use http::StatusCode;

use hooklatch_contract::{ChangedRows, ProblemView};

/// Something that a page could not be made of, or an order that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PageError {
    pub status: StatusCode,
    /// Stable word, such as `changed`.
    pub code: Option<Box<str>>,
    /// One sentence for people: what is wrong, and what to do about it.
    pub title: String,
    /// State in which the subject stands, where that is why.
    pub state: Option<Box<str>>,
    /// Number that was counted, where that is why.
    pub counted_n: Option<u64>,
    /// What else is why, where there is anything.
    pub(super) involved: Option<Box<Involved>>,
    /// Seconds until another try makes sense.
    pub retry_after_s: Option<u32>,
    /// Path of the page about the subject, where there is one to look at again.
    pub about: Option<Box<str>>,
}

/// An operation and rows because of which an order was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Involved {
    /// Operation that is in the way.
    pub operation_id: Option<String>,
    /// Rows, in words; empty where there are none.
    pub rows: String,
}

impl PageError {
    /// An answer that ended too early, or is of another version.
    pub(super) const INCOMPLETE: Self = Self {
        status: StatusCode::BAD_GATEWAY,
        code: None,
        title: String::new(),
        state: None,
        counted_n: None,
        involved: None,
        retry_after_s: None,
        about: None,
    };

    /// An error of the console itself, in one sentence.
    pub(crate) fn new(status: StatusCode, code: &str, title: &str) -> Self {
        Self { status, code: Some(code.into()), title: title.to_owned(), ..Self::INCOMPLETE }
    }

    /// Nothing is at this address.
    pub(super) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", "nothing is at this address")
    }

    /// A form that cannot be parsed; `title` names what it needs.
    pub(super) fn bad_form(title: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_form", title)
    }

    /// What the contract answered instead.
    pub(super) fn of_problem(status: StatusCode, problem: ProblemView, retry_after_s: Option<u32>) -> Self {
        let title = problem.sentence().to_owned();
        let ProblemView { code, state, counted_n, operation_id, rows, rows_n, .. } = problem;
        let rows = ChangedRows { rows, rows_n: rows_n.unwrap_or_default() }.in_words();
        let state = state.map(Into::into);
        let is_any = operation_id.is_some() || !rows.is_empty();
        let involved = is_any.then(|| Box::new(Involved { operation_id, rows }));
        Self {
            status,
            code: Some(code.into()),
            title,
            state,
            counted_n,
            involved,
            retry_after_s,
            about: None,
        }
    }

    /// The same, with the way back to the page about its subject.
    pub(crate) fn about(self, path: &str) -> Self {
        Self { about: Some(path.into()), ..self }
    }

    /// A status without a reason.
    pub(super) fn of_status(status: StatusCode) -> Self {
        let title = status.canonical_reason().unwrap_or("this did not work");
        Self::new(status, "unexpected", title)
    }
}
