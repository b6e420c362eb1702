//! `hooklatch-bench`: the requests it sends are those that it counts, a slow receiver is measured in full, and only test
//! servers are loaded.
#![expect(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "tests")]

use std::collections::HashSet;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use bytes::Bytes;
use hooklatch_core::config::{KindSettings, Secret};
use hooklatch_core::types::Clock;
use hooklatch_receive::provider::Kind;
use hooklatch_receive::providers::builtin;
use hooklatch_verify::RawRequest;
use http::{HeaderMap, Method, StatusCode};
use serde_json::Value;

const SECRET: &str = "whsec_0123456789abcdef";
const IS_TEST: (&str, &str) = ("hooklatch-test", "true");

/// Runs the program for `stripe`.
async fn bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hooklatch-bench"));
    command.arg("stripe").args(arguments);
    // The receiver may be on this runtime.
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn parse(output: &Output) -> (i32, Value, String) {
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    let json = serde_json::from_slice(&output.stdout);
    (output.status.code().unwrap(), json.unwrap_or_else(|_| panic!("{text}")), text)
}

fn n(report: &Value, pointer: &str) -> u64 {
    report.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {pointer} in {report}"))
}

/// Serves `router` on a free port; returns the URL.
async fn serve(router: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

/// A receiver of `stripe` that verifies each request, and keeps each body once in `kept`.
async fn verifying(kept: Arc<Mutex<HashSet<Bytes>>>) -> String {
    let kinds = builtin();
    let kind = kinds.iter().find(|kind| kind.kind() == "stripe").unwrap();
    let provider = Arc::new(kind.judge_with(&[Secret::new(SECRET)], &KindSettings::default()).unwrap());
    let answer = move |method: Method, headers: HeaderMap, body: Bytes| {
        let (url, received_at_ms) = (provider.url().to_owned(), Clock::system().now_ms());
        let is_valid =
            provider.verify(RawRequest { method, url, headers, body: body.clone(), received_at_ms }).is_ok();
        let (status, outcome) = match is_valid {
            false => (StatusCode::UNAUTHORIZED, None),
            true if kept.lock().unwrap().insert(body) => (StatusCode::OK, Some("accepted")),
            true => (StatusCode::OK, Some("duplicate")),
        };
        let outcome = outcome.map(|outcome| [("hooklatch-outcome", outcome)]);
        async move { (status, [IS_TEST], outcome, ()) }
    };
    serve(Router::new().fallback(answer)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_requests_it_sends_are_those_that_it_counts() {
    let kept = Arc::new(Mutex::new(HashSet::new()));
    let url = verifying(Arc::clone(&kept)).await;
    let mix = ["--duplicates", "20", "--forgeries", "10", "--body-bytes", "1000,3000"];
    let count = ["--url", &url, "--secret", SECRET, "--count", "400", "--connections", "8", "--warm-up", "0"];
    let (code, report, errors) = parse(&bench(&[&count[..], &mix, &["--json"]].concat()).await);
    assert_eq!(code, 0, "{errors}{report}");
    assert_eq!(n(&report, "/requests_n"), 400);
    let forged_n = n(&report, "/answers/401");
    let copies_n = n(&report, "/answers/200 duplicate");
    let accepted_n = n(&report, "/answers/200 accepted");
    assert_eq!((n(&report, "/accepted_n"), accepted_n + copies_n + forged_n), (accepted_n, 400), "{report}");
    assert!((10..100).contains(&forged_n) && (30..160).contains(&copies_n), "{report}");
    assert_eq!((n(&report, "/forgeries_believed_n"), n(&report, "/errors_n")), (0, 0));
    let kept = kept.lock().unwrap();
    assert_eq!(u64::try_from(kept.len()).unwrap(), accepted_n, "what the receiver has");
    assert!(kept.iter().all(|body| [1_000, 3_000].contains(&body.len())), "the lengths that were asked for");
    for (least, most) in [("p50", "p90"), ("p90", "p99"), ("p99", "p99_9"), ("p99_9", "max")] {
        let ms = |name: &str| report["latency_ms"][name].as_f64().unwrap();
        assert!(0.0 < ms(least) && ms(least) <= ms(most), "{report}");
    }
    for part in ["/load/loop", "/load/connections_n", "/window_s", "/seconds/0/p99_ms"] {
        assert!(report.pointer(part).is_some(), "no {part} in {report}");
    }
}

/// A receiver that stops answering for a while, once.
async fn stalling(for_ms: u64) -> String {
    let one_at_a_time = Arc::new(tokio::sync::Mutex::new(0_u32));
    let answer = move || {
        let served_n = Arc::clone(&one_at_a_time);
        async move {
            let mut served_n = served_n.lock().await;
            *served_n += 1;
            if *served_n == 50 {
                // The receiver stalls once, in the middle of the load.
                tokio::time::sleep(Duration::from_millis(for_ms)).await;
            }
            ([IS_TEST], StatusCode::OK)
        }
    };
    serve(Router::new().fallback(answer)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_loop_counts_the_time_that_a_closed_one_leaves_out() {
    let p90_ms = async |pace: &[&str]| {
        let url = stalling(600).await;
        let all = ["--url", &url, "--count", "200", "--connections", "1", "--warm-up", "0", "--json"];
        let (code, report, errors) = parse(&bench(&[&all[..], pace].concat()).await);
        assert_eq!(code, 0, "{errors}{report}");
        let counted = (n(&report, "/requests_n"), n(&report, "/accepted_n"));
        assert_eq!(counted, (200, 200), "a receiver without outcomes accepts by 2xx");
        (report["latency_ms"]["p90"].as_f64().unwrap(), n(&report, "/late_n"))
    };
    // 200 a second: about 120 were due while nothing was answered.
    let (open_ms, late_n) = p90_ms(&["--rate", "200"]).await;
    let (closed_ms, none_late_n) = p90_ms(&[]).await;
    assert!(open_ms > 300.0 && late_n > 50, "{open_ms} ms, {late_n} late");
    assert!(closed_ms < 300.0 && none_late_n == 0, "{closed_ms} ms");
}

/// The product's binary is the one that `cargo nextest run` and `cargo build` put beside this program.
#[tokio::test(flavor = "multi_thread")]
async fn it_starts_a_server_and_removes_it_and_leaves_a_database_with_tables_alone() {
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("bench.svg");
    let run = async |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hooklatch-bench"));
        command.args(arguments).args(["--count", "50", "--warm-up", "0.1", "--json", "--svg"]).arg(&picture);
        command.current_dir(folder.path()).env("TMPDIR", folder.path());
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    };
    let check = |output: &Output| {
        let (code, report, errors) = parse(output);
        assert_eq!((code, n(&report, "/accepted_n")), (0, 50), "{errors}{report}");
        assert!(std::fs::read_to_string(&picture).unwrap().starts_with("<svg "), "a picture");
        let entries = std::fs::read_dir(folder.path()).unwrap();
        let left: Vec<_> = entries.map(|one| one.unwrap().file_name()).collect();
        assert_eq!(left, ["bench.svg"], "nothing else is left");
    };
    check(&run(&["stripe", "--start"]).await);
    let databases = tempfile::tempdir().unwrap();
    let start = format!("--start=sqlite://{}", databases.path().join("bench.db").display());
    check(&run(&["github", "push", &start]).await);
    let again = run(&["github", &start]).await;
    let errors = String::from_utf8(again.stderr).unwrap();
    assert!(again.status.code() == Some(1) && errors.contains("has Hooklatch's tables already"), "{errors}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_server_that_says_that_it_is_a_test_server_is_loaded() {
    let requests = Arc::new(Mutex::new(Vec::new()));
    for headers in [None, Some([("hooklatch-test", "1")])] {
        let seen = Arc::clone(&requests);
        let answer = move |method: Method| {
            seen.lock().unwrap().push(method);
            async move { (headers, StatusCode::OK) }
        };
        let url = serve(Router::new().fallback(answer)).await;
        let output = bench(&["--url", &url, "--count", "5", "--warm-up", "0"]).await;
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{errors}");
        assert!(errors.contains("does not say that it is a test server"), "{errors}");
    }
    assert_eq!(*requests.lock().unwrap(), [Method::HEAD, Method::HEAD], "no event was sent");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_loaded_is_refused_with_its_reason() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let unused = format!("http://{free}");
    let stub = serve(Router::new().fallback(async || ([IS_TEST], StatusCode::OK))).await;
    for (arguments, code, why) in [
        (&["--url", &unused][..], 1, "nothing listens on"),
        // An address for documentation: it is refused before a connection is opened.
        (&["--url", "http://192.0.2.1/webhooks/stripe"], 1, "is not this machine"),
        (&["--url", "http://192.0.2.1", "--yes-this-host", "127.0.0.1"], 1, "--yes-this-host 192.0.2.1"),
        (&["--url", "https://127.0.0.1/webhooks/stripe"], 1, "http://"),
        (&["--duplicates", "60", "--forgeries", "50"], 1, "more than 100"),
        (&["--start", "--url", &unused], 2, "cannot be used with"),
        (&["--rate", "fast"], 2, "is not a number"),
        (&["--connections", "0"], 2, "1..=10000"),
        (&["--url", &stub, "--body-bytes", "3"], 1, "too few"),
        (&["invoice.payd", "--url", &stub], 1, "has no sample of invoice.payd"),
        (&["--binary", "/nowhere/hooklatch"], 1, "there is no `/nowhere/hooklatch`"),
    ] {
        let output = bench(arguments).await;
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {errors}");
        assert!(errors.contains(why) && output.stdout.is_empty(), "{arguments:?}: {errors}");
    }
}
