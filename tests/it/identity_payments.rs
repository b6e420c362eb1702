//! Payment senders whose signatures leave something open: requests that could be forged from a captured one.

use hooklatch_core::config::KindSettings;
use hooklatch_core::types::{IncomingEvent, OnConflict};
use hooklatch_receive::provider::{ActiveProvider, Kind, Provider};
use hooklatch_receive::providers::builtin;
use hooklatch_receive::vectors::Vector;
use hooklatch_verify::{Form, SignAt, Signed, form_with};
use serde_json::{Value, json};

use crate::providers::{NOW_S, dev, request, sign_at};

pub(crate) fn kind(name: &str) -> Provider {
    builtin().into_iter().find(|kind| kind.kind() == name).unwrap()
}

/// The one sender of these tests, and what it signed.
struct Sender(ActiveProvider);

impl Sender {
    fn of(name: &str) -> Self {
        Self(dev(&kind(name)))
    }

    fn signed(&self, body: &str) -> Signed {
        self.0.sign(body.as_bytes(), &sign_at(&self.0, "")).unwrap()
    }

    /// The events of what was signed, with another body under the same headers.
    fn events(&self, signed: &Signed, body: &[u8]) -> Result<Vec<IncomingEvent>, String> {
        self.events_with(&signed.headers, body, NOW_S)
    }

    fn events_with(
        &self,
        headers: &[(String, String)],
        body: &[u8],
        now_s: i64,
    ) -> Result<Vec<IncomingEvent>, String> {
        let request = request(headers, body, &sign_at(&self.0, "").url, now_s);
        let verified = self.0.verify(request).map_err(|why| why.to_string())?;
        Ok(self.0.read(&verified))
    }

    fn event(&self, signed: &Signed, body: &[u8]) -> IncomingEvent {
        let mut events = self.events(signed, body).unwrap();
        assert_eq!(events.len(), 1);
        events.remove(0)
    }

    #[track_caller]
    fn refuses(&self, headers: &[(String, String)], body: &[u8], want: &str) {
        let why = self.events_with(headers, body, NOW_S).expect_err(want);
        assert!(why.contains(want), "{why}");
    }
}

/// What admission makes of the second of two events.
pub(crate) fn becomes(first: &IncomingEvent, second: &IncomingEvent) -> &'static str {
    let is_known = first.key == second.key;
    let is_replayed = second.replay_key.is_some() && first.replay_key == second.replay_key;
    match (is_known, is_replayed, first.digest == second.digest) {
        (true, _, true) => "duplicate",
        (false, true, true) => "replayed",
        (false, false, _) => "accepted",
        _ => "conflict",
    }
}

const FAILED: &str =
    "mihpayid=1&status=failure&txnid=t1&amount=1.00&productinfo=p&firstname=f&email=e&udf1=a";

#[test]
fn a_failed_payment_of_payu_is_no_good_one_however_its_body_is_written() {
    let payu = Sender::of("payu");
    let signed = payu.signed(FAILED);
    let form = Form::parse(&signed.body).unwrap();
    let hash = form.text("hash").unwrap();
    let forged = json!({
        "status": "failure", "txnid": "t1", "amount": "1.00", "productinfo": "p", "firstname": "f", "email": "e",
        "udf1": "a", "hash": hash, "zz": "&status=success&amount=99999.00&mihpayid=777&",
    });
    for content_type in ["application/x-www-form-urlencoded", "application/json", "text/plain"] {
        let headers = [("content-type".to_owned(), content_type.to_owned())];
        payu.refuses(&headers, forged.to_string().as_bytes(), "India signs no JSON");
        let events = payu.events_with(&headers, &signed.body, NOW_S).unwrap();
        assert_eq!(events[0].event_type, "failure", "{content_type}");
    }
}

