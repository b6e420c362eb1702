//! Variations of one signed request of a shop, a wallet or an office tool: another id, another topic, another cut of
//! the same signed text. None of them is another event.

use bytes::Bytes;
use hooklatch_core::config::{KindSettings, Secret};
use hooklatch_core::types::IncomingEvent;
use hooklatch_receive::provider::{ActiveProvider, Kind, Provider};
use hooklatch_receive::providers::builtin;
use hooklatch_verify::{DevKeys, Hash, RawRequest, SignAt, base64_text, digest, hex_text, hmac};
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use crate::database::{Database, on_both};
use crate::process::{Server, client};

on_both!(only_the_configured_topics_of_a_shop_share_a_body);

/// When everything here is signed and received. Unix seconds.
const NOW_S: i64 = 1_767_225_600;

/// One kind with its development keys.
struct Sender {
    kind: Provider,
    provider: ActiveProvider,
}

/// A request that can be written anew without the key.
#[derive(Clone)]
struct Sent {
    url: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Sender {
    fn of(kind: &str) -> Self {
        let kind = builtin().into_iter().find(|one| one.kind() == kind).unwrap();
        let provider = kind.dev(&DevKeys::default()).unwrap();
        Self { kind, provider }
    }

    /// A request as the sender signs it.
    fn sent(&self, event_type: &str, query: &str, body: &str) -> Sent {
        let url = format!("{}{query}", self.provider.url());
        let at = SignAt {
            now_s: NOW_S,
            url: url.clone(),
            id: "id_1".to_owned(),
            event_type: event_type.to_owned(),
        };
        let signed = self.provider.sign(body.as_bytes(), &at).unwrap();
        Sent { url, headers: signed.headers, body: signed.body }
    }

    /// The secret that the development keys sign with.
    fn secret(&self) -> String {
        hooklatch_receive::provider::dev_secret(self.kind.spec().unwrap())
    }

    /// Its one event, or why it is rejected.
    fn read(&self, sent: &Sent) -> Result<IncomingEvent, String> {
        let mut headers = HeaderMap::new();
        for (name, value) in &sent.headers {
            headers.append(
                HeaderName::from_bytes(name.as_bytes()).unwrap(),
                HeaderValue::from_str(value).unwrap(),
            );
        }
        let request = RawRequest {
            method: Method::POST,
            url: sent.url.clone(),
            headers,
            body: Bytes::from(sent.body.clone()),
            received_at_ms: NOW_S * 1_000,
        };
        let verified = self.provider.verify(request).map_err(|why| why.to_string())?;
        let mut events = self.provider.read(&verified);
        assert_eq!(events.len(), 1);
        Ok(events.remove(0))
    }

    /// The outcome of `forged` after `genuine`.
    #[track_caller]
    fn check(&self, genuine: &Sent, forged: &Sent, want: &str) {
        let first = self.read(genuine).unwrap();
        let met = match self.read(forged) {
            Ok(second) => met(&first, &second),
            Err(_) => "refused",
        };
        assert_eq!(met, want, "{}: {}", self.kind.kind(), String::from_utf8_lossy(&forged.body));
    }
}

impl Sent {
    fn with_header(&self, name: &str, value: &str) -> Self {
        let mut headers: Vec<(String, String)> =
            self.headers.iter().filter(|(known, _)| !known.eq_ignore_ascii_case(name)).cloned().collect();
        headers.push((name.to_owned(), value.to_owned()));
        Self { headers, ..self.clone() }
    }

    fn without_header(&self, name: &str) -> Self {
        let headers = self.headers.iter().filter(|(known, _)| !known.eq_ignore_ascii_case(name));
        Self { headers: headers.cloned().collect(), ..self.clone() }
    }

    fn with_body(&self, body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..self.clone() }
    }

    /// The body with one text changed for another.
    #[track_caller]
    fn with(&self, from: &str, to: &str) -> Self {
        let body = String::from_utf8(self.body.clone()).unwrap();
        assert!(body.contains(from), "{body} has no {from}");
        self.with_body(body.replacen(from, to, 1))
    }
}

