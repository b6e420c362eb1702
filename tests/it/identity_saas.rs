//! Requests forged out of one genuine request of a software service: none is an event of its own. And genuine ones
//! that look alike: each is.

use hooklatch_receive::provider::{ActiveProvider, Kind};
use hooklatch_receive::providers::builtin;
use hooklatch_verify::{SignAt, Signed};

use crate::process::{Server, client, now_s};
use crate::providers::{NOW_S, dev, request, sign_at};

type Headers = Vec<(String, String)>;

/// A server with every kind, and a client that sends to it.
struct Sender {
    server: Server,
    client: reqwest::Client,
}

impl Sender {
    async fn start() -> Self {
        Self { server: Server::dev().await, client: client() }
    }

    /// A request as `kind`'s sender signs it.
    fn signed(&self, kind: &str, (event_type, id): (&str, &str), body: &str) -> Signed {
        let provider: ActiveProvider = dev(builtin().iter().find(|one| one.kind() == kind).unwrap());
        let (id, event_type) = (id.to_owned(), event_type.to_owned());
        let at =
            SignAt { now_s: now_s(), url: self.server.url(&format!("/webhooks/{kind}")), id, event_type };
        provider.sign(body.as_bytes(), &at).unwrap()
    }

    /// The outcome of a request, or the status of a refusal.
    async fn post(&self, kind: &str, headers: &Headers, body: &[u8]) -> String {
        let url = self.server.url(&format!("/webhooks/{kind}"));
        let mut request = self.client.post(url).body(body.to_vec());
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let response = request.send().await.unwrap();
        match (response.status().as_u16(), response.headers().get("hooklatch-outcome")) {
            (200, Some(outcome)) => outcome.to_str().unwrap().to_owned(),
            (status, _) => status.to_string(),
        }
    }
}

