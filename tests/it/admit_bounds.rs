//! Bounds on the memory, rows and log lines that strangers and senders can cause in the real program.

use std::io::Write;
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use sqlx::{Connection, Executor, PgConnection, SqliteConnection};

use crate::database::{Database, On, on_both};
use crate::process::{
    SECRET, Server, client, now_s, post_stripe, stripe, stripe_header, stripe_signed, until,
};

on_both!(
    what_requests_take_up_stays_within_its_bound_though_their_senders_hang_up,
    a_request_with_more_events_than_are_read_is_one_unreadable_event,
    of_unreadable_events_no_more_bytes_are_kept_than_allowed,
    sixteen_other_contents_of_one_event_are_kept_and_further_ones_counted,
    a_provider_that_fills_its_share_of_the_queue_leaves_room_for_others,
);

/// Starts a server with `keys` in `[server]`.
async fn server(database: &Database, keys: &str, more: &str) -> Server {
    let mut server = Server::prepare(&database.url, more);
    let config = std::fs::read_to_string(server.config()).unwrap();
    std::fs::write(server.config(), config.replacen("[admin]", &format!("{keys}\n[admin]"), 1)).unwrap();
    server.spawn().await;
    server
}

/// A database that does not answer until this is dropped.
enum Hung {
    Sqlite(Option<SqliteConnection>),
    Postgres(Vec<String>),
}

impl Hung {
    async fn hang(database: &Database) -> Self {
        if database.url.starts_with("sqlite") {
            let mut writer = SqliteConnection::connect(&database.url).await.unwrap();
            writer.execute("BEGIN IMMEDIATE").await.unwrap();
            return Self::Sqlite(Some(writer));
        }
        let mut admin = PgConnection::connect(&database.url).await.unwrap();
        let sql = "SELECT pid::text FROM pg_stat_activity WHERE datname = current_database()
                   AND application_name = 'hooklatch'";
        let ids: Vec<String> = sqlx::query_scalar(sql).fetch_all(&mut admin).await.unwrap();
        assert!(!ids.is_empty());
        signal("-STOP", &ids);
        Self::Postgres(ids)
    }

    async fn go_on(mut self) {
        if let Self::Sqlite(writer) = &mut self {
            writer.take().unwrap().close().await.unwrap();
        }
    }
}

impl Drop for Hung {
    fn drop(&mut self) {
        if let Self::Postgres(ids) = self {
            signal("-CONT", ids);
        }
    }
}

fn signal(name: &str, ids: &[String]) {
    assert!(Command::new("kill").arg(name).args(ids).status().unwrap().success());
}

/// What a process has in memory, in MiB, without the pages of its program.
fn memory_mib(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.process_id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1_024
}

const BOUND_MIB: u64 = 16;

