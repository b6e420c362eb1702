//! Forged requests of payment, bank and billing senders: changes of unsigned parts make no second event.

use bytes::Bytes;
use hooklatch_core::config::AgeConfig;
use hooklatch_core::types::IncomingEvent;
use hooklatch_receive::provider::{ActiveProvider, Kind, Provider, filled_sample};
use hooklatch_receive::providers::builtin;
use hooklatch_verify::{RawRequest, Signed};

use crate::providers::{NOW_S, dev, request, sign_at};

/// A sender with known keys.
struct Sender {
    kind: Provider,
    provider: ActiveProvider,
}

/// A request of a sender, to be forged from.
struct Sent {
    signed: Signed,
    url: String,
    now_s: i64,
}

impl Sender {
    fn of(name: &str) -> Self {
        let kind = builtin().into_iter().find(|kind| kind.kind() == name).unwrap();
        let provider = dev(&kind);
        Self { kind, provider }
    }

    fn signs(&self, event_type: &str, body: &str, after_s: i64) -> Sent {
        let mut at = sign_at(&self.provider, event_type);
        at.now_s += after_s;
        let signed = self.provider.sign(body.as_bytes(), &at).unwrap();
        Sent { signed, url: at.url, now_s: at.now_s }
    }

    /// The sample of a type, with id 1 in it.
    fn sends(&self, event_type: &str) -> Sent {
        let samples = self.kind.sample_list();
        let (_, sample) = samples.iter().find(|(known, _)| *known == event_type).unwrap();
        self.signs(event_type, &filled_sample(sample, "1", NOW_S), 0)
    }

    #[track_caller]
    fn reads(&self, request: RawRequest) -> IncomingEvent {
        let verified = self.provider.verify(request).unwrap_or_else(|unbelieved| panic!("{unbelieved:?}"));
        let event = self.provider.read(&verified).swap_remove(0);
        assert_eq!(event.unreadable, None);
        event
    }

    #[track_caller]
    fn refuses(&self, request: RawRequest) {
        assert!(self.provider.verify(request).is_err());
    }
}

impl Sent {
    fn request(&self) -> RawRequest {
        request(&self.signed.headers, &self.signed.body, &self.url, self.now_s)
    }

    fn with(&self, name: &str, value: &str) -> RawRequest {
        let mut request = self.request();
        request
            .headers
            .insert(http::HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
        request
    }

    fn without(&self, names: &[&str]) -> RawRequest {
        let mut request = self.request();
        for name in names {
            request.headers.remove(*name);
        }
        request
    }
}

/// Equal bytes under another id: the second is not dispatched.
#[track_caller]
fn is_replayed(first: &IncomingEvent, second: &IncomingEvent) {
    assert_ne!(first.key, second.key);
    assert_eq!(first.digest, second.digest);
    assert!(first.replay_key.is_some() && first.replay_key == second.replay_key);
}

/// Under one key or one signed text, with other content: the second is kept, and not dispatched.
#[track_caller]
fn is_conflict(first: &IncomingEvent, second: &IncomingEvent) {
    let is_one_text = first.replay_key.is_some() && first.replay_key == second.replay_key;
    assert!(first.key == second.key || is_one_text);
    assert_ne!(first.digest, second.digest);
}

#[track_caller]
fn is_copy(first: &IncomingEvent, second: &IncomingEvent) {
    assert_eq!((&first.key, first.digest), (&second.key, second.digest));
}

/// `text` with four bytes behind `at` chosen so that its CRC-32 is `want`: the CRC is linear, so 32 trials tell how.
fn with_crc(text: &str, at: usize, want: u32) -> Option<String> {
    // Characters that stay JSON text: six bits each, in eight places.
    const PLACES_N: usize = 8;
    let crc = |bits: u64| {
        let mut bytes = text.as_bytes().to_vec();
        for place in 0..PLACES_N {
            bytes[at + place] = b'@' + u8::try_from(bits >> (place * 5) & 31).unwrap();
        }
        (crc32fast_of(&bytes), bytes)
    };
    let start = crc(0).0;
    // Gauss: which bits of the places make which bits of the difference.
    let mut rows: Vec<(u32, u64)> = (0..PLACES_N * 5).map(|n| (crc(1 << n).0 ^ start, 1 << n)).collect();
    let (mut left, mut bits) = (want ^ start, 0_u64);
    for bit in 0..32 {
        let Some(n) = rows.iter().position(|(difference, _)| difference >> bit & 1 == 1) else { continue };
        let (pivot, made_of) = rows.swap_remove(n);
        for row in &mut rows {
            if row.0 >> bit & 1 == 1 {
                *row = (row.0 ^ pivot, row.1 ^ made_of);
            }
        }
        if left >> bit & 1 == 1 {
            (left, bits) = (left ^ pivot, bits ^ made_of);
        }
    }
    (left == 0).then(|| String::from_utf8(crc(bits).1).unwrap())
}

/// CRC-32 as PayPal has it.
fn crc32fast_of(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8)
            .fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xEDB8_8320 & (!(crc & 1)).wrapping_add(1)))
    })
}

