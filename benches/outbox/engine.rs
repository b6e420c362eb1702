//! The outbox at work on prepared tables: through claims, or with messages that are handed over in memory.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hooklatch_core::config::{
    DestinationConfig, Format, HttpConfig, OutboxConfig, RetryConfig, Target, UnknownPolicy,
};
use hooklatch_core::stop::Stop;
use hooklatch_core::types::{Clock, EventKey, MessageId, Name};
use hooklatch_outbox::{Handover, Outbox, Waker};
use hooklatch_store::LeasedMessage;

use super::tables::{BODY, Tables, now_ms};

/// Sends what the tables hold until `calls_n` has risen by `wanted_n`. With `first_seq` they are handed over: one message
/// for each event from that number on, to `far`.
pub(super) async fn drain(
    tables: &Tables,
    to: BTreeMap<Name, DestinationConfig>,
    calls_n: &AtomicUsize,
    wanted_n: usize,
    first_seq: Option<u64>,
) -> Duration {
    let config = OutboxConfig { lease_ms: 30_000, poll_ms: 1_000, stop_timeout_ms: 2_000 };
    let outbox = Outbox::new(tables.store.clone(), Clock::system(), config, to, "bench".to_owned()).unwrap();
    let (stopper, stopping) = Stop::channel();
    let (handover, waker) = (outbox.handover(), outbox.waker());
    let before_n = calls_n.load(Ordering::Relaxed);
    let started = Instant::now();
    let running = tokio::spawn(outbox.run(stopping));
    if let Some(first) = first_seq {
        hand_over(&handover, &waker, first, wanted_n).await;
    }
    while calls_n.load(Ordering::Relaxed) < before_n + wanted_n {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let took = started.elapsed();
    stopper.stop();
    running.await.unwrap();
    took
}

/// Hands over each message as soon as there is a slot for it.
async fn hand_over(handover: &Handover, waker: &Waker, first: u64, wanted_n: usize) {
    let mut n = 0;
    while n < wanted_n {
        if let Some((_lease, begin)) = handover.take("far") {
            begin(leased(first + n as u64));
            n += 1;
            // The calls are on the same threads.
            if n % 16 == 0 {
                tokio::task::yield_now().await;
            }
        } else {
            // Full, or the last look found as much as it asked for. The next look finds nothing.
            waker.wake();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// The message of this event as `Written::Leased` has it.
fn leased(event_seq: u64) -> LeasedMessage {
    let now_ms = now_ms();
    LeasedMessage {
        message_id: MessageId::of(i64::try_from(event_seq).unwrap(), 0).unwrap(),
        key: EventKey { provider: Name::parse("stripe").unwrap(), event_id: format!("evt_{event_seq}") },
        event_type: "invoice.paid".to_owned(),
        generation: 0,
        effect_name: "far".to_owned(),
        idempotency_key: format!("key-{event_seq}"),
        destination: Name::parse("far").unwrap(),
        method: "POST".to_owned(),
        path: String::new(),
        headers: BTreeMap::new(),
        body: Bytes::from_static(BODY.as_bytes()),
        event_content_type: Some("application/json".to_owned()),
        traceparent: None,
        lane: None,
        attempt_n: 1,
        is_previous_unsettled: false,
        is_previous_unknown: false,
        previous_ended_at_ms: None,
        attempts_before_n: 0,
        created_at_ms: now_ms,
        first_sent_at_ms: now_ms,
        key_valid_until_ms: now_ms + 86_400_000,
        lease_until_ms: now_ms + 86_400_000,
    }
}

pub(super) fn config(url: &str, concurrency_n: u32) -> DestinationConfig {
    DestinationConfig {
        url: url.to_owned(),
        headers: BTreeMap::new(),
        unknown: UnknownPolicy::Retry,
        timeout_ms: 10_000,
        concurrency_n,
        adaptive: true,
        retry: RetryConfig { first_ms: 1_000, max_ms: 1_000, attempts_n: 5, age_max_ms: 3_600_000 },
        retry_after_max_ms: 1_000,
        key_valid_for_ms: 86_400_000,
        rate_per_s: 0,
        breaker_failures_n: 20,
        breaker_open_ms: 1_000,
        target: Target::http(),
        format: Format::Raw,
        statuses: BTreeMap::new(),
        sign_secrets: Vec::new(),
        heartbeat: false,
        http: HttpConfig::default(),
    }
}
