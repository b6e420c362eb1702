//! A database that is further away: a proxy before PostgreSQL that delays what it passes on, and can stall.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// Its threads end with the connections, and with the process.
pub(crate) struct Proxy {
    pub(crate) addr: SocketAddr,
    started: Instant,
    /// Until when nothing is passed on. Microseconds since the start.
    stalled_until: Arc<AtomicU64>,
}

impl Proxy {
    /// Passes on to this port of the machine, `each_way` later.
    pub(crate) fn start(port: u16, each_way: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (addr, started, stalled_until) =
            (listener.local_addr().unwrap(), Instant::now(), Arc::new(AtomicU64::new(0)));
        let stalled = Arc::clone(&stalled_until);
        thread::spawn(move || {
            for client in listener.incoming() {
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(("127.0.0.1", port))) else {
                    return;
                };
                for (from, to) in [(&client, &server), (&server, &client)] {
                    to.set_nodelay(true).unwrap();
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    pass(from, to, each_way, (started, Arc::clone(&stalled)));
                }
            }
        });
        Self { addr, started, stalled_until }
    }

    /// Passes nothing on for so long.
    pub(crate) fn stall(&self, time: Duration) {
        self.stalled_until.store(micros(self.started.elapsed() + time), Ordering::Relaxed);
        thread::sleep(time);
    }
}

/// What is read is written when it is due, so that the delay bounds no throughput.
fn pass(
    mut from: TcpStream,
    mut to: TcpStream,
    each_way: Duration,
    (started, stalled): (Instant, Arc<AtomicU64>),
) {
    let (sender, read) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(n @ 1..) = from.read(&mut bytes) {
            if sender.send((Instant::now() + each_way, bytes[..n].to_vec())).is_err() {
                return;
            }
        }
    });
    thread::spawn(move || {
        for (due, bytes) in read {
            let until = started + Duration::from_micros(stalled.load(Ordering::Relaxed));
            thread::sleep(due.max(until).saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                return;
            }
        }
        // An error means that it is closed already.
        drop(to.shutdown(std::net::Shutdown::Both));
    });
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap()
}
