//! A destination that does with each connection what a script says, byte by byte.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Longest time that a test waits for what must happen.
const BOUND: Duration = Duration::from_secs(20);

/// One thing that a destination does with a connection. After the last one it is closed.
#[derive(Clone)]
pub(super) enum ScriptStep {
    /// Takes one whole request.
    Take,
    /// Takes the head of a request only.
    TakeHead,
    Say(&'static str),
    SayOften(&'static str),
    Close,
    Reset,
    /// Waits until the caller has closed it.
    Wait,
    /// Says that everything before is done.
    Tell,
}

#[derive(Default)]
struct TestCounts {
    connections_n: AtomicUsize,
    requests_n: AtomicUsize,
    /// Connections that the destination is done with.
    ended: Notify,
}

/// Runs until dropped. The first connection goes by the first script and so on; the last one is for all others.
pub(crate) struct TestDestination {
    pub addr: SocketAddr,
    counts: Arc<TestCounts>,
    _running: JoinSet<()>,
}

impl TestDestination {
    pub(crate) async fn start(scripts: &[&[ScriptStep]]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (addr, counts) = (listener.local_addr().unwrap(), Arc::<TestCounts>::default());
        let mut running = JoinSet::new();
        let mut scripts: Vec<Vec<ScriptStep>> = scripts.iter().map(|script| script.to_vec()).collect();
        let counted = Arc::clone(&counts);
        running.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                counted.connections_n.fetch_add(1, Ordering::SeqCst);
                let script = if scripts.len() > 1 { scripts.remove(0) } else { scripts[0].clone() };
                connections.spawn(act(stream, script, Arc::clone(&counted)));
            }
        });
        Self { addr, counts, _running: running }
    }

    /// Connections and requests so far.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let counts = &self.counts;
        (counts.connections_n.load(Ordering::SeqCst), counts.requests_n.load(Ordering::SeqCst))
    }

    /// Waits until it is done with a connection.
    pub(crate) async fn ended(&self) {
        timeout(BOUND, self.counts.ended.notified())
            .await
            .expect("the destination is done with a connection");
    }
}

async fn act(mut stream: TcpStream, script: Vec<ScriptStep>, counts: Arc<TestCounts>) {
    for act in script {
        match act {
            ScriptStep::Take => {
                if !take(&mut stream, true).await {
                    break;
                }
                counts.requests_n.fetch_add(1, Ordering::SeqCst);
            }
            ScriptStep::TakeHead => drop(take(&mut stream, false).await),
            ScriptStep::Say(text) => drop(stream.write_all(text.as_bytes()).await),
            ScriptStep::SayOften(text) => while stream.write_all(text.as_bytes()).await.is_ok() {},
            ScriptStep::Close => drop(stream.shutdown().await),
            ScriptStep::Reset => stream.set_zero_linger().unwrap(),
            ScriptStep::Wait => while matches!(stream.read(&mut [0; 1024]).await, Ok(1..)) {},
            ScriptStep::Tell => counts.ended.notify_one(),
        }
    }
    drop(stream);
    counts.ended.notify_one();
}

/// Reads the head of a request, and its body if wanted. False when the connection is over.
async fn take(stream: &mut TcpStream, is_whole: bool) -> bool {
    let mut read = Vec::new();
    let mut left_n = None;
    while left_n != Some(0) {
        let Ok(byte) = stream.read_u8().await else { return false };
        if let Some(left_n) = &mut left_n {
            *left_n -= 1;
            continue;
        }
        read.push(byte);
        if read.ends_with(b"\r\n\r\n") {
            let head = String::from_utf8(read.clone()).unwrap().to_lowercase();
            let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
            left_n =
                Some(if is_whole { length.map_or(0, |length| length.parse().unwrap()) } else { 0_usize });
        }
    }
    true
}
