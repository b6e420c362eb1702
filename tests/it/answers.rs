//! Answers that a kind computes: after the commit, the same for a new event and for a copy, and never without one.

use hooklatch_core::types::IncomingEvent;
use hooklatch_receive::provider::{Kind, Provider};
use hooklatch_receive::providers::builtin;
use hooklatch_verify::{Hash, PublicKey, PublicScheme, Signed, Verified, decode_base64, hex_text, hmac};
use serde_json::{Value, json};

use crate::database::{Database, On};
use crate::process::{Server, client};
use crate::providers::{NOW_S, dev, request, sign_at};

/// Made for tests; as the tests of `crates/verify/src/private.rs` have it.
const OWN_KEY: &str = include_str!("keys/own_key.pem");
const PUBLISHED_KEY: &str = include_str!("../../crates/verify/src/published/rsa_public_key.pem");
/// A sender's key made for this test by OpenSSL 3, and notices that it signed (`openssl dgst -sha1 -sign`); its private half
/// was not kept.
const SENDERS_KEY: &str = "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA1elvgHvzBNwYKrq+IN+q\nB7ybj1wLKtkA+I/3q7frxR9iBeR9jx/LEQfQWM8QwITZsrrZVY6Ie+DM8+QZOwgi\nZ/HsD0MpMzFQZKCpAmYh24CnmNm6CtY1VgKgR8TKszw2S+/B544h0ZSUWuz/Ujdc\nDdXoSal3T6sFp5r5jrtTrRD9cId3lLv4ClsKZ9cQu9mP5ZwwwF50rhTUWvxqL9V4\n055MWH27g+nQx0WZjbuDuyP490+g14OQhbdf7zQXaNpocXgZoFmwq3+FoXyNZJpp\nDWp9FcjC4/sY6bR/qnYp4SSur3k7lnu5mNAHGCroCxR9HIdObOOHeMC1hVOlXw8e\n8wIDAQAB\n-----END PUBLIC KEY-----\n";
const CREDIT: &str = r#"{"method":"credit","params":{"signature":"f8TnNrgFDK6YXuacy7owf668kM7Rv4VWqVpJyH2J7ZkDw0j7gCEjloNmi+2UYiumwNEmevS6Q9hyXb0ZLGVJR8DKl6pAs5ZeILu3MsBIe0xP/v0zfKFWByVSGAe8+/Y6P95dP2k0f1nJ7QDiKOb9jtOitWMkfgnGj+/Zv+ckzo2NbZgYt04LKm3l8yfAM/wqbd95EVTGdacn9acPql5avRXBl6cI3hDHFO1P8YKk26pm0utUmd5MZ/f14p7JPZTZjsfI+COUHk5siMR3CJGZ1545j8NzGIrzlbbcs3XoGDCaAeaCDE/2sOA1G0h0xz1Ln5m21Vh70Cp+pcDSTfbaHQ==","uuid":"258a2184-2842-b485-25ca-293525152425","data":{"amount":"902.50","currency":"EUR","messageid":"98348932","orderid":"87654567","enduserid":"32123","notificationid":"9876543456","timestamp":"2010-01-20 14:42:04.675645+01","attributes":{}}},"version":"1.1"}"#;
const KYC: &str = r#"{"method":"kyc","params":{"signature":"Fj8k+tP5NnlsKP7pTxnF3t6CDnR7gc82IAXzCQlr8qWp4XKiXcdlvBZFd8ZH21Y8oX7LQhIe/K9LdKKE408s0o/qJYX5e4AhmYA9EN5oBd3YNTDncXT7LVp9kLzPMj3aY28Av6AoiA6oENQri3eKofRBFeFfz5EXKWyWwVca32ZfwwxEFRrPenEQw0Ljjoa3wSHg/8UG9w5sfoQsVyWVexNWjo/HWJatlpg9k76jcRqoRTnW7V516KXKWFnYvlfH9vpezkHoFDZ6IPgHUlVRV1cffFyH2L40pIFOtllfPLk2oCcy5Rv9nSh0qWfiCz+qenprPXtl2pw9hQZNrb0zeA==","uuid":"258a2184-2842-b485-25ca-293525152425","data":{"orderid":"87654567","messageid":"mytransaction-001","kycentityid":"29a750aa-0bad-4a28-a42d-ffb9a690d93a","notificationid":"9876543457","attributes":{"personid":"SE196512171957","firstname":"Joe","lastname":"Johnson"}}},"version":"1.1"}"#;
/// What OpenSSL signs of the answer to that credit by [`OWN_KEY`].
const ANSWERED: &str = "ZazSf1+WTHwx+TP1k2nfgtpNe0GKfMDlQOAyg+WkzfNb63KnFe6HC/A2qZvEbko2DIk5mksAnOTw41N1Z3nVfN1MIW6ri1mx2JSqOht6dL2jiB+5HM3g6u56gw7sgD9HURvEdcbXh/G231k6LzX79lprJjsMuwaQC5HgTQrD6BTmiyuJ/ze1UxHuqDEtzaESlUFmJ3fkUxXwPebFJM5R3D1fi9Ao4VXLZ/DjyYk1mxOdvhVuLCwLw8kQJ1CqjHL72I2YoLOrVvB5zBg+WrV4mrFp5KeHk/mMKBbuVTKPcRPirjgmlXlexAiVcTZpfQv58MFVTO3P8RcezgvMKvCWbg==";

