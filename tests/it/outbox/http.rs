//! What a destination's configuration may say about its calls over HTTP, each shown to a real server.

use hooklatch_core::config::{
    AuthConfig, CaptureConfig, DestinationConfig, HmacAlgorithm, HmacConfig, HmacEncoding, HttpConfig,
    HttpVersion, Secret, StatusMeaning, SuccessConfig, UnknownPolicy,
};
use hooklatch_core::types::AttemptResult;
use hooklatch_store::LeaseWant;
use http::Version;
use tokio::net::TcpListener;

use super::{Fixture, HOUR_MS};
use crate::database::{Database, on_both};
use crate::store::{admit, event, message, name};
use crate::stub::{Mode, Stub};

on_both!(
    a_call_has_the_credentials_that_the_destination_configures,
    a_signature_in_a_header_is_over_what_was_agreed,
    a_response_must_report_success_where_that_is_configured,
    a_piece_of_the_answer_is_kept_without_secrets,
    a_large_answer_is_not_read_to_its_end,
    a_call_goes_through_the_proxy_that_is_configured,
    both_versions_of_http_are_spoken,
    a_call_to_an_unresolvable_name_was_not_sent,
    a_host_out_of_a_template_may_not_be_private,
    a_message_cannot_lead_a_template_to_another_host,
    a_call_that_outlasts_its_lease_keeps_it,
    a_lease_that_was_lost_is_not_prolonged,
);

async fn one(fixture: &Fixture, config: DestinationConfig) -> hooklatch_store::MessageRow {
    let id = format!("evt_{}", fastrand::u64(..));
    fixture.message(&id, &["billing"]).await;
    assert_eq!(fixture.outbox(config).run_due().await.unwrap(), 1);
    fixture.row(&id).await
}

fn with(fixture: &Fixture, http: HttpConfig) -> DestinationConfig {
    DestinationConfig { http, ..fixture.config(UnknownPolicy::Retry) }
}

async fn a_call_has_the_credentials_that_the_destination_configures(database: &Database) {
    let fixture = Fixture::new(database).await;
    let basic = AuthConfig::Basic { user: "hook".to_owned(), password: Secret::new("p:w") };
    for (auth, want) in
        [(basic, "Basic aG9vazpwOnc="), (AuthConfig::Bearer(Secret::new("tok")), "Bearer tok")]
    {
        let row =
            one(&fixture, with(&fixture, HttpConfig { auth: Some(auth), ..HttpConfig::default() })).await;
        assert_eq!(fixture.stub.call(&row.idempotency_key).headers["authorization"], want);
    }
}

async fn a_signature_in_a_header_is_over_what_was_agreed(database: &Database) {
    let fixture = Fixture::new(database).await;
    let hmac = HmacConfig {
        header: "x-signature".to_owned(),
        secret: Secret::new("key"),
        algorithm: HmacAlgorithm::Sha256,
        encoding: HmacEncoding::Hex,
        prefix: "sha256=".to_owned(),
        signed: "{{ timestamp }}.{{ body }}".to_owned(),
        timestamp_header: Some("x-time".to_owned()),
    };
    let row = one(&fixture, with(&fixture, HttpConfig { hmac: Some(hmac), ..HttpConfig::default() })).await;
    let call = fixture.stub.call(&row.idempotency_key);
    assert_eq!(call.headers["x-time"], "1");
    // printf '1.{"a":1}' | openssl dgst -sha256 -hmac key
    let want = "sha256=6d79bda23417c5d4f1b421c877b89fec92fde17dd9d447f5d140713ed9b8b48f";
    assert_eq!(call.headers["x-signature"], want);
}

async fn a_response_must_report_success_where_that_is_configured(database: &Database) {
    let fixture = Fixture::new(database).await;
    for (otherwise, answer, state) in [
        (StatusMeaning::Dead, "{\"ok\":true}", "done"),
        (StatusMeaning::Dead, "{\"ok\":false}", "dead"),
        (StatusMeaning::Retry, "{\"ok\":false}", "ready"),
        (StatusMeaning::Dead, "<html>", "held"),
    ] {
        let success = SuccessConfig { pointer: "/ok".to_owned(), equals: None, otherwise };
        let http = HttpConfig { success: Some(success), ..HttpConfig::default() };
        fixture.stub.next(&[Mode::Says(answer)]);
        let config = DestinationConfig { http, ..fixture.config(UnknownPolicy::Hold) };
        let row = one(&fixture, config).await;
        assert_eq!(row.state.as_str(), state, "{answer}: {:?}", row.last_error);
    }
}

