//! The tokens that are good: those of the configuration, and those made at run time, which the gate knows by heart.
//!
//! No request waits for the database to be let in. The tokens are read again every [`READ_EVERY`], at once when this
//! node makes or revokes one, and when a token comes that is not known, once a second at most. So a token that is
//! revoked on another node is refused here within [`READ_EVERY`] and the time of a read; while the database does not
//! answer, within [`KNOWN_FOR`], after which nothing made at run time is good until it answers. Tokens of the
//! configuration are good whatever the database does.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tracing::warn;

use super::throttle::Throttle;
use crate::config::AdminToken;
use crate::logging::Sampler;
use crate::stop::Stop;
use crate::store::{StoreError, TokenBook, TokenRow};
use crate::types::{Clock, Name, Principal, TokenText};

/// Pause between two reads of the tokens.
const READ_EVERY: Duration = Duration::from_secs(2);
/// Time for which what was read last is believed.
const KNOWN_FOR: Duration = Duration::from_secs(30);
/// Shortest time between two reads for tokens that are not known, and the longest wait of such a request.
const ASKED_EVERY: Duration = Duration::from_secs(1);
/// Pause between two notes of which tokens were used.
const USED_EVERY: Duration = Duration::from_mins(1);

/// What a request was let in by, for whoever answers for a long time: it may be asked again.
#[derive(Debug, Clone)]
pub(crate) struct Credential(Option<[u8; 32]>);

/// What became of a token that was presented.
#[derive(Debug)]
pub(crate) enum Presented {
    /// It is good, and this is who has it.
    Good(Principal, Credential),
    /// It was good until it expired.
    Expired,
    /// It was good until it was revoked.
    Revoked,
    /// A token that nobody has made.
    Wrong,
    /// The database has not answered for so long that nobody can say.
    Away,
}

/// The tokens that are good, and what is remembered of wrong ones.
pub(crate) struct TokenGate {
    configured: Vec<AdminToken>,
    book: TokenBook,
    clock: Clock,
    throttle: Throttle,
    known: RwLock<KnownTokens>,
    /// Ids of tokens that were used and whose use is not noted yet.
    used: Mutex<BTreeSet<String>>,
    /// When the tokens were last asked for because of one that was not known.
    asked: tokio::sync::Mutex<Option<Instant>>,
}

/// The tokens that were made at run time, as they were read.
#[derive(Default)]
struct KnownTokens {
    by_digest: HashMap<[u8; 32], TokenRow>,
    /// When the read began; `None` before the first one.
    read_at: Option<Instant>,
}

impl TokenGate {
    /// A gate that lets these tokens through, and those of the book.
    pub(crate) fn new(configured: Vec<AdminToken>, book: TokenBook, clock: Clock) -> Self {
        Self {
            configured,
            book,
            clock,
            throttle: Throttle::default(),
            known: RwLock::default(),
            used: Mutex::default(),
            asked: tokio::sync::Mutex::default(),
        }
    }

    /// The tokens of the configuration.
    pub(super) fn configured(&self) -> &[AdminToken] {
        &self.configured
    }

    /// Names that no token made at run time may have.
    pub(super) fn reserved(&self) -> BTreeSet<Name> {
        self.configured.iter().map(|token| token.name.clone()).collect()
    }

    /// A wrong token was presented; how many seconds its sender has to wait, when these were too many.
    pub(crate) fn wrong(&self, address: IpAddr) -> Option<u32> {
        self.throttle.wrong(address)
    }

    /// Judges what somebody presents.
    pub(crate) async fn judge(&self, text: &str) -> Presented {
        // Every token is compared, so that the time says nothing about which one came near.
        let mut found = None;
        for token in &self.configured {
            if token.token.is(text) {
                found = Some(token.principal());
            }
        }
        if let Some(principal) = found {
            return Presented::Good(principal, Credential(None));
        }
        let Some(token) = TokenText::parse(text) else { return Presented::Wrong };
        // A digest that is looked for in a table tells by its time how far it fits; nobody can choose a token for that.
        let digest = token.digest();
        match self.known(&digest) {
            Presented::Wrong | Presented::Away => {
                self.ask().await;
                self.known(&digest)
            }
            judged => judged,
        }
    }

    /// True when what a request was let in by would let it in again.
    pub(crate) fn still_lets(&self, credential: &Credential) -> bool {
        credential.0.is_none_or(|digest| matches!(self.known(&digest), Presented::Good(..)))
    }

