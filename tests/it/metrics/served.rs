//! Metrics of the real binary: of itself and of its senders, after a restart, without its database, and without a
//! token.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use hooklatch_core::meters::METRIC_GROUPS;

use crate::database::{Database, On, on_both};
use crate::process::{Server, client, now_s, post_stripe, stripe_header, until};
use crate::stub::Stub;

on_both!(
    a_scrape_has_metrics_of_the_node_and_of_its_senders,
    the_time_of_the_last_accepted_event_survives_a_restart,
    metrics_of_a_removed_destination_end_but_its_waiting_messages_are_counted,
    what_strangers_and_senders_write_adds_nothing,
);

const WITHIN: Duration = Duration::from_mins(1);

/// The value of a series; `None` when it is not there.
fn value(text: &str, series: &str) -> Option<f64> {
    let line =
        text.lines().find(|line| line.strip_prefix(series).is_some_and(|rest| rest.starts_with(' ')))?;
    Some(line.rsplit(' ').next().unwrap().parse().unwrap())
}

/// All series, without their values.
fn series(text: &str) -> BTreeSet<String> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(|line| line.rsplit_once(' ').unwrap().0.to_owned()).collect()
}

async fn until_value(server: &Server, what: &str, is_so: impl Fn(&str) -> bool) {
    until(what, WITHIN, || server.log(), async || is_so(&server.admin_text("/metrics").await)).await;
}