/// What admission makes of `second`, received after `first`.
fn met(first: &IncomingEvent, second: &IncomingEvent) -> &'static str {
    assert_eq!(second.unreadable, None);
    let is_known = first.key == second.key;
    let is_signed_before = second.replay_key.is_some() && first.replay_key == second.replay_key;
    match (is_known, is_signed_before, first.digest == second.digest) {
        (true, _, true) => "copy",
        (false, true, true) => "replayed",
        (false, false, _) => "two",
        _ => "conflict",
    }
}

#[test]
fn a_shops_body_counts_once_for_a_topic_whatever_ids_it_comes_under() {
    let shopify = Sender::of("shopify");
    let order =
        r#"{"id":820982911946154508,"total_price":"199.00","updated_at":"2026-01-31T10:00:00-05:00"}"#;
    let genuine = shopify.sent("orders/create", "", order);
    for id in ["x-shopify-event-id", "X-Shopify-Event-Id"] {
        shopify.check(&genuine, &genuine.with_header(id, "forged_1"), "replayed");
    }
    shopify.check(&genuine, &genuine.without_header("x-shopify-event-id"), "replayed");
    // A captured order cannot be sent as an event that repeats by nature.
    let uninstalled = genuine.with_header("x-shopify-topic", "app/uninstalled");
    shopify.check(&uninstalled, &uninstalled.with_header("x-shopify-event-id", "forged_1"), "replayed");
    // One action sends one order under several topics: that is theirs to do, and the operator's to narrow.
    shopify.check(&genuine, &genuine.with_header("x-shopify-topic", "orders/paid"), "two");

    let woo = Sender::of("woocommerce");
    let genuine = woo.sent("order.created", "", r#"{"id":727,"date_modified_gmt":"2017-03-22T19:28:08"}"#);
    let forged = genuine.with_header("x-wc-webhook-delivery-id", "forged_1");
    woo.check(&genuine, &forged, "replayed");
    woo.check(&genuine, &forged.with_header("x-wc-webhook-id", "4"), "replayed");
    woo.check(&genuine, &genuine.without_header("x-wc-webhook-delivery-id"), "replayed");
}

#[test]
fn a_charge_is_not_believed_as_a_refund() {
    let tap = Sender::of("tap");
    let charge = r#"{"id":"chg_1","object":"charge","amount":1.5,"currency":"KWD","status":"CAPTURED","reference":{"gateway":"gw","payment":"py"},"transaction":{"created":"1"},"receipt":"a"}"#;
    let genuine = tap.sent("", "", charge);
    tap.check(&genuine, &genuine.with(r#""charge""#, r#""refund""#), "refused");
    tap.check(&genuine, &genuine.with(r#""object":"charge","#, ""), "refused");
    tap.check(&genuine, &genuine.with(r#""receipt":"a""#, r#""receipt":"b""#), "conflict");
    tap.check(
        &genuine,
        &genuine.with(r#""amount":1.5,"currency":"KWD""#, r#""currency":"KWD","amount":1.500"#),
        "conflict",
    );
}

#[test]
fn a_bill_cannot_be_cut_into_another() {
    let billplz = Sender::of("billplz");
    let bill =
        "id=abc&collection_id=599&paid=true&state=paid&amount=100&paid_amount=100&mobile=60123&name=A+%7C+B";
    let genuine = billplz.sent("", "", bill);
    assert!(billplz.read(&genuine).is_ok(), "a bar in a name is the customer's to have");
    for (from, to) in [
        ("id=abc", "id=abc%7Cmobile60123"),
        ("&mobile=60123", ""),
        ("amount=100&paid", "amoun=t100&paid"),
        ("paid_amount=100", "paid_amoun=t100"),
        ("state=paid", "stat=epaid"),
    ] {
        billplz.check(&genuine, &genuine.with(from, to), "refused");
    }
    let moved = genuine.with("id=abc", "id=abc%7Cmobile60123").with("&mobile=60123", "");
    billplz.check(&genuine, &moved, "refused");
    let moved = genuine.with("name=A+%7C+B", "name=A+%7C+B%7Cpaid_amount100").with("&paid_amount=100", "");
    billplz.check(&genuine, &moved, "refused");
    let moved = genuine.with("mobile=60123&name=A+%7C+B", "mobile=60123%7CnameA+%7C+B");
    billplz.check(&genuine, &moved, "conflict");
    let (head, tail) = bill.split_once('&').unwrap();
    let signature = String::from_utf8(genuine.body.clone()).unwrap();
    let (_, signature) = signature.split_once("&x_signature=").unwrap();
    // Fields in another order say the same.
    billplz.check(&genuine, &genuine.with_body(format!("{tail}&{head}&x_signature={signature}")), "copy");
}

#[test]
fn one_signed_manifest_of_mercado_pago_stands_for_one_event() {
    let mercadopago = Sender::of("mercadopago");
    let body = r#"{"id":1,"type":"payment","action":"payment.updated","data":{"id":"111"}}"#;
    let genuine = mercadopago.sent("", "?data.id=111&type=payment", body);
    mercadopago.check(&genuine, &genuine.with(r#""id":1,"#, r#""id":2,"#), "conflict");
    mercadopago.check(&genuine, &genuine.with("updated", "created"), "conflict");
    mercadopago.check(&genuine, &genuine.with(r#""111""#, r#""999""#), "refused");
    mercadopago.check(&genuine, &genuine.with(r#","data":{"id":"111"}"#, ""), "conflict");
    let longer = Sent { url: format!("{}&x=1", genuine.url), ..genuine.clone() };
    mercadopago.check(&genuine, &longer, "copy");
}

#[test]
fn one_signature_of_contentful_has_one_topic() {
    let contentful = Sender::of("contentful");
    let publish = "ContentManagement.Entry.publish";
    let genuine = contentful.sent(publish, "", r#"{"sys":{"id":"abc","type":"Entry"}}"#);
    let genuine = genuine.with_header("x-contentful-idempotency-key", "key_1");
    let topic = "x-contentful-topic";
    contentful.check(&genuine, &genuine.with_header("x-contentful-idempotency-key", "key_2"), "replayed");
    contentful.check(&genuine, &genuine.without_header("x-contentful-idempotency-key"), "replayed");
    contentful.check(&genuine, &genuine.with_header(topic, "ContentManagement.Entry.unpublish"), "refused");
    // Where the topic is not among the signed headers.
    let (secret, time) = (contentful.secret(), format!("{}", NOW_S * 1_000));
    let names = "x-contentful-signed-headers,x-contentful-timestamp";
    let head = format!(
        "POST\n/webhooks/contentful\nx-contentful-signed-headers:{names};x-contentful-timestamp:{time}\n"
    );
    let mac = hmac(Hash::Sha256, secret.as_bytes(), &[head.as_bytes(), &genuine.body]);
    let genuine = genuine
        .with_header("x-contentful-signed-headers", names)
        .with_header("x-contentful-signature", &hex_text(&mac));
    contentful.check(&genuine, &genuine.with_header(topic, "ContentManagement.Entry.unpublish"), "replayed");
}

#[test]
fn a_signed_time_distinguishes_firings_and_a_header_does_not() {
    for (kind, id, body) in [
        ("sanity", "idempotency-key", r#"{"_id":"post-1"}"#),
        ("zendesk", "x-zendesk-webhook-invocation-id", r#"{"ticket_id":"35436"}"#),
    ] {
        let sender = Sender::of(kind);
        let genuine = sender.sent("update", "", body);
        sender.check(&genuine, &genuine.with_header(id, "forged_1"), "replayed");
        let event = sender.read(&genuine.without_header(id)).unwrap();
        assert!(event.unreadable.is_some_and(|why| why.contains("is missing")), "{kind}");
    }
    let sanity = Sender::of("sanity");
    let genuine = sanity.sent("update", "", r#"{"_id":"post-1"}"#);
    sanity.check(&genuine, &genuine.with_header("sanity-operation", "delete"), "replayed");
}

#[test]
fn an_old_signature_of_hubspot_is_of_json_alone_and_can_be_refused_altogether() {
    let by_default = Sender::of("hubspot");
    let mut settings = KindSettings::default();
    settings.push("require", None, "any");
    let secret = Secret::new(by_default.secret());
    let provider = by_default.kind.judge_with(&[secret], &settings).unwrap();
    let hubspot = Sender { kind: by_default.kind.clone(), provider };
    let signed_v1 = |body: &[u8]| {
        let mac = digest(Hash::Sha256, &[hubspot.secret().as_bytes(), body]);
        let headers =
            [("x-hubspot-signature", hex_text(&mac)), ("x-hubspot-signature-version", "v1".to_owned())];
        let headers = headers.map(|(name, value)| (name.to_owned(), value)).to_vec();
        Sent { url: hubspot.provider.url().to_owned(), headers, body: body.to_vec() }
    };
    let body = r#"[{"eventId":1,"subscriptionId":2,"occurredAt":3,"subscriptionType":"contact.creation","objectId":4}]"#;
    assert!(hubspot.read(&signed_v1(body.as_bytes())).is_ok());
    // A captured request could be sent without the newer headers: by default that is refused with a remedy.
    let refused = by_default.read(&signed_v1(body.as_bytes())).unwrap_err();
    assert!(refused.contains("require"), "{refused}");
    // What a length extension makes ends in the digest's own padding and whatever was put behind it.
    let extended = [body.as_bytes(), b"\x80\0\0\0\0\0\0\x03\x80", b"[]"].concat();
    assert!(hubspot.read(&signed_v1(&extended)).is_err());
    let spec = hubspot.kind.spec().unwrap();
    let secret = hubspot.secret();
    let text =
        format!("[providers.hubspot]\nsecrets = [\"{secret}-0123456789\"]\n[retention]\nids_days = 90\n");
    let (is_good, said, _) = crate::floors::check(&text);
    assert!(!is_good && said.contains("400 days"), "an old signature covers no time: {said}");
    assert!(spec.setting.iter().any(|one| one.name == "require" && one.warn.is_some()));
}

#[test]
fn a_form_of_twilio_written_anew_is_no_other_event() {
    let twilio = Sender::of("twilio");
    let token = "i-twilio-idempotency-token";
    let form = "AccountSid=AC1&MessageSid=SM1&MessageStatus=delivered";
    let genuine = twilio.sent("", "", form);
    twilio.check(&genuine, &genuine.with_header(token, "forged_1"), "replayed");
    twilio.check(&genuine, &genuine.without_header(token), "replayed");
    let (same, other) = (["copy", "replayed", "replayed"], ["conflict"; 3]);
    for (rewritten, wants) in [
        ("%41ccountSid=AC1&MessageSid=SM1&MessageStatus=delivered", same),
        ("MessageSid=SM1&AccountSid=AC1&MessageStatus=delivered", same),
        ("AccountSid=AC1&AccountSid=AC1&MessageSid=SM1&MessageStatus=delivered", other),
        ("AccountSid=AC1&MessageSid=SM1MessageStatusdelivered", other),
        ("AccountSidAC1MessageSidSM1=&MessageStatus=delivered", other),
    ] {
        let forged = [
            genuine.with_body(rewritten),
            genuine.with_body(rewritten).with_header(token, "forged_1"),
            genuine.with_body(rewritten).without_header(token),
        ];
        for (forged, want) in forged.iter().zip(wants) {
            twilio.check(&genuine, forged, want);
        }
    }
    let other_type = genuine.with_header("content-type", "application/json");
    twilio.check(&genuine, &other_type, "copy");
}

#[test]
fn a_json_body_of_twilio_is_the_one_whose_digest_the_url_has() {
    let twilio = Sender::of("twilio");
    let body = br#"{"MessageStatus":"delivered","MessageSid":"SM1"}"#;
    let url = format!("{}?bodySHA256={}", twilio.provider.url(), hex_text(&digest(Hash::Sha256, &[body])));
    let mac = hmac(Hash::Sha1, twilio.secret().as_bytes(), &[url.as_bytes()]);
    let headers = vec![("x-twilio-signature".to_owned(), base64_text(&mac))];
    let genuine = Sent { url, headers, body: body.to_vec() };
    assert_eq!(twilio.read(&genuine).unwrap().event_type, "MessageStatus.delivered");
    let is_form = genuine.with_header("content-type", "application/x-www-form-urlencoded");
    twilio.check(&genuine, &is_form, "copy");
    for body in ["&&=", "&", "=", "", "{}", " "] {
        twilio.check(&genuine, &is_form.with_body(body), "refused");
        twilio.check(&genuine, &genuine.with_body(body), "refused");
    }
}

#[test]
fn a_notice_of_braintree_is_one_however_many_keys_signed_it() {
    let braintree = Sender::of("braintree");
    let notice = "<notification><timestamp type=\"datetime\">2026-01-31T10:00:00Z</timestamp><kind>check</kind>\
                  <subject><check type=\"boolean\">true</check></subject></notification>";
    let genuine = braintree.sent("", "", notice);
    let with_another_key = genuine.with("bt_signature=", "bt_signature=other_key%7Cdeadbeef%26");
    braintree.check(&genuine, &with_another_key, "copy");
}

#[test]
fn whether_a_body_is_a_form_its_own_bytes_say() {
    let affirm = Sender::of("affirm");
    let genuine = affirm.sent("", "", r#"{"event":"prequal_decision","note":"a&event=confirmed&b"}"#);
    let forged = genuine.with_header("content-type", "application/x-www-form-urlencoded");
    affirm.check(&genuine, &forged, "copy");
    assert_eq!(affirm.read(&forged).unwrap().event_type, "prequal_decision");
}

async fn only_the_configured_topics_of_a_shop_share_a_body(database: &Database) {
    const SECRET: &str = "hush-hush-0123456789";
    let more = format!(
        "[providers.shopify]\nsecrets = [\"{SECRET}\"]\ntypes = [\"orders/create\", \"orders/paid\"]\n"
    );
    let server = Server::start(&database.url, &more).await;
    let body = r#"{"id":820982911946154508,"updated_at":"2026-01-31T10:00:00-05:00"}"#;
    let mac = base64_text(&hmac(Hash::Sha256, SECRET.as_bytes(), &[body.as_bytes()]));
    for (topic, id, want) in [
        ("orders/create", "evt_1", "accepted"),
        ("orders/paid", "evt_1", "accepted"),
        ("orders/create", "evt_1", "duplicate"),
        ("orders/create", "forged_1", "replayed"),
        // Once, and as nothing that a route names; never again.
        ("refunds/create", "forged_2", "accepted"),
        ("refunds/create", "forged_3", "replayed"),
        ("x1", "forged_4", "replayed"),
    ] {
        let request = client().post(server.url("/webhooks/shopify")).header("x-shopify-hmac-sha256", &mac);
        let request = request.header("x-shopify-topic", topic).header("x-shopify-event-id", id).body(body);
        let answer = request.send().await.unwrap();
        let outcome = answer.headers().get("hooklatch-outcome").map(|value| value.to_str().unwrap());
        assert_eq!(outcome, Some(want), "{topic} {id}");
    }
    let dispatched = "SELECT COUNT(*) FROM processed_webhook_events WHERE event_type LIKE 'refunds%'";
    assert_eq!(database.count(dispatched).await, 0);
}
