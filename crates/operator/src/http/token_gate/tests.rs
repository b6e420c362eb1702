//! Tokens and sessions at the gate: made, known, unknown, over, and while the database is silent.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::PoisonError;
use std::time::Duration;

use super::{VALID_FOR, *};
use hooklatch_core::config::{AdminToken, Secret};
use hooklatch_core::types::{Clock, Name, Principal, Reach, Role, TokenText};
use hooklatch_store::{NewToken, OperatorStore, Store, StoreSettings, TokenBook, TokenMaking, TokenRow};

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
    let admin = OperatorStore::new(store.clone()).open(Principal::everywhere(name("ann"), Role::Admin));
    match admin.token_make(new, &BTreeSet::new()).await.expect("an answer") {
        TokenMaking::Made(row) => (token, row.token_id),
        other => panic!("{other:?}"),
    }
}

fn grow_old(gate: &TokenGate, by: Duration) {
    let mut loaded = gate.loaded.write().unwrap_or_else(PoisonError::into_inner);
    loaded.read_at = loaded.read_at.and_then(|read_at| read_at.checked_sub(by));
}

async fn allow_to_ask(gate: &TokenGate) {
    *gate.asked.lock().await = None;
}

/// As if what was asked had been asked only now, and for a while: this machine may be slow.
async fn asked_a_moment_ago(gate: &TokenGate) {
    let mut asked = gate.asked.lock().await;
    *asked = asked.map(|_| tokio::time::Instant::now() + Duration::from_secs(20));
}

#[tokio::test]
async fn a_token_made_elsewhere_is_asked_for_once_a_second_at_most() {
    let folder = tempfile::tempdir().expect("a folder");
    let (gate, store, clock) = gate(&folder).await;
    let (token, _) = make(&store, &clock, "bob", 1).await;
    let Presented::Valid(principal) = gate.judge(token.reveal()).await else { panic!() };
    assert_eq!((principal.name.as_str(), principal.role), ("bob", Role::Viewer));
    let (later, _) = make(&store, &clock, "carl", 2).await;
    asked_a_moment_ago(&gate).await;
    assert!(matches!(gate.judge(later.reveal()).await, Presented::Wrong), "it was asked a moment ago");
    allow_to_ask(&gate).await;
    assert!(matches!(gate.judge(later.reveal()).await, Presented::Valid(..)));
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
    for text in [token.reveal(), other.reveal(), CONFIGURED] {
        assert!(matches!(gate.judge(text).await, Presented::Valid(..)));
    }
    let admin = OperatorStore::new(store.clone()).open(Principal::everywhere(name("ann"), Role::Admin));
    admin.token_revoke(&token_id, "r", clock.now_ms()).await.expect("revoked");
    gate.read().await.expect("read");
    assert!(matches!(gate.judge(token.reveal()).await, Presented::Revoked));
    clock.advance(60_000);
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
    assert!(matches!(gate.judge(token.reveal()).await, Presented::Valid(..)));
    store.close().await;
    grow_old(&gate, VALID_FOR.saturating_sub(Duration::from_secs(15)));
    allow_to_ask(&gate).await;
    assert!(matches!(gate.judge(token.reveal()).await, Presented::Valid(..)));
    grow_old(&gate, Duration::from_secs(16));
    allow_to_ask(&gate).await;
    assert!(matches!(gate.judge(token.reveal()).await, Presented::Unavailable));
    let unknown = TokenText::of(&[9; 32]);
    assert!(matches!(gate.judge(unknown.reveal()).await, Presented::Unavailable), "this is unknown, too");
    assert!(matches!(gate.judge("a-guess-0123456789").await, Presented::Wrong));
    assert!(matches!(gate.judge(CONFIGURED).await, Presented::Valid(..)));
}