fn providers(debits: &str) -> String {
    format!(
        "[providers.trustly]\n[providers.trustly.settings]\ntrustly_public_key = \"\"\"{SENDERS_KEY}\"\"\"\n\
         merchant_private_key = \"\"\"{OWN_KEY}\"\"\"\ndebits = \"{debits}\"\n"
    )
}

async fn posted(server: &Server, body: &'static str) -> (u16, Option<String>, Value) {
    let sent =
        client().post(server.url("/webhooks/trustly")).header("content-type", "application/json").body(body);
    let response = sent.send().await.unwrap();
    let outcome = response.headers().get("hooklatch-outcome").map(|value| value.to_str().unwrap().to_owned());
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    (status, outcome, serde_json::from_str(&text).unwrap())
}

#[tokio::test]
async fn an_answer_is_signed_after_the_commit_alone_and_is_the_same_for_a_copy() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let server = Server::start(&database.url, &providers("leave")).await;
    // As long as nothing can be committed, nothing is signed.
    database
        .run(
            "CREATE TRIGGER refuse BEFORE INSERT ON processed_webhook_events BEGIN SELECT RAISE(ABORT, 'no'); END",
        )
        .await
        .unwrap();
    let (status, _, body) = posted(&server, CREDIT).await;
    assert!(status >= 500, "{status} {body}");
    assert_eq!(body.pointer("/result"), None, "{body}");
    database.run("DROP TRIGGER refuse").await.unwrap();
    let signed = json!({
        "result": {
            "signature": ANSWERED,
            "uuid": "258a2184-2842-b485-25ca-293525152425",
            "method": "credit",
            "data": { "status": "OK" },
        },
        "version": "1.1",
    });
    for want in ["accepted", "duplicate", "duplicate"] {
        let (status, outcome, body) = posted(&server, CREDIT).await;
        assert_eq!((status, outcome.as_deref()), (200, Some(want)));
        assert_eq!(body, signed, "{want}");
    }
    // A decision is not ours to take: it is kept, and its sender asks again.
    let (status, outcome, body) = posted(&server, KYC).await;
    assert_eq!((status, outcome.as_deref(), body), (200, Some("accepted"), json!({})));
    assert!(!server.log().contains("PRIVATE KEY") && !server.log().contains(ANSWERED));
}

#[tokio::test]
async fn a_server_without_a_key_to_sign_answers_with_does_not_start_and_never_shows_one() {
    let database = Database::create(On::Sqlite).await.unwrap();
    for (from, to, want) in [
        ("merchant_private_key", "other", "settings.other"),
        ("-----BEGIN PRIVATE KEY-----", "-----BEGIN SECRET-----", "settings.merchant_private_key"),
    ] {
        let text = providers("leave").replacen(from, to, 1);
        let server = Server::prepare(&database.url, &text);
        let (code, said) = server.command("", &["check"]);
        assert!(code != 0 && said.contains(want), "{said}");
        let stem = OWN_KEY.lines().nth(1).unwrap();
        assert!(!said.contains(stem), "{said}");
    }
    let server = Server::prepare(&database.url, &providers("approve"));
    let (code, said) = server.command("", &["check"]);
    assert!(said.contains("every withdrawal"), "{code} {said}");
}

fn kind(name: &str) -> Provider {
    builtin().into_iter().find(|kind| kind.kind() == name).unwrap()
}

