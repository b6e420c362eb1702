//! Redis Streams: the script drops copies.

use std::collections::BTreeMap;

use hooklatch_core::config::UnknownPolicy;
use redis::Value;

use super::{Bench, Received, TestDestination, config, server, shows_no_password, unique};

struct Redis {
    client: redis::Client,
    stream: String,
}

fn redis() -> Option<(Redis, u16)> {
    let url = server("HOOKLATCH_TEST_REDIS_URL")?;
    let client = redis::Client::open(url.as_str()).unwrap();
    Some((Redis { client, stream: unique("hooklatch") }, url.port().unwrap_or(6_379)))
}

impl Redis {
    async fn ask(&self, command: &mut redis::Cmd) -> Value {
        let mut connection = self.client.get_multiplexed_async_connection().await.unwrap();
        command.query_async(&mut connection).await.unwrap()
    }
}

impl TestDestination for Redis {
    const DROPS_COPIES: bool = true;
    const NOTICES: bool = false;

    fn keys(&self, port: u16) -> String {
        format!("url = \"redis://127.0.0.1:{port}\"\nstream = \"{}\"", self.stream)
    }

    async fn received(&self) -> Vec<Received> {
        let mut connection = self.client.get_multiplexed_async_connection().await.unwrap();
        let entries: Vec<(String, BTreeMap<String, String>)> = redis::cmd("XRANGE")
            .arg(&self.stream)
            .arg("-")
            .arg("+")
            .query_async(&mut connection)
            .await
            .unwrap();
        let received = |(_, mut metadata): (String, BTreeMap<String, String>)| Received {
            key: metadata["idempotency-key"].clone(),
            body: metadata.remove("body").unwrap().into_bytes(),
            metadata,
        };
        entries.into_iter().map(received).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_sent_twice_is_there_once_and_a_lost_answer_is_unknown() {
    let Some((redis, port)) = redis() else { return };
    let bench = Bench::new(&redis, port, false).await;
    bench.shows().await;
    let mut markers = redis::cmd("PTTL");
    markers.arg(format!("{{{}}}:hooklatch:{}", redis.stream, bench.key("evt_1").await));
    let Value::Int(left_ms) = redis.ask(&mut markers).await else { panic!("no number") };
    assert!(
        (86_000_000..=86_400_000).contains(&left_ms),
        "a key is remembered as long as it is used: {left_ms}"
    );
}

#[cfg(feature = "otel")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_sent_says_of_which_span_it_is() {
    let Some((redis, port)) = redis() else { return };
    super::shows_its_span(&redis, port).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_could_not_be_added_is_not_taken_for_a_copy_later() {
    let Some((redis, port)) = redis() else { return };
    redis.ask(redis::cmd("SET").arg(&redis.stream).arg("not a stream")).await;
    let bench = Bench::new(&redis, port, false).await;
    bench.fixture.message("evt_1", &["billing"]).await;
    let outbox = bench.outbox(UnknownPolicy::Hold);
    outbox.run_due().await.unwrap();
    assert_eq!(bench.fixture.state("evt_1").await, "ready");
    assert!(bench.error("evt_1").await.contains("WRONGTYPE"), "{}", bench.error("evt_1").await);
    redis.ask(redis::cmd("DEL").arg(&redis.stream)).await;
    bench.fixture.step_to_the_end(&outbox).await;
    assert_eq!(bench.fixture.state("evt_1").await, "done");
    assert_eq!(bench.keys().await, [bench.key("evt_1").await]);
}

/// A user who may do everything but what is taken away, and the keys of the destination as that user.
async fn forbidden(redis: &Redis, port: u16, rules: &[&str]) -> String {
    let mut user = redis::cmd("ACL");
    user.arg("SETUSER").arg(&redis.stream).arg("on").arg(">pass").arg("~*").arg("+@all").arg(rules);
    redis.ask(&mut user).await;
    let stream = &redis.stream;
    format!("url = \"redis://{stream}:pass@127.0.0.1:{port}\"\nstream = \"{stream}\"")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_entry_is_added_when_its_marker_is_refused() {
    let Some((redis, port)) = redis() else { return };
    let bench = Bench::new(&redis, port, false).await;
    for policy in [UnknownPolicy::Hold, UnknownPolicy::Retry] {
        let id = format!("evt_{}", fastrand::u32(..));
        let keys = forbidden(&redis, port, &["-set"]).await;
        bench.fixture.message(&id, &["billing"]).await;
        let outbox = bench.fixture.outbox(config(&bench.fixture, &keys, policy));
        outbox.run_due().await.unwrap();
        assert_eq!(bench.fixture.state(&id).await, "ready", "{}", bench.error(&id).await);
        let own = bench.key(&id).await;
        let before_n = bench.keys().await.iter().filter(|key| **key == own).count();
        assert_eq!(before_n, 0, "surely not executed: {}", bench.error(&id).await);
        forbidden(&redis, port, &["+set"]).await;
        bench.fixture.step_to_the_end(&outbox).await;
        let entries_n = bench.keys().await.iter().filter(|key| **key == own).count();
        assert_eq!((bench.fixture.state(&id).await.as_str(), entries_n), ("done", 1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_that_is_refused_leaves_no_marker_whatever_else_is_forbidden() {
    let Some((redis, port)) = redis() else { return };
    let bench = Bench::new(&redis, port, false).await;
    let keys = forbidden(&redis, port, &["-xadd", "-del", "-unlink", "-expire", "-pexpire"]).await;
    bench.fixture.message("evt_1", &["billing"]).await;
    let outbox = bench.fixture.outbox(config(&bench.fixture, &keys, UnknownPolicy::Hold));
    outbox.run_due().await.unwrap();
    assert_eq!(bench.fixture.state("evt_1").await, "ready", "{}", bench.error("evt_1").await);
    forbidden(&redis, port, &["+xadd"]).await;
    bench.fixture.step_to_the_end(&outbox).await;
    assert_eq!(bench.fixture.state("evt_1").await, "done");
    assert_eq!(bench.keys().await, [bench.key("evt_1").await], "it was not taken for a copy");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_is_trimmed_to_about_what_is_configured() {
    let Some((redis, port)) = redis() else { return };
    let bench = Bench::new(&redis, port, false).await;
    let keys = format!("{}\nstream_len_max = 100", redis.keys(port));
    for n in 0..300 {
        bench.fixture.message(&format!("evt_{n}"), &["billing"]).await;
    }
    bench.fixture.outbox(config(&bench.fixture, &keys, UnknownPolicy::Retry)).run_due().await.unwrap();
    let left_n = bench.keys().await.len();
    assert!((100..300).contains(&left_n), "{left_n} are left");
}

#[tokio::test]
async fn a_password_in_a_url_is_never_shown() {
    shows_no_password("url = \"redis://:canary@127.0.0.1:1\"\nstream = \"a\"").await;
}
