//! A collector behind TLS gets the token only after its certificate was verified.

use super::called::CalledDestination;
use super::collector::Collector;
use super::{soon, traced};
use crate::database::{Database, On};
use crate::outbox::tls::Authority;
use crate::process::{Server, client, post_stripe};

/// The header that the stand-in knows posts by; it is a secret as any other header of the collector.
const KEY: &str = "key-of-the-collector";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_collector_with_a_trusted_certificate_gets_spans_and_the_token() {
    let (ours, other) = (Authority::new(), Authority::new());
    let collector = ours.destination(None).await;
    for (authority, is_trusted) in [(&other, false), (&ours, true)] {
        let database = Database::create(On::Sqlite).await.unwrap();
        let far = CalledDestination::start().await;
        let plain = Collector::gone();
        let more = format!("ca = {{ file = \"ca.pem\" }}\nheaders = {{ idempotency-key = \"{KEY}\" }}");
        let endpoint = format!("https://localhost:{}", collector.addr.port());
        let config = traced(&plain, &far, &more).replacen(plain.url(), &endpoint, 1);
        let mut server = Server::prepare(&database.url, &config);
        std::fs::write(server.config().with_file_name("ca.pem"), authority.pem().reveal()).unwrap();
        server.spawn().await;
        post_stripe(&client(), &server.url("/webhooks/stripe"), "evt_1").await.unwrap();
        if is_trusted {
            soon("they are posted", &server, async || collector.counts(KEY).0 > 0).await;
        } else {
            soon("it is not believed", &server, async || server.log().contains("no connection")).await;
            assert_eq!(collector.counts(KEY).0, 0);
        }
        assert!(server.terminate());
        assert!(!server.log().contains(KEY) && !server.log().contains("localhost"), "{}", server.log());
    }
}
