//! What a node without work costs its PostgreSQL, and that one that sleeps wakes at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::database::{Database, On};
use crate::process::{Server, client, post_stripe, until};

/// Counts the statements that pass it on their way to PostgreSQL.
struct CountingProxy {
    port: u16,
    statements_n: Arc<AtomicU64>,
    _lines: JoinSet<()>,
}

impl CountingProxy {
    async fn before(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let statements_n = Arc::new(AtomicU64::new(0));
        let (counted, mut lines) = (Arc::clone(&statements_n), JoinSet::new());
        lines.spawn(async move {
            let mut lines = JoinSet::new();
            while let Ok((ours, _)) = listener.accept().await {
                let theirs = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
                lines.spawn(passed(ours, theirs, Arc::clone(&counted)));
            }
        });
        Self { port, statements_n, _lines: lines }
    }

    fn statements_n(&self) -> u64 {
        self.statements_n.load(Ordering::Relaxed)
    }
}

/// Passes on whole messages of the protocol: those before and with the start-up have no type. `Q` and `E` run a
/// statement.
async fn passed(ours: TcpStream, theirs: TcpStream, counted: Arc<AtomicU64>) -> std::io::Result<()> {
    let ((mut from, mut back), (mut answers, mut to)) = (ours.into_split(), theirs.into_split());
    let forth = async {
        let mut is_started = false;
        loop {
            let mut message = Vec::new();
            if is_started {
                message.push(from.read_u8().await?);
            }
            let length = from.read_u32().await?;
            message.extend(length.to_be_bytes());
            let head_n = message.len();
            message.resize(head_n + length as usize - 4, 0);
            from.read_exact(&mut message[head_n..]).await?;
            if is_started && matches!(message[0], b'Q' | b'E') {
                counted.fetch_add(1, Ordering::Relaxed);
            }
            // Version 3.0 of the protocol; others ask for TLS.
            is_started |= message[4..].starts_with(&196_608_u32.to_be_bytes());
            to.write_all(&message).await?;
        }
    };
    tokio::select! {
        ended = forth => ended,
        ended = tokio::io::copy(&mut answers, &mut back) => ended.map(drop),
    }
}

/// Statements of a node within so many seconds, while `/readyz` is asked once a second.
async fn statements_within(server: &Server, proxy: &CountingProxy, seconds: u32) -> u64 {
    let before_n = proxy.statements_n();
    let mut beats = tokio::time::interval(Duration::from_secs(1));
    for _ in 0..seconds {
        beats.tick().await;
        let answer = client().get(format!("http://{}/readyz", server.admin)).send().await.unwrap();
        assert_eq!(answer.status(), 200);
    }
    proxy.statements_n() - before_n
}

/// Takes minutes: what is counted is what a node does in them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nightly_a_node_without_work_asks_its_database_little() {
    for (idle, quiet_s, statements_n_max) in [("poll", 20, 150), ("sleep", 90, 30)] {
        let Some(database) = Database::create(On::Postgres).await else { return };
        let mut url = reqwest::Url::parse(&database.url).unwrap();
        let proxy = CountingProxy::before(url.port().unwrap_or(5_432)).await;
        url.set_port(Some(proxy.port)).unwrap();
        let mut server = Server::prepare(url.as_str(), "");
        let config = std::fs::read_to_string(server.config()).unwrap();
        std::fs::write(
            server.config(),
            config.replace("[database]", &format!("[database]\nidle = \"{idle}\"")),
        )
        .unwrap();
        server.spawn().await;
        assert_eq!(
            post_stripe(&client(), &server.url("/webhooks/stripe"), "evt_1").await.unwrap(),
            "accepted"
        );
        statements_within(&server, &proxy, quiet_s).await;
        let n = statements_within(&server, &proxy, 120).await / 2;
        eprintln!("MEASURED: idle = {idle}: {n} statements a minute");
        assert!((1..=statements_n_max).contains(&n), "{idle}: {n} statements a minute");

        let before_n = proxy.statements_n();
        assert_eq!(
            post_stripe(&client(), &server.url("/webhooks/stripe"), "evt_2").await.unwrap(),
            "accepted"
        );
        let is_awake = async || proxy.statements_n() > before_n + 8;
        until("an event wakes it", Duration::from_secs(10), || server.log(), is_awake).await;
    }
}
