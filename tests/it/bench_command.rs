//! `hooklatch bench`: what it sends is what it counts, a slow receiver is not let off, and nobody else is loaded.

use std::process::{Command, Output};
use std::time::Duration;

use axum::Router;
use http::StatusCode;
use serde_json::Value;

use crate::app::{TestApp, stripe_kind};
use crate::database::{Database, On};
use crate::process::{SECRET, free_port};

/// Runs the bench for `stripe` away from any configuration.
async fn bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hooklatch"));
    command.args(["bench", "stripe"]).args(arguments).current_dir(std::env::temp_dir());
    // The receiver may be on this runtime.
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn told(output: &Output) -> (i32, Value, String) {
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    let json = serde_json::from_slice(&output.stdout);
    (output.status.code().unwrap(), json.unwrap_or_else(|_| panic!("{text}")), text)
}

fn n(report: &Value, pointer: &str) -> u64 {
    report.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {pointer} in {report}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_is_what_is_counted() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let app = TestApp::start_with(&database, stripe_kind(), "test = true", "").await;
    let url = format!("http://{}", app.running.receiver_addr);
    let mix = ["--duplicates", "20", "--forgeries", "10", "--body-bytes", "1000,3000"];
    let count = ["--url", &url, "--secret", SECRET, "--count", "400", "--connections", "8", "--warm-up", "0"];
    let (code, report, errors) = told(&bench(&[&count[..], &mix, &["--json"]].concat()).await);
    assert_eq!(code, 0, "{errors}{report}");
    assert_eq!(n(&report, "/requests_n"), 400);
    let answers = report["answers"].as_object().unwrap();
    assert_eq!(answers.values().map(|n| n.as_u64().unwrap()).sum::<u64>(), 400, "{report}");
    let forged_n = n(&report, "/answers/401");
    let copies_n = n(&report, "/answers/200 duplicate");
    let accepted_n = n(&report, "/answers/200 accepted");
    assert_eq!((n(&report, "/accepted_n"), accepted_n + copies_n + forged_n), (accepted_n, 400), "{report}");
    assert!((10..100).contains(&forged_n) && (30..160).contains(&copies_n), "{report}");
    assert_eq!((n(&report, "/forgeries_believed_n"), n(&report, "/errors_n")), (0, 0));
    // What the receiver has.
    let kept_n = database.count("SELECT COUNT(*) FROM processed_webhook_events").await;
    assert_eq!(u64::try_from(kept_n).unwrap(), accepted_n);
    for (least, most) in [("p50", "p90"), ("p90", "p99"), ("p99", "p99_9"), ("p99_9", "max")] {
        let ms = |name: &str| report["latency_ms"][name].as_f64().unwrap();
        assert!(0.0 < ms(least) && ms(least) <= ms(most), "{report}");
    }
    for part in [
        "/load/loop",
        "/load/connections_n",
        "/window_s",
        "/seconds/0/p99_ms",
        "/cpu_us_per_request/database",
    ] {
        assert!(report.pointer(part).is_some(), "no {part} in {report}");
    }
    app.running.stop().await;
}

/// A receiver that stops answering for a while: one that is asked only after its last answer is asked little then.
async fn stalling(for_ms: u64) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/webhooks/stripe", listener.local_addr().unwrap());
    let one_at_a_time = std::sync::Arc::new(tokio::sync::Mutex::new(0_u32));
    let answer = move || {
        let served_n = std::sync::Arc::clone(&one_at_a_time);
        async move {
            let mut served_n = served_n.lock().await;
            *served_n += 1;
            if *served_n == 50 {
                // The receiver stalls once, in the middle of the load.
                tokio::time::sleep(Duration::from_millis(for_ms)).await;
            }
            ([("hooklatch-test", "true")], StatusCode::OK)
        }
    };
    let router = Router::new().fallback(answer);
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_loop_counts_the_time_that_a_closed_one_leaves_out() {
    let p90_ms = async |pace: &[&str]| {
        let url = stalling(600).await;
        let all = ["--url", &url, "--count", "200", "--connections", "1", "--warm-up", "0", "--json"];
        let (code, report, errors) = told(&bench(&[&all[..], pace].concat()).await);
        assert_eq!(code, 0, "{errors}{report}");
        assert_eq!(
            (n(&report, "/requests_n"), n(&report, "/accepted_n")),
            (200, 200),
            "it says nothing itself"
        );
        (report["latency_ms"]["p90"].as_f64().unwrap(), n(&report, "/late_n"))
    };
    // 200 a second: about 120 were due while nothing was answered.
    let (open_ms, late_n) = p90_ms(&["--rate", "200"]).await;
    let (closed_ms, none_late_n) = p90_ms(&[]).await;
    assert!(open_ms > 300.0 && late_n > 50, "{open_ms} ms, {late_n} late");
    assert!(closed_ms < 300.0 && none_late_n == 0, "{closed_ms} ms");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_starts_a_server_of_its_own_and_takes_it_away() {
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("bench.svg");
    let svg = picture.display().to_string();
    for (on, kind) in [(On::Sqlite, "stripe"), (On::Postgres, "github")] {
        let Some(database) = Database::empty(on).await else { continue };
        let start = if on == On::Sqlite { "--start".to_owned() } else { format!("--start={}", database.url) };
        let mut command = Command::new(env!("CARGO_BIN_EXE_hooklatch"));
        command.args(["bench", kind, &start, "--count", "50", "--warm-up", "0.1", "--svg", &svg, "--json"]);
        command.current_dir(folder.path()).env("TMPDIR", folder.path());
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let (code, report, errors) = told(&output);
        assert_eq!((code, n(&report, "/accepted_n")), (0, 50), "{errors}{report}");
        assert!(std::fs::read_to_string(&picture).unwrap().starts_with("<svg "), "a picture");
        let left: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|one| one.unwrap().file_name()).collect();
        assert_eq!(left, ["bench.svg"], "nothing else is left");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_loaded_is_refused_with_its_reason() {
    let nobody = format!("http://{}", free_port());
    for (arguments, code, why) in [
        (&["--url", &nobody][..], 1, "nobody listens on"),
        // An address of documentation's: it is refused before anybody is asked.
        (&["--url", "http://192.0.2.1/webhooks/stripe"], 1, "is not this machine"),
        (&["--url", "http://192.0.2.1", "--yes-this-host", "127.0.0.1"], 1, "--yes-this-host 192.0.2.1"),
        (&["--url", "https://127.0.0.1/webhooks/stripe"], 1, "http://"),
        (&["--duplicates", "60", "--forgeries", "50"], 2, "more than 100"),
        (&["--start", "--url", &nobody], 2, "cannot be used with"),
        (&["--rate", "fast"], 2, "is not a number"),
        (&["--connections", "0"], 2, "1..=10000"),
        (&["--start", "--body-bytes", "3"], 2, "too few"),
    ] {
        let output = bench(arguments).await;
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {told}");
        assert!(told.contains(why) && output.stdout.is_empty(), "{arguments:?}: {told}");
    }
}
