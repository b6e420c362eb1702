//! Traces: what a collector receives of events, across kills, nodes and re-runs; and no request waits for a collector.

mod bounds;
mod called;
mod collector;
mod events;
mod handlers;
mod headers;
mod secure;

use std::time::Duration;

use called::CalledDestination;
use collector::Collector;

use crate::process::{Server, until};

/// The token of an operator, in every configuration of these tests.
const TOKEN: &str = "operator-token-0123456789";

/// A configuration that routes everything to its destination and traces it; `tracing` are more keys of that section.
fn traced(collector: &Collector, far: &CalledDestination, tracing: &str) -> String {
    format!(
        "[[providers.stripe.routes]]\non = [\"*\"]\nto = \"billing\"\n\
         [[admin.tokens]]\nname = \"ann\"\nrole = \"operator\"\ntoken = \"{TOKEN}\"\n\
         [tracing]\nendpoint = \"{}\"\n{tracing}\n\
         [outbox]\nlease_ms = 30000\npoll_ms = 50\n\
         [destinations.billing]\nurl = \"{}\"\nunknown = \"retry\"\ntimeout_ms = 20000\nsign_secret = \"{}\"\n\
         retry = {{ first_ms = 20, max_ms = 100, attempts_n = 100, age_max_ms = 3600000 }}\n",
        collector.url(),
        far.url(),
        called::SIGN_SECRET,
    )
}

/// Waits for something that the server brings about.
async fn soon(what: &str, server: &Server, is_so: impl AsyncFnMut() -> bool) {
    until(what, Duration::from_secs(30), || server.log(), is_so).await;
}

/// The value of a counter on the page of metrics, all its labels together.
async fn counter(server: &Server, name: &str) -> u64 {
    let page = server.admin_text("/metrics").await;
    let of = |line: &str| line.rsplit_once(' ').and_then(|(_, value)| value.parse::<u64>().ok()).unwrap();
    page.lines().filter(|line| line.split(['{', ' ']).next() == Some(name)).map(of).sum()
}
