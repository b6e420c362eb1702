//! The sessions that this node keeps in memory: those that were used here in the last minutes. Others are loaded.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use hooklatch_store::OperatorSession;

/// Time after its last request for which a session is kept in memory.
const USED_FOR: Duration = Duration::from_mins(10);
/// Most sessions that are loaded at once because they are not known here.
const WANTED_N_MAX: usize = 1_000;
/// Most sessions that are remembered as missing: a later session will not have the same 256 bits.
const MISSING_N_MAX: usize = 1_000;

/// The known sessions, and presented ones that are not known.
#[derive(Default)]
pub struct KnownSessions {
    inner: Mutex<SessionMemory>,
    /// When missing sessions were last loaded. The holder of the lock loads those of all that wait for it.
    pub asked: tokio::sync::Mutex<Option<Instant>>,
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

impl KnownSessions {
    /// The session of this digest; `None` when it is not known here, or was known for too long without a read.
    pub fn find(&self, digest: &[u8; 32], known_for: Duration) -> Option<OperatorSession> {
        let mut inner = self.inner();
        if inner.is_old(known_for) {
            return None;
        }
        let used = inner.by_digest.get_mut(digest)?;
        used.used_at = Instant::now();
        Some(used.session.clone())
    }

    /// True when nothing was read for so long that the state of sessions is unknown.
    pub fn is_away(&self, known_for: Duration) -> bool {
        self.inner().is_old(known_for)
    }

    /// True when it is known that there is no such session.
    pub(super) fn is_missing(&self, digest: &[u8; 32]) -> bool {
        self.inner().missing.contains(digest)
    }

    /// Puts a session on the list of those to load next; false when the list is full.
    pub fn want(&self, digest: [u8; 32]) -> bool {
        let mut inner = self.inner();
        if inner.wanted.len() < WANTED_N_MAX {
            inner.wanted.insert(digest);
        }
        inner.wanted.contains(&digest)
    }

    /// True when a session is still to be loaded.
    pub fn is_wanted(&self, digest: &[u8; 32]) -> bool {
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
    pub fn forget(&self, is_over: impl Fn(&OperatorSession) -> bool) {
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
    fn is_old(&self, known_for: Duration) -> bool {
        self.read_at.is_none_or(|read_at| read_at.elapsed() > known_for)
    }
}
