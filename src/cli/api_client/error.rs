//! What can go wrong between a command and a server, in one sentence with what to do.

use std::fmt;

use crate::api::ProblemView;

/// An answer that is none, or no good one.
#[derive(Debug)]
pub(crate) enum ApiError {
    /// Nothing was sent: no connection came about.
    Unreached {
        /// URL of the server that was asked.
        server: String,
        /// The reason, in words.
        why: String,
    },
    /// The request was sent and no whole answer came back: it may have been done.
    Lost {
        /// URL of the server that was asked.
        server: String,
        /// The reason, in words.
        why: String,
    },
    /// What came back is not what our API says.
    Foreign {
        /// URL of the server that was asked.
        server: String,
        /// Status of the answer.
        status: u16,
        /// The reason, in words.
        why: String,
    },
    /// The server said no, and why.
    Refused(Box<ProblemView>),
}

impl std::error::Error for ApiError {}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreached { server, why } => {
                write!(f, "cannot reach {server}: {why}; say where it is with --url, a profile or --config")
            }
            Self::Lost { server, why } => write!(f, "no answer from {server}: {why}"),
            Self::Foreign { server, status, why } => {
                write!(f, "{server} answered {status} and not as this version understands: {why}")
            }
            Self::Refused(problem) => refusal(f, problem),
        }
    }
}

/// `sentence (404 not_found)`, what else is known, and what to do where the sentence does not say so.
fn refusal(f: &mut fmt::Formatter<'_>, problem: &ProblemView) -> fmt::Result {
    write!(f, "{} ({} {})", problem.sentence(), problem.status, problem.code)?;
    if let Some(state) = &problem.state {
        write!(f, "; it is {state}")?;
    }
    if let Some(counted_n) = problem.counted_n {
        write!(f, "; {counted_n} are found now")?;
    }
    if let Some(operation_id) = &problem.operation_id {
        write!(f, "; `hooklatch operations show {operation_id}` shows it, `--again` orders it once more")?;
    }
    f.write_str(match problem.status {
        401 => "; say who you are with --token, HOOKLATCH_TOKEN or a profile",
        404 => "; `hooklatch whoami` shows what this token reaches",
        412 | 428 => "; `show` prints its version for --if-match",
        _ => "",
    })
}

impl ApiError {
    /// What became of a request that no answer came to.
    pub(super) fn of_transport(server: &reqwest::Url, error: reqwest::Error) -> Self {
        let server = server.to_string();
        let was_sent = !error.is_connect() && !error.is_builder();
        let why = in_words(error);
        if was_sent { Self::Lost { server, why } } else { Self::Unreached { server, why } }
    }

    /// True when it may have been done all the same.
    pub(super) fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }
}

/// The words of an error and of its causes, without the URL, which may hold a password.
fn in_words(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut words = vec![error.to_string()];
    let mut cause = std::error::Error::source(&error);
    while let Some(next) = cause {
        words.push(next.to_string());
        cause = next.source();
    }
    words.dedup();
    words.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(status: u16) -> ProblemView {
        ProblemView {
            kind: "about:blank".to_owned(),
            status,
            code: "a_word".to_owned(),
            title: "this is so".to_owned(),
            detail: None,
            state: None,
            counted_n: None,
            operation_id: None,
            rows: Vec::new(),
            rows_n: None,
        }
    }

    #[test]
    fn a_refusal_is_one_sentence_with_what_to_do() {
        #[track_caller]
        fn check(problem: ProblemView, want: &str) {
            assert_eq!(ApiError::Refused(Box::new(problem)).to_string(), want);
        }
        check(problem(409), "this is so (409 a_word)");
        check(
            ProblemView { state: Some("leased".to_owned()), ..problem(409) },
            "this is so (409 a_word); it is leased",
        );
        check(ProblemView { counted_n: Some(5), ..problem(409) }, "this is so (409 a_word); 5 are found now");
        for (status, remedy) in [(401, "--token"), (404, "whoami"), (412, "--if-match"), (428, "--if-match")]
        {
            assert!(ApiError::Refused(Box::new(problem(status))).to_string().contains(remedy), "{status}");
        }
    }

    #[tokio::test]
    async fn a_request_that_nobody_heard_is_told_from_one_that_was_sent() {
        let client = crate::net::client_builder().build().expect("a client");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let url: reqwest::Url =
            format!("http://{}/", listener.local_addr().expect("bound")).parse().expect("a URL");
        let closes = std::thread::spawn({
            let listener = listener.try_clone().expect("the same");
            move || drop(listener.accept())
        });
        let error = client.get(url.clone()).send().await.expect_err("closed");
        closes.join().expect("closed");
        assert!(ApiError::of_transport(&url, error).is_lost());
        drop(listener);
        let error = client.get(url.clone()).send().await.expect_err("nobody listens");
        let told = ApiError::of_transport(&url, error);
        assert!(!told.is_lost() && told.to_string().contains("cannot reach"), "{told}");
    }
}
