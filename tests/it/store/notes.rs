//! Records about requests: refusals, of which the newest are kept, and how often secrets matched.

use std::collections::{BTreeMap, BTreeSet};

use hooklatch_contract::RejectedView;
use hooklatch_store::{REJECTIONS_N_MAX, RejectedQuery, Rejection, SecretUse};

use super::{name, ops};
use crate::database::{Database, on_both};
use hooklatch_core::types::Name;

on_both!(
    the_newest_refusals_of_each_provider_are_kept,
    uses_of_a_secret_add_up_and_its_last_time_never_decreases,
);

fn rejection(n: u32, provider: &str) -> Rejection {
    Rejection {
        rejection_id: format!("0190-{n:08}"),
        provider: provider.to_owned(),
        received_at_ms: i64::from(n),
        step: "signature".to_owned(),
        reason: "mismatch".to_owned(),
        detail: "signature does not match the configured secret".to_owned(),
        headers: "{}".to_owned(),
        body_digest: "ab".repeat(32),
        body_bytes_n: 7,
        client_address: None,
    }
}

/// The same through the operators' queries.
fn shown(one: &Rejection) -> RejectedView {
    let Rejection { rejection_id, provider, step, reason, detail, body_digest, .. } = one.clone();
    RejectedView {
        rejection_id,
        provider,
        received_at_ms: one.received_at_ms,
        step,
        reason,
        detail,
        headers: BTreeMap::new(),
        body_digest,
        body_bytes_n: one.body_bytes_n.unsigned_abs(),
        client_address: None,
    }
}

async fn the_newest_refusals_of_each_provider_are_kept(database: &Database) {
    let store = database.store().await;
    let flood: Vec<Rejection> = (0..250).map(|n| rejection(n, "stripe")).collect();
    for part in flood.chunks(90) {
        store.rejections_insert(part).await.unwrap();
    }
    store.rejections_insert(&[rejection(900, "adyen")]).await.unwrap();
    store.rejections_insert(&[rejection(900, "adyen")]).await.unwrap();
    let listed = async |provider: Option<&Name>, limit| {
        let query = RejectedQuery { provider: provider.cloned(), limit, ..RejectedQuery::default() };
        ops(&store).rejected(query, 0).await.unwrap().items
    };
    let stripe = name("stripe");
    let kept = listed(Some(&stripe), 500).await;
    assert_eq!(kept.len(), REJECTIONS_N_MAX as usize);
    assert_eq!(kept[0], shown(&flood[249]), "newest first, and as it was written");
    assert_eq!(kept[99].rejection_id, "0190-00000150");
    let all = listed(None, 500).await;
    assert_eq!(all.len(), 101, "a flood at one provider costs the others nothing");
    assert_eq!(listed(None, 3).await.len(), 3);
    let stale = Rejection {
        reason: "stale".to_owned(),
        client_address: Some("192.0.2.7".to_owned()),
        ..rejection(901, "adyen")
    };
    store.rejections_insert(&[stale]).await.unwrap();
    let query = RejectedQuery { reason: Some("stale".to_owned()), limit: 500, ..RejectedQuery::default() };
    assert_eq!(ops(&store).rejected(query.clone(), 0).await.unwrap().items.len(), 1);
    let query = RejectedQuery { provider: Some(stripe.clone()), ..query };
    assert_eq!(ops(&store).rejected(query, 0).await.unwrap().items.len(), 0);
    let groups = ops(&store).rejected_groups().await.unwrap();
    let found: Vec<_> = groups
        .iter()
        .map(|one| {
            (one.provider.as_str(), one.reason.as_str(), one.client_address.as_deref(), one.requests_n)
        })
        .collect();
    let client = Some("192.0.2.7");
    assert_eq!(
        found,
        [("stripe", "mismatch", None, 100), ("adyen", "stale", client, 1), ("adyen", "mismatch", None, 1)]
    );
}

async fn uses_of_a_secret_add_up_and_its_last_time_never_decreases(database: &Database) {
    let store = database.store().await;
    let one = |fingerprint: &str, matched_n, last_matched_at_ms| SecretUse {
        provider: "stripe".to_owned(),
        fingerprint: fingerprint.to_owned(),
        matched_n,
        last_matched_at_ms,
    };
    store.secret_uses_add(&[one("a", 3, 900), one("b", 1, 100)]).await.unwrap();
    store.secret_uses_add(&[one("a", 2, 800)]).await.unwrap();
    store.secret_uses_add(&[]).await.unwrap();
    let stripe = name("stripe");
    let statuses = ops(&store).providers(BTreeSet::from([stripe.clone()])).await.unwrap();
    assert_eq!(statuses[&stripe].uses, [one("a", 5, 900), one("b", 1, 100)]);
}
