//! Asks a server, and reads its answers as views.

use std::io::IsTerminal;
use std::time::Duration;

use percent_encoding::utf8_percent_encode;
use reqwest::{RequestBuilder, Response, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::runtime::Runtime;

use super::error::ApiError;
use super::heard::Heard;
use super::keys::{CommandKeys, PendingOrder};
use super::patience::patience;
use super::typist;
use crate::api::{MeView, ProblemView};
use crate::cli::reach::ReachedServer;
use crate::cli::shared::{client, complain, runtime};
use crate::config::Environment;
use crate::net::read_capped;
use crate::template::URL_ESCAPED;
use crate::types::{TYPED_BY, TypedBy};

/// Longest answer that is read. Bytes.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Longest time for one answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Waits before an order is sent again under its key. Milliseconds.
const WAITS_MS: [u64; 3] = [250, 1_000, 3_000];
/// Longest wait that a server may ask for, and be granted. Seconds.
const RETRY_AFTER_S_MAX: u64 = 10;

/// The operators' API of one server.
pub(crate) struct ApiClient {
    base: Url,
    token: String,
    http: reqwest::Client,
    runtime: Runtime,
    keys: CommandKeys,
    typed_by: Option<TypedBy>,
}

/// An answer that is good.
pub(crate) struct ApiAnswer<T> {
    /// The answer as the contract has it.
    pub(crate) view: T,
    /// The answer as it came, with what a newer server says besides.
    pub(crate) raw: Value,
    /// Version of what is shown, with its quotes, where it has one.
    pub(crate) etag: Option<String>,
}

/// An order, and where it goes.
#[derive(Clone, Copy)]
pub(crate) struct OrderPlace<'a> {
    /// The path below `/v1`, part by part.
    pub(crate) path: &'a [&'a str],
    /// The meaning of the command: two commands with the same one are the same command, given again.
    pub(crate) meaning: &'a str,
    /// The key that the person named.
    pub(crate) key: Option<&'a str>,
    /// Version that the subject must have.
    pub(crate) if_match: Option<&'a str>,
}

impl ApiClient {
    pub(crate) fn new(server: ReachedServer, keys: CommandKeys) -> anyhow::Result<Self> {
        let http = client(server.ca_file.as_deref())?;
        let typed_by = typist::of_process(&Environment::of_process());
        Ok(Self { base: server.url, token: server.token, http, runtime: runtime()?, keys, typed_by })
    }

    /// URL of the server that is asked.
    pub(crate) fn server(&self) -> &str {
        self.base.as_str()
    }

