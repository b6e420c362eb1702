//! An upgrade from the previous schema, while senders send: on PostgreSQL old and new nodes beside each other, on
//! SQLite one process after the other. The later version's migrations are those of `migrations.rs`.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hooklatch_store::{Store, StoreSettings};

use crate::database::{Database, on_both};
use crate::migrations::STEPS;
use crate::process::{Server, client, post_stripe, until};
use crate::stub::Stub;

on_both!(an_upgrade_under_traffic_loses_nothing_and_does_nothing_twice,);

/// What senders know: where to send, what was confirmed, and answers that no sender should get.
#[derive(Default)]
struct Traffic {
    urls: Mutex<Vec<String>>,
    confirmed: Mutex<BTreeSet<String>>,
    odd: Mutex<BTreeSet<String>>,
    is_over: AtomicBool,
    next_n: AtomicUsize,
}

impl Traffic {
    /// Sends to any of the nodes until the test ends it; each event until it is confirmed.
    async fn send(self: Arc<Self>) {
        let client = client();
        while !self.is_over.load(Ordering::Relaxed) {
            let id = format!("evt_{}", self.next_n.fetch_add(1, Ordering::Relaxed));
            loop {
                let url = fastrand::choice(self.urls.lock().unwrap().iter()).unwrap().clone();
                match post_stripe(&client, &url, &id).await {
                    Ok(_) => break,
                    // A node that is unreachable, or one that cannot take it now: the sender retries.
                    Err(why) if why == "503" || why.parse::<u16>().is_err() => {}
                    Err(status) => drop(self.odd.lock().unwrap().insert(status)),
                }
                // The sender's own pause between two tries.
                tokio::time::sleep(Duration::from_millis(15)).await;
            }
            self.confirmed.lock().unwrap().insert(id);
        }
    }

    fn confirmed_n(&self) -> usize {
        self.confirmed.lock().unwrap().len()
    }

    /// Waits until so many more were confirmed.
    async fn more(&self, n: usize, server: &Server) {
        let wanted = self.confirmed_n() + n;
        let log = || server.log();
        until("traffic goes on", Duration::from_mins(1), log, async || self.confirmed_n() >= wanted).await;
    }
}

fn prepared(database: &Database, far: &Stub) -> Server {
    let more = format!(
        "[[providers.stripe.routes]]\non = [\"*\"]\nto = \"billing\"\n[outbox]\npoll_ms = 50\nlease_ms = 3000\n\
         [destinations.billing]\nurl = \"{}\"\ntimeout_ms = 1000\n",
        far.url()
    );
    Server::prepare(&database.url, &more)
}

async fn an_upgrade_under_traffic_loses_nothing_and_does_nothing_twice(database: &Database) {
    let far = Stub::start().await;
    let traffic = Arc::new(Traffic::default());
    let mut old = prepared(database, &far);
    old.spawn().await;
    traffic.urls.lock().unwrap().push(old.url("/webhooks/stripe"));
    let senders: Vec<_> = (0..4).map(|_| tokio::spawn(Arc::clone(&traffic).send())).collect();
    traffic.more(50, &old).await;
    let mut new = prepared(database, &far);
    let settings = StoreSettings { url: database.url.clone(), connections_n: 4 };
    if database.url.starts_with("postgres") {
        // The new version's start brings the schema further beside the old node, which goes on taking traffic.
        let store = Store::open(&settings).await.unwrap();
        assert_eq!(store.migrate_further(&STEPS).await.unwrap(), [2, 3, 4, 5]);
        store.close().await;
        traffic.more(50, &old).await;
        new.spawn().await;
        traffic.urls.lock().unwrap().push(new.url("/webhooks/stripe"));
        traffic.more(100, &new).await;
        // The old one goes; then the upgrade is taken back while traffic runs.
        traffic.urls.lock().unwrap().remove(0);
        assert!(old.terminate());
        traffic.more(50, &new).await;
        old.spawn().await;
        traffic.urls.lock().unwrap().push(old.url("/webhooks/stripe"));
        new.kill();
        traffic.urls.lock().unwrap().remove(0);
    } else {
        assert!(old.terminate());
        let store = Store::open(&settings).await.unwrap();
        assert_eq!(store.migrate_further(&STEPS).await.unwrap(), [2, 3, 4, 5]);
        store.close().await;
        drop(store);
        old.spawn().await;
    }
    traffic.more(50, &old).await;
    traffic.is_over.store(true, Ordering::Relaxed);
    for sender in senders {
        sender.await.unwrap();
    }
    let confirmed = traffic.confirmed.lock().unwrap().clone();
    let open = "SELECT COUNT(*) FROM outbox_queue";
    let log = || old.log();
    until("all is sent", Duration::from_mins(1), log, async || database.count(open).await == 0).await;
    assert_eq!(*traffic.odd.lock().unwrap(), BTreeSet::new(), "only 503, and nodes that are away");
    let there: BTreeSet<String> =
        database.texts("SELECT event_id FROM processed_webhook_events").await.into_iter().collect();
    let lost: Vec<&String> = confirmed.difference(&there).collect();
    assert!(lost.is_empty(), "{lost:?}");
    let keys = database.call_keys().await;
    assert_eq!(keys.len(), there.len());
    for key in keys {
        assert_eq!(far.counts(&key).1, 1, "each took effect once");
    }
    eprintln!("MEASURED: {} confirmed over an upgrade", confirmed.len());
}
