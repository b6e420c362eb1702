//! Drives a load: a warm-up, then the window that counts, then what is under way is awaited.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::CreationError;
use tokio::sync::Notify;
use tokio::task::{JoinError, JoinSet};

use super::connection::HttpConnection;
use super::cpu::{CpuUs, WatchedProcesses};
use super::mix::Mix;
use super::pace::Pacer;
use super::tally::{Measured, SentRequest, Tally};
use hooklatch_core::types::Clock;

/// One load: the receiver, the pace and the length.
#[derive(Debug, Clone)]
pub struct Load {
    /// Address of the receiver.
    pub addr: SocketAddr,
    /// Connections, each with one request under way at most.
    pub connections_n: usize,
    /// The times at which requests are sent.
    pub pace: LoadPace,
    /// Load before the window.
    pub warm_up: Duration,
    /// The end of the window.
    pub until: Until,
    /// Longest time that an answer is waited for.
    pub timeout: Duration,
    /// Processes whose CPU time is reported.
    pub watched: WatchedProcesses,
}

/// The times at which requests are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LoadPace {
    /// Each connection's next request follows its last answer: as many as the receiver takes.
    Closed,
    /// This many requests a second, spaced evenly, whatever the receiver does. Latency counts from the time at which a
    /// request was due, so that requests that had to wait for a slow receiver count in full.
    Open(f64),
}

/// The end of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// The window is this long.
    Elapsed(Duration),
    /// The window ends after this many requests and their answers.
    Count(u64),
}

/// The reason why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The histogram was refused its bounds.
    #[error("could not make a histogram: {0}")]
    Histogram(#[from] CreationError),
    /// A request could not be made.
    #[error("could not make a request: {0}")]
    Request(String),
    /// A sender ended before its time.
    #[error("a sender was lost: {0}")]
    Lost(#[from] JoinError),
}

const WARMS_UP: u8 = 0;
const COUNTS: u8 = 1;
const IS_OVER: u8 = 2;

/// State that all connections of a load share.
struct LoadState {
    phase: AtomicU8,
    /// Requests that may still be sent in the window.
    left_n: AtomicU64,
    /// The last of them was taken.
    is_used_up: Notify,
    tally: Mutex<Option<Tally>>,
    pacer: Option<Pacer>,
    /// The time from which requests that were due and have not left are given up.
    ends_at: OnceLock<Instant>,
    clock: Clock,
    timeout: Duration,
}

/// Loads the receiver. `mix` makes each connection's requests. Runs on the current runtime; one thread is best, so that
/// the machine is left to the receiver.
pub async fn run(load: &Load, mut mix: impl FnMut(usize) -> Mix) -> Result<Measured, LoadError> {
    let shared = Arc::new(LoadState {
        phase: AtomicU8::new(WARMS_UP),
        left_n: AtomicU64::new(match load.until {
            Until::Elapsed(_) => u64::MAX,
            Until::Count(n) => n,
        }),
        is_used_up: Notify::new(),
        tally: Mutex::new(None),
        pacer: match load.pace {
            LoadPace::Closed => None,
            LoadPace::Open(per_second) => Some(Pacer::start(per_second)),
        },
        ends_at: OnceLock::new(),
        clock: Clock::system(),
        timeout: load.timeout,
    });
    let begun = if load.warm_up.is_zero() { Some(shared.begin(load)?) } else { None };
    let mut connections = JoinSet::new();
    for n in 0..load.connections_n {
        let (shared, mix) = (Arc::clone(&shared), mix(n));
        let connection = HttpConnection::new(load.addr);
        connections.spawn(async move { shared.keep_sending(connection, mix).await });
    }
    let (started, before) = if let Some(begun) = begun {
        begun
    } else {
        // The load runs meanwhile and is not measured.
        tokio::time::sleep(load.warm_up).await;
        shared.begin(load)?
    };
    match load.until {
        // The window that is measured.
        Until::Elapsed(window) => tokio::time::sleep(window).await,
        Until::Count(_) => shared.is_used_up.notified().await,
    }
    let ended = Instant::now();
    shared.phase.store(IS_OVER, Ordering::Relaxed);
    let mut cpu = load.watched.read();
    if let Some(pacer) = &shared.pacer {
        pacer.end(ended, load.connections_n);
        shared.ends_at.get_or_init(|| ended + load.timeout);
    }
    while let Some(ended) = connections.join_next().await {
        ended?.map_err(LoadError::Request)?;
    }
    let mut window = ended.duration_since(started);
    if matches!(load.until, Until::Count(_)) {
        (window, cpu) = (started.elapsed(), load.watched.read());
    }
    let tally = shared.tally().take();
    // It was put there above.
    let tally = tally.map_or_else(|| Tally::new(started), Ok)?;
    Ok(tally.finish(window, cpu.since(before)))
}

impl LoadState {
    fn tally(&self) -> std::sync::MutexGuard<'_, Option<Tally>> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the window; returns when that was, and the CPU time used before.
    fn begin(&self, load: &Load) -> Result<(Instant, CpuUs), LoadError> {
        let before = load.watched.read();
        let started = Instant::now();
        *self.tally() = Some(Tally::new(started)?);
        self.phase.store(COUNTS, Ordering::Relaxed);
        Ok((started, before))
    }

    /// One connection until the load is over; the error says why a request could not be made.
    async fn keep_sending(&self, mut connection: HttpConnection, mut mix: Mix) -> Result<(), String> {
        while let Some(due) = self.due().await {
            let is_counted = self.is_counted(due);
            if is_counted.is_none() {
                return Ok(());
            }
            let (sort, request) = mix.next(self.clock.now_ms() / 1_000).inspect_err(|_| self.give_up())?;
            let left = Instant::now();
            // In a closed loop, the time to make the request does not count for the receiver.
            let due = if self.pacer.is_some() { due } else { left };
            let answer = match self.ends_at.get() {
                Some(end) if left > *end => Err("not sent in time"),
                _ => connection.ask(request, self.timeout).await,
            };
            let now = Instant::now();
            if is_counted == Some(true)
                && let Some(tally) = self.tally().as_mut()
            {
                tally.count(&SentRequest { sort, due, left }, &answer, now);
            }
            if answer.is_err() && self.ends_at.get().is_none() {
                // Who refuses connections at once must not be asked as fast as we can.
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        Ok(())
    }

    /// Waits for the next request's turn; gives the time at which it is due, or `None` when there are no more.
    async fn due(&self) -> Option<Instant> {
        match &self.pacer {
            Some(pacer) => pacer.next().await,
            None => (self.phase.load(Ordering::Relaxed) != IS_OVER).then(Instant::now),
        }
    }

    /// Says whether a request that is due then belongs to the window; `None` when the window has all it wanted.
    fn is_counted(&self, due: Instant) -> Option<bool> {
        let is_open = match self.phase.load(Ordering::Relaxed) {
            WARMS_UP => return Some(false),
            phase => phase == COUNTS || self.pacer.is_some(),
        };
        let is_before = self.tally().as_ref().is_none_or(|tally| due < tally.started());
        if is_before || !is_open {
            return Some(false);
        }
        let left_n = self.left_n.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        if left_n.is_ok_and(|n| n > 1) {
            return Some(true);
        }
        self.is_used_up.notify_one();
        left_n.is_ok().then_some(true)
    }

    /// Lets a load that waits for its count end without it.
    fn give_up(&self) {
        self.is_used_up.notify_one();
    }
}