    /// Runs what several requests are made of.
    pub(crate) fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    fn url(&self, path: &[&str], query: &[(&str, Option<&str>)]) -> Url {
        let mut url = self.base.clone();
        // By hand: a URL's own way leaves out line ends and tabs, and what is asked for would be something else.
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

    /// One answer, as a view.
    pub(crate) fn get<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, Option<&str>)],
    ) -> Result<ApiAnswer<T>, ApiError> {
        self.run(self.fetch(path, query))
    }

    /// Does the same as [`ApiClient::get`], within other work.
    pub(crate) async fn fetch<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, Option<&str>)],
    ) -> Result<ApiAnswer<T>, ApiError> {
        let heard = self.exchange(self.http.get(self.url(path, query)).timeout(ANSWER_WITHIN)).await?;
        self.view(&heard)
    }

    /// The answer to a question without a body.
    pub(crate) fn ask<T: DeserializeOwned>(&self, path: &[&str]) -> Result<ApiAnswer<T>, ApiError> {
        let question = self.http.post(self.url(path, &[])).timeout(ANSWER_WITHIN);
        self.run(async { self.view(&self.exchange(question).await?) })
    }

    /// The answer to a question with a body.
    pub(crate) fn ask_about<T: DeserializeOwned>(
        &self,
        path: &[&str],
        about: &impl Serialize,
    ) -> Result<ApiAnswer<T>, ApiError> {
        let body = serde_json::to_string(about).unwrap_or_default();
        let question =
            self.http.post(self.url(path, &[])).header("content-type", "application/json").body(body);
        let question = question.timeout(ANSWER_WITHIN);
        self.run(async { self.view(&self.exchange(question).await?) })
    }

    /// One answer, as bytes.
    pub(crate) fn bytes(&self, path: &[&str]) -> Result<Vec<u8>, ApiError> {
        self.run(async {
            let heard = self.exchange(self.http.get(self.url(path, &[])).timeout(ANSWER_WITHIN)).await?;
            self.judge(heard).map(|heard| heard.body)
        })
    }

    /// The order that an earlier command of this meaning left without an answer.
    pub(crate) fn left(&self, asked: &OrderPlace<'_>) -> bool {
        asked.key.is_none() && self.keys.left(&self.command(asked)).is_some()
    }

    /// Sends an order. When its answer is lost it is sent again, under the same key: here, and by the same command given
    /// again later.
    pub(crate) fn post<T: DeserializeOwned>(
        &self,
        asked: &OrderPlace<'_>,
        order: &impl Serialize,
    ) -> anyhow::Result<ApiAnswer<T>> {
        let body = serde_json::to_string(order)?;
        // For a person who looks: a script knows where it is.
        if std::io::stderr().is_terminal()
            && let Ok(me) = self.get::<MeView>(&["me"], &[])
        {
            complain(acting(&me.view, self.server(), self.typed_by.as_ref()));
        }
        let pending = match asked.key {
            Some(key) => PendingOrder::of_person(key, &body),
            None => self.pending(asked, &body),
        };
        let (heard, was_lost) = self.run(self.insist(asked, &pending));
        let is_over = is_over(&heard, pending.is_repeated || was_lost);
        if is_over {
            pending.forget();
        }
        let heard = heard.map_err(|error| {
            let error = anyhow::Error::from(error);
            if is_over { error } else { error.context(AGAIN) }
        })?;
        if heard.is_replayed {
            complain("it was done already, by the same command; this is what was answered then");
        }
        Ok(self.view(&heard)?)
    }

    fn pending(&self, asked: &OrderPlace<'_>, body: &str) -> PendingOrder {
        let (pending, written) = self.keys.take(&self.command(asked), body);
        if pending.is_repeated {
            complain("the same command had no answer before: it is sent again under its key");
        }
        if let Err(why) = written {
            complain(format!(
                "warning: the key of this command is not kept ({why}); given again, it is another command"
            ));
        }
        pending
    }

    /// The text by which a command is known when it is given again.
    fn command(&self, asked: &OrderPlace<'_>) -> String {
        let path = self.url(asked.path, &[]);
        format!("{path}\n{}\n{}", asked.if_match.unwrap_or_default(), asked.meaning)
    }

    /// Sends the order until somebody answers, a few times at most; and whether an earlier try of these may have been
    /// carried out.
    async fn insist(
        &self,
        asked: &OrderPlace<'_>,
        pending: &PendingOrder,
    ) -> (Result<Heard, ApiError>, bool) {
        let mut waits = WAITS_MS.into_iter().map(Duration::from_millis);
        let mut lost = None;
        loop {
            let mut request = self
                .http
                .post(self.url(asked.path, &[]))
                .timeout(ANSWER_WITHIN)
                .header("content-type", "application/json")
                .header("idempotency-key", &pending.key)
                .body(pending.body.clone());
            if let Some(version) = asked.if_match {
                request = request.header("if-match", version);
            }
            let heard = self.exchange(request).await;
            let asked_for = match &heard {
                Ok(heard) if matches!(heard.status, 409 | 503) => heard.retry_after_s,
                Err(error) if error.is_lost() || lost.is_some() => Some(0),
                Ok(_) | Err(_) => None,
            };
            let wait = asked_for.filter(|s| *s <= RETRY_AFTER_S_MAX).and_then(|s| {
                let wait = waits.next()?;
                Some(wait.max(Duration::from_secs(s)))
            });
            let Some(wait) = wait else {
                // Once a request was sent, a connection that fails afterwards says nothing about that one.
                let was_lost = lost.is_some();
                return (heard.map_err(|error| lost.take().unwrap_or(error)), was_lost);
            };
            complain("no answer yet: asking again under the same key");
            lost = match heard {
                // Whoever says 503 may have heard of no commit that took place.
                Ok(heard) => lost.or_else(|| self.judged(&heard).err()),
                Err(error) => Some(error).filter(ApiError::is_lost).or(lost),
            };
            patience(wait).await;
        }
    }

    async fn exchange(&self, request: RequestBuilder) -> Result<Heard, ApiError> {
        let response = self.sent(request).await?;
        self.read(response).await
    }

    async fn sent(&self, request: RequestBuilder) -> Result<Response, ApiError> {
        let mut request = request.bearer_auth(&self.token);
        if let Some(typed_by) = &self.typed_by {
            request = request.header(TYPED_BY, typed_by.as_str());
        }
        let sent = request.send().await;
        sent.map_err(|error| ApiError::of_transport(&self.base, error))
    }

    async fn read(&self, response: Response) -> Result<Heard, ApiError> {
        let mut heard = Heard::of(&response);
        let read = read_capped(response, ANSWER_BYTES_MAX).await;
        let body = read.map_err(|error| ApiError::of_transport(&self.base, error))?;
        heard.body = body.ok_or_else(|| self.foreign(&heard, "the answer is longer than 64 MiB"))?;
        Ok(heard)
    }

    fn view<T: DeserializeOwned>(&self, heard: &Heard) -> Result<ApiAnswer<T>, ApiError> {
        self.judged(heard)?;
        let raw: Value =
            serde_json::from_slice(&heard.body).map_err(|error| self.foreign(heard, &error.to_string()))?;
        let view = T::deserialize(&raw).map_err(|error| self.foreign(heard, &error.to_string()))?;
        Ok(ApiAnswer { view, raw, etag: heard.etag.clone() })
    }

    fn judge(&self, heard: Heard) -> Result<Heard, ApiError> {
        self.judged(&heard).map(|()| heard)
    }

    fn judged(&self, heard: &Heard) -> Result<(), ApiError> {
        if (200..300).contains(&heard.status) {
            return Ok(());
        }
        Err(match serde_json::from_slice::<ProblemView>(&heard.body) {
            Ok(problem) => ApiError::Refused(Box::new(ProblemView { status: heard.status, ..problem })),
            Err(_) => self.foreign(heard, "is this the operator side of Hooklatch?"),
        })
    }

    fn foreign(&self, heard: &Heard, why: &str) -> ApiError {
        ApiError::Foreign { server: self.base.to_string(), status: heard.status, why: why.to_owned() }
    }
}

