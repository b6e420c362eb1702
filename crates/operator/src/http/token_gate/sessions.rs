//! Sessions: opened with a token, shown by a browser in its place, and good for as long as the token is.
//!
//! Nodes agree because a session is a row: one that is not known here is loaded at once, and those in use are read
//! again with the tokens; those that were used here in the last minutes stay in memory. Invented sessions cost a read a
//! second at most, however many are presented.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};

use super::{ASKED_EVERY, Presented, TokenGate, VALID_FOR, log_failure, random_bytes};
use hooklatch_core::types::{Principal, SessionText, token_digest};
use hooklatch_store::{OperatorSession, StoreError};

/// Time after its last request for which a session is kept in memory.
const USED_FOR: Duration = Duration::from_mins(10);
/// Most sessions that are loaded at once because they are not known here.
const WANTED_N_MAX: usize = 1_000;
/// Most sessions that are remembered as missing: a later session will not have the same 256 bits.
const MISSING_N_MAX: usize = 1_000;

/// Time for which a session is good. Milliseconds.
pub const SESSION_MS: i64 = 12 * 3_600_000;

/// The known sessions, and presented ones that are not known.
#[derive(Default)]
pub(super) struct SessionCache {
    inner: Mutex<SessionMemory>,
    /// When missing sessions were last loaded. The holder of the lock loads those of all that wait for it.
    pub(super) asked: tokio::sync::Mutex<Option<Instant>>,
}

#[derive(Default)]
struct SessionMemory {
    by_digest: HashMap<[u8; 32], UsedSession>,
    wanted: BTreeSet<[u8; 32]>,
    missing: BTreeSet<[u8; 32]>,
    /// When the newest read of sessions began.
    read_at: Option<Instant>,
    /// When a session last ended here: a read that began before is outdated.
    ended_at: Option<Instant>,
}

struct UsedSession {
    session: OperatorSession,
    used_at: Instant,
}

impl SessionCache {
    /// The session of this digest; `None` when it is not known here, or was known for too long without a read.
    pub(super) fn find(&self, digest: &[u8; 32]) -> Option<OperatorSession> {
        let mut inner = self.inner();
        if inner.is_old() {
            return None;
        }
        let used = inner.by_digest.get_mut(digest)?;
        used.used_at = Instant::now();
        Some(used.session.clone())
    }

    /// True when nothing was read for so long that the state of sessions is unknown.
    pub(super) fn is_away(&self) -> bool {
        self.inner().is_old()
    }

    /// True when it is known that there is no such session.
    pub(super) fn is_missing(&self, digest: &[u8; 32]) -> bool {
        self.inner().missing.contains(digest)
    }

    /// Puts a session on the list of those to load next; false when the list is full.
    pub(super) fn want(&self, digest: [u8; 32]) -> bool {
        let mut inner = self.inner();
        if inner.wanted.len() < WANTED_N_MAX {
            inner.wanted.insert(digest);
        }
        inner.wanted.contains(&digest)
    }

    /// True when a session is still to be loaded.
    pub(super) fn is_wanted(&self, digest: &[u8; 32]) -> bool {
        self.inner().wanted.contains(digest)
    }

    /// The sessions to load: those in use, and those that are wanted.
    pub(super) fn to_read(&self) -> Vec<[u8; 32]> {
        let mut inner = self.inner();
        inner.by_digest.retain(|_, used| used.used_at.elapsed() < USED_FOR);
        inner.by_digest.keys().chain(&inner.wanted).copied().collect()
    }

    /// Stores what a read that began at `read_at` found of the requested ones; false when the read is outdated.
    pub(super) fn learn(&self, asked: &[[u8; 32]], found: Vec<OperatorSession>, read_at: Instant) -> bool {
        let mut inner = self.inner();
        if inner.ended_at.is_some_and(|ended_at| read_at <= ended_at) {
            return false;
        }
        let mut found: HashMap<_, _> = found.into_iter().map(|session| (session.digest, session)).collect();
        for digest in asked {
            inner.wanted.remove(digest);
            match found.remove(digest) {
                None => {
                    inner.by_digest.remove(digest);
                    // Any one: digests cannot be chosen.
                    if inner.missing.len() >= MISSING_N_MAX {
                        inner.missing.pop_first();
                    }
                    inner.missing.insert(*digest);
                }
                Some(session) => {
                    let used_at = inner.by_digest.get(digest).map_or_else(Instant::now, |used| used.used_at);
                    inner.by_digest.insert(*digest, UsedSession { session, used_at });
                }
            }
        }
        inner.read_at = inner.read_at.max(Some(read_at));
        true
    }

    /// Removes the sessions for which `is_over` returns true, which have ended.
    pub(super) fn forget(&self, is_over: impl Fn(&OperatorSession) -> bool) {
        let mut inner = self.inner();
        inner.by_digest.retain(|_, used| !is_over(&used.session));
        inner.ended_at = Some(Instant::now());
    }

    fn inner(&self) -> MutexGuard<'_, SessionMemory> {
        // Nothing in here can be left half done.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As if the newest read had been so long ago.
    #[cfg(test)]
    pub(super) fn grow_old(&self, by: Duration) {
        let mut inner = self.inner();
        inner.read_at = inner.read_at.and_then(|read_at| read_at.checked_sub(by));
    }
}

impl SessionMemory {
    fn is_old(&self) -> bool {
        self.read_at.is_none_or(|read_at| read_at.elapsed() > VALID_FOR)
    }
}

