//! Collectors for the contestants that trace: one that is not there, one that never answers, one that takes everything.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::contestant::Contestant;

/// A collector for as long as it is not dropped.
pub(crate) struct CollectorStandIn {
    addr: SocketAddr,
    is_over: Arc<AtomicBool>,
    /// Held open where only the system accepts connections.
    _stalled: Option<TcpListener>,
}

impl CollectorStandIn {
    /// The collector of a contestant that has one.
    pub(crate) fn of(contestant: Contestant) -> Option<Self> {
        let is_taking = match contestant {
            Contestant::TracedTaken => true,
            Contestant::TracedGone | Contestant::TracedStalled => false,
            _ => return None,
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (addr, is_over) = (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        if is_taking {
            let over = Arc::clone(&is_over);
            std::thread::spawn(move || {
                for stream in listener.incoming().filter_map(Result::ok) {
                    if over.load(Ordering::SeqCst) {
                        break;
                    }
                    std::thread::spawn(move || take(stream));
                }
            });
            return Some(Self { addr, is_over, _stalled: None });
        }
        // Dropped, nothing listens there; kept, connections wait.
        let stalled = (contestant == Contestant::TracedStalled).then_some(listener);
        Some(Self { addr, is_over, _stalled: stalled })
    }

    /// What the contestant's configuration says of it.
    pub(crate) fn config(&self) -> String {
        format!("[tracing]\nendpoint = \"http://{}\"\n", self.addr)
    }
}

impl Drop for CollectorStandIn {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // Wakes the one that accepts.
        drop(TcpStream::connect(self.addr));
    }
}

/// Answers each request of a connection with 200, without looking at it.
fn take(mut stream: TcpStream) {
    let mut read = Vec::new();
    let mut chunk = vec![0; 64 << 10];
    while let Ok(n @ 1..) = stream.read(&mut chunk) {
        read.extend_from_slice(&chunk[..n]);
        while let Some(whole_n) = request_bytes_n(&read).filter(|n| *n <= read.len()) {
            read.drain(..whole_n);
            if stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").is_err() {
                return;
            }
        }
    }
}

/// Length of the request that begins here, once its headers are there.
fn request_bytes_n(read: &[u8]) -> Option<usize> {
    let head_n = read.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&read[..head_n]).to_lowercase();
    let body_n: usize = head.split("content-length:").nth(1)?.split("\r\n").next()?.trim().parse().ok()?;
    Some(head_n + body_n)
}
