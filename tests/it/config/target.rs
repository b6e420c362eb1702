//! Destinations beyond HTTP: the parts of their URLs, and settings that do not fit them.
#![cfg(all(feature = "kafka", feature = "nats", feature = "rabbitmq", feature = "redis"))]

use hooklatch_core::config::Format;

use super::{loaded, name, right};

fn destination(keys: &str) -> String {
    format!("[destinations.far]\n{keys}\n")
}

#[test]
fn a_url_may_be_a_secret_and_says_what_a_destination_is() {
    let text = destination("url = { env = \"FAR_URL\" }\nsubject = \"a.b\"\nformat = \"cloudevents\"");
    let config = right(&text, &[("FAR_URL", "nats://me:canary@far:4222")]);
    let far = &config.destinations[&name("far")];
    assert_eq!(far.format, Format::CloudEvents);
    assert!(!format!("{far:?}").contains("canary"), "{far:?}");
    assert_eq!(far.target.kind(), "nats");
    assert!(format!("{:?}", far.target).contains("\"subject\": \"a.b\""), "{far:?}");
    let config = right(&destination("url = \"postgres://far/db\"\ntable = \"in.box\""), &[]);
    assert_eq!(config.destinations[&name("far")].target.kind(), "postgres-table");
}

#[test]
fn what_does_not_fit_a_scheme_is_said() {
    #[track_caller]
    fn check(keys: &str, key: &str, part: &str) {
        let problems = loaded(&destination(keys), &[]).expect_err(keys);
        let key = format!("destinations.far.{key}");
        let found = problems.iter().any(|problem| problem.key == key && problem.to_string().contains(part));
        assert!(found && problems.len() == 1, "no problem of `{key}` with `{part}` in {problems:#?}");
    }
    const NATS: &str = "url = \"nats://far\"\nsubject = \"a\"\n";
    const HTTP: &str = "url = \"https://far\"\n";
    check("url = \"nats://far\"", "subject", "is missing");
    check("url = \"nats://far\"\nsubject = \"a.*\"", "subject", "is no subject");
    check("url = \"nats://\"\nsubject = \"a\"", "url", "is not a url with a host");
    check("url = \"nats://far x\"\nsubject = \"a\"", "url", "spaces");
    check(&format!("{NATS}topic = \"a\""), "topic", "it is for kafka:// and kafkas://");
    check(&format!("{NATS}statuses = {{ 409 = \"done\" }}"), "statuses", "it is for http:// and https://");
    check(&format!("{NATS}sign_secret = \"0123456789\""), "sign_secret", "it is for http:// and https://");
    check(&format!("{NATS}format = \"xml\""), "format", "\"raw\" or \"cloudevents\"");
    check(&format!("{HTTP}subject = \"a\""), "subject", "it is for nats:// and tls://");
    check(&format!("{HTTP}stream_len_max = 5"), "stream_len_max", "it is for redis:// and rediss://");
    check("url = \"amqp://far\"", "routing_key", "is missing");
    check("url = \"redis://far\"\nstream = \"\"", "stream", "is no stream");
    check("url = \"kafka://far\"\ntopic = \"a\"", "url", "HOST:PORT");
    check("url = \"kafka://far:1\"\ntopic = \"a/b\"", "topic", "is no topic");
    check("url = \"postgres://far/db\"\ntable = \"a; drop table b\"", "table", "is no table");
}

#[test]
fn a_broker_cannot_be_asked() {
    let keys = "url = \"nats://far\"\nsubject = \"a\"\nunknown = \"query\"\n\
        query = { url = \"http://far/{{ idempotency_key }}\", pointer = \"/a\" }";
    let problems = loaded(&destination(keys), &[]).expect_err("wrong");
    let keys: Vec<&str> = problems.iter().map(|problem| problem.key.as_str()).collect();
    assert_eq!(keys, ["destinations.far.query", "destinations.far.unknown"], "{problems:#?}");
    assert!(problems[1].remedy.contains("\"retry\" or \"hold\""), "{problems:#?}");
}

#[test]
fn a_url_of_a_broker_is_never_part_of_a_problem() {
    let keys = "url = \"amqp://me:canary@\"\nstream = \"canaries\"";
    let problems = loaded(&destination(keys), &[]).expect_err("wrong");
    assert!(problems.len() >= 2, "{problems:#?}");
    assert!(!format!("{problems:?}").contains("canary"), "{problems:#?}");
}