#[tokio::test]
async fn a_made_token_is_no_good_once_the_configuration_gives_its_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let (gate, store, clock) = gate(&folder).await;
    let (token, _) = make(&store, &clock, "ops", 1).await;
    assert!(matches!(gate.judge(token.reveal()).await, Presented::Wrong));
    assert_eq!(gate.reserved(), BTreeSet::from([name("ops")]));
}

const FROM: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Another node on the same database.
fn other_node(store: &Store, clock: &Clock, configured: Vec<AdminToken>) -> TokenGate {
    TokenGate::new(configured, TokenBook::new(store.clone()), clock.clone())
}

/// Opens a session with a valid token.
async fn opened(gate: &TokenGate, token: &str) -> String {
    let Presented::Valid(principal) = gate.judge(token).await else { panic!("{token} is not good") };
    gate.open_session(token, &principal, FROM).await.expect("a session").reveal().to_owned()
}

#[tokio::test]
async fn a_session_is_good_on_every_node_until_it_ends_on_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let (gate, store, clock) = gate(&folder).await;
    let session = opened(&gate, CONFIGURED).await;
    let other = other_node(&store, &clock, gate.configured().to_vec());
    let Presented::Valid(principal) = other.judge_session(&session).await else { panic!() };
    assert_eq!((principal.name.as_str(), principal.role), ("ops", Role::Operator));
    let second = opened(&gate, CONFIGURED).await;
    assert!(matches!(other.judge_session(&second).await, Presented::Valid(..)), "asked for at once");
    assert!(matches!(gate.judge_session(&session).await, Presented::Valid(..)));
    gate.end_session(&session).await.expect("ended");
    assert!(matches!(gate.judge_session(&session).await, Presented::Wrong), "here at once");
    other.read_sessions().await.expect("read");
    assert!(matches!(other.judge_session(&session).await, Presented::Wrong), "there with the next read");
    assert!(matches!(other.judge_session(&second).await, Presented::Valid(..)), "the other one goes on");
    gate.end_sessions(&principal, FROM).await.expect("ended");
    other.read_sessions().await.expect("read");
    assert!(matches!(other.judge_session(&second).await, Presented::Wrong));
}

#[tokio::test]
async fn a_session_is_good_as_long_as_its_token_and_twelve_hours_at_most() {
    let folder = tempfile::tempdir().expect("a folder");
    let (gate, store, clock) = gate(&folder).await;
    let (bob, token_id) = make(&store, &clock, "bob", 1).await;
    let (carl, _) = make(&store, &clock, "carl", 2).await;
    gate.read().await.expect("read");
    let sessions = [bob.reveal(), carl.reveal(), CONFIGURED];
    let [bobs, carls, ops] = [
        opened(&gate, sessions[0]).await,
        opened(&gate, sessions[1]).await,
        opened(&gate, sessions[2]).await,
    ];
    for session in [&bobs, &carls, &ops] {
        assert!(matches!(gate.judge_session(session).await, Presented::Valid(..)));
    }
    let admin = OperatorStore::new(store.clone()).open(Principal::everywhere(name("ann"), Role::Admin));
    admin.token_revoke(&token_id, "r", clock.now_ms()).await.expect("revoked");
    gate.read().await.expect("read");
    assert!(matches!(gate.judge_session(&bobs).await, Presented::Revoked));
    clock.advance(60_000);
    assert!(matches!(gate.judge_session(&carls).await, Presented::Expired), "its token has");
    // The same name with another token, and no token of that name.
    let mut changed = gate.configured().to_vec();
    changed[0].token = Secret::new("another-token-0123456789");
    for configured in [changed, Vec::new()] {
        let other = other_node(&store, &clock, configured);
        assert!(matches!(other.judge_session(&ops).await, Presented::Wrong));
    }
    let mut weaker = gate.configured().to_vec();
    weaker[0].role = Role::Viewer;
    let other = other_node(&store, &clock, weaker);
    let Presented::Valid(principal) = other.judge_session(&ops).await else { panic!() };
    assert_eq!(principal.role, Role::Viewer, "what the token may today");
    clock.advance(SESSION_MS - 60_001);
    assert!(matches!(gate.judge_session(&ops).await, Presented::Valid(..)));
    clock.advance(1);
    assert!(matches!(gate.judge_session(&ops).await, Presented::Expired));
}

