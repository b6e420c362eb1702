//! Authentication: by a token, or by a session that was opened with one (`sessions.rs`). Valid tokens are those of the
//! configuration, and those made at run time, which the gate keeps in memory.
//!
//! No request waits for the database before it is authenticated. The tokens are read again when one of the node's looks,
//! each second or so, finds that some were made or revoked; at once when this node makes or revokes one; and when an
//! unknown token is presented, once a second at most. So a token that is revoked on another node is refused here within
//! two seconds and the time of a read. While the database does not answer, and on a node that sleeps
//! (`database.idle`), within 30 s, after which no token made at run time is valid until it answers. Tokens of the
//! configuration are valid whatever the database does.

mod sessions;
#[cfg(test)]
mod tests;

pub use sessions::SESSION_MS;

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use ring::rand::{SecureRandom, SystemRandom};
use tokio::time::{Instant, timeout};
use tracing::warn;

use self::sessions::SessionCache;
use super::guard::Throttle;
use hooklatch_core::config::AdminToken;
use hooklatch_core::current::Current;
use hooklatch_core::logging::Sampler;
use hooklatch_core::stop::Stop;
use hooklatch_core::types::{Clock, Name, Principal, TokenText};
use hooklatch_store::{Look, StoreError, TokenBook, TokenRow, UNASKED_MAX};

/// Time for which the last read is valid.
const VALID_FOR: Duration = Duration::from_secs(30);
/// Shortest time between two reads for tokens that are not known, and the longest wait of such a request.
const ASKED_EVERY: Duration = Duration::from_secs(1);

/// Pause between two reads of the sessions in use, and of the tokens where the node's looks say nothing of them.
const READ_EVERY: Duration = Duration::from_secs(2);
/// Pause between two notes of which tokens were used.
const USED_EVERY: Duration = Duration::from_mins(1);

/// The result of checking a token, or a session.
#[derive(Debug)]
pub enum Presented {
    /// It is valid, and belongs to this principal.
    Valid(Principal),
    /// It was good until it expired.
    Expired,
    /// It was good until it was revoked.
    Revoked,
    /// A token that does not exist, or a session that does not exist any more, or never did.
    Wrong,
    /// The database has not answered for so long that this is unknown.
    Unavailable,
}

/// The tokens that are good, and what is remembered of wrong ones.
pub struct TokenGate {
    configured: Current<Vec<AdminToken>>,
    book: TokenBook,
    clock: Clock,
    throttle: Throttle,
    loaded: RwLock<LoadedTokens>,
    sessions: SessionCache,
    /// Ids of tokens that were used and whose use is not noted yet.
    used: Mutex<BTreeSet<String>>,
    /// When the tokens were last read because of one that was not known.
    asked: tokio::sync::Mutex<Option<Instant>>,
}

/// The tokens that were made at run time, as they were read.
#[derive(Default)]
struct LoadedTokens {
    by_digest: HashMap<[u8; 32], TokenRow>,
    /// When the read began; `None` before the first one.
    read_at: Option<Instant>,
}

impl TokenGate {
    /// A gate that lets these tokens through, and those of the book.
    pub fn new(configured: Vec<AdminToken>, book: TokenBook, clock: Clock) -> Self {
        Self {
            configured: Current::new(configured),
            book,
            clock,
            throttle: Throttle::default(),
            loaded: RwLock::default(),
            sessions: SessionCache::default(),
            used: Mutex::default(),
            asked: tokio::sync::Mutex::default(),
        }
    }

    /// The tokens of the configuration.
    pub(crate) fn configured(&self) -> Arc<Vec<AdminToken>> {
        self.configured.get()
    }

    /// Replaces the tokens of the configuration. A removed token is not valid any more.
    pub async fn configure(&self, configured: Vec<AdminToken>) {
        self.configured.set(configured);
        if let Err(error) = self.read().await {
            log_failure(&error);
        }
    }

    /// Names that no token made at run time may have.
    pub(crate) fn reserved(&self) -> BTreeSet<Name> {
        self.configured.get().iter().map(|token| token.name.clone()).collect()
    }

    /// A wrong token was presented; how many seconds its sender has to wait, when these were too many. Counts and logs
    /// it.
    pub fn wrong(&self, address: IpAddr) -> Option<u32> {
        static LINES: Sampler = Sampler::new(2);
        let wait_s = self.throttle.wrong(address);
        let reason = if wait_s.is_some() { "throttled" } else { "token" };
        metrics::counter!("hooklatch_operator_refused_total", "reason" => reason).increment(1);
        if let Some(left_out_n) = LINES.take() {
            warn!(peer = %address, is_throttled = wait_s.is_some(), left_out_n, "refused a wrong operator token");
        }
        wait_s
    }

    /// Checks a token that was presented.
    pub async fn judge(&self, text: &str) -> Presented {
        // Every token is compared, so that the time does not reveal which one is closest.
        let mut found = None;
        for token in self.configured.get().iter() {
            if token.token.is(text) {
                found = Some(token.principal());
            }
        }
        if let Some(principal) = found {
            return self.valid(principal);
        }
        let Some(token) = TokenText::parse(text) else { return Presented::Wrong };
        // The time of a look-up reveals how far a digest matches, but a client cannot choose the digest of its token.
        let digest = token.digest();
        match self.lookup(&digest) {
            Presented::Wrong | Presented::Unavailable => {
                self.refresh().await;
                self.lookup(&digest)
            }
            judged => judged,
        }
    }