/// Reason why no session was opened.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// There is nothing to make one of.
    #[error("the system has no random numbers")]
    Random,
    /// It could not be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl TokenGate {
    /// Opens a session for the holder of this valid token.
    pub async fn open_session(
        &self,
        token: &str,
        holder: &Principal,
        from: IpAddr,
    ) -> Result<SessionText, SessionError> {
        let session = SessionText::of(&random_bytes().ok_or(SessionError::Random)?);
        let now_ms = self.clock.now_ms();
        let row = OperatorSession {
            digest: session.digest(),
            token_name: holder.name.clone(),
            token_bound: session.bound_to(&token_digest(token)),
            created_at_ms: now_ms,
            expires_at_ms: now_ms.saturating_add(SESSION_MS),
        };
        self.book.session_make(row, from.to_string()).await?;
        Ok(session)
    }

    /// Checks all the sessions that a request presents, with one read for those that are not known here. While the
    /// database does not answer, only known ones are checked.
    pub async fn judge_sessions<'a>(&self, texts: &[&'a str]) -> Vec<(&'a str, Presented)> {
        let is_known = |text: &str| {
            let digest = SessionText::parse(text).map(|session| session.digest());
            digest.is_some_and(|digest| self.sessions.find(&digest).is_some())
        };
        for session in texts.iter().filter(|text| !is_known(text)).filter_map(|text| SessionText::parse(text))
        {
            // Where the list is full, it is loaded when it is checked.
            let _ = self.sessions.is_missing(&session.digest()) || self.sessions.want(session.digest());
        }
        let (mut judged, mut is_away) = (Vec::with_capacity(texts.len()), false);
        for text in texts {
            if is_away && !is_known(text) {
                continue;
            }
            let one = self.judge_session(text).await;
            is_away |= matches!(one, Presented::Unavailable);
            judged.push((*text, one));
        }
        judged
    }

    /// Judges the session that a browser presents.
    pub(crate) async fn judge_session(&self, text: &str) -> Presented {
        let Some(session) = SessionText::parse(text) else { return Presented::Wrong };
        let digest = session.digest();
        if self.sessions.is_missing(&digest) {
            return Presented::Wrong;
        }
        let (mut found, mut is_answered) = (self.sessions.find(&digest), true);
        if found.is_none() {
            is_answered = self.load_session(digest).await;
            found = self.sessions.find(&digest);
        }
        let Some(row) = found else {
            // Without an answer of the database the session may exist: the response must not say that it has ended.
            let is_away = !is_answered || self.sessions.is_away();
            return if is_away { Presented::Unavailable } else { Presented::Wrong };
        };
        if self.clock.now_ms() >= row.expires_at_ms {
            return Presented::Expired;
        }
        match self.token_of(&session, &row) {
            Presented::Wrong | Presented::Unavailable => {
                self.refresh().await;
                self.token_of(&session, &row)
            }
            judged => judged,
        }
    }

    /// Judges the token that a session was made with.
    fn token_of(&self, session: &SessionText, row: &OperatorSession) -> Presented {
        let is_it = |digest: &[u8; 32]| session.is_bound(&row.token_bound, digest);
        let configured = self.configured.get();
        for token in configured.iter().filter(|token| token.name == row.token_name) {
            let digest = token_digest(token.token.reveal());
            if is_it(&digest) {
                return self.valid(token.principal());
            }
        }
        match self.digests_of(&row.token_name).iter().find(|digest| is_it(digest)) {
            Some(digest) => self.lookup(digest),
            None => Presented::Wrong,
        }
    }

    /// Ends this session.
    pub async fn end_session(&self, text: &str) -> Result<(), StoreError> {
        let Some(session) = SessionText::parse(text) else { return Ok(()) };
        let digest = session.digest();
        self.book.session_end(digest).await?;
        self.sessions.forget(|one| one.digest == digest);
        Ok(())
    }

    /// Ends all sessions that were made with the token of this holder.
    pub async fn end_sessions(&self, holder: &Principal, from: IpAddr) -> Result<(), StoreError> {
        let name = holder.name.clone();
        self.book.sessions_end(name.clone(), from.to_string(), self.clock.now_ms()).await?;
        self.sessions.forget(|one| one.token_name == name);
        Ok(())
    }

    /// Loads a session that is not known here; after a missing one, a second later at the earliest. All that were
    /// presented meanwhile are loaded together. False when there was no answer.
    async fn load_session(&self, digest: [u8; 32]) -> bool {
        if !self.sessions.want(digest) {
            return false;
        }
        let mut asked = self.sessions.asked.lock().await;
        if !self.sessions.is_wanted(&digest) {
            return true;
        }
        if let Some(asked) = *asked {
            sleep_until(asked + ASKED_EVERY).await;
        }
        *asked = Some(Instant::now());
        if let Ok(Err(error)) = timeout(ASKED_EVERY, self.read_sessions()).await {
            log_failure(&error);
        }
        if self.sessions.find(&digest).is_some() {
            *asked = None;
        }
        !self.sessions.is_wanted(&digest)
    }

    /// Reads the sessions in use, and those that requests wait for.
    pub(super) async fn read_sessions(&self) -> Result<(), StoreError> {
        // Once more when one has ended meanwhile; who ends sessions all the time waits for the next read.
        for _ in 0..2 {
            let (digests, read_at) = (self.sessions.to_read(), Instant::now());
            if digests.is_empty() {
                return Ok(());
            }
            let found = self.book.sessions_known(digests.clone()).await?;
            if self.sessions.learn(&digests, found, read_at) {
                return Ok(());
            }
        }
        Ok(())
    }
}