/// One kind as `serve --dev` has it.
struct Sender(hooklatch_receive::provider::ActiveProvider);

impl Sender {
    fn of(name: &str) -> Self {
        Self(dev(&kind(name)))
    }

    fn signed(&self, body: &[u8]) -> Signed {
        self.0.sign(body, &sign_at(&self.0, "")).unwrap()
    }

    fn verified(&self, body: &[u8]) -> Result<Verified, String> {
        let request = request(&[], body, self.0.url(), NOW_S);
        self.0.verify(request).map_err(|why| why.to_string())
    }

    fn event(&self, body: &[u8]) -> IncomingEvent {
        self.0.read(&self.verified(body).unwrap()).remove(0)
    }

    fn answer(&self, body: &[u8]) -> String {
        self.0.answer(&self.verified(body).unwrap()).unwrap().body.clone()
    }
}

/// A notice of Trustly's about an order of 902.50 EUR, with other members of its data.
fn notice(method: &str, data: &Value) -> Vec<u8> {
    let mut all = json!({
        "amount": "902.50", "currency": "EUR", "messageid": "98348932", "orderid": "87654567", "enduserid": "32123",
        "notificationid": "9876543456", "timestamp": "2010-01-20 14:42:04.675645+01", "attributes": {},
    });
    for (name, value) in data.as_object().unwrap() {
        all[name] = value.clone();
    }
    let uuid = "258a2184-2842-b485-25ca-293525152425";
    let params = json!({ "signature": "", "uuid": uuid, "data": all });
    json!({ "method": method, "params": params, "version": "1.1" }).to_string().into_bytes()
}

/// The same signature over other data.
fn with_data(signed: &Signed, change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut body: Value = serde_json::from_slice(&signed.body).unwrap();
    change(&mut body);
    body.to_string().into_bytes()
}

#[test]
fn no_name_of_a_payer_makes_another_notice_of_one_that_trustly_signed() {
    let trustly = Sender::of("trustly");
    let genuine = trustly.signed(&notice("credit", &json!({})));
    let event = trustly.event(&genuine.body);
    assert_eq!((event.event_type.as_str(), event.key.event_id.as_str()), ("credit", "9876543456"));
    // A payer whose name at the shop is the rest of a notice: kept, and no credit of anything.
    for name in [
        "1messageid5notificationid9orderid1",
        "messageid5notificationid9orderid1timestamp2010-01-20",
        "1messageid98348932",
        "notificationid1",
    ] {
        let signed = trustly.signed(&notice("credit", &json!({ "enduserid": name })));
        let kept = trustly.event(&signed.body);
        assert_eq!(kept.event_type, "notification.unconfirmed", "{name}");
        // A holder of it cuts it otherwise: no cut is a credit of another id.
        for (id, message) in [("9", "5"), ("1", ""), ("9876543456", "5notificationid9orderid1")] {
            let forged = with_data(&signed, |body| {
                body["params"]["data"]["enduserid"] = json!("1");
                body["params"]["data"]["messageid"] = json!(message);
                body["params"]["data"]["notificationid"] = json!(id);
            });
            if let Ok(verified) = trustly.verified(&forged) {
                assert_eq!(
                    trustly.0.read(&verified)[0].event_type,
                    "notification.unconfirmed",
                    "{name} {id}"
                );
            }
        }
    }
    // An ordinary name is nothing to ask about.
    for name in ["user_534412", "amount", "J\u{f6}rgen & Co", "order 17", ""] {
        let signed = trustly.signed(&notice("credit", &json!({ "enduserid": name })));
        assert_eq!(trustly.event(&signed.body).event_type, "credit", "{name}");
    }
}

