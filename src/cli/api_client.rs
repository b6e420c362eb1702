//! The client of a running server's operator API: it reads views and sends orders.
//!
//! Every order has an idempotency key: the given one, else a new one for each run of a command. Within that run an
//! order is sent again under its key when its answer is lost.

use std::io::IsTerminal;
use std::time::Duration;

use percent_encoding::utf8_percent_encode;
use reqwest::header::HeaderMap;
use reqwest::{RequestBuilder, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::runtime::Runtime;

use super::remote::ReachedServer;
use super::shared::{block_boxed, client, complain, runtime, with_causes};
use hooklatch_contract::{MeView, ProblemView};
use hooklatch_core::config::Environment;
use hooklatch_core::net::read_capped;
use hooklatch_core::template::URL_ESCAPED;
use hooklatch_core::types::{ProblemCode, TYPED_BY, TypedBy};

/// Longest answer that is read. Bytes.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Longest time for one answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Pauses before an order is sent again under its key. Milliseconds.
const WAITS_MS: [u64; 3] = [250, 1_000, 3_000];
/// Longest `Retry-After` that is honoured. Seconds.
const RETRY_AFTER_S_MAX: u64 = 10;
/// Variable that names the operator where a login is shared.
const ACTOR: &str = "HOOKLATCH_ACTOR";

/// The operators' API of one server.
pub(crate) struct ApiClient {
    base: Url,
    token: String,
    http: reqwest::Client,
    runtime: Runtime,
    typed_by: Option<TypedBy>,
}

/// A successful answer.
pub(crate) struct ApiAnswer<T> {
    /// The answer as a type of the contract.
    pub(crate) view: T,
    /// The answer as the server sent it, with fields of a newer server.
    pub(crate) raw: Value,
    /// Version of the subject, with its quotes, where it has one.
    pub(crate) etag: Option<String>,
}

/// An order that acts on something.
#[derive(Clone, Copy)]
pub(crate) struct OrderPlace<'a> {
    /// The path below `/v1`, part by part.
    pub(crate) path: &'a [&'a str],
    /// The given idempotency key.
    pub(crate) key: Option<&'a str>,
    /// Version that the subject must have.
    pub(crate) if_match: Option<&'a str>,
    /// What to do when it is not known whether it was done; by default the command is given again with its key.
    pub(crate) if_unknown: Option<&'a str>,
}

impl<'a> OrderPlace<'a> {
    /// The order at `path`, under the given key or a new one.
    pub(crate) fn new(path: &'a [&'a str], key: Option<&'a str>) -> Self {
        Self { path, key, if_match: None, if_unknown: None }
    }

    /// With another advice for when it is not known whether it was done.
    pub(crate) fn or(self, if_unknown: &'a str) -> Self {
        Self { if_unknown: Some(if_unknown), ..self }
    }
}

/// A request that failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    /// Nothing was sent: no connection was made.
    #[error(
        "cannot reach {server}: {why}; start the server, or say where it is with --url, a profile or --config"
    )]
    Unreached { server: String, why: String },
    /// The request was sent and no complete answer arrived: the server may have processed it.
    #[error("no answer from {server}: {why}")]
    Lost { server: String, why: String },
    /// The answer does not follow our contract.
    #[error("{server} answered {status} and not as this version understands: {why}")]
    Foreign { server: String, status: u16, why: String },
    /// The server refused, and why.
    #[error("{}", refusal(.0))]
    Refused(Box<ProblemView>),
}

/// An answer as bytes, with its headers.
struct RawAnswer {
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl RawAnswer {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Seconds of `Retry-After`.
    fn retry_after_s(&self) -> Option<u64> {
        let text = self.header("retry-after").filter(|_| matches!(self.status, 409 | 503))?;
        text.parse().ok()
    }
}

impl ApiClient {
    pub(crate) fn new(server: ReachedServer) -> anyhow::Result<Self> {
        let http = client(server.ca_file.as_deref())?;
        let typed_by = typed_by(&Environment::of_process());
        Ok(Self { base: server.url, token: server.token, http, runtime: runtime()?, typed_by })
    }