/// The headers with these set instead, or besides.
fn with(headers: &Headers, set: &[(&str, &str)]) -> Headers {
    let is_kept = |(name, _): &&(String, String)| set.iter().all(|(one, _)| one != name);
    let set = set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    headers.iter().filter(is_kept).cloned().chain(set).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unsigned_id_of_the_family_makes_no_other_event() {
    let sender = Sender::start().await;
    let body = r#"{"type":"invoice.paid","data":{"id":"in_1"}}"#;
    let signed = sender.signed("svix", ("", "msg_1"), body);
    // Both families sign alike, so this is a request of a white label.
    let headers: Headers = signed
        .headers
        .iter()
        .map(|(name, value)| (name.replace("svix-", "webhook-"), value.clone()))
        .collect();
    assert_eq!(sender.post("svix", &headers, &signed.body).await, "accepted");
    for forged in ["forged_1", "forged_2"] {
        let headers = with(&headers, &[("svix-id", forged), ("svix-timestamp", "1")]);
        assert_eq!(sender.post("svix", &headers, &signed.body).await, "duplicate");
    }
    for kind in ["svix", "standard_webhooks", "clerk", "resend", "openai"] {
        let signed = sender.signed(kind, ("", "msg_2"), body);
        let other =
            if signed.headers.iter().any(|(name, _)| name == "svix-id") { "webhook-id" } else { "svix-id" };
        assert_eq!(sender.post(kind, &signed.headers, &signed.body).await, "accepted", "{kind}");
        let headers = with(&signed.headers, &[(other, "forged")]);
        assert_eq!(sender.post(kind, &headers, &signed.body).await, "duplicate", "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_of_sns_that_holds_lines_of_the_signed_text_is_cut_in_one_way_alone() {
    const OURS: &str = "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324";
    const FORGED: &str = "33c91ca3-fdea-4c2c-8f9d-bdfb0c7bf324";
    let sender = Sender::start().await;
    let message = |text: &str, id: &str| {
        serde_json::json!({
            "Type": "Notification", "MessageId": id, "TopicArn": "arn:aws:sns:us-west-2:123456789012:MyTopic",
            "Message": text, "Timestamp": "2026-01-01T00:00:00.000Z", "Signature": "",
        })
    };
    // A user who may publish a text writes lines into it as the signed text has them.
    let inner = format!("a\nMessageId\n{FORGED}\nSubject\nb");
    let signed = sender.signed("aws_sns", ("", OURS), &message(&inner, OURS).to_string());
    assert_eq!(sender.post("aws_sns", &signed.headers, &signed.body).await, "accepted");
    let mut cut: serde_json::Value = serde_json::from_slice(&signed.body).unwrap();
    cut["Message"] = "a".into();
    cut["MessageId"] = FORGED.into();
    cut["Subject"] = format!("b\nMessageId\n{OURS}").into();
    let cut = cut.to_string();
    assert_eq!(sender.post("aws_sns", &signed.headers, cut.as_bytes()).await, "401");
    // The same with the id of an event of the forger's choice.
    let named = cut.replace(FORGED, "evt_1");
    assert_eq!(sender.post("aws_sns", &signed.headers, named.as_bytes()).await, "401");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signed_request_under_an_invented_id_or_type_is_a_replay() {
    let sender = Sender::start().await;
    let body = r#"{"pullrequest":{"id":1},"repository":{"uuid":"r"}}"#;
    let signed = sender.signed("bitbucket", ("pullrequest:fulfilled", "r1"), body);
    assert_eq!(sender.post("bitbucket", &signed.headers, &signed.body).await, "accepted");
    for forged in [
        &[("x-request-uuid", "r2")][..],
        &[("x-request-uuid", "r3"), ("x-event-key", "pullrequest:rejected")],
        // A type of which equal bytes are legitimate, with bytes that are not of that type.
        &[("x-request-uuid", "r4"), ("x-event-key", "repo:push")],
    ] {
        let headers = with(&signed.headers, forged);
        assert_eq!(sender.post("bitbucket", &headers, &signed.body).await, "replayed", "{forged:?}");
    }
    let body = r#"{"event":"build.finished","build":{"id":"b1"}}"#;
    let signed = sender.signed("buildkite", ("build.finished", "r1"), body);
    assert_eq!(sender.post("buildkite", &signed.headers, &signed.body).await, "accepted");
    for forged in [
        &[("x-buildkite-request", "r2")][..],
        &[("x-buildkite-request", "r3"), ("x-buildkite-event", "build.failing")],
    ] {
        let headers = with(&signed.headers, forged);
        assert_eq!(sender.post("buildkite", &headers, &signed.body).await, "replayed", "{forged:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn genuine_events_that_look_alike_are_each_accepted() {
    let sender = Sender::start().await;
    // One token serves all requests of a second.
    let issue = |key: &str| format!(r#"{{"webhookEvent":"jira:issue_updated","issue":{{"key":"{key}"}}}}"#);
    let first = sender.signed("atlassian_connect", ("", ""), &issue("A-1"));
    assert_eq!(sender.post("atlassian_connect", &first.headers, &first.body).await, "accepted");
    assert_eq!(sender.post("atlassian_connect", &first.headers, issue("A-2").as_bytes()).await, "accepted");
    assert_eq!(sender.post("atlassian_connect", &first.headers, issue("A-2").as_bytes()).await, "duplicate");
    // A token signs nothing, so equal data under another id is another event.
    let token = sender.signed("cloudevents", ("", ""), "{}").headers;
    let event =
        |id| with(&token, &[("ce-id", id), ("ce-source", "/s"), ("ce-type", "t"), ("ce-specversion", "1.0")]);
    for (id, outcome) in [("1", "accepted"), ("2", "accepted"), ("2", "duplicate")] {
        assert_eq!(sender.post("cloudevents", &event(id), b"{}").await, outcome);
    }
    // A branch that is moved back and forth by force.
    let push = r#"{"push":{"changes":[{"forced":true}]}}"#;
    for (id, outcome) in [("p1", "accepted"), ("p2", "accepted"), ("p2", "duplicate")] {
        let signed = sender.signed("bitbucket", ("repo:push", id), push);
        assert_eq!(sender.post("bitbucket", &signed.headers, &signed.body).await, outcome);
    }
    // An attempt of Supabase's own has another webhook-id.
    let sms = r#"{"metadata":{"uuid":"u1"},"user":{"id":"1"},"sms":{"otp":"561166"}}"#;
    for (id, outcome) in [("w1", "accepted"), ("w2", "duplicate")] {
        let signed = sender.signed("supabase", ("", id), sms);
        assert_eq!(sender.post("supabase", &signed.headers, &signed.body).await, outcome);
    }
}

#[test]
fn what_a_client_says_twice_in_one_batch_is_said_twice() {
    let provider = dev(builtin().iter().find(|one| one.kind() == "pusher").unwrap());
    let said = r#"{"name":"client_event","channel":"c","event":"ping","data":"d","socket_id":"1.1"}"#;
    let body = format!(r#"{{"time_ms":1327078148132,"events":[{said},{said}]}}"#);
    let keys = || -> Vec<String> {
        let at = sign_at(&provider, "");
        let Signed { headers, body } = provider.sign(body.as_bytes(), &at).unwrap();
        let verified = provider.verify(request(&headers, &body, &at.url, NOW_S)).unwrap();
        provider.read(&verified).iter().map(|event| event.key.event_id.clone()).collect()
    };
    let first = keys();
    assert!(first.len() == 2 && first[0] != first[1], "{first:?}");
    assert_eq!(keys(), first, "and is the same when the batch is sent again");
}