async fn a_piece_of_the_answer_is_kept_without_secrets(database: &Database) {
    let fixture = Fixture::new(database).await;
    let capture = CaptureConfig { bytes_max: 60, redact: vec!["/token".to_owned()] };
    let http = HttpConfig { capture: Some(capture), ..HttpConfig::default() };
    fixture.stub.next(&[Mode::Says(r#"{"id":"ch_1","token":"t0ps3cret","you":"Bearer canary"}"#)]);
    let row = one(&fixture, with(&fixture, http)).await;
    let attempts = fixture.store.attempt_list(row.message_id).await.unwrap();
    assert_eq!(
        attempts[0].response.as_deref(),
        Some(r#"{"id":"ch_1","token":"[redacted]","you":"[redacted]"}"#)
    );
    let row = one(&fixture, fixture.config(UnknownPolicy::Retry)).await;
    assert_eq!(fixture.store.attempt_list(row.message_id).await.unwrap()[0].response, None, "not asked for");
}

async fn a_large_answer_is_not_read_to_its_end(database: &Database) {
    let fixture = Fixture::new(database).await;
    let capture = CaptureConfig { bytes_max: 60, redact: Vec::new() };
    for capture in [None, Some(capture)] {
        fixture.stub.next(&[Mode::Large(50 * 1024 * 1024)]);
        let row = one(&fixture, with(&fixture, HttpConfig { capture, ..HttpConfig::default() })).await;
        assert_eq!(row.state.as_str(), "done");
    }
}

async fn a_call_goes_through_the_proxy_that_is_configured(database: &Database) {
    let fixture = Fixture::new(database).await;
    let proxy = Secret::new(format!("http://user:pass@{}", fixture.stub.addr));
    let http = HttpConfig { proxy: Some(proxy), ..HttpConfig::default() };
    let config = DestinationConfig { url: "http://far.invalid/calls".to_owned(), ..with(&fixture, http) };
    let row = one(&fixture, config).await;
    let call = fixture.stub.call(&row.idempotency_key);
    assert_eq!(call.path, "http://far.invalid/calls", "the proxy looks the name up");
    assert_eq!(call.headers["proxy-authorization"], "Basic dXNlcjpwYXNz");
}

async fn both_versions_of_http_are_spoken(database: &Database) {
    let fixture = Fixture::new(database).await;
    for version in [HttpVersion::Only2, HttpVersion::Only11, HttpVersion::Auto] {
        let row = one(&fixture, with(&fixture, HttpConfig { version, ..HttpConfig::default() })).await;
        assert_eq!(row.state.as_str(), "done");
    }
    assert_eq!(fixture.stub.versions(), [Version::HTTP_2, Version::HTTP_11, Version::HTTP_11]);
}

async fn a_call_to_an_unresolvable_name_was_not_sent(database: &Database) {
    let fixture = Fixture::new(database).await;
    let url = "http://absent.invalid/calls".to_owned();
    let row = one(&fixture, DestinationConfig { url, ..fixture.config(UnknownPolicy::Hold) }).await;
    assert_eq!(
        (row.state.as_str(), row.last_result.map(AttemptResult::as_str)),
        ("ready", Some("retry")),
        "{row:?}"
    );
    assert!(row.last_error.unwrap().starts_with("not sent: "));
}

/// One message whose template led to `url`.
async fn led_to(fixture: &Fixture, url: String, config: DestinationConfig) -> hooklatch_store::MessageRow {
    let id = format!("evt_{}", fastrand::u64(..));
    let mut sent = message("billing");
    sent.path = url;
    admit(&fixture.store, &event(&id, "{\"a\":1}"), &[sent]).await;
    fixture.outbox(config).run_due().await.unwrap();
    fixture.row(&id).await
}

async fn a_host_out_of_a_template_may_not_be_private(database: &Database) {
    let fixture = Fixture::new(database).await;
    let port = fixture.stub.addr.port();
    let template = |private_hosts: &[&str]| {
        let private_hosts = private_hosts.iter().map(ToString::to_string).collect();
        let http = HttpConfig { private_hosts, ..HttpConfig::default() };
        DestinationConfig { url: "http://{{ payload.host }}/calls".to_owned(), ..with(&fixture, http) }
    };
    // An address, a name that leads to one only when it is looked up, and other ways to write the address.
    for host in ["127.0.0.1", "localhost", "[::1]", "0x7f000001", "[::ffff:127.0.0.1]"] {
        let row = led_to(&fixture, format!("http://{host}:{port}/calls"), template(&[])).await;
        assert_eq!(
            (row.state.as_str(), row.last_result.map(AttemptResult::as_str)),
            ("dead", Some("refused")),
            "{host}"
        );
        assert!(row.last_error.unwrap().contains("private network"), "{host}");
        assert_eq!(fixture.stub.counts(&row.idempotency_key), (0, 0), "{host}");
    }
    for (host, allowed) in
        [("127.0.0.1", "127.0.0.0/8"), ("localhost", "localhost"), ("localhost", "127.0.0.1")]
    {
        let row = led_to(&fixture, format!("http://{host}:{port}/calls"), template(&[allowed])).await;
        assert_eq!(row.state.as_str(), "done", "{host} {:?}", row.last_error);
    }
}

async fn a_message_cannot_lead_a_template_to_another_host(database: &Database) {
    let fixture = Fixture::new(database).await;
    let other = Stub::start().await;
    let config = DestinationConfig {
        url: format!("{}/{{{{ payload.id }}}}", fixture.stub.url()),
        ..fixture.config(UnknownPolicy::Retry)
    };
    let row = led_to(&fixture, other.url(), config.clone()).await;
    assert!(row.last_error.unwrap().contains("leaves the destination's host"));
    assert_eq!(other.counts(&row.idempotency_key), (0, 0));
    let row = led_to(&fixture, format!("{}/7", fixture.stub.url()), config).await;
    assert_eq!(row.state.as_str(), "done", "a host that the config names may be private");
}

async fn a_call_that_outlasts_its_lease_keeps_it(database: &Database) {
    let fixture = Fixture::new(database).await;
    fixture.message("evt_1", &["billing"]).await;
    fixture.stub.next(&[Mode::WhenReleased]);
    let config =
        DestinationConfig { heartbeat: true, timeout_ms: 60_000, ..fixture.config(UnknownPolicy::Hold) };
    let outbox = fixture.outbox_leasing(config, 400);
    // Three leases long, on a clock that goes on with each beat, another worker looks for what is due.
    let looking = async {
        fixture.until_called(&fixture.key("evt_1", "billing")).await;
        for _ in 0..6 {
            while fixture.row("evt_1").await.visible_at_ms < fixture.clock.now_ms() + 400 {
                tokio::task::yield_now().await;
            }
            fixture.clock.advance(200);
            let want = LeaseWant {
                destination: name("billing"),
                free_n: 9,
                free_bytes_n: u64::MAX >> 1,
                key_valid_for_ms: HOUR_MS,
            };
            let now_ms = fixture.clock.now_ms();
            let taken = fixture.store.message_lease(&[want], now_ms, 400, "node-2").await.unwrap();
            assert!(taken.is_empty(), "the lease was prolonged all the while");
        }
        fixture.stub.release();
    };
    let (ran, ()) = tokio::join!(outbox.run_due(), looking);
    assert_eq!(ran.unwrap(), 1);
    let row = fixture.row("evt_1").await;
    assert_eq!((row.state.as_str(), row.attempts_n), ("done", 1), "{row:?}");
}

async fn a_lease_that_was_lost_is_not_prolonged(database: &Database) {
    let fixture = Fixture::new(database).await;
    fixture.message("evt_1", &["billing"]).await;
    let want = LeaseWant {
        destination: name("billing"),
        free_n: 9,
        free_bytes_n: u64::MAX >> 1,
        key_valid_for_ms: HOUR_MS,
    };
    let lease = async |node: &str| {
        let now_ms = fixture.clock.now_ms();
        fixture.store.message_lease(std::slice::from_ref(&want), now_ms, 1_000, node).await.unwrap().remove(0)
    };
    let old = lease("node-1").await;
    let extend = async |held: &hooklatch_store::LeasedMessage, until_ms: i64| {
        fixture
            .store
            .message_extend(held.message_id, held.attempt_n, until_ms - 30_000, 30_000)
            .await
            .unwrap()
    };
    assert!(extend(&old, 5_000).await);
    fixture.clock.advance(5_000);
    let new = lease("node-2").await;
    assert!(!extend(&old, 99_000).await, "fenced");
    assert!(extend(&new, 9_000).await);
    assert_eq!(fixture.row("evt_1").await.visible_at_ms, 9_000);
}

#[tokio::test]
async fn a_listener_that_speaks_no_tls_was_not_sent_to() {
    let database = Database::create(crate::database::On::Sqlite).await.unwrap();
    let fixture = Fixture::new(&database).await;
    let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", plain.local_addr().unwrap());
    let mut talking = tokio::task::JoinSet::new();
    talking.spawn(async move {
        use tokio::io::AsyncWriteExt;
        let (mut stream, _) = plain.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
    });
    let row = one(&fixture, DestinationConfig { url, ..fixture.config(UnknownPolicy::Hold) }).await;
    assert_eq!(
        (row.state.as_str(), row.last_result.map(AttemptResult::as_str)),
        ("ready", Some("retry")),
        "{row:?}"
    );
}
