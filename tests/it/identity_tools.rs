//! Identity of events of code, chat and mail senders: genuine requests, and variations of a captured one.

use hooklatch_core::config::{KindSettings, Secret};
use hooklatch_receive::provider::{ActiveProvider, Kind};
use hooklatch_receive::providers::builtin;
use hooklatch_verify::{SignAt, Signed};

use crate::database::{Database, on_both};
use crate::process::{Server, client};
use crate::providers::{NOW_S, dev, request};

on_both!(variations_of_one_genuine_request_are_distinguished_from_genuine_events);

/// Every provider's secret: of a text, of a token and of a key alike.
const SECRET: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
/// GitLab's, where it signs nothing.
const TOKEN: &str = "a-secret-token-0123456789";

const PROVIDERS: &str = r#"
[providers.github]
secrets = ["whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="]
[providers.gitlab]
secrets = ["whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="]
[providers.plain]
kind = "gitlab"
secrets = ["a-secret-token-0123456789"]
[providers.jira]
secrets = ["whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="]
[providers.linear]
secrets = ["whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="]
[providers.mailgun]
secrets = ["whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="]
[providers.netlify]
types = ["*"]
secrets = ["whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="]
[providers.listed]
kind = "netlify"
secrets = ["whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="]
types = ["deploy_created", "deploy_restored"]
[providers.segment]
secrets = ["whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="]
settings = { batches = "accept" }
[providers.sentry]
secrets = ["whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="]
"#;

/// A simulated sender with the secret of [`PROVIDERS`].
fn sender(kind: &str, secret: &str) -> ActiveProvider {
    let kind = builtin().into_iter().find(|one| one.kind() == kind).unwrap();
    let mut settings = KindSettings::default();
    if kind.kind() == "segment" {
        settings.push("batches", None, "accept");
    }
    kind.judge_with(&[Secret::new(secret)], &settings).unwrap()
}

/// Signed now, under this type and id.
fn signed(provider: &ActiveProvider, event_type: &str, id: &str, body: &str) -> Signed {
    let now_s = i64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_secs()).unwrap();
    let at = SignAt { now_s, url: String::new(), id: id.to_owned(), event_type: event_type.to_owned() };
    provider.sign(body.as_bytes(), &at).unwrap()
}

/// The server, and a way to send it what was signed with other headers on top.
struct Stage<'a>(&'a Server);

impl Stage<'_> {
    /// The outcome word of its answer, or its status.
    async fn send(&self, provider: &str, signed: &Signed, headers: &[(&str, &str)]) -> String {
        let mut request = client().post(self.0.url(&format!("/webhooks/{provider}")));
        let is_set = |name: &str| headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
        for (name, value) in signed.headers.iter().filter(|(name, _)| !is_set(name)) {
            request = request.header(name, value);
        }
        for (name, value) in headers.iter().filter(|(_, value)| !value.is_empty()) {
            request = request.header(*name, *value);
        }
        let response = request.body(signed.body.clone()).send().await.unwrap();
        let status = response.status().as_u16();
        let said: serde_json::Value =
            serde_json::from_str(&response.text().await.unwrap()).unwrap_or_default();
        said["outcome"].as_str().map_or_else(|| status.to_string(), str::to_owned)
    }
}

async fn variations_of_one_genuine_request_are_distinguished_from_genuine_events(database: &Database) {
    let server = Server::start(&database.url, PROVIDERS).await;
    let stage = Stage(&server);
    github(&stage).await;
    gitlab(&stage).await;
    mailgun(&stage).await;
    one_key_or_none(&stage).await;
    segment(&stage).await;
}