    fn lookup(&self, digest: &[u8; 32]) -> Presented {
        let loaded = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
        if loaded.read_at.is_none_or(|read_at| read_at.elapsed() > VALID_FOR) {
            return Presented::Unavailable;
        }
        let Some(row) = loaded.by_digest.get(digest) else { return Presented::Wrong };
        if row.revoked_at_ms.is_some() {
            return Presented::Revoked;
        }
        if !row.is_good(self.clock.now_ms()) {
            return Presented::Expired;
        }
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if !used.contains(&row.token_id) {
            used.insert(row.token_id.clone());
        }
        self.valid(row.principal.clone())
    }

    /// An operator asks, so this node has work.
    fn valid(&self, principal: Principal) -> Presented {
        self.book.store().node().touch();
        Presented::Valid(principal)
    }

    /// The digests of known tokens of this name, good or not.
    fn digests_of(&self, name: &Name) -> Vec<[u8; 32]> {
        let loaded = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
        let rows = loaded.by_digest.values().filter(|row| row.principal.name == *name);
        rows.map(|row| row.digest).collect()
    }

    /// Reads the tokens for a request whose token is not known, unless that was done a moment ago.
    async fn refresh(&self) {
        let mut asked = self.asked.lock().await;
        if asked.is_some_and(|asked| asked.elapsed() < ASKED_EVERY) {
            return;
        }
        // First: a caller that goes away meanwhile must not cause more reads.
        *asked = Some(Instant::now());
        if let Ok(Err(error)) = timeout(ASKED_EVERY, self.read()).await {
            log_failure(&error);
        }
    }

    /// Reads the tokens: what was made or revoked is known from now on.
    pub(crate) async fn read(&self) -> Result<(), StoreError> {
        let read_at = Instant::now();
        let rows = self.book.tokens_known().await?;
        // One whose name the configuration has given since is not good: two would write under one name.
        let reserved = self.reserved();
        let good = rows.into_iter().filter(|row| !reserved.contains(&row.principal.name));
        let by_digest = good.map(|row| (row.digest, row)).collect();
        let mut loaded = self.loaded.write().unwrap_or_else(PoisonError::into_inner);
        // A read that took longer than a later one has older rows.
        if loaded.read_at.is_none_or(|other| other <= read_at) {
            *loaded = LoadedTokens { by_digest, read_at: Some(read_at) };
        }
        Ok(())
    }

    /// Reads the tokens, unless this look shows that they are as they were when they were `known`: the look's number
    /// for them, and when they were read.
    async fn keep(&self, look: Option<Look>, known: &mut Option<(i64, Instant)>) -> Result<(), StoreError> {
        let is_known = |look: &Look| {
            known.is_some_and(|(tokens, at)| tokens == look.tokens && at.elapsed() < UNASKED_MAX)
        };
        if let Some(look) = look.filter(is_known) {
            let mut loaded = self.loaded.write().unwrap_or_else(PoisonError::into_inner);
            loaded.read_at = loaded.read_at.map(|read_at| read_at.max(look.at));
            return Ok(());
        }
        *known = None;
        let began = Instant::now();
        self.read().await?;
        // What changed meanwhile, a later look shows.
        *known = look.map(|look| (look.tokens, began));
        Ok(())
    }

    /// Notes which tokens were used since the last time.
    async fn note(&self) {
        let used = std::mem::take(&mut *self.used.lock().unwrap_or_else(PoisonError::into_inner));
        if used.is_empty() {
            return;
        }
        if let Err(error) = self.book.tokens_used(used.into_iter().collect(), self.clock.now_ms()).await {
            log_failure(&error);
        }
    }
}

fn log_failure(error: &StoreError) {
    static LINES: Sampler = Sampler::new(1);
    if let Some(left_out_n) = LINES.take() {
        warn!(%error, left_out_n, "could not read the tokens of operators; those of the configuration are good");
    }
}

impl TokenGate {
    /// Keeps tokens and sessions known, and notes which tokens were used, until the stop.
    pub async fn run(&self, mut stop: Stop) {
        let mut looks = self.book.store().node().subscribe();
        let (mut noted, mut sessions_read, mut known) = (Instant::now(), None, None);
        while !stop.is_set() {
            let look = looks.latest();
            if let Err(error) = self.keep(look, &mut known).await {
                log_failure(&error);
            } else if sessions_read.is_none_or(|at: Instant| at.elapsed() >= READ_EVERY / 2) {
                sessions_read = Some(Instant::now());
                self.read_sessions().await.unwrap_or_else(|error| log_failure(&error));
            }
            if noted.elapsed() >= USED_EVERY {
                noted = Instant::now();
                self.note().await;
            }
            let (seen, every) =
                (look.map(|look| look.at), if look.is_some() { Duration::ZERO } else { READ_EVERY });
            tokio::select! {
                () = looks.until(every, |look| Some(look.at).filter(|at| Some(*at) != seen)) => {}
                () = stop.wait() => {}
            }
        }
        self.note().await;
    }
}

/// As many as a token or a session has; `None` when the system gives none.
pub(crate) fn random_bytes() -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).ok().map(|()| bytes)
}