#[test]
fn a_signed_field_of_payu_is_there_once_and_holds_no_bar_where_it_decides() {
    let payu = Sender::of("payu");
    let signed = payu.signed(FAILED);
    let text = String::from_utf8(signed.body.clone()).unwrap();
    for (from, to, want) in [
        ("udf1=a", "udf1=a&udf1=FORGED", "it is there twice"),
        ("status=failure", "status=failure&status=success", "it is there twice"),
        ("hash=", "hash=00&hash=", "it is there twice"),
        ("txnid=t1", "txnid=1.00%7Ct1", "it holds the `|`"),
        ("status=failure", "status=success", "does not match"),
    ] {
        payu.refuses(&[], text.replacen(from, to, 1).as_bytes(), want);
    }
    // Two fields that take turns at one text.
    let one = payu.signed(&FAILED.replace("productinfo=p", "productinfo=p%7Cx"));
    let other = String::from_utf8(one.body.clone()).unwrap();
    let other = other.replace("productinfo=p%7Cx", "productinfo=x").replace("firstname=f", "firstname=f%7Cp");
    let (one, other) = (payu.event(&one, &one.body), payu.event(&one, other.as_bytes()));
    assert_eq!(becomes(&one, &other), "conflict");
}

#[test]
fn an_id_that_payu_does_not_sign_makes_no_second_event() {
    let payu = Sender::of("payu");
    let signed = payu.signed(FAILED);
    let first = payu.event(&signed, &signed.body);
    assert_eq!(becomes(&first, &payu.event(&signed, &signed.body)), "duplicate");
    for id in ["200", "201", "202"] {
        let forged = payu.event(&signed, &form_with(&signed.body, "mihpayid", id));
        assert_eq!((becomes(&first, &forged), forged.on_conflict), ("conflict", OnConflict::Keep));
    }
    let nested = payu.event(&signed, &form_with(&signed.body, "notice", r#"{"action":"refund"}"#));
    assert_eq!((nested.event_type.as_str(), becomes(&first, &nested)), ("failure", "conflict"));
}

#[test]
fn what_india_does_not_sign_is_taken_where_the_operator_says_so_and_is_never_a_payment() {
    let refund =
        json!({ "action": "refund", "status": "success", "key": "k", "request_id": "7", "amt": "1.00" });
    let dispute = json!({ "event": "dispute", "type": "payments", "cb_id": 9, "cb_status": "Open" });
    let vector = |settings: Value, body: &Value| -> Vector {
        serde_json::from_value(json!({
            "id": "payu-x", "kind": "payu", "expect": "valid", "now": NOW_S, "secrets": [], "headers": {}, "settings": settings,
            "method": "POST", "url": "https://a.example/webhooks/payu", "body": body.to_string(),
        }))
        .unwrap()
    };
    let events = |settings: Value, body: &Value| {
        let vector = vector(settings, body);
        let provider = vector.provider(&kind("payu")).unwrap();
        let verified = provider.verify(vector.request().unwrap()).map_err(|why| why.to_string())?;
        Ok::<_, String>(provider.read(&verified))
    };
    let settings = json!({ "merchant_key": "k", "salt": "eight888", "unsigned_notices": "accept" });
    let plain = json!({ "merchant_key": "k", "salt": "eight888" });
    assert!(events(plain, &refund).unwrap_err().contains("unsigned_notices"));
    for (body, want, status) in [(&refund, "refund", "/status"), (&dispute, "dispute", "/cb_status")] {
        let first = events(settings.clone(), body).unwrap().remove(0);
        assert_eq!((first.event_type.as_str(), &first.unreadable), (want, &None));
        assert_eq!(serde_json::from_slice::<Value>(&first.payload).unwrap(), *body);
        let mut later = body.clone();
        *later.pointer_mut(status).unwrap() = json!("other");
        let later = events(settings.clone(), &later).unwrap().remove(0);
        assert_eq!(becomes(&first, &later), "accepted");
        assert_eq!(becomes(&first, &events(settings.clone(), body).unwrap()[0]), "duplicate");
    }
    let other = json!({ "action": "refund", "status": "success", "key": "another" });
    assert!(events(settings.clone(), &other).unwrap_err().contains("another merchant"));
    for payment in [
        json!({ "status": "success", "txnid": "t1", "amount": "1.00", "hash": "00" }),
        json!({ "status": "success", "txnid": "t1", "amount": "1.00", "hash": "00", "action": "refund" }),
        json!({ "order": { "orderId": "1", "status": "COMPLETED" }, "action": "refund" }),
        json!([{ "action": "refund", "status": "success" }]),
    ] {
        assert!(events(settings.clone(), &payment).unwrap_err().contains("no notice"), "{payment}");
    }
}

fn item(fields: &Value) -> String {
    let mut item = json!({
        "additionalData": {}, "pspReference": "PSP1", "originalReference": "", "merchantAccountCode": "Acct",
        "merchantReference": "order:1", "amount": { "currency": "EUR", "value": 1000 },
        "eventCode": "AUTHORISATION", "success": "true", "reason": "first",
    });
    item.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    json!({ "live": "false", "notificationItems": [{ "NotificationRequestItem": item }] }).to_string()
}

#[test]
fn an_item_of_adyen_is_cut_in_one_way() {
    let adyen = Sender::of("adyen");
    let signed = adyen.signed(&item(&json!({})));
    let body: Value = serde_json::from_slice(&signed.body).unwrap();
    let place = "/notificationItems/0/NotificationRequestItem/additionalData/hmacSignature";
    let signature = body.pointer(place).unwrap().clone();
    let extra = json!({ "hmacSignature": signature });
    let first = adyen.event(&signed, &signed.body);
    // The same text: `PSP1::Acct:order:1:1000:EUR:AUTHORISATION:true`.
    for fields in [
        json!({ "pspReference": "PSP1:", "originalReference": "Acct", "merchantAccountCode": "order", "merchantReference": "1" }),
        json!({ "merchantAccountCode": "Acct:order", "merchantReference": "1" }),
        json!({ "merchantReference": "order", "amount": { "value": "1:1000", "currency": "EUR" } }),
    ] {
        let mut fields = fields;
        fields["additionalData"] = extra.clone();
        adyen.refuses(&[], item(&fields).as_bytes(), "another form");
    }
    // What no signature covers is no second event, and is kept.
    let other = item(&json!({ "additionalData": extra, "reason": "FORGED" }));
    let other = adyen.event(&signed, other.as_bytes());
    assert_eq!((becomes(&first, &other), other.on_conflict), ("conflict", OnConflict::Copy));
}

#[test]
fn a_signature_of_one_family_of_adyen_is_none_of_the_other() {
    let adyen = Sender::of("adyen");
    // A body of the Balance Platform that is cut at seven colons, as an item.
    let body = r#"{"a":"b","c":"d","e":"f","g":1,"h":2,"type":"1, \"currency\"","success":"true"}"#;
    let signed = adyen.signed(body);
    let signature = &signed.headers.iter().find(|(name, _)| name == "hmacsignature").unwrap().1;
    let parts: Vec<&str> = body.splitn(8, ':').collect();
    assert_eq!(parts.len(), 8);
    let forged = item(&json!({
        "pspReference": parts[0], "originalReference": parts[1], "merchantAccountCode": parts[2],
        "merchantReference": parts[3], "amount": { "value": parts[4], "currency": parts[5] },
        "eventCode": parts[6], "success": parts[7], "additionalData": { "hmacSignature": signature },
        "reason": "FORGED",
    }));
    adyen.refuses(&[], forged.as_bytes(), "another form");
    // The text of an item's eight fields, as a body.
    let signed = adyen.signed(&item(&json!({ "merchantReference": "r" })));
    let item: Value = serde_json::from_slice(&signed.body).unwrap();
    let place = "/notificationItems/0/NotificationRequestItem/additionalData/hmacSignature";
    let signature = item.pointer(place).unwrap().as_str().unwrap().to_owned();
    let headers = [("hmacsignature".to_owned(), signature)];
    adyen.refuses(&headers, b"PSP1::Acct:r:1000:EUR:AUTHORISATION:true", "no JSON object");
}

#[test]
fn a_form_of_alipay_is_cut_in_one_way() {
    let alipay = Sender::of("alipay");
    let body = "notify_id=N1&notify_time=T&notify_type=trade_status_sync&out_trade_no=1&subject=a%26b&total_amount=1.00";
    let signed = alipay.signed(&format!("{body}&trade_status=TRADE_SUCCESS"));
    let text = String::from_utf8(signed.body.clone()).unwrap();
    let first = alipay.event(&signed, &signed.body);
    assert_eq!((first.key.event_id.as_str(), first.event_type.as_str()), ("N1", "TRADE_SUCCESS"));
    for (from, to, want) in [
        ("notify_id=N1&notify_time=T", "notify_id=N1%26notify_time%3DT", "unconfirmed"),
        (
            "notify_id=N1&notify_time=T&notify_type=trade_status_sync",
            "notify_id=N1%26notify_time%3DT%26notify_type%3Dtrade_status_sync",
            "unconfirmed",
        ),
        ("notify_id=N1&notify_time=T", "notify_id%3DN1%26notify_time=T", "unconfirmed"),
        (
            "total_amount=1.00&trade_status=TRADE_SUCCESS",
            "total_amount=1.00%26trade_status%3DTRADE_SUCCESS",
            "unconfirmed",
        ),
        (
            "notify_time=T&notify_type=trade_status_sync",
            "notify_time=T%26notify_type%3Dtrade_status_sync",
            "unconfirmed",
        ),
        ("trade_status=TRADE_SUCCESS", "trade_status=TRADE_SUCCESS&trade_status=", "there twice"),
        ("notify_id=N1", "notify_id=N1&notify_id=", "there twice"),
    ] {
        assert!(text.contains(from), "{text}");
        let sent = text.replacen(from, to, 1);
        if want == "unconfirmed" {
            let event = alipay.event(&signed, sent.as_bytes());
            assert_eq!(event.event_type, "payment.unconfirmed", "{to}");
            assert_eq!(becomes(&event, &first), "accepted", "the genuine one is dispatched beside it");
        } else {
            alipay.refuses(&signed.headers, sent.as_bytes(), want);
        }
    }
    // Between two empty fields, which nothing signs, the form is a text of JSON.
    let json = format!(r#"{{"notify_id":"N9","trade_status":"TRADE_SUCCESS","z":"=&{text}&"}}"#);
    assert!(serde_json::from_str::<Value>(&json).is_ok());
    alipay.refuses(&signed.headers, json.as_bytes(), "it is no form");
    // Text that identifies nothing of the event may be cut elsewhere, and is not a second event.
    let split = text.replacen("subject=a%26b", "subject=a&b=", 1);
    if let Ok(events) = alipay.events(&signed, split.as_bytes()) {
        assert_eq!(becomes(&first, &events[0]), "conflict");
    }
    let more = alipay.event(&signed, format!("{text}&extra=").as_bytes());
    assert_eq!(becomes(&first, &more), "conflict");
}

#[test]
fn a_notice_of_antom_is_cut_in_one_way() {
    let antom = Sender::of("alipay");
    let signed =
        antom.signed(r#"{"notifyType":"PAYMENT_RESULT","paymentId":"1","note":"x.{\"notifyType\":\"y\"}"}"#);
    assert_eq!(antom.event(&signed, &signed.body).event_type, "PAYMENT_RESULT");
    let header = |name: &str| signed.headers.iter().find(|(one, _)| one == name).unwrap().1.clone();
    let with = |client: String, time: String| {
        let others =
            signed.headers.iter().filter(|(name, _)| !["client-id", "request-time"].contains(&name.as_str()));
        let own = [("client-id".to_owned(), client), ("request-time".to_owned(), time)];
        others.cloned().chain(own).collect::<Vec<_>>()
    };
    let body = String::from_utf8(signed.body.clone()).unwrap();
    let (head, rest) = body.split_once('.').unwrap();
    let longer = with(header("client-id"), format!("{}.{head}", header("request-time")));
    antom.refuses(&longer, rest.as_bytes(), "another form");
    let moved = with(format!("{}.{}", header("client-id"), header("request-time")), head.to_owned());
    antom.refuses(&moved, rest.as_bytes(), "another form");
}

fn notice(fields: &Value) -> String {
    let mut notice = json!({
        "order_id": "ORD-1", "status_code": "201", "gross_amount": "10000.00", "transaction_status": "pending",
        "transaction_id": "t1", "signature_key": "",
    });
    notice.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    notice.to_string()
}

/// The notice with other fields under the signature that it has.
fn forged(signed: &Signed, fields: &Value) -> Vec<u8> {
    let mut body: Value = serde_json::from_slice(&signed.body).unwrap();
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    body.to_string().into_bytes()
}

#[test]
fn a_notice_of_midtrans_is_for_one_order_and_says_what_its_code_allows() {
    let midtrans = Sender::of("midtrans");
    let pending = midtrans.signed(&notice(&json!({})));
    assert_eq!(midtrans.event(&pending, &pending.body).event_type, "pending");
    for (fields, want) in [
        (json!({ "order_id": "ORD-120", "status_code": "1" }), "three digits"),
        (json!({ "order_id": "ORD-", "status_code": "120", "gross_amount": "110000.00" }), "do not agree"),
        (json!({ "order_id": "ORD-12", "status_code": "011", "gross_amount": "0000.00" }), "do not agree"),
        (json!({ "gross_amount": "10000.00 " }), "no amount"),
        (json!({ "transaction_status": "settlement" }), "do not agree"),
        (json!({ "transaction_status": "settlement", "transaction_id": "t2" }), "do not agree"),
        (json!({ "transaction_status": "refund" }), "do not agree"),
        (json!({ "transaction_status": "expire" }), "do not agree"),
    ] {
        midtrans.refuses(&[], &forged(&pending, &fields), want);
    }
    let twice = String::from_utf8(pending.body.clone()).unwrap();
    let twice = twice.replacen('{', r#"{"transaction_status":"settlement","#, 1);
    midtrans.refuses(&[], twice.as_bytes(), "there twice");
}

#[test]
fn what_midtrans_does_not_sign_pays_no_order_twice_and_loses_no_refund() {
    let midtrans = Sender::of("midtrans");
    let fields = json!({ "status_code": "200", "transaction_status": "capture" });
    let signed = midtrans.signed(&notice(&fields));
    let capture = midtrans.event(&signed, &signed.body);
    let with = |fields: &Value| midtrans.event(&signed, &forged(&signed, fields));
    let settlement = with(&json!({ "transaction_status": "settlement" }));
    assert_eq!(becomes(&capture, &settlement), "accepted", "one signed text, two steps");
    for id in ["t2", "t3"] {
        let again = with(&json!({ "transaction_status": "settlement", "transaction_id": id }));
        assert_eq!((becomes(&settlement, &again), again.on_conflict), ("conflict", OnConflict::Keep));
    }
    let refunds = |list: Value| with(&json!({ "transaction_status": "partial_refund", "refunds": list }));
    let first = refunds(json!([{ "refund_chargeback_id": 1 }]));
    let second = refunds(json!([{ "refund_chargeback_id": 1 }, { "refund_chargeback_id": 2 }]));
    assert_eq!(becomes(&capture, &first), "accepted");
    assert_eq!((becomes(&first, &second), second.on_conflict), ("conflict", OnConflict::Dispatch));
}

#[test]
fn a_dispute_of_adyen_goes_on_under_one_reference() {
    let adyen = Sender::of("adyen");
    let of = |status: &str| {
        let signed = adyen.signed(&item(&json!({
            "eventCode": "REQUEST_FOR_INFORMATION", "additionalData": { "disputeStatus": status },
        })));
        adyen.event(&signed, &signed.body)
    };
    let (first, second) = (of("Unresponded"), of("Expired"));
    assert_eq!((becomes(&first, &second), second.on_conflict), ("conflict", OnConflict::Dispatch));
}

#[test]
fn a_webhook_of_rapyd_that_is_sent_again_within_three_days_is_believed() {
    let rapyd = Sender::of("rapyd");
    let at = SignAt { now_s: NOW_S, ..sign_at(&rapyd.0, "") };
    let signed = rapyd.0.sign(br#"{"id":"wh_1","type":"PAYMENT_COMPLETED","data":{}}"#, &at).unwrap();
    let events = |now_s| rapyd.events_with(&signed.headers, &signed.body, now_s);
    let first = events(NOW_S).unwrap().remove(0);
    assert_eq!(becomes(&first, &events(NOW_S + 250_000).unwrap()[0]), "duplicate");
    assert!(events(NOW_S + 260_000).unwrap_err().contains("tolerance"));
    assert!(events(NOW_S - 400).unwrap_err().contains("ahead"));
}

#[test]
fn a_notice_of_alipay_for_another_app_is_foreign() {
    let alipay = Sender::of("alipay");
    let body = "app_id=2021&notify_id=N1&notify_type=trade_status_sync&out_trade_no=1&total_amount=1.00&trade_status=TRADE_SUCCESS";
    let of_app = |apps: &[&str], body: &str| {
        let mut settings = KindSettings::default();
        for app in apps {
            settings.push("app_ids", None, *app);
        }
        let pem = include_str!("../../crates/verify/src/published/rsa_public_key.pem");
        settings.push("alipay_public_key_pem", None, pem);
        let provider = kind("alipay").judge_with(&[], &settings).unwrap();
        let signed = alipay.signed(body);
        let sent = request(&signed.headers, &signed.body, &sign_at(&alipay.0, "").url, NOW_S);
        provider.verify(sent).map(|_| ()).map_err(|error| hooklatch_verify::failed_at(&error).reason)
    };
    assert_eq!(of_app(&["2021", "2022"], body), Ok(()));
    assert_eq!(of_app(&["2022"], body), Err("foreign_account"));
    assert_eq!(of_app(&["2021"], &body.replace("app_id=2021&", "")), Err("foreign_account"));
    // Of Antom the client is signed in a header.
    let antom = r#"{"notifyType":"PAYMENT_RESULT","paymentId":"1"}"#;
    assert_eq!(of_app(&["hooklatch"], antom), Ok(()));
    assert_eq!(of_app(&["2021"], antom), Err("foreign_account"));
}

const TRANSACTION: &str = r#"{"type":"TRANSACTION","obj":{"id":1920,"pending":false,"amount_cents":100,"success":true,"is_auth":false,"is_capture":false,"is_standalone_payment":true,"is_voided":false,"is_refunded":false,"is_3d_secure":true,"integration_id":40,"has_parent_transaction":false,"order":{"id":2175,"merchant_order_id":"A"},"created_at":"2024-06-13T11:33:44.592345","currency":"EGP","source_data":{"pan":"2346","type":"card","sub_type":"MasterCard"},"error_occured":false,"owner":302}}"#;

#[test]
fn a_payer_of_paymob_names_no_other_order_under_the_hmac_of_their_own() {
    let paymob = Sender::of("paymob");
    let signed = paymob.signed(TRANSACTION);
    let genuine = paymob.event(&signed, &signed.body);
    assert_eq!(genuine.event_type, "TRANSACTION");
    let envelope: Value = serde_json::from_slice(&genuine.envelope).unwrap();
    assert_eq!(envelope["obj"]["order"], json!({ "id": 2175 }));
    let text = String::from_utf8(signed.body.clone()).unwrap();
    for other in [
        text.replace("\"A\"", "\"B\""),
        text.replace("\"id\":1920,", "\"id\":\"1920\","),
        text.replace("\"type\":\"TRANSACTION\",", ""),
    ] {
        assert_ne!(other, text);
        let event = paymob.event(&signed, other.as_bytes());
        assert_eq!(
            (becomes(&genuine, &event), event.event_type.as_str()),
            ("duplicate", "TRANSACTION"),
            "{other}"
        );
    }
}

#[test]
fn what_paymob_signed_in_another_form_is_kept_and_is_no_payment() {
    let paymob = Sender::of("paymob");
    let card = r#"{"type":"TOKEN","obj":{"id":8,"token":"e98a","masked_pan":"xxxx-2346","merchant_id":24,"card_subtype":"Visa","created_at":"2024-11-13T12:32:23.859982","email":"t@test.com","order_id":"26"}}"#;
    let signed = paymob.signed(card);
    let genuine = paymob.event(&signed, &signed.body);
    assert_eq!(genuine.event_type, "TOKEN");
    // The end of the time as the beginning of the address, and other cuts of the same text.
    for (from, to) in [
        (r#""2024-11-13T12:32:23.859982","email":"t"#, r#""2024-11-13T12:32:23.85998","email":"2t"#),
        (r#""2024-11-13T12:32:23.859982","email":"t"#, r#""2024-11-13T12:32:23","email":".859982t"#),
        (
            r#""id":8,"token":"e98a","masked_pan":"xxxx-2346","merchant_id":24"#,
            r#""id":8,"token":"e98a","masked_pan":"xxxx-23462","merchant_id":4"#,
        ),
    ] {
        let other = card.replace(from, to);
        assert_ne!(other, card);
        let event = paymob.event(&signed, other.as_bytes());
        assert_eq!(event.event_type, "payment.unconfirmed", "{other}");
        assert_eq!(becomes(&event, &genuine), "accepted", "the genuine one is dispatched beside it");
    }
    // A subscription's two fields sign no transaction that stands beside them.
    let suspended = r#"{"subscription_data":{"id":1264,"suspended_at":"2024-12-03"},"trigger_type":"suspended","hmac":""}"#;
    let signed = paymob.signed(suspended);
    assert_eq!(paymob.event(&signed, &signed.body).event_type, "suspended");
    let text = String::from_utf8(signed.body.clone()).unwrap();
    let beside = TRANSACTION.strip_prefix('{').unwrap().strip_suffix('}').unwrap();
    let forged = format!("{{{beside},{}", text.strip_prefix('{').unwrap());
    assert_eq!(paymob.event(&signed, forged.as_bytes()).event_type, "payment.unconfirmed");
}

#[test]
fn a_reference_of_tap_that_holds_the_name_of_a_field_is_no_payment() {
    let tap = Sender::of("tap");
    let charge = r#"{"id":"chg_1","object":"charge","amount":1.5,"currency":"KWD","status":"DECLINED","reference":{"gateway":"gw","payment":"pyx_statusCAPTURED"},"transaction":{"created":"1"}}"#;
    let signed = tap.signed(charge);
    let event = tap.event(&signed, &signed.body);
    assert_eq!(event.event_type, "payment.unconfirmed");
    let other = charge.replace("pyx_statusCAPTURED", "py").replace("DECLINED", "CAPTUREDx_statusDECLINED");
    let forged = tap.event(&signed, other.as_bytes());
    assert_eq!(forged.event_type, "payment.unconfirmed");
    assert_eq!(
        tap.event(
            &tap.signed(&charge.replace("x_statusCAPTURED", "")),
            charge.replace("x_statusCAPTURED", "").as_bytes()
        )
        .event_type,
        "charge.DECLINED"
    );
}