    /// URL of the server.
    pub(crate) fn server(&self) -> &str {
        self.base.as_str()
    }

    /// Runs several requests.
    pub(crate) fn run<T>(&self, work: impl Future<Output = T>) -> T {
        block_boxed(&self.runtime, Box::pin(work))
    }

    fn url(&self, path: &[&str], query: &[(&str, Option<&str>)]) -> Url {
        let mut url = self.base.clone();
        // Encoded here: `Url` drops line ends and tabs, so another path would be requested.
        let parts = path.iter().map(|part| utf8_percent_encode(part, URL_ESCAPED).to_string());
        let parts = std::iter::once("v1".to_owned()).chain(parts).collect::<Vec<_>>().join("/");
        url.set_path(&format!("{}/{parts}", self.base.path().trim_end_matches('/')));
        let given: Vec<(&str, &str)> =
            query.iter().filter_map(|(name, value)| Some((*name, (*value)?))).collect();
        if !given.is_empty() {
            url.query_pairs_mut().extend_pairs(given);
        }
        url
    }

    /// Gets a view.
    pub(crate) fn get<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, Option<&str>)],
    ) -> Result<ApiAnswer<T>, ApiError> {
        self.run(self.fetch(path, query))
    }

    /// Does the same as [`ApiClient::get`], in async code.
    pub(crate) async fn fetch<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, Option<&str>)],
    ) -> Result<ApiAnswer<T>, ApiError> {
        self.view(&self.exchange(self.http.get(self.url(path, query))).await?)
    }

    /// Gets bytes as they are.
    pub(crate) fn bytes(&self, path: &[&str]) -> Result<Vec<u8>, ApiError> {
        let answer = self.run(self.exchange(self.http.get(self.url(path, &[]))))?;
        self.check(&answer)?;
        Ok(answer.body)
    }

    /// Posts a query, which changes nothing, with `about` as its body.
    pub(crate) fn post_query<T: DeserializeOwned>(
        &self,
        path: &[&str],
        about: Option<&impl Serialize>,
    ) -> Result<ApiAnswer<T>, ApiError> {
        let mut question = self.http.post(self.url(path, &[]));
        if let Some(about) = about {
            let body = serde_json::to_string(about).unwrap_or_default();
            question = question.header("content-type", "application/json").body(body);
        }
        self.view(&self.run(self.exchange(question))?)
    }

    /// Sends an order. When its answer is lost, the order is sent again under the same key, a few times at most.
    pub(crate) fn post<T: DeserializeOwned>(
        &self,
        place: &OrderPlace<'_>,
        order: &impl Serialize,
    ) -> anyhow::Result<ApiAnswer<T>> {
        // Only on a terminal: a script knows its server.
        if std::io::stderr().is_terminal()
            && let Ok(me) = self.get::<MeView>(&["me"], &[])
        {
            complain(acting(&me.view, self.server(), self.typed_by.as_ref()));
        }
        let key = place.key.map_or_else(|| uuid::Uuid::new_v4().to_string(), str::to_owned);
        let body = serde_json::to_string(order)?;
        let request = || {
            let request = self.http.post(self.url(place.path, &[]));
            let request = request.header("content-type", "application/json").header("idempotency-key", &key);
            let request =
                place.if_match.into_iter().fold(request, |one, version| one.header("if-match", version));
            request.body(body.clone())
        };
        let (answer, was_lost) = self.run(self.insist(request));
        if answer.as_ref().is_ok_and(|answer| answer.header("idempotency-replayed") == Some("true")) {
            complain("it was done already, by the same command; this is what was answered then");
        }
        answer.and_then(|answer| self.view(&answer)).map_err(|error| {
            let may_be_done = match &error {
                ApiError::Unreached { .. } => false,
                ApiError::Lost { .. } | ApiError::Foreign { .. } => true,
                ApiError::Refused(problem) => match problem.status {
                    401 | 403 | 408 | 429 => was_lost,
                    status => status >= 500,
                },
            };
            let error = anyhow::Error::from(error);
            if may_be_done {
                error.context(place.if_unknown.map_or_else(|| unknown_outcome(&key), str::to_owned))
            } else {
                error
            }
        })
    }

    /// Sends an order until the server answers, a few times at most. Also returns whether an earlier try may have been
    /// executed.
    async fn insist(&self, request: impl Fn() -> RequestBuilder) -> (Result<RawAnswer, ApiError>, bool) {
        let mut waits = WAITS_MS.into_iter().map(Duration::from_millis);
        let mut lost = None;
        loop {
            let answer = self.exchange(request()).await;
            let wait_s = match &answer {
                Ok(answer) => answer.retry_after_s(),
                Err(error) => (error.is_lost() || lost.is_some()).then_some(0),
            };
            let wait_s = wait_s.filter(|s| *s <= RETRY_AFTER_S_MAX);
            let Some(wait) = wait_s.and_then(|s| Some(waits.next()?.max(Duration::from_secs(s)))) else {
                // A connection that fails after a request was sent does not show whether the request was executed.
                let was_lost = lost.is_some();
                return (answer.map_err(|error| lost.unwrap_or(error)), was_lost);
            };
            complain("no answer yet: asking again under the same key");
            lost = match answer {
                // A server that answers 503 may have committed all the same.
                Ok(answer) => lost.or_else(|| self.check(&answer).err()),
                Err(error) => Some(error).filter(ApiError::is_lost).or(lost),
            };
            pause(wait).await;
        }
    }

    async fn exchange(&self, request: RequestBuilder) -> Result<RawAnswer, ApiError> {
        let mut request = request.timeout(ANSWER_WITHIN).bearer_auth(&self.token);
        if let Some(typed_by) = &self.typed_by {
            request = request.header(TYPED_BY, typed_by.as_str());
        }
        let failed = |error| ApiError::of_transport(&self.base, error);
        let response = request.send().await.map_err(failed)?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = read_capped(response, ANSWER_BYTES_MAX).await.map_err(failed)?;
        let body = body.ok_or_else(|| self.foreign(status, "the answer is longer than 64 MiB"))?;
        Ok(RawAnswer { status, headers, body })
    }

    fn view<T: DeserializeOwned>(&self, answer: &RawAnswer) -> Result<ApiAnswer<T>, ApiError> {
        self.check(answer)?;
        let foreign = |error: serde_json::Error| self.foreign(answer.status, &error.to_string());
        let raw: Value = serde_json::from_slice(&answer.body).map_err(foreign)?;
        let view = T::deserialize(&raw).map_err(foreign)?;
        Ok(ApiAnswer { view, raw, etag: answer.header("etag").map(str::to_owned) })
    }

    fn check(&self, answer: &RawAnswer) -> Result<(), ApiError> {
        let status = answer.status;
        if (200..300).contains(&status) {
            return Ok(());
        }
        Err(match serde_json::from_slice::<ProblemView>(&answer.body) {
            Ok(problem) => ApiError::Refused(Box::new(ProblemView { status, ..problem })),
            Err(_) => self.foreign(status, "is this the operator side of Hooklatch?"),
        })
    }

    fn foreign(&self, status: u16, why: &str) -> ApiError {
        ApiError::Foreign { server: self.base.to_string(), status, why: why.to_owned() }
    }
}