#[test]
fn a_holder_of_a_notice_of_trustly_makes_no_second_one_and_does_not_displace_it() {
    let trustly = Sender::of("trustly");
    let genuine = trustly.signed(&notice("credit", &json!({})));
    let event = trustly.event(&genuine.body);
    let forged = [
        // A name takes its value in, and is no name of theirs any more.
        with_data(&genuine, |body| {
            let data = body["params"]["data"].as_object_mut().unwrap();
            data.remove("currency");
            data.insert("currencyEUR".to_owned(), json!(""));
        }),
        // A list, a number or an object where a text was.
        with_data(&genuine, |body| body["params"]["data"]["amount"] = json!(["902.50"])),
        with_data(&genuine, |body| body["params"]["data"]["orderid"] = json!(87_654_567)),
        with_data(&genuine, |body| body["params"]["data"]["attributes"] = json!("")),
        with_data(&genuine, |body| body["params"]["data"]["messageid"] = json!({ "98348932": null })),
    ];
    for body in forged {
        let other = trustly.event(&body);
        assert_eq!(other.event_type, "notification.unconfirmed");
        assert_ne!(other.key, event.key);
        assert_eq!(event.replay_key, None, "the genuine one is admitted, whatever was admitted before it");
    }
    for (change, want) in [
        (r#""method":"credit""#, r#""method":"credi""#),
        (r#""uuid":"258a2184"#, r#""uuid":"t258a2184"#),
        (r#""902.50""#, r#""992.50""#),
        (r#""amount":"902.50""#, r#""amount":"902.50","amount":"1.00""#),
        (r#""9876543456""#, r#""9876543457""#),
    ] {
        let text = String::from_utf8(genuine.body.clone()).unwrap();
        assert!(text.contains(change), "{change}");
        assert!(trustly.verified(text.replacen(change, want, 1).as_bytes()).is_err(), "{want}");
    }
    // What nothing signs reaches no handler.
    let decorated = with_data(&genuine, |body| body["amount"] = json!("99999.00"));
    let decorated = trustly.event(&decorated);
    assert_eq!((&decorated.key, decorated.digest), (&event.key, event.digest));
    assert!(!String::from_utf8_lossy(&decorated.envelope).contains("99999"));
}

#[test]
fn trustly_gets_a_signed_ok_where_nothing_is_to_be_decided() {
    let trustly = Sender::of("trustly");
    let public = PublicKey::parse(PUBLISHED_KEY).unwrap();
    let is_signed = |method: &str, data: &Value| {
        let signed = trustly.signed(&notice(method, data));
        let body: Value = serde_json::from_str(&trustly.answer(&signed.body)).unwrap();
        let Some(signature) = body.pointer("/result/signature").and_then(Value::as_str) else { return false };
        let text = format!("{method}258a2184-2842-b485-25ca-293525152425statusOK");
        let signature = decode_base64(signature).unwrap();
        assert!(public.verifies(PublicScheme::RsaSha1, text.as_bytes(), &signature), "{body}");
        true
    };
    assert!(is_signed("credit", &json!({})) && is_signed("pending", &json!({})));
    assert!(is_signed("debit", &json!({})), "the settings of `serve --dev` approve");
    assert!(is_signed("credit", &json!({ "new": "1" })), "it is kept, with a field that is not known");
    assert!(!is_signed("debit", &json!({ "new": "1" })), "nothing is paid out for what has no one reading");
    assert!(!is_signed("kyc", &json!({})) && !is_signed("charge", &json!({})));
}

/// The sample of a complete order of 2Checkout's with other values.
fn ipn(set: &[(&str, &str)]) -> Vec<u8> {
    let kind = kind("two_checkout");
    let sample = kind.sample_list()[0].1;
    let filled = hooklatch_receive::provider::filled_sample(sample, "211153389", NOW_S);
    let pairs = form_urlencoded::parse(filled.as_bytes()).map(|(name, value)| {
        let other = set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        (name.clone().into_owned(), other.unwrap_or_else(|| value.into_owned()))
    });
    form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish().into_bytes()
}

#[test]
fn no_words_of_a_payer_make_a_complete_order_of_a_pending_one_at_2checkout() {
    let two = Sender::of("two_checkout");
    let read = |set: &[(&str, &str)], renamed: &[(&str, &str)]| {
        let signed = two.signed(&ipn(set));
        let mut text = String::from_utf8(signed.body).unwrap();
        for (from, to) in renamed {
            assert!(text.contains(from), "{from}");
            text = text.replacen(from, to, 1);
        }
        two.event(text.as_bytes()).event_type
    };
    assert_eq!(read(&[], &[]), "COMPLETE");
    assert_eq!(read(&[("ORDERSTATUS", "PENDING"), ("FIRSTNAME", "COMPLETE")], &[]), "PENDING");
    assert_eq!(read(&[("ADDRESS1", "12 Main Street 7"), ("COMPANY", "3M")], &[]), "COMPLETE");
    // Names are unsigned: any other list of them is nothing.
    let pending = [("ORDERSTATUS", "PENDING"), ("FIRSTNAME", "COMPLETE")];
    for renamed in [
        [("ORDERSTATUS=", "PAYMETHOD_X="), ("FIRSTNAME=", "ORDERSTATUS=")],
        [("FIRSTNAME=COMPLETE", "ORDERSTATUS=COMPLETE"), ("ORDERSTATUS=PENDING", "FIRSTNAME=PENDING")],
        [("ORDERSTATUS=", "REFNO="), ("FIRSTNAME=", "ORDERSTATUS=")],
        [("&LASTNAME=", "&LASTNAME[]="), ("&COMPANY=", "&ORDERSTATUS=")],
    ] {
        assert_eq!(read(&pending, &renamed), "ipn.unconfirmed", "{renamed:?}");
    }
    assert_eq!(read(&[("ORDERSTATUS", "PAID")], &[]), "ipn.unconfirmed", "a state that is not documented");
}

#[test]
fn lengths_that_can_be_read_in_two_ways_confirm_nothing_at_2checkout() {
    let two = Sender::of("two_checkout");
    let ordinary = two.signed(&ipn(&[("FIRSTNAME", "1"), ("LASTNAME", "12"), ("COMPANY", "3M")]));
    assert_eq!(two.event(&ordinary.body).event_type, "COMPLETE", "digits alone are read in one way");
    // `1` `2` `20` `xxxxxxxxxx9yyyyyyyyy` is `12` `20xxxxxxxxxx` `9` `yyyyyyyyy` as well: of a payer's two names it is one
    // notice, whichever they are.
    let of_payer = [("FIRSTNAME", "2"), ("LASTNAME", "xxxxxxxxxx9yyyyyyyyy")];
    let signed = two.signed(&ipn(&of_payer));
    let recut = |from: &str, to: &str| {
        let text = String::from_utf8(signed.body.clone()).unwrap();
        assert!(text.contains(from), "{from}");
        two.event(text.replacen(from, to, 1).as_bytes())
    };
    let (one, other) = (
        two.event(&signed.body),
        recut("FIRSTNAME=2&LASTNAME=xxxxxxxxxx9yyyyyyyyy&", "FIRSTNAME=20xxxxxxxxxx&LASTNAME=yyyyyyyyy&"),
    );
    assert_eq!((one.event_type.as_str(), other.event_type.as_str()), ("COMPLETE", "COMPLETE"));
    assert!(one.replay_key.is_some() && one.replay_key == other.replay_key, "the second acts no second time");
    // Where it reaches what decides, nothing is confirmed: a reference of one's own that can be another one.
    let signed = two.signed(&ipn(&[("REFNOEXT", "2"), ("SHOPPER_REFERENCE_NUMBER", "xxxxxxxxxx9yyyyyyyyy")]));
    assert_eq!(two.event(&signed.body).event_type, "ipn.unconfirmed");
}

#[test]
fn a_receipt_of_2checkout_is_dated_and_signed_and_is_no_notice() {
    let two = Sender::of("two_checkout");
    let signed = two.signed(&ipn(&[]));
    let receipt = two.answer(&signed.body);
    let secret = hooklatch_receive::provider::dev_secret(two.0.spec());
    // 2026-01-01 00:00:00 UTC is when the test's request arrives.
    let text = "84089800015Dynamic product14202306121948111420260101000000";
    let mac = hex_text(&hmac(Hash::Sha256, secret.as_bytes(), &[text.as_bytes()]));
    assert_eq!(receipt, format!("<sig algo=\"sha256\" date=\"20260101000000\">{mac}</sig>"));
    assert_eq!(two.answer(&signed.body), receipt, "the same for a copy");
    // A holder of it sends it as a notice.
    let forged = format!(
        "REFNO=40898000&ORDERSTATUS=Dynamic+product&IPN_DATE=20230612194811&X=20260101000000&SIGNATURE_SHA2_256={mac}"
    );
    let why = two.verified(forged.as_bytes()).unwrap_err();
    assert!(why.contains("a receipt of ours"), "{why}");
    // A form that names no date of theirs gets none to sign with.
    let renamed = String::from_utf8(signed.body).unwrap().replacen("IPN_DATE=", "IPN_TIME=", 1);
    assert_eq!(two.answer(renamed.as_bytes()), "");
}

#[test]
fn a_kind_that_computes_its_answer_says_what_stands_in_its_place() {
    for name in ["trustly", "two_checkout"] {
        assert!(kind(name).spec().unwrap().answer.is_some(), "{name}");
    }
}