    fn known(&self, digest: &[u8; 32]) -> Presented {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if known.read_at.is_none_or(|read_at| read_at.elapsed() > KNOWN_FOR) {
            return Presented::Away;
        }
        let Some(row) = known.by_digest.get(digest) else { return Presented::Wrong };
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
        Presented::Good(row.principal.clone(), Credential(Some(*digest)))
    }

    /// Reads the tokens for somebody whose token is not known, unless that was done a moment ago.
    async fn ask(&self) {
        let mut asked = self.asked.lock().await;
        if asked.is_some_and(|asked| asked.elapsed() < ASKED_EVERY) {
            return;
        }
        // First: a caller that goes away meanwhile must not make us ask more often.
        *asked = Some(Instant::now());
        if let Ok(Err(error)) = timeout(ASKED_EVERY, self.read()).await {
            told(&error);
        }
    }

    /// Reads the tokens: what was made or revoked is known from now on.
    pub(crate) async fn read(&self) -> Result<(), StoreError> {
        let read_at = Instant::now();
        let rows = self.book.tokens_known().await?;
        // One whose name the configuration has given since is not good: two would write under one name.
        let by_digest =
            rows.into_iter().filter(|row| !self.is_reserved(row)).map(|row| (row.digest, row)).collect();
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        // A read that took longer than a later one knows less.
        if known.read_at.is_none_or(|other| other <= read_at) {
            *known = KnownTokens { by_digest, read_at: Some(read_at) };
        }
        Ok(())
    }

    fn is_reserved(&self, row: &TokenRow) -> bool {
        self.configured.iter().any(|token| token.name == row.principal.name)
    }

    /// Keeps the tokens known, and notes which were used, until the stop.
    pub(crate) async fn run(&self, mut stop: Stop) {
        let mut noted = Instant::now();
        while !stop.is_set() {
            if let Err(error) = self.read().await {
                told(&error);
            }
            if noted.elapsed() >= USED_EVERY {
                noted = Instant::now();
                self.note().await;
            }
            stop.pause(READ_EVERY).await;
        }
        self.note().await;
    }

    async fn note(&self) {
        let used = std::mem::take(&mut *self.used.lock().unwrap_or_else(PoisonError::into_inner));
        if used.is_empty() {
            return;
        }
        if let Err(error) = self.book.tokens_used(used.into_iter().collect(), self.clock.now_ms()).await {
            told(&error);
        }
    }
}