impl ApiError {
    /// The error of a request without an answer.
    fn of_transport(server: &Url, error: reqwest::Error) -> Self {
        let server = server.to_string();
        let was_sent = !error.is_connect() && !error.is_builder();
        // The URL may hold a password.
        let why = with_causes(&error.without_url().into());
        if was_sent { Self::Lost { server, why } } else { Self::Unreached { server, why } }
    }

    /// True when the request may have been executed all the same.
    fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }
}

/// The advice about an order that may have been executed.
fn unknown_outcome(key: &str) -> String {
    format!(
        "whether it was done is not known: give the same command again with --key {key}, which does it once; without \
         --key it is a new order, done once more"
    )
}

/// `sentence (404 not_found)`, what else is known, and what to do where the sentence does not say so.
fn refusal(problem: &ProblemView) -> String {
    let state = problem.state.as_ref().map(|state| format!("; it is {state}"));
    let counted = problem.counted_n.map(|counted_n| format!("; {counted_n} are found now"));
    let operation = problem.operation_id.as_ref().map(|operation_id| {
        format!("; `hooklatch operations show {operation_id}` shows it, `--again` orders it once more")
    });
    let remedy = match problem.status {
        _ if problem.code == ProblemCode::TokenShownOnce.as_str() => {
            "; `hooklatch tokens list` has its id for `hooklatch tokens revoke`; then give the command without --key"
        }
        401 => "; say who you are with --token, HOOKLATCH_TOKEN or a profile",
        404 => "; `hooklatch whoami` shows what this token reaches",
        412 | 428 => "; `show` prints its version for --if-match",
        _ => "",
    };
    let more: String = [state, counted, operation].into_iter().flatten().collect();
    format!("{} ({} {}){more}{remedy}", problem.sentence(), problem.status, problem.code)
}