/// What a body is decides whether it may repeat, not what an unsigned header calls it.
async fn github(stage: &Stage<'_>) {
    let github = sender("github", SECRET);
    let push = signed(&github, "push", "d1", r#"{"ref":"refs/heads/main","before":"a","after":"b"}"#);
    assert_eq!(stage.send("github", &push, &[]).await, "accepted");
    assert_eq!(stage.send("github", &push, &[]).await, "duplicate");
    for (n, event) in ["push", "ping", "workflow_dispatch", "repository_dispatch", "watch", "membership"]
        .into_iter()
        .enumerate()
    {
        let id = format!("forged-{n}");
        let forged = [("x-github-delivery", id.as_str()), ("x-github-event", event)];
        assert_eq!(stage.send("github", &push, &forged).await, "replayed", "{event}");
    }
    for (n, (event, body)) in [
        ("workflow_dispatch", r#"{"inputs":null,"ref":"refs/heads/main","workflow":"a.yml"}"#),
        ("repository_dispatch", r#"{"action":"deploy","branch":"main","client_payload":{}}"#),
        ("watch", r#"{"action":"started","repository":{"id":1},"sender":{"id":1}}"#),
        ("membership", r#"{"action":"added","scope":"team","member":{"id":1},"team":{"id":1}}"#),
    ]
    .into_iter()
    .enumerate()
    {
        let once = signed(&github, event, &format!("{event}-1"), body);
        assert_eq!(stage.send("github", &once, &[]).await, "accepted", "{event}");
        let id = format!("{event}-2");
        let again = [("x-github-delivery", id.as_str())];
        // One repeat of the provider is accepted in ten minutes.
        let want = if n == 0 { "accepted" } else { "replayed" };
        assert_eq!(stage.send("github", &once, &again).await, want, "{event} again");
        assert_eq!(stage.send("github", &once, &again).await, "duplicate", "{event} redelivered");
    }
}

async fn gitlab(stage: &Stage<'_>) {
    // The id that is signed counts, whatever else the request calls itself.
    let signing = sender("gitlab", SECRET);
    let push = signed(&signing, "Push Hook", "k1", r#"{"object_kind":"push","after":"b"}"#);
    assert_eq!(stage.send("gitlab", &push, &[]).await, "accepted");
    let forged = [("idempotency-key", "k2"), ("x-gitlab-event-uuid", "u2"), ("x-gitlab-event", "Job Hook")];
    assert_eq!(stage.send("gitlab", &push, &forged).await, "duplicate");
    // A token signs nothing, so nothing is a replay: equal bodies under two keys are two events.
    let plain = sender("gitlab", TOKEN);
    let flag = signed(&plain, "Feature Flag Hook", "k1", r#"{"object_kind":"feature_flag"}"#);
    assert_eq!(stage.send("plain", &flag, &[]).await, "accepted");
    assert_eq!(stage.send("plain", &flag, &[]).await, "duplicate");
    assert_eq!(stage.send("plain", &flag, &[("idempotency-key", "k2")]).await, "accepted");
    // Before the key there was a UUID, one for all events of an action.
    let old = [("idempotency-key", ""), ("x-gitlab-event-uuid", "u1")];
    let issue = signed(&plain, "Issue Hook", "k3", r#"{"object_kind":"issue"}"#);
    let note = signed(&plain, "Note Hook", "k4", r#"{"object_kind":"note"}"#);
    assert_eq!(stage.send("plain", &issue, &old).await, "accepted");
    assert_eq!(stage.send("plain", &note, &old).await, "accepted");
    assert_eq!(stage.send("plain", &note, &old).await, "duplicate");
}

/// Time and token are signed, and the event is not.
async fn mailgun(stage: &Stage<'_>) {
    let mailgun = sender("mailgun", SECRET);
    let now_s = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let of = |token: &str, event: &str, id: &str| {
        let body = serde_json::json!({
            "signature": { "token": token, "timestamp": now_s.to_string(), "signature": "" },
            "event-data": { "event": event, "id": id, "timestamp": 1.5 },
        });
        let at = SignAt {
            now_s: i64::try_from(now_s).unwrap(),
            url: String::new(),
            id: String::new(),
            event_type: String::new(),
        };
        mailgun.sign(body.to_string().as_bytes(), &at).unwrap()
    };
    assert_eq!(stage.send("mailgun", &of("t1", "delivered", "a"), &[]).await, "accepted");
    assert_eq!(stage.send("mailgun", &of("t1", "delivered", "a"), &[]).await, "duplicate");
    assert_eq!(stage.send("mailgun", &of("t2", "delivered", "a"), &[]).await, "duplicate", "a retry");
    for (event, id) in [("complained", "b"), ("unsubscribed", "c"), ("delivered", "d")] {
        assert_eq!(stage.send("mailgun", &of("t1", event, id), &[]).await, "conflict", "{event} {id}");
    }
    assert_eq!(stage.send("mailgun", &of("t3", "complained", "b"), &[]).await, "accepted");
}

/// Ids in headers that no signature covers.
async fn one_key_or_none(stage: &Stage<'_>) {
    let jira = sender("jira", SECRET);
    let update = signed(&jira, "", "w1", r#"{"webhookEvent":"jira:issue_updated","timestamp":1}"#);
    assert_eq!(stage.send("jira", &update, &[]).await, "accepted");
    let forged = [("x-atlassian-webhook-identifier", "w2")];
    assert_eq!(stage.send("jira", &update, &forged).await, "replayed");
    assert_eq!(stage.send("jira", &update, &[("x-atlassian-webhook-identifier", "")]).await, "replayed");

    let linear = sender("linear", SECRET);
    let now_ms = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis();
    let body =
        format!(r#"{{"type":"Issue","action":"create","data":{{"id":"1"}},"webhookTimestamp":{now_ms}}}"#);
    let issue = signed(&linear, "", "l1", &body);
    assert_eq!(stage.send("linear", &issue, &[]).await, "accepted");
    assert_eq!(stage.send("linear", &issue, &[("linear-delivery", "l2")]).await, "duplicate");

    let sentry = sender("sentry", SECRET);
    let alert =
        signed(&sentry, "event_alert", "r1", r#"{"action":"triggered","data":{"event":{"event_id":"1"}}}"#);
    assert_eq!(stage.send("sentry", &alert, &[]).await, "accepted");
    assert_eq!(stage.send("sentry", &alert, &[("request-id", "r2")]).await, "duplicate");
    for resource in ["issue", "metric_alert", "comment", "error"] {
        let forged = [("request-id", "r3"), ("sentry-hook-resource", resource)];
        assert_eq!(stage.send("sentry", &alert, &forged).await, "replayed", "{resource}");
    }

    let netlify = sender("netlify", SECRET);
    let deploy = signed(&netlify, "deploy_created", "", r#"{"id":"1","state":"ready","updated_at":"a"}"#);
    assert_eq!(stage.send("netlify", &deploy, &[]).await, "accepted");
    assert_eq!(stage.send("netlify", &deploy, &[]).await, "duplicate");
    let other = [("x-netlify-event", "deploy_restored")];
    assert_eq!(stage.send("netlify", &deploy, &other).await, "accepted", "one body, two events");
    // Where the operator says which types it has, no other makes new events of one body.
    assert_eq!(stage.send("listed", &deploy, &[]).await, "accepted");
    assert_eq!(stage.send("listed", &deploy, &other).await, "accepted");
    assert_eq!(stage.send("listed", &deploy, &[("x-netlify-event", "x1")]).await, "accepted", "as unknown");
    for n in 2..5 {
        let invented = format!("x{n}");
        assert_ne!(stage.send("listed", &deploy, &[("x-netlify-event", &invented)]).await, "accepted");
    }
}

/// Of a batch only the first event is signed: the others are as they were in the first copy received.
async fn segment(stage: &Stage<'_>) {
    let segment = sender("segment", SECRET);
    let batch = |second: &str| {
        let body =
            format!(r#"[{{"type":"track","messageId":"1"}},{{"type":"track","messageId":"{second}"}}]"#);
        signed(&segment, "", "", &body)
    };
    assert_eq!(stage.send("segment", &batch("2"), &[]).await, "accepted");
    assert_eq!(stage.send("segment", &batch("forged"), &[]).await, "conflict");
}

#[test]
fn a_content_type_does_not_choose_how_a_signed_body_of_github_is_read() {
    let kind = builtin().into_iter().find(|one| one.kind() == "github").unwrap();
    let github = dev(&kind);
    let read = |body: &str, content_type: &str| {
        let at =
            SignAt { now_s: NOW_S, url: String::new(), id: "d1".to_owned(), event_type: "issues".to_owned() };
        let mut signed = github.sign(body.as_bytes(), &at).unwrap();
        signed.headers.retain(|(name, _)| name != "content-type");
        let signed = signed.with("content-type", content_type);
        let events = github.read(&github.verify(request(&signed.headers, &signed.body, "", NOW_S)).unwrap());
        events[0].event_type.clone()
    };
    let opened = r#"{"action":"opened","issue":{"title":"a&payload=%7B%22action%22:%22closed%22%7D&b"}}"#;
    let form = "payload=%7B%22action%22%3A%22closed%22%7D";
    for content_type in ["application/json", "application/x-www-form-urlencoded", "text/plain"] {
        assert_eq!(read(opened, content_type), "issues.opened", "{content_type}");
        assert_eq!(read(form, content_type), "issues.closed", "{content_type}");
    }
}

#[test]
fn every_change_of_an_entry_of_meta_is_an_event_of_its_own_kind() {
    let kind = builtin().into_iter().find(|one| one.kind() == "meta").unwrap();
    let meta = dev(&kind);
    #[track_caller]
    fn check(meta: &ActiveProvider, body: &str, want: &[(&str, &str)]) {
        let signed = signed(meta, "", "", body);
        let events = meta.read(&meta.verify(request(&signed.headers, &signed.body, "", NOW_S)).unwrap());
        let got: Vec<_> = events
            .iter()
            .map(|event| (event.event_type.as_str(), std::str::from_utf8(&event.payload).unwrap()))
            .collect();
        assert_eq!(got, want);
        for event in &events {
            assert_eq!(meta.stored_content(&event.headers, &event.body).unwrap().payload, event.payload);
        }
    }
    let (feed, name) = (r#"{"field":"feed","value":{"item":"post"}}"#, r#"{"field":"name","value":"x"}"#);
    let one = format!(r#"{{"id":"1","time":1,"changes":[{feed}]}}"#);
    let other = format!(r#"{{"id":"1","time":1,"changes":[{name}]}}"#);
    check(
        &meta,
        &format!(r#"{{"object":"page","entry":[{{"id":"1","time":1,"changes":[{feed},{name}]}},{one}]}}"#),
        &[("page.feed", &one), ("page.name", &other), ("page.feed", &one)],
    );
    let (hello, read) =
        (r#"{"message":{"mid":"a"},"recipient":{"id":"777"}}"#, r#"{"read":{"watermark":1}}"#);
    check(
        &meta,
        &format!(r#"{{"object":"page","entry":[{{"id":"1","messaging":[{hello},{read}]}}]}}"#),
        &[
            ("page.message", &format!(r#"{{"id":"1","messaging":[{hello}]}}"#)),
            ("page.read", &format!(r#"{{"id":"1","messaging":[{read}]}}"#)),
        ],
    );
    check(
        &meta,
        r#"{"object":"user","entry":[{"uid":"1","changed_fields":["photos","name"]}]}"#,
        &[
            ("user.photos", r#"{"uid":"1","changed_fields":["photos"]}"#),
            ("user.name", r#"{"uid":"1","changed_fields":["name"]}"#),
        ],
    );
    check(&meta, r#"{"object":"page","entry":[]}"#, &[]);
}