#[tokio::test]
async fn while_the_database_is_silent_sessions_are_good_for_30_s() {
    let folder = tempfile::tempdir().expect("a folder");
    let (gate, store, _clock) = gate(&folder).await;
    let session = opened(&gate, CONFIGURED).await;
    let unused = opened(&gate, CONFIGURED).await;
    assert!(matches!(gate.judge_session(&session).await, Presented::Valid(..)));
    store.close().await;
    assert!(matches!(gate.judge_session(&unused).await, Presented::Unavailable), "it may not have ended");
    gate.sessions.grow_old(VALID_FOR.saturating_sub(Duration::from_secs(15)));
    assert!(matches!(gate.judge_session(&session).await, Presented::Valid(..)));
    gate.sessions.grow_old(Duration::from_secs(16));
    assert!(matches!(gate.judge_session(&session).await, Presented::Unavailable));
    assert!(matches!(gate.judge(CONFIGURED).await, Presented::Valid(..)), "the token itself is");
}

#[tokio::test]
async fn a_token_has_a_hundred_sessions_at_most_and_those_that_are_over_go() {
    let folder = tempfile::tempdir().expect("a folder");
    let (gate, store, clock) = gate(&folder).await;
    let (bob, _) = make(&store, &clock, "bob", 1).await;
    let bobs = opened(&gate, bob.reveal()).await;
    let first = opened(&gate, CONFIGURED).await;
    for _ in 0..99 {
        clock.advance(1);
        opened(&gate, CONFIGURED).await;
    }
    assert!(matches!(gate.judge_session(&first).await, Presented::Valid(..)));
    let last = opened(&gate, CONFIGURED).await;
    gate.read_sessions().await.expect("read");
    assert!(matches!(gate.judge_session(&first).await, Presented::Wrong), "the oldest goes");
    for session in [&last, &bobs] {
        assert!(matches!(gate.judge_session(session).await, Presented::Valid(..)));
    }
    clock.advance(SESSION_MS);
    let fresh = opened(&gate, CONFIGURED).await;
    let digests = [&first, &last, &bobs, &fresh].map(|text| digest_of(text));
    let left = gate.book.sessions_known(digests.to_vec()).await.expect("rows");
    assert_eq!(left.iter().map(|row| row.digest).collect::<Vec<_>>(), [digest_of(&fresh)]);
}

fn digest_of(session: &str) -> [u8; 32] {
    hooklatch_core::types::SessionText::parse(session).expect("a session").digest()
}

#[tokio::test]
async fn invented_sessions_cost_one_read_a_second() {
    let folder = tempfile::tempdir().expect("a folder");
    let (gate, store, _clock) = gate(&folder).await;
    assert!(matches!(gate.judge_session("no session").await, Presented::Wrong), "no read is needed");
    let unknown = |n: u8| hooklatch_core::types::SessionText::of(&[n; 32]).reveal().to_owned();
    assert!(matches!(gate.judge_session(&unknown(0)).await, Presented::Wrong));
    let made = opened(&other_node(&store, &gate.clock, gate.configured().to_vec()), CONFIGURED).await;
    let began = tokio::time::Instant::now();
    let texts: Vec<String> = (1..50).map(unknown).collect();
    let unknown = futures_util::future::join_all(texts.iter().map(|text| gate.judge_session(text)));
    let (judged, good) = tokio::join!(unknown, gate.judge_session(&made));
    assert!(judged.iter().all(|one| matches!(one, Presented::Wrong)));
    assert!(matches!(good, Presented::Valid(..)), "one that is there waits with them, and is found");
    assert!(began.elapsed() < Duration::from_secs(10), "all of them are asked for together");
}
