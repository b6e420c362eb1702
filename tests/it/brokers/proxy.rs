//! A proxy between Hooklatch and a server that can lose answers: everything passes until its mode changes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

/// What happens to connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Connections are made and kept.
    Pass,
    /// Open ones are cut, new ones are closed at once.
    Away,
    /// The answer to bytes with the needle is lost, and the connection is cut.
    LoseAnswer,
    /// The answer to bytes with the needle is withheld.
    KeepAnswer,
    /// For Kafka: the first answer after our bytes with the needle asks us to wait, the second says that there are too
    /// few replicas.
    Throttled,
}

/// A destination's other address.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    mode: watch::Sender<Mode>,
    /// Notified when an answer was withheld.
    pub(crate) answered: Arc<Notify>,
    /// Number of open connections.
    lines_n: Arc<watch::Sender<usize>>,
    _connections: JoinSet<()>,
}

/// Counts one open connection, until it is dropped.
struct LineCount(Arc<watch::Sender<usize>>);

impl LineCount {
    fn of(lines_n: &Arc<watch::Sender<usize>>) -> Self {
        lines_n.send_modify(|lines_n| *lines_n += 1);
        Self(Arc::clone(lines_n))
    }
}

impl Drop for LineCount {
    fn drop(&mut self) {
        self.0.send_modify(|lines_n| *lines_n -= 1);
    }
}

struct Line {
    needle: &'static [u8],
    is_sent: Arc<Mutex<bool>>,
    mode: watch::Receiver<Mode>,
    answered: Arc<Notify>,
    /// Bytes that are replaced on their way back, such as the address that a server advertises.
    replace: Option<([u8; 4], [u8; 4])>,
    _count: LineCount,
}

impl Proxy {
    /// Starts a proxy for the server on that local port; `needle` is in the bytes of each message.
    pub(crate) async fn before(server_port: u16, needle: &'static [u8], rewrites_port: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (mode, watched) = watch::channel(Mode::Pass);
        let answered = Arc::new(Notify::new());
        let replace =
            rewrites_port.then(|| (u32::from(server_port).to_be_bytes(), u32::from(port).to_be_bytes()));
        let notify = Arc::clone(&answered);
        let lines_n = Arc::new(watch::Sender::new(0));
        let counted = Arc::clone(&lines_n);
        let mut connections = JoinSet::new();
        connections.spawn(async move {
            let mut lines = JoinSet::new();
            while let Ok((ours, _)) = listener.accept().await {
                // Before the mode is looked at: who counts them after it has changed misses none.
                let count = LineCount::of(&counted);
                if *watched.borrow() == Mode::Away {
                    continue;
                }
                let Ok(theirs) = TcpStream::connect(("127.0.0.1", server_port)).await else { continue };
                let line = Line {
                    needle,
                    is_sent: Arc::default(),
                    mode: watched.clone(),
                    answered: Arc::clone(&notify),
                    replace,
                    _count: count,
                };
                lines.spawn(line.run(ours, theirs));
            }
        });
        Self { port, mode, answered, lines_n, _connections: connections }
    }

    pub(crate) fn is(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    /// [`Mode::Away`]; returns once all open connections are cut.
    pub(crate) async fn goes_away(&self) {
        self.is(Mode::Away);
        let mut cut = self.lines_n.subscribe();
        let in_time =
            tokio::time::timeout(Duration::from_secs(20), cut.wait_for(|lines_n| *lines_n == 0)).await;
        in_time.expect("all are cut").unwrap();
    }
}

impl Line {
    /// Runs until either side, or the mode, ends it; then both sides are closed.
    async fn run(self, ours: TcpStream, theirs: TcpStream) {
        let ((from_us, to_us), (from_them, to_them)) = (ours.into_split(), theirs.into_split());
        let mut mode = self.mode.clone();
        tokio::select! {
            () = self.forth(from_us, to_them) => {}
            () = self.back(from_them, to_us) => {}
            _ = mode.wait_for(|mode| *mode == Mode::Away) => {}
        }
    }

    async fn forth(&self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
        let (mut seen, mut bytes) = (Vec::new(), vec![0; 65_536]);
        while let Ok(n @ 1..) = from.read(&mut bytes).await {
            seen.extend_from_slice(&bytes[..n]);
            // Before they are passed on: the answer may be quick.
            if seen.windows(self.needle.len()).any(|window| window == self.needle) {
                *self.is_sent.lock().unwrap() = true;
            }
            if to.write_all(&bytes[..n]).await.is_err() {
                return;
            }
        }
    }

    async fn back(&self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
        let mut answers_n = 0;
        let mut bytes = vec![0; 65_536];
        while let Ok(n @ 1..) = from.read(&mut bytes).await {
            let mode = *self.mode.borrow();
            let is_answer = *self.is_sent.lock().unwrap();
            if is_answer && matches!(mode, Mode::LoseAnswer | Mode::KeepAnswer) {
                if mode == Mode::LoseAnswer {
                    return;
                }
                self.answered.notify_one();
                std::future::pending::<()>().await;
            }
            if is_answer && mode == Mode::Throttled {
                throttled(&mut bytes[..n], answers_n == 0);
                answers_n += 1;
            }
            if let Some((old, new)) = self.replace {
                let at = bytes[..n].windows(4).position(|window| window == old);
                if let Some(at) = at {
                    bytes[at..at + 4].copy_from_slice(&new);
                }
            }
            if to.write_all(&bytes[..n]).await.is_err() {
                return;
            }
        }
    }
}

/// Changes a broker's answer to a record, in the seventh version of Kafka's protocol: length, number, one topic with its
/// name, one partition with its number, error and offsets; last the time that we are asked to wait. Milliseconds.
fn throttled(answer: &mut [u8], is_first: bool) {
    const TOO_FEW_REPLICAS: i16 = 19;
    if is_first {
        let at = answer.len() - 4;
        answer[at..].copy_from_slice(&20_i32.to_be_bytes());
        return;
    }
    let at = 14 + usize::from(u16::from_be_bytes([answer[12], answer[13]])) + 4 + 4;
    answer[at..at + 2].copy_from_slice(&TOO_FEW_REPLICAS.to_be_bytes());
}