async fn what_requests_take_up_stays_within_its_bound_though_their_senders_hang_up(database: &Database) {
    let keys =
        format!("inflight_bytes_max = {}\nbody_bytes_max = 1100000\nconnections_n_max = 40", BOUND_MIB << 20);
    let server = server(database, &keys, "").await;
    let url = server.url("/webhooks/stripe");
    assert_eq!(post_stripe(&client(), &url, "evt_0").await.as_deref(), Ok("accepted"));
    let idle_mib = memory_mib(&server);
    let hung = Hung::hang(database).await;
    let requests: Vec<String> = (0..30)
        .map(|n| {
            let body = format!(r#"{{"id":"evt_{n}","type":"x","filler":"{}"}}"#, "x".repeat(1_000_000));
            let (signature, bytes_n) = (stripe_header(&body, now_s()), body.len());
            format!(
                "POST /webhooks/stripe HTTP/1.1\r\nhost: a\r\nstripe-signature: {signature}\r\n\
                 content-length: {bytes_n}\r\n\r\n{body}"
            )
        })
        .collect();
    let mut most_mib = 0;
    // The first ones stay until there is no room any more, and long enough to be verified one after the other.
    let mut staying = Vec::new();
    for (n, request) in requests.iter().cycle().take(1_500).enumerate() {
        let mut stream = TcpStream::connect(server.receiver).unwrap();
        // It may be refused before all of it is sent.
        drop(stream.write_all(request.as_bytes()));
        if n < requests.len() {
            staying.push(stream);
        } else if n == 750 {
            staying.clear();
        }
        if n % 50 == 0 {
            most_mib = most_mib.max(memory_mib(&server));
        }
    }
    // While the flood goes on the allocator keeps something of everything that was refused; then it gives it back.
    assert!(most_mib < idle_mib + BOUND_MIB + 128, "idle {idle_mib} MiB, at most {most_mib} MiB");
    let memory = || format!("idle {idle_mib} MiB, now {} MiB", memory_mib(&server));
    let is_within = async || memory_mib(&server) < idle_mib + BOUND_MIB + 64;
    until("it is within its bound", Duration::from_secs(20), memory, is_within).await;
    hung.go_on().await;
    until(
        "it takes events again",
        Duration::from_secs(30),
        || server.log(),
        async || post_stripe(&client(), &url, "evt_after").await.is_ok(),
    )
    .await;
    let given_up = "hooklatch_requests_given_up_total{provider=\"stripe\"}";
    until(
        "a request whose sender hung up is given up",
        Duration::from_secs(30),
        || server.log(),
        async || server.admin_text("/metrics").await.contains(given_up),
    )
    .await;
}

/// Stripe's scheme around lists of events.
const BATCHES: &str =
    "[kinds]\nfolder = \"kinds\"\n[providers.batches]\nsecrets = [\"whsec_test_0123456789abcdef\"]\n";

/// Makes the kind that [`BATCHES`] configures.
fn make_kind(server: &Server) {
    let spec = include_str!("../../providers/stripe/provider.toml")
        .replace("kind = \"stripe\"", "kind = \"batches\"")
        .replace("[[event]]", "[[event]]\neach = \"/events\"");
    let folder = server.config().parent().unwrap().join("kinds/batches");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("provider.toml"), spec).unwrap();
}

