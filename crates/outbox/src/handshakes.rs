//! Handshakes with the destinations of a node, for the doctor.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::destinations::{Handshake, Handshakes};
use super::node::NodeCalls;
use super::post::Post;
use hooklatch_core::config::Secret;

/// Most handshakes of one look: so many connections are open at once.
const HANDSHAKES_N_MAX: usize = 64;

impl NodeCalls {
    /// Connects to each destination that is called over HTTPS, all at once, and hangs up: no request is sent. Those
    /// that are called at one place with the same certificates are one. Takes as long as `limit`, and a third of a second.
    pub async fn handshakes(&self, limit: Duration) -> Handshakes {
        let (mut places, mut elsewhere_n) = (BTreeMap::<_, Vec<&Arc<Post>>>::new(), 0);
        let posts = self.posts();
        for post in posts.values() {
            let Some(host) = post.destination.tls_host() else { continue };
            let http = &post.destination.config.http;
            if host.is_empty() || http.proxy.is_some() {
                elsewhere_n += 1;
                continue;
            }
            let reveal = |secret: &Option<Secret>| secret.as_ref().map(|text| text.reveal().to_owned());
            let key = (host, reveal(&http.tls.ca), reveal(&http.tls.certificate), http.version as u8);
            places.entry(key).or_default().push(post);
        }
        let left_n = places.values().skip(HANDSHAKES_N_MAX).map(Vec::len).sum();
        let looks = places.into_iter().take(HANDSHAKES_N_MAX).map(|((host, ..), posts)| async move {
            let end = posts.first()?.destination.handshake(limit).await?;
            let destinations = posts.iter().map(|post| post.destination.name.to_string()).collect();
            Some(Handshake { destinations, host, end })
        });
        let done = join_all(looks).await.into_iter().flatten().collect();
        Handshakes { done, elsewhere_n, left_n }
    }
}