/// The server that an order is sent to, and the identity of the token.
fn acting(me: &MeView, server: &str, typed_by: Option<&TypedBy>) -> String {
    let name = me.server_name.as_deref().map(|name| format!("{name}, ")).unwrap_or_default();
    let test = if me.is_test { ", a test server" } else { "" };
    let typed = typed_by.map(|typed| format!(", typed by {}", typed.as_str())).unwrap_or_default();
    format!("on {name}{server}{test}, with the token of {}{typed}", me.name)
}

/// Sleeps before the next try: a server in another process cannot notify us.
pub(crate) async fn pause(length: Duration) {
    tokio::time::sleep(length).await;
}

/// The login of this process and its machine, for the audit log of the server. A token alone does not distinguish
/// people who share the one of the server's configuration.
fn typed_by(env: &Environment) -> Option<TypedBy> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let uid = rustix::process::getuid().as_raw();
    login_at_host(env, uid, &read("/etc/passwd"), &read("/proc/sys/kernel/hostname"))
}

/// `LOGIN@HOST`. Root is who became root, where `sudo` says so.
fn login_at_host(env: &Environment, uid: u32, passwd: &str, host: &str) -> Option<TypedBy> {
    let of_uid = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == uid.to_string()).then(|| name.to_owned())
    };
    let sudo = || env.get("SUDO_USER").filter(|_| uid == 0).map(str::to_owned);
    let login = env.get(ACTOR).filter(|name| !name.is_empty()).map(str::to_owned);
    let login = login.or_else(sudo).or_else(|| passwd.lines().find_map(of_uid));
    let login = login.unwrap_or_else(|| format!("uid-{uid}"));
    let host =
        [host.trim(), env.get("HOSTNAME").unwrap_or_default()].into_iter().find(|host| !host.is_empty());
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    let plain = |text: &str, chars_max: usize| -> String {
        text.chars().take(chars_max).map(|c| if is_plain(c) { c } else { '-' }).collect()
    };
    let host = host.map_or_else(String::new, |host| format!("@{}", plain(host, 50)));
    TypedBy::parse(&format!("{}{host}", plain(&login, 49)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn before_an_order_the_command_prints_where_it_goes_and_as_whom() {
        let me = |name: Option<&str>, is_test: bool| -> MeView {
            let view = serde_json::json!({
                "name": "ann", "role": "admin", "version": "1", "is_encrypting": false, "now_ms": 0,
                "server_name": name, "is_test": is_test,
            });
            serde_json::from_value(view).expect("a view")
        };
        let typed = TypedBy::parse("root@web-1");
        assert_eq!(
            acting(&me(Some("production"), false), "https://ops.test/", typed.as_ref()),
            "on production, https://ops.test/, with the token of ann, typed by root@web-1"
        );
        assert_eq!(
            acting(&me(None, true), "http://127.0.0.1:8081/", None),
            "on http://127.0.0.1:8081/, a test server, with the token of ann"
        );
    }

    #[test]
    fn what_a_person_names_stays_one_part_of_the_path() {
        #[track_caller]
        fn check(base: &str, path: &[&str], query: &[(&str, Option<&str>)], want: &str) {
            let url = Url::parse(base).expect("a URL");
            let server = ReachedServer { url, token: "t".to_owned(), ca_file: None };
            assert_eq!(ApiClient::new(server).expect("a client").url(path, query).as_str(), want);
        }
        let base = "http://127.0.0.1:8081";
        check(base, &["events"], &[], "http://127.0.0.1:8081/v1/events");
        check("http://ops.test/hooks/", &["events"], &[], "http://ops.test/hooks/v1/events");
        check(
            base,
            &["events", "stripe", "a/b?c#d"],
            &[],
            "http://127.0.0.1:8081/v1/events/stripe/a%2Fb%3Fc%23d",
        );
        check(
            base,
            &["events", "a\u{1b}\n\tż%2F"],
            &[],
            "http://127.0.0.1:8081/v1/events/a%1B%0A%09%C5%BC%252F",
        );
        check(base, &["messages"], &[("state", None)], "http://127.0.0.1:8081/v1/messages");
        let query = [("state", Some("held")), ("provider", None), ("destination", Some("a&b"))];
        check(base, &["messages"], &query, "http://127.0.0.1:8081/v1/messages?state=held&destination=a%26b");
    }

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
    async fn a_request_that_was_not_sent_differs_from_one_without_an_answer() {
        let client = hooklatch_core::net::client_builder().build().expect("a client");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let url: Url = format!("http://{}/", listener.local_addr().expect("bound")).parse().expect("a URL");
        let closes = std::thread::spawn({
            let listener = listener.try_clone().expect("the same");
            move || drop(listener.accept())
        });
        let error = client.get(url.clone()).send().await.expect_err("closed");
        closes.join().expect("closed");
        assert!(ApiError::of_transport(&url, error).is_lost());
        drop(listener);
        let error = client.get(url.clone()).send().await.expect_err("no server");
        let error = ApiError::of_transport(&url, error);
        assert!(!error.is_lost() && error.to_string().contains("cannot reach"), "{error}");
    }

    #[test]
    fn a_login_is_found_by_its_number_unless_a_variable_names_the_person() {
        #[track_caller]
        fn check(pairs: &[(&str, &str)], uid: u32, host: &str, want: &str) {
            let env = pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
            let passwd = "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\nbroken\n";
            assert_eq!(login_at_host(&env, uid, passwd, host).expect("a text").as_str(), want);
        }
        check(&[], 1000, "web-1\n", "ann@web-1");
        check(&[("USER", "eve"), ("SUDO_USER", "eve")], 1000, "web-1", "ann@web-1");
        check(&[("SUDO_USER", "ann")], 0, "web-1", "ann@web-1");
        check(&[], 0, "web-1", "root@web-1");
        check(&[("HOOKLATCH_ACTOR", "bob b\u{f6}hm")], 0, "web-1", "bob-b-hm@web-1");
        check(&[("HOSTNAME", "mac")], 7, "", "uid-7@mac");
        check(&[], 7, "", "uid-7");
        check(
            &[("HOOKLATCH_ACTOR", &"x".repeat(300))],
            0,
            &"y".repeat(300),
            &format!("{}@{}", "x".repeat(49), "y".repeat(50)),
        );
    }
}