#[test]
fn another_body_of_the_same_crc_under_one_paypal_transmission_is_a_conflict_whatever_its_id() {
    let paypal = Sender::of("paypal");
    let denied = r#"{"id":"WH-1","event_type":"PAYMENT.CAPTURE.DENIED","resource":{"amount":"1.00"}}"#;
    let sent = paypal.signs("", denied, 0);
    let forged = r#"{"id":"WH-2","event_type":"PAYMENT.CAPTURE.COMPLETED","resource":{"amount":"99999.00"},"z":"@@@@@@@@"}"#;
    let at = forged.find('@').unwrap();
    let forged = with_crc(forged, at, crc32fast_of(denied.as_bytes())).expect("a body of that CRC");
    let first = paypal.reads(sent.request());
    let mut second = sent.request();
    second.body = Bytes::from(forged);
    let second = paypal.reads(second);
    assert_eq!((first.key.event_id.as_str(), second.key.event_id.as_str()), ("WH-1", "WH-2"));
    is_conflict(&first, &second);

    is_copy(&first, &paypal.reads(sent.request()));
}

#[test]
fn the_age_of_a_paypal_transmission_is_bounded_where_the_operator_says_so() {
    let paypal = Sender::of("paypal");
    let sent = paypal.sends("PAYMENT.SALE.COMPLETED");
    let mut late = sent.request();
    late.received_at_ms += 3_600_000;
    assert!(paypal.provider.verify(late.clone()).is_ok());
    let age = AgeConfig { tolerance_s: None, max_age_s: Some(3_000) };
    let bounded = paypal.provider.clone().with_age(age);
    assert!(bounded.verify(sent.request()).is_ok());
    assert!(bounded.verify(late).is_err());
}

#[test]
fn a_paddle_notice_that_comes_with_the_time_of_its_first_attempt_is_believed_unless_the_operator_narrows_it()
{
    let paddle = Sender::of("paddle_billing");
    let mut late = paddle.sends("payout.paid").request();
    late.received_at_ms += 259_200_000;
    assert!(paddle.provider.verify(late.clone()).is_ok());
    let age = AgeConfig { tolerance_s: Some(5), max_age_s: None };
    assert!(paddle.provider.clone().with_age(age).verify(late).is_err());
}

#[test]
fn a_paypal_transmission_is_identified_by_its_time_in_one_way() {
    let paypal = Sender::of("paypal");
    let sent = paypal.sends("PAYMENT.SALE.COMPLETED");
    paypal.refuses(sent.with("paypal-transmission-id", "id_1|2026"));
    paypal.refuses(sent.with("paypal-transmission-time", "2026-01-01T00:00:00Z|1"));
}

#[test]
fn a_paypal_event_that_is_sent_again_in_another_transmission_is_a_copy() {
    let paypal = Sender::of("paypal");
    let first = paypal.sends("PAYMENT.SALE.COMPLETED");
    let again = paypal.signs("", std::str::from_utf8(&first.signed.body).unwrap(), 86_400);
    let (first, again) = (paypal.reads(first.request()), paypal.reads(again.request()));
    is_copy(&first, &again);
    assert_ne!(first.replay_key, again.replay_key);
}