async fn a_request_with_more_events_than_are_read_is_one_unreadable_event(database: &Database) {
    let mut server = Server::prepare(&database.url, BATCHES);
    make_kind(&server);
    server.spawn().await;
    let idle_mib = memory_mib(&server);
    let url = server.url("/webhooks/batches");
    let send = async |events_n: usize| {
        let events: Vec<String> = (0..events_n).map(|n| format!(r#"{{"id":"{n}"}}"#)).collect();
        let body = format!(r#"{{"events":[{}]}}"#, events.join(","));
        let request =
            client().post(&url).header("stripe-signature", stripe_header(&body, now_s())).body(body);
        let answer = request.send().await.unwrap();
        let outcome = answer.headers()["hooklatch-outcome"].to_str().unwrap().to_owned();
        (answer.status().as_u16(), outcome, answer.text().await.unwrap().len())
    };
    let (status, outcome, answer_bytes) = send(60_000).await;
    assert_eq!((status, outcome.as_str()), (200, "unreadable"));
    assert!(answer_bytes < 1_000, "{answer_bytes} bytes");
    assert!(memory_mib(&server) < idle_mib + 64, "{idle_mib} MiB, then {}", memory_mib(&server));
    assert_eq!(database.count("SELECT COUNT(*) FROM processed_webhook_events").await, 1);
    assert_eq!(send(1_001).await.1, "unreadable");
    assert_eq!(send(1_000).await.1, "accepted");
    assert_eq!(database.count("SELECT COUNT(*) FROM processed_webhook_events").await, 1_002);
    let why =
        database.text("SELECT error FROM processed_webhook_events WHERE state = $1", "unreadable").await;
    assert!(why.unwrap().contains("more than 1000 events"));
}

async fn of_unreadable_events_no_more_bytes_are_kept_than_allowed(database: &Database) {
    let mut server = server(database, "unreadable_bytes_max = 50000", "").await;
    let send = async |server: &Server, n: usize| {
        let body = format!("not json {n} {}", "x".repeat(10_000));
        let header = stripe_header(&body, now_s());
        let sent =
            client().post(server.url("/webhooks/stripe")).header("stripe-signature", header).body(body);
        let answer = sent.send().await.unwrap();
        (answer.status().as_u16(), answer.headers()["hooklatch-outcome"].to_str().unwrap().to_owned())
    };
    for n in 0..20 {
        assert_eq!(send(&server, n).await, (200, "unreadable".to_owned()));
    }
    assert_eq!(send(&server, 19).await.1, "duplicate", "its digest is kept");
    let kept = "SELECT COUNT(*) FROM webhook_payloads WHERE length(body) > 0";
    assert_eq!(database.count("SELECT COUNT(*) FROM processed_webhook_events").await, 20);
    assert_eq!(database.count(kept).await, 4);
    assert!(server.log().contains("unreadable_bytes_max"), "{}", server.log());
    let metrics = server.admin_text("/metrics").await;
    assert!(metrics.contains("hooklatch_unreadable_cut_total{provider=\"stripe\"} 17"), "{metrics}");
    // What is kept is counted again after a restart.
    assert!(server.terminate());
    server.spawn().await;
    until(
        "it is counted",
        Duration::from_secs(10),
        || server.log(),
        async || {
            server
                .admin_text("/metrics")
                .await
                .contains("hooklatch_events{provider=\"stripe\",state=\"unreadable\"} 20")
        },
    )
    .await;
    assert_eq!(send(&server, 20).await.1, "unreadable");
    assert_eq!(database.count(kept).await, 4);
}

async fn sixteen_other_contents_of_one_event_are_kept_and_further_ones_counted(database: &Database) {
    let server = server(database, "", "").await;
    let (client, url) = (client(), server.url("/webhooks/stripe"));
    for n in 0..30 {
        for id in ["evt_1", "evt_2"] {
            let body =
                format!(r#"{{"id":"{id}","type":"x","n":{}}}"#, if id == "evt_1" { n } else { n.min(2) });
            let sent = client.post(&url).header("stripe-signature", stripe_header(&body, now_s())).body(body);
            assert_eq!(sent.send().await.unwrap().status(), 200);
        }
    }
    let kept_n = async |id: &str| {
        let sql = "SELECT CAST(COUNT(*) AS TEXT) FROM processed_webhook_events WHERE state = 'conflict' AND error = $1";
        database.text(sql, &format!("other content under {id}")).await.unwrap()
    };
    assert_eq!(kept_n("evt_1").await, "16");
    assert_eq!(kept_n("evt_2").await, "2", "each content once");
    let unkept = "SELECT CAST(unkept_n AS TEXT) FROM conflict_counts WHERE event_id = $1";
    assert_eq!(database.text(unkept, "evt_1").await.as_deref(), Some("13"));
    assert_eq!(database.text(unkept, "evt_2").await, None);
    let metrics = server.admin_text("/metrics").await;
    assert!(metrics.contains("hooklatch_conflicts_unkept_total{provider=\"stripe\"} 13"), "{metrics}");
    assert!(metrics.contains("hooklatch_conflicts_kept_total{provider=\"stripe\"} 18"), "{metrics}");
    until(
        "people see how many there are",
        Duration::from_mins(1),
        || server.log(),
        async || {
            let metrics = server.admin_text("/metrics").await;
            metrics.contains("hooklatch_events{provider=\"stripe\",state=\"conflict\"} 18")
        },
    )
    .await;
    assert!(server.log().contains("received other content under an id"), "{}", server.log());
}

/// Two providers of one kind; the second one's secret.
const OTHER_SECRET: &str = "whsec_other_0123456789abcdef";
const OTHER: &str = "[providers.other]\nkind = \"stripe\"\nsecrets = [\"whsec_other_0123456789abcdef\"]\n";

async fn a_provider_that_fills_its_share_of_the_queue_leaves_room_for_others(database: &Database) {
    let server = server(database, "queue_n_max = 8\nanswer_timeout_ms = 1000", OTHER).await;
    // One for all: to make one takes a while, and a session that hangs is replaced after 5 s.
    let client = client();
    let code = async |provider: &str, id: &str, secret: &str| {
        let (body, _) = stripe(id, now_s());
        let url = server.url(&format!("/webhooks/{provider}"));
        let header = stripe_signed(&body, secret, now_s());
        let request = client.post(url).header("stripe-signature", header).body(body);
        let text = request.send().await.unwrap().text().await;
        serde_json::from_str::<serde_json::Value>(&text.unwrap()).unwrap()["code"]
            .as_str()
            .unwrap_or("none")
            .to_owned()
    };
    // The session that it is to wait for is there.
    assert_eq!(code("stripe", "evt_first", SECRET).await, "none");
    let hung = Hung::hang(database).await;
    let ids: Vec<String> = (0..20).map(|n| format!("evt_{n}")).collect();
    let flood = futures_util::future::join_all(ids.iter().map(|id| code("stripe", id, SECRET)));
    let other = async {
        let is_full = async || code("stripe", "evt_more", SECRET).await == "saturated";
        until("its share is full", Duration::from_secs(5), || server.log(), is_full).await;
        code("other", "evt_1", OTHER_SECRET).await
    };
    let (codes, other) = tokio::join!(flood, other);
    assert!(codes.iter().any(|code| code == "saturated"), "{codes:?}");
    assert_eq!(other, "unavailable", "it waited like any other, in vain");
    hung.go_on().await;
}

#[tokio::test]
async fn a_flood_of_forgeries_writes_few_lines_and_hides_nothing_of_another_provider() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let token = "[admin]\ntokens = [{ name = \"ops\", role = \"viewer\", token = \"0123456789abcdef\" }]";
    let mut server = Server::prepare(&database.url, OTHER);
    let config = std::fs::read_to_string(server.config()).unwrap();
    let config = config.replace("[admin]", token).replace("filter = \"warn\"", "filter = \"info\"");
    std::fs::write(server.config(), config).unwrap();
    server.spawn().await;
    let client = client();
    let forge = async |provider: &str, header: String, body: String| {
        let url = server.url(&format!("/webhooks/{provider}"));
        client.post(url).header("stripe-signature", header).body(body).send().await.unwrap().status().as_u16()
    };
    let mut flood = tokio::task::JoinSet::new();
    for n in 0..2_000 {
        let (client, url) = (client.clone(), server.url("/webhooks/stripe"));
        let header = format!("t={},v1={n:064x}", now_s());
        // A flood of requests, not of connections: those beyond the room of a listener are closed.
        if flood.len() >= 100 {
            assert_eq!(flood.join_next().await.unwrap().unwrap(), 401);
        }
        flood.spawn(async move {
            client
                .post(url)
                .header("stripe-signature", header)
                .body("{}")
                .send()
                .await
                .unwrap()
                .status()
                .as_u16()
        });
        if n % 100 == 0 {
            // In the midst of it: another provider's request, signed by the wrong one of our secrets.
            let (body, _) = stripe(&format!("evt_{n}"), now_s());
            let header = stripe_signed(&body, SECRET, now_s());
            assert_eq!(forge("other", header, body).await, 401);
        }
    }
    while let Some(status) = flood.join_next().await {
        assert_eq!(status.unwrap(), 401);
    }
    let rejected = async || {
        let url = format!("http://{}/v1/rejected?provider=other&limit=100", server.admin);
        let text =
            client.get(url).bearer_auth("0123456789abcdef").send().await.unwrap().text().await.unwrap();
        text.matches("\"other_secret\"").count()
    };
    until(
        "what is behind the other's is found and kept",
        Duration::from_secs(10),
        || server.log(),
        async || rejected().await >= 1,
    )
    .await;
    let left_out = "left out lines of one sort";
    until(
        "it is said how many lines are missing",
        Duration::from_secs(10),
        || server.log(),
        async || server.log().contains(left_out) || server.log().contains("left_out_n=1"),
    )
    .await;
    let log = server.log();
    let lines_n =
        log.lines().filter(|line| line.contains("rejected a request") && line.contains("stripe")).count();
    assert!(lines_n <= 400, "{lines_n} lines");
    assert!(
        log.lines().any(|line| line.contains("rejected a request") && line.contains("other_secret")),
        "{log}"
    );
    assert_eq!(
        forge(
            "other",
            stripe_signed("{\"id\":\"evt_x\"}", OTHER_SECRET, now_s()),
            "{\"id\":\"evt_x\"}".to_owned()
        )
        .await,
        200
    );
}

#[tokio::test]
async fn senders_that_send_one_byte_and_wait_block_no_others() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let server = server(&database, "inflight_bytes_max = 16777216", "").await;
    let chunked =
        b"POST /webhooks/stripe HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{\r\n";
    let declared = b"POST /webhooks/stripe HTTP/1.1\r\nhost: a\r\ncontent-length: 1048576\r\n\r\n";
    let waiting: Vec<TcpStream> = (0..300)
        .map(|n| {
            let mut stream = TcpStream::connect(server.receiver).unwrap();
            stream.write_all(if n % 2 == 0 { chunked } else { declared }).unwrap();
            stream
        })
        .collect();
    let url = server.url("/webhooks/stripe");
    for n in 0..10 {
        assert_eq!(post_stripe(&client(), &url, &format!("evt_{n}")).await.as_deref(), Ok("accepted"));
    }
    drop(waiting);
}