/// Where an order goes, and as whom.
fn acting(me: &MeView, server: &str, typed_by: Option<&TypedBy>) -> String {
    let name = me.server_name.as_deref().map(|name| format!("{name}, ")).unwrap_or_default();
    let test = if me.is_test { ", a test server" } else { "" };
    let typed = typed_by.map(|typed| format!(", typed by {}", typed.as_str())).unwrap_or_default();
    format!("on {name}{server}{test}, with the token of {}{typed}", me.name)
}

const AGAIN: &str =
    "whether it was done is not known: give the same command again, which asks under the same key";

/// True when the key of an order may be forgotten: the server will say nothing else under it, or it was refused or never
/// got there, and no earlier try may have been carried out.
fn is_over(heard: &Result<Heard, ApiError>, was_tried: bool) -> bool {
    match heard {
        Ok(heard) => is_settled(heard) || (is_refused(heard) && !was_tried),
        Err(error) => matches!(error, ApiError::Unreached { .. }) && !was_tried,
    }
}

/// True when our server refused to carry out an order for now: this try of it did nothing.
fn is_refused(heard: &Heard) -> bool {
    matches!(heard.status, 401 | 403 | 429) && serde_json::from_slice::<ProblemView>(&heard.body).is_ok()
}

/// True when our server has said its last word under this key. A page of something in front of it says nothing.
fn is_settled(heard: &Heard) -> bool {
    if (200..300).contains(&heard.status) {
        return serde_json::from_slice::<Value>(&heard.body).is_ok();
    }
    serde_json::from_slice::<ProblemView>(&heard.body).is_ok() && is_last_word(heard)
}

fn is_last_word(heard: &Heard) -> bool {
    match heard.status {
        401 | 403 | 408 | 429 => false,
        409 => heard.retry_after_s.is_none(),
        status => status < 500,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(base: &str) -> ApiClient {
        let url = Url::parse(base).expect("a URL");
        let server = ReachedServer { url, token: "t".to_owned(), ca_file: None };
        ApiClient::new(server, CommandKeys::new(None, 0)).expect("a client")
    }

    #[test]
    fn before_an_order_it_is_said_where_it_goes_and_as_whom() {
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
            assert_eq!(of(base).url(path, query).as_str(), want);
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

    const PROBLEM: &str = r#"{"type":"about:blank","status":409,"code":"x","title":"x"}"#;

    fn heard(status: u16, retry_after_s: Option<u64>, body: &str) -> Heard {
        Heard { status, etag: None, retry_after_s, is_replayed: false, body: body.as_bytes().to_vec() }
    }

    #[test]
    fn a_key_is_forgotten_when_nothing_else_will_be_said_under_it() {
        #[track_caller]
        fn check(status: u16, retry_after_s: Option<u64>, want: bool) {
            assert_eq!(is_settled(&heard(status, retry_after_s, PROBLEM)), want, "{status}");
        }
        for (status, want) in [(200, true), (202, true), (400, true), (404, true), (409, true), (412, true)] {
            check(status, None, want);
        }
        for status in [401, 403, 429, 500, 503] {
            check(status, None, false);
        }
        check(409, Some(1), false);
    }

    #[test]
    fn what_something_in_front_of_the_server_says_settles_nothing() {
        for status in [200, 400, 404, 409] {
            for page in ["<h1>no backend</h1>", "default backend - 404", ""] {
                assert!(!is_settled(&heard(status, None, page)), "{status} {page}");
            }
        }
    }

    #[test]
    fn the_key_of_an_order_that_may_have_been_done_outlasts_a_server_that_is_away() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut api = of("http://127.0.0.1:9");
        api.keys = CommandKeys::new(Some(folder.path().join("keys")), 0);
        let asked =
            OrderPlace { path: &["events", "p", "e", "decide"], meaning: "m", key: None, if_match: None };
        let post = || api.post::<Value>(&asked, &serde_json::json!({})).err().expect("nobody is there");
        drop(post());
        assert!(!api.left(&asked), "it never got there");
        // An earlier command was sent, and had no answer.
        let (earlier, _) = api.keys.take(&api.command(&asked), "{}");
        assert!(format!("{:#}", post()).starts_with(AGAIN));
        assert_eq!(api.keys.left(&api.command(&asked)).map(|left| left.key), Some(earlier.key));
    }
}