#[test]
fn signed_bytes_under_an_id_of_somebodys_own_are_a_replay() {
    for (kind, event_type, header) in [
        ("recurly", "account.created", "recurly-notification-id"),
        ("modern_treasury", "payment_order", "x-webhook-id"),
        ("coinbase_cdp", "checkout.payment.success", "x-event-id"),
    ] {
        let sender = Sender::of(kind);
        let sent = sender.sends(event_type);
        let first = sender.reads(sent.request());
        is_copy(&first, &sender.reads(sent.request()));
        for forged in [sent.with(header, "forged"), sent.without(&[header])] {
            is_replayed(&first, &sender.reads(forged));
        }
    }
}

#[test]
fn a_type_that_anybody_could_have_written_makes_no_second_event() {
    // Of Modern Treasury's types none is read from a header; of Coinbase's it is, and what is signed identifies the
    // replay.
    let treasury = Sender::of("modern_treasury");
    let sent = treasury.sends("payment_order");
    let first = treasury.reads(sent.request());
    let forged = treasury.reads(sent.with("x-topic", "ledger_transaction"));
    is_copy(&first, &forged);
    assert_eq!(forged.event_type, "payment_order.created");

    let coinbase = Sender::of("coinbase_cdp");
    let sent = coinbase.sends("checkout.payment.failed");
    let first = coinbase.reads(sent.request());
    assert_eq!(first.event_type, "checkout.payment.failed");
    is_copy(&first, &coinbase.reads(sent.with("x-event-type", "checkout.payment.success")));
    let mut forged = sent.with("x-event-type", "checkout.payment.success");
    forged.headers.insert("x-event-id", "forged".parse().unwrap());
    is_replayed(&first, &coinbase.reads(forged));
    is_replayed(&first, &coinbase.reads(sent.without(&["x-event-type", "x-event-id"])));
}