fn to(url: &str) -> String {
    format!(
        "[[providers.stripe.routes]]\non = [\"*\"]\nto = \"billing\"\n\
         [destinations.billing]\nurl = \"{url}\"\nunknown = \"hold\"\n"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_that_alerts_compare_with_follow_the_configuration() {
    const CONFIG: &str = r#"
[outbox]
lease_ms = 120000
[retention]
bodies_days = 7
[providers.slack]
secrets = ["0123456789abcdef0123456789abcdef"]
tolerance_s = 60
[destinations.billing]
url = "http://127.0.0.1:9/"
[destinations.quick]
url = "http://127.0.0.1:9/"
key_valid_for_ms = 600000
"#;
    let mut server = Server::prepare("sqlite://limits.db", CONFIG);
    server.server_keys("answer_timeout_ms = 6000");
    server.spawn().await;
    let text = server.admin_text("/metrics").await;
    for (series, want) in [
        (r#"hooklatch_answer_limit_seconds{provider="slack"}"#, 3.0), // Slack waits for less than we do.
        (r#"hooklatch_answer_limit_seconds{provider="stripe"}"#, 6.0), // Our own limit.
        (r#"hooklatch_key_valid_seconds{destination="billing"}"#, 86_400.0),
        (r#"hooklatch_key_valid_seconds{destination="quick"}"#, 600.0),
        (r#"hooklatch_retention_seconds{table="webhook_payloads"}"#, 604_800.0),
        (r#"hooklatch_retention_seconds{table="outbox_finished"}"#, 7_776_000.0),
        // Slack's tolerance is narrower than the lease.
        ("hooklatch_clock_tolerance_seconds", 60.0),
    ] {
        assert_eq!(value(&text, series), Some(want), "{series}\n{text}");
    }
}

async fn a_scrape_has_metrics_of_the_node_and_of_its_senders(database: &Database) {
    let stub = Stub::start().await;
    let server = Server::start(&database.url, &to(&stub.url())).await;
    let url = server.url("/webhooks/stripe");
    for id in ["evt_1", "evt_2"] {
        post_stripe(&client(), &url, id).await.unwrap();
    }
    let is_there = |text: &str| {
        value(text, r#"hooklatch_message_age_seconds_count{destination="billing"}"#) == Some(2.0)
            && value(text, r#"hooklatch_secret_matched_total{provider="stripe",slot="0"}"#) == Some(2.0)
            && value(text, r#"hooklatch_lanes_blocked{destination="billing"}"#).is_some()
    };
    until_value(&server, "messages and matches are counted", is_there).await;
    let text = server.admin_text("/metrics").await;
    let version = concat!("hooklatch_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\",features=\"");
    assert!(text.contains(version), "{text}");
    for (wanted, number) in [
        (r#"hooklatch_provider_info{provider="stripe",kind="stripe"}"#, 1.0),
        (r#"hooklatch_destination_info{destination="billing",kind="http"}"#, 1.0),
        (r#"hooklatch_sender_retry_span_seconds{provider="stripe"}"#, 259_200.0),
        (r#"hooklatch_lanes_blocked{destination="billing"}"#, 0.0),
        ("hooklatch_ready", 1.0),
        ("hooklatch_database_up", 1.0),
        ("hooklatch_admit_waiting", 0.0),
        ("hooklatch_refusing_since_timestamp_seconds", 0.0),
    ] {
        assert_eq!(value(&text, wanted), Some(number), "{wanted}\n{text}");
    }
    let of = |series: &str| value(&text, series).unwrap_or_else(|| panic!("{series}\n{text}"));
    let last_s = of(r#"hooklatch_last_accepted_timestamp_seconds{provider="stripe"}"#);
    #[expect(clippy::cast_precision_loss, reason = "seconds")]
    let now_s = now_s() as f64;
    assert!((now_s - 60.0..=now_s + 1.0).contains(&last_s), "{last_s}");
    assert!(of("hooklatch_admit_waiting_max") >= 1.0);
    let pool = if database.url.starts_with("sqlite") { "reader" } else { "shared" };
    let places = |name: &str| of(&format!("hooklatch_db_connections_{name}{{pool=\"{pool}\"}}"));
    assert!(places("in_use") <= places("max") && places("max") >= 1.0);
    assert!(of("hooklatch_db_wait_seconds_count") > 0.0);
    assert!(of("process_open_fds") > 5.0);
    assert!(of("process_open_fds") < of("process_max_fds"));
    assert!(of("process_resident_memory_bytes") > 1e6);
    assert!((now_s - 60.0..=now_s + 1.0).contains(&of("process_start_time_seconds")));
    // The scrape's own connection.
    assert!(of(r#"hooklatch_connections_open{listener="operator"}"#) >= 1.0);
    assert!(of(r#"hooklatch_connections_max{listener="receiver"}"#) >= 8.0);
    assert!(of("hooklatch_inflight_bytes") < of("hooklatch_inflight_bytes_max"));
    for absent in ["hooklatch_usual_gap_seconds{", "hooklatch_key_left_seconds{", "NaN"] {
        assert!(!text.contains(absent), "nothing is known of that yet: {absent}\n{text}");
    }
    let is_file = database.url.starts_with("sqlite");
    for of_file in ["hooklatch_database_bytes", "hooklatch_database_disk_free_bytes"] {
        assert_eq!(value(&text, of_file).is_some_and(|bytes| bytes > 0.0), is_file, "{of_file}");
    }
    assert_metrics_match_their_table(&text);
}

/// Each metric has the type and the words of its row, and each label that it has stands there.
fn assert_metrics_match_their_table(text: &str) {
    let rows: Vec<_> = METRIC_GROUPS.iter().flat_map(|group| group.metrics).collect();
    for line in text.lines().filter(|line| line.starts_with("# TYPE ")) {
        let [_, _, name, metric_type] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let row = rows.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("{name} has no row"));
        assert_eq!(row.metric_type.as_str(), metric_type, "{name}");
        assert!(text.contains(&format!("# HELP {name} {}", row.help)), "{name}");
    }
    for one in series(text) {
        let (name, labels) = one.split_once('{').unwrap_or((&one, ""));
        let base =
            ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        let row = rows.iter().find(|row| row.name == name || row.name == base).unwrap();
        let labels = labels.split("\",").filter_map(|label| label.split_once("=\"")).map(|(label, _)| label);
        let labels: BTreeSet<&str> = labels.filter(|label| *label != "le").collect();
        assert_eq!(labels, row.labels.iter().copied().collect(), "{one}");
    }
}

async fn the_time_of_the_last_accepted_event_survives_a_restart(database: &Database) {
    let mut server = Server::start(&database.url, "").await;
    let last = r#"hooklatch_last_accepted_timestamp_seconds{provider="stripe"}"#;
    assert_eq!(value(&server.admin_text("/metrics").await, last), None, "there was none");
    post_stripe(&client(), &server.url("/webhooks/stripe"), "evt_1").await.unwrap();
    let before = value(&server.admin_text("/metrics").await, last);
    assert!(before.is_some());
    assert!(server.terminate());
    server.spawn().await;
    until_value(&server, "the table was read", |text| value(text, last).is_some()).await;
    assert_eq!(value(&server.admin_text("/metrics").await, last), before);
}

async fn metrics_of_a_removed_destination_end_but_its_waiting_messages_are_counted(database: &Database) {
    let mut server = Server::start(&database.url, &to("http://127.0.0.1:9")).await;
    post_stripe(&client(), &server.url("/webhooks/stripe"), "evt_1").await.unwrap();
    let key_left = r#"hooklatch_key_left_seconds{destination="billing"}"#;
    until_value(&server, "its key is exported", |text| {
        value(text, key_left).is_some_and(|left_s| (80_000.0..=86_400.0).contains(&left_s))
    })
    .await;
    assert!(server.terminate());
    let config = std::fs::read_to_string(server.config()).unwrap();
    let (kept, _) = config.split_once("[[providers.stripe.routes]]").unwrap();
    std::fs::write(server.config(), kept).unwrap();
    server.spawn().await;
    until_value(&server, "the stray one is counted", |text| {
        value(text, "hooklatch_outbox_stray_messages") == Some(1.0)
            && value(text, r#"hooklatch_outbox_messages{destination="billing",state="ready"}"#) == Some(1.0)
    })
    .await;
    let text = server.admin_text("/metrics").await;
    for gone in ["hooklatch_destination_info{", "hooklatch_key_left_seconds{", "hooklatch_lanes_blocked{"] {
        assert!(!text.contains(gone), "{gone}\n{text}");
    }
}

/// Sends what an unauthenticated sender may write, with `n` in every place.
async fn odd_requests(server: &Server, n: usize) {
    let client = client();
    let text = format!("x{n}\"}},evil=\"{n}");
    let body = format!(
        r#"{{"id":"evt_{n}","type":"type.{n}\"}} {n}","created":1767225600,"data":{{"object":{{"id":"in_{n}"}}}}}}"#
    );
    let signed =
        client.post(server.url("/webhooks/stripe")).header("stripe-signature", stripe_header(&body, now_s()));
    assert_eq!(signed.body(body.clone()).send().await.unwrap().status(), 200);
    let forged = format!("t={n},v1={n:064}");
    let at_odd_path = server.url(&format!("/webhooks/provider{n}/key{n}?{n}"));
    for request in [
        client.post(server.url("/webhooks/stripe")).header("stripe-signature", forged).body(body.clone()),
        client.post(server.url(&format!("/webhooks/no_such_{n}"))).body(body.clone()),
        client.get(at_odd_path),
        client.get(server.url(&format!("/{n}"))),
        client.request(
            reqwest::Method::from_bytes(format!("M{n}").as_bytes()).unwrap(),
            server.url("/webhooks/stripe"),
        ),
        client
            .post(server.url("/webhooks/stripe"))
            .header(format!("x-{n}"), &text)
            .header("user-agent", &text),
        client.get(format!("http://{}/v1/events/{n}/{n}", server.admin)),
        client.get(format!("http://{}/v1/destinations/d{n}", server.admin)).bearer_auth(&text),
        client.get(format!("http://{}/console/{n}", server.admin)).header("host", format!("h{n}.example")),
    ] {
        assert!(request.send().await.unwrap().status().as_u16() >= 400);
    }
}

async fn what_strangers_and_senders_write_adds_nothing(database: &Database) {
    let stub = Stub::start().await;
    let server = Server::start(&database.url, &to(&stub.url())).await;
    for n in 0..40 {
        odd_requests(&server, n).await;
    }
    let done_n = |n: f64| {
        move |text: &str| {
            value(text, r#"hooklatch_message_age_seconds_count{destination="billing"}"#) == Some(n)
        }
    };
    until_value(&server, "all is sent", done_n(40.0)).await;
    // How fast we are decides whether those of above were too many at once: these are.
    let (client, operators) = (client(), format!("http://{}/v1/me", server.admin));
    let guess = async || client.get(&operators).bearer_auth("wrong").send().await.unwrap().status() == 429;
    until("wrong tokens are throttled", WITHIN, || server.log(), guess).await;
    let before = series(&server.admin_text("/metrics").await);
    for n in 40..80 {
        odd_requests(&server, n).await;
    }
    until_value(&server, "all is sent", done_n(80.0)).await;
    let after = series(&server.admin_text("/metrics").await);
    let new: Vec<_> = after.difference(&before).filter(|one| !is_of_the_program(one)).collect();
    assert!(new.is_empty(), "{new:#?}");
    assert!(after.len() < 400, "{}", after.len());
}

/// Series that may be there a little later: what is counted in the background.
fn is_of_the_program(series: &str) -> bool {
    let background = [
        "hooklatch_outbox_",
        "hooklatch_prune",
        "hooklatch_clock",
        "hooklatch_log_lines",
        "hooklatch_rejections",
    ];
    background.iter().any(|start| series.starts_with(start)) && !series.contains("evil")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_database_a_scrape_responds_at_once_with_its_age() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let server = Server::start(&database.url, "").await;
    let url = server.url("/webhooks/stripe");
    post_stripe(&client(), &url, "evt_1").await.unwrap();
    let counted = "hooklatch_counted_timestamp_seconds";
    until_value(&server, "it has counted", |text| value(text, counted).is_some()).await;
    database.allow_connections(false).await;
    assert_eq!(post_stripe(&client(), &url, "evt_2").await, Err("503".to_owned()));
    let refusing = "hooklatch_refusing_since_timestamp_seconds";
    until_value(&server, "it is away", |text| {
        value(text, "hooklatch_database_up") == Some(0.0)
            && value(text, "hooklatch_ready") == Some(0.0)
            && value(text, refusing).is_some_and(|since_s| since_s > 0.0)
    })
    .await;
    let before = server.admin_text("/metrics").await;
    // One client: to make one takes longer than a scrape.
    let (client, metrics) = (client(), format!("http://{}/metrics", server.admin));
    let started = Instant::now();
    for _ in 0..20 {
        client.get(&metrics).send().await.unwrap().text().await.unwrap();
    }
    assert!(started.elapsed() < Duration::from_secs(5), "20 scrapes took {:?}", started.elapsed());
    // Refused requests do not change that.
    let forged = client.post(&url).header("stripe-signature", "t=1,v1=00").body("{}");
    assert_eq!(forged.send().await.unwrap().status(), 401);
    assert_eq!(post_stripe(&client, &url, "evt_2").await, Err("503".to_owned()));
    let later = server.admin_text("/metrics").await;
    for same in [counted, refusing] {
        assert_eq!(value(&later, same), value(&before, same), "{same}");
    }
    database.allow_connections(true).await;
    until(
        "it takes events again",
        WITHIN,
        || server.log(),
        async || post_stripe(&client, &url, "evt_2").await.is_ok(),
    )
    .await;
    until_value(&server, "all is well", |text| {
        value(text, "hooklatch_database_up") == Some(1.0)
            && value(text, refusing) == Some(0.0)
            && value(text, counted) > value(&later, counted)
    })
    .await;
}