fn told(error: &StoreError) {
    static LINES: Sampler = Sampler::new(1);
    if let Some(left_out_n) = LINES.take() {
        warn!(%error, left_out_n, "could not read the tokens of operators; those of the configuration are good");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::config::Secret;
    use crate::store::{NewToken, PeopleDoor, Store, StoreSettings, TokenMaking};
    use crate::types::{Reach, Role};

    const CONFIGURED: &str = "ops-token-0123456789";

    fn name(text: &str) -> Name {
        Name::parse(text).expect("a name")
    }

    async fn gate(folder: &tempfile::TempDir) -> (TokenGate, Store, Clock) {
        let url = format!("sqlite://{}", folder.path().join("test.db").display());
        let store = Store::open(&StoreSettings { url, connections_n: 1 }).await.expect("a store");
        store.migrate().await.expect("tables");
        let configured = AdminToken {
            name: name("ops"),
            role: Role::Operator,
            token: Secret::new(CONFIGURED),
            providers: Reach::All,
            destinations: Reach::All,
        };
        let clock = Clock::manual(1_000);
        (TokenGate::new(vec![configured], TokenBook::new(store.clone()), clock.clone()), store, clock)
    }

    /// Makes a token for this name, beside the gate, as another node does.
    async fn make(store: &Store, clock: &Clock, holder: &str, n: u8) -> (TokenText, String) {
        let token = TokenText::of(&[n; 32]);
        let new = NewToken {
            principal: Principal::everywhere(name(holder), Role::Viewer),
            digest: token.digest(),
            expires_at_ms: clock.now_ms() + 60_000,
            idempotency_key: n.to_string(),
            reason: "r".to_owned(),
            now_ms: clock.now_ms(),
        };
        let admin = PeopleDoor::new(store.clone()).open(Principal::everywhere(name("ann"), Role::Admin));
        match admin.token_make(new, &BTreeSet::new()).await.expect("an answer") {
            TokenMaking::Made(row) => (token, row.token_id),
            other => panic!("{other:?}"),
        }
    }

    fn grow_old(gate: &TokenGate, by: Duration) {
        let mut known = gate.known.write().expect("no panic");
        known.read_at = known.read_at.and_then(|read_at| read_at.checked_sub(by));
    }

    async fn allow_to_ask(gate: &TokenGate) {
        *gate.asked.lock().await = None;
    }

    #[tokio::test]
    async fn a_token_made_elsewhere_is_asked_for_once_a_second_at_most() {
        let folder = tempfile::tempdir().expect("a folder");
        let (gate, store, clock) = gate(&folder).await;
        let (token, _) = make(&store, &clock, "bob", 1).await;
        let Presented::Good(principal, credential) = gate.judge(token.reveal()).await else { panic!() };
        assert_eq!((principal.name.as_str(), principal.role), ("bob", Role::Viewer));
        assert!(gate.still_lets(&credential));
        let (later, _) = make(&store, &clock, "carl", 2).await;
        assert!(matches!(gate.judge(later.reveal()).await, Presented::Wrong), "it was asked a moment ago");
        allow_to_ask(&gate).await;
        assert!(matches!(gate.judge(later.reveal()).await, Presented::Good(..)));
        for text in ["", "hlt_", CONFIGURED.trim_end_matches('9'), &token.reveal().to_uppercase()] {
            assert!(matches!(gate.judge(text).await, Presented::Wrong), "{text}");
        }
    }

    #[tokio::test]
    async fn what_was_let_in_is_asked_again_and_hears_when_its_token_is_no_more() {
        let folder = tempfile::tempdir().expect("a folder");
        let (gate, store, clock) = gate(&folder).await;
        let (token, token_id) = make(&store, &clock, "bob", 1).await;
        let (other, _) = make(&store, &clock, "carl", 2).await;
        let Presented::Good(_, bobs) = gate.judge(token.reveal()).await else { panic!() };
        let Presented::Good(_, carls) = gate.judge(other.reveal()).await else { panic!() };
        let Presented::Good(_, ops) = gate.judge(CONFIGURED).await else { panic!() };
        let admin = PeopleDoor::new(store.clone()).open(Principal::everywhere(name("ann"), Role::Admin));
        admin.token_revoke(&token_id, "r", clock.now_ms()).await.expect("revoked");
        gate.read().await.expect("read");
        assert_eq!([&bobs, &carls, &ops].map(|one| gate.still_lets(one)), [false, true, true]);
        assert!(matches!(gate.judge(token.reveal()).await, Presented::Revoked));
        clock.advance(60_000);
        assert_eq!([&carls, &ops].map(|one| gate.still_lets(one)), [false, true]);
        assert!(matches!(gate.judge(other.reveal()).await, Presented::Expired));
        gate.note().await;
        assert_eq!(store_rows(&gate).await.iter().filter(|row| row.last_used_at_ms.is_some()).count(), 2);
    }

    async fn store_rows(gate: &TokenGate) -> Vec<TokenRow> {
        gate.book.tokens_known().await.expect("rows")
    }

    #[tokio::test]
    async fn while_the_database_is_silent_made_tokens_are_good_for_30_s_and_configured_ones_for_good() {
        let folder = tempfile::tempdir().expect("a folder");
        let (gate, store, clock) = gate(&folder).await;
        let (token, _) = make(&store, &clock, "bob", 1).await;
        let Presented::Good(_, credential) = gate.judge(token.reveal()).await else { panic!() };
        store.close().await;
        grow_old(&gate, KNOWN_FOR.saturating_sub(Duration::from_secs(2)));
        allow_to_ask(&gate).await;
        assert!(matches!(gate.judge(token.reveal()).await, Presented::Good(..)));
        grow_old(&gate, Duration::from_secs(3));
        allow_to_ask(&gate).await;
        assert!(matches!(gate.judge(token.reveal()).await, Presented::Away));
        assert!(!gate.still_lets(&credential), "nobody can say");
        let nobodys = TokenText::of(&[9; 32]);
        assert!(matches!(gate.judge(nobodys.reveal()).await, Presented::Away), "nobody can say either");
        assert!(matches!(gate.judge("a-guess-0123456789").await, Presented::Wrong));
        assert!(matches!(gate.judge(CONFIGURED).await, Presented::Good(..)));
    }

    #[tokio::test]
    async fn a_made_token_is_no_good_once_the_configuration_gives_its_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let (gate, store, clock) = gate(&folder).await;
        let (token, _) = make(&store, &clock, "ops", 1).await;
        assert!(matches!(gate.judge(token.reveal()).await, Presented::Wrong));
        assert_eq!(gate.reserved(), BTreeSet::from([name("ops")]));
    }
}