#[test]
fn a_header_that_the_coinbase_signature_covers_cannot_be_changed_or_left_out() {
    let coinbase = Sender::of("coinbase_cdp");
    // The sender chooses which headers are signed; this is how it does today.
    let body = r#"{"log_index":29,"transaction_hash":"0xa5"}"#;
    let secret = hooklatch_receive::provider::dev_secret(coinbase.kind.spec().unwrap());
    let names = "content-type x-event-id x-event-type";
    let text = format!("{NOW_S}.{names}.application/json.e-1.onchain.activity.detected.{body}");
    let mac = hmac_hex(&secret, &text);
    let headers: Vec<(String, String)> = [
        ("content-type", "application/json"),
        ("x-event-id", "e-1"),
        ("x-event-type", "onchain.activity.detected"),
        ("x-hook0-signature", &format!("t={NOW_S},h={names},v1={mac}")),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    let signed = Signed { headers, body: body.as_bytes().to_vec() };
    let sent = Sent { signed, url: coinbase.provider.url().to_owned(), now_s: NOW_S };
    let event = coinbase.reads(sent.request());
    assert_eq!(
        (event.key.event_id.as_str(), event.event_type.as_str()),
        ("e-1", "onchain.activity.detected")
    );
    coinbase.refuses(sent.with("x-event-id", "e-2"));
    coinbase.refuses(sent.with("x-event-type", "checkout.payment.success"));
    coinbase.refuses(sent.without(&["x-event-id"]));
    coinbase.refuses(sent.without(&["x-event-type"]));
}

fn hmac_hex(secret: &str, text: &str) -> String {
    let mac = hooklatch_verify::hmac(hooklatch_verify::Hash::Sha256, secret.as_bytes(), &[text.as_bytes()]);
    hooklatch_verify::hex_text(&mac)
}

#[test]
fn an_id_that_the_signature_covers_is_of_the_family_that_was_verified() {
    for (kind, event_type) in
        [("increase", "transaction.created"), ("lithic", "card.created"), ("polar", "order.paid")]
    {
        let sender = Sender::of(kind);
        let sent = sender.sends(event_type);
        let first = sender.reads(sent.request());
        assert_eq!(first.key.event_id, "id_1");
        for stranger in ["svix-id", "webhook-identifier", "x-webhook-id"] {
            is_copy(&first, &sender.reads(sent.with(stranger, "forged")));
        }
        sender.refuses(sent.with("webhook-id", "forged"));
        let mut doubled = sent.request();
        doubled.headers.append("webhook-id", "forged".parse().unwrap());
        sender.refuses(doubled);
    }
}

#[test]
fn a_content_type_does_not_decide_how_signed_bytes_are_read() {
    let form = "application/x-www-form-urlencoded";
    let mollie = Sender::of("mollie");
    let body = r#"{"id":"event_1","type":"payment-link.paid","note":"&id=tr_1&type=classic&"}"#;
    let sent = mollie.signs("", body, 0);
    let first = mollie.reads(sent.request());
    let forged = mollie.reads(sent.with("content-type", form));
    assert_eq!((forged.key.event_id.as_str(), forged.event_type.as_str()), ("event_1", "payment-link.paid"));
    is_copy(&first, &forged);

    let paddle = Sender::of("paddle_classic");
    let sent = paddle.sends("subscription_created");
    let first = paddle.reads(sent.request());
    is_copy(&first, &paddle.reads(sent.with("content-type", "application/json")));
}

#[test]
fn a_paddle_form_that_is_written_anew_is_no_second_event() {
    let paddle = Sender::of("paddle_classic");
    let sent = paddle.signs("", "alert_id=7&alert_name=payment_refunded&amount=1.00&p_signature=", 0);
    let first = paddle.reads(sent.request());
    let text = String::from_utf8(sent.signed.body.clone()).unwrap();
    let mut fields: Vec<&str> = text.split('&').collect();
    fields.reverse();
    for anew in [fields.join("&"), text.replace("alert_id", "%61lert_id"), text.replace("1.00", "1%2E00")] {
        let mut request = sent.request();
        request.body = Bytes::from(anew);
        assert_eq!(first.key, paddle.reads(request).key);
    }
    // What would be verified as a form and read as JSON is neither.
    for json in [format!("{{\"alert_id\":8,\"z\":\"&{text}&\"}}"), format!("[{text}]"), format!(" {{{text}")]
    {
        let mut request = sent.request();
        request.body = Bytes::from(json);
        paddle.refuses(request);
    }
    let mut doubled = sent.request();
    doubled.body = Bytes::from(format!("{text}&alert_id=8"));
    paddle.refuses(doubled);
}

#[test]
fn a_classic_mollie_notice_is_believed_unsigned_and_each_is_fetched() {
    let kind = builtin().into_iter().find(|kind| kind.kind() == "mollie").unwrap();
    let spec = kind.spec().unwrap();
    let classic = spec.event.iter().find(|event| event.when_header.is_none()).unwrap();
    let [signal] = classic.identity.as_slice() else { panic!("{:?}", classic.identity) };
    assert_eq!((signal.is.as_str(), signal.window_s), ("signal", Some(1)));
}

#[test]
fn a_plaid_notice_counts_once_for_each_signature() {
    let plaid = Sender::of("plaid");
    let sent = plaid.sends("TRANSACTIONS.SYNC_UPDATES_AVAILABLE");
    let first = plaid.reads(sent.request());
    let mut again = sent.request();
    again.received_at_ms += 200_000;
    is_copy(&first, &plaid.reads(again));
    let body = std::str::from_utf8(&sent.signed.body).unwrap();
    assert_ne!(first.key, plaid.reads(plaid.signs("", body, 3_600).request()).key);
    // Its body is bound to it: no other comes under the same signature.
    let mut other = sent.request();
    other.body = Bytes::from(body.replace("true", "false"));
    plaid.refuses(other);
}

#[test]
fn a_wise_delivery_id_is_of_an_attempt_and_makes_no_event() {
    let wise = Sender::of("wise");
    let sent = wise.sends("transfers#state-change");
    let first = wise.reads(sent.request());
    for id in ["attempt_2", "attempt_3"] {
        is_copy(&first, &wise.reads(sent.with("x-delivery-id", id)));
    }
}
