//! What a payer, or the holder of one genuine request, can forge at senders with signature schemes of their own:
//! no failure becomes a success, no amount grows, and one notice stays one.

use hooklatch_core::config::KindSettings;
use hooklatch_core::types::{IncomingEvent, OnConflict};
use hooklatch_receive::provider::{ActiveProvider, Kind};
use hooklatch_verify::{Hash, Signed, base64_text, digest, form_with, hex_text};
use serde_json::{Value, json};

use crate::identity_payments::{becomes, kind};
use crate::providers::{NOW_S, dev, request, sign_at};

/// One sender, as `serve --dev` has it.
struct Sender(ActiveProvider);

impl Sender {
    fn of(name: &str) -> Self {
        Self(dev(&kind(name)))
    }

    fn signed(&self, body: &str) -> Signed {
        self.0.sign(body.as_bytes(), &sign_at(&self.0, "")).unwrap()
    }

    /// The event of a body, or why it is refused.
    fn read(&self, body: &[u8]) -> Result<IncomingEvent, String> {
        let headers = [("content-type".to_owned(), "application/x-www-form-urlencoded".to_owned())];
        let request = request(&headers, body, self.0.url(), NOW_S);
        let verified = self.0.verify(request).map_err(|why| why.to_string())?;
        let mut events = self.0.read(&verified);
        assert_eq!(events.len(), 1);
        Ok(events.remove(0))
    }

    #[track_caller]
    fn refuses(&self, body: &[u8], want: &str) {
        let why = self.read(body).map(|event| event.event_type).expect_err(want);
        assert!(why.contains(want), "{why}");
    }

    /// What becomes of `second` after `first`, and the type that it is read as.
    #[track_caller]
    fn check(&self, first: &[u8], second: &[u8], want: (&str, &str)) {
        let (first, second) = (self.read(first).unwrap(), self.read(second).unwrap());
        assert_eq!((&second.unreadable, second.on_conflict), (&None, OnConflict::Keep));
        assert_eq!((becomes(&first, &second), second.event_type.as_str()), want);
    }
}

fn text(body: &[u8]) -> String {
    String::from_utf8(body.to_vec()).unwrap()
}

/// The body with one text changed for another.
#[track_caller]
fn with(body: &[u8], from: &str, to: &str) -> Vec<u8> {
    let body = text(body);
    assert!(body.contains(from), "{body} has no {from}");
    body.replacen(from, to, 1).into_bytes()
}

fn redsys(more: &[(&str, &str)]) -> String {
    let mut notice = json!({
        "Ds_Order": "12340069", "Ds_Amount": "145", "Ds_Currency": "978", "Ds_Response": "0190", "Ds_TransactionType": "0",
        "Ds_AuthorisationCode": "", "Ds_Date": "27/11/2026", "Ds_Hour": "18:03", "Ds_MerchantCode": "999008881",
    });
    for (name, value) in more {
        notice[*name] = json!(value);
    }
    notice.to_string()
}

#[test]
fn a_denial_of_redsys_stays_a_denial_with_extra_unsigned_fields() {
    let sender = Sender::of("redsys");
    let denied = sender.signed(&redsys(&[])).body;
    sender.check(&denied, &denied, ("duplicate", "payment.denied"));
    for more in
        ["&Ds_Response=0000", "&type=payment.authorised", "&id=1", "&Ds_Order=12340070", "&%44s_Amount=9"]
    {
        sender.check(&denied, &[&denied[..], more.as_bytes()].concat(), ("duplicate", "payment.denied"));
    }
    // Written otherwise: escaped, in another order.
    sender.check(&denied, &with(&denied, "Ds_Merchant", "%44s_Merchant"), ("duplicate", "payment.denied"));
    let pairs: Vec<String> = text(&denied).split('&').rev().map(str::to_owned).collect();
    sender.check(&denied, pairs.join("&").as_bytes(), ("duplicate", "payment.denied"));
    let paid = sender.signed(&redsys(&[("Ds_Response", "0000")])).body;
    let field = |body: &[u8], n: usize| text(body).split('&').nth(n).unwrap().to_owned();
    let mixed = [field(&paid, 0), field(&paid, 1), field(&denied, 2)].join("&");
    sender.refuses(mixed.as_bytes(), "does not match");
    let twice = [&denied[..], b"&", field(&paid, 1).as_bytes()].concat();
    sender.refuses(&twice, "there twice");
    let json = json!({ "Ds_SignatureVersion": "HMAC_SHA512_V2", "x": text(&denied) }).to_string();
    sender.refuses(json.as_bytes(), "it is JSON");
}

#[test]
fn the_version_in_a_form_of_redsys_chooses_nothing() {
    let secret = "sq7HjrUOBfKmC576ILgskD5srU870gJ7";
    let provider = |version: &str| {
        let mut settings = KindSettings::default();
        settings.push("signature_version", None, version);
        Sender(kind("redsys").judge_with(&[hooklatch_core::config::Secret::new(secret)], &settings).unwrap())
    };
    let (old, new) = (provider("HMAC_SHA256_V1"), provider("HMAC_SHA512_V2"));
    let paid = redsys(&[("Ds_Response", "0000"), ("Ds_AuthorisationCode", "082150")]);
    let (by_old, by_new) = (old.signed(&paid).body, new.signed(&paid).body);
    assert_eq!(old.read(&by_old).unwrap().event_type, "payment.authorised");
    assert_eq!(new.read(&by_new).unwrap().event_type, "payment.authorised");
    new.refuses(&by_old, "it is not the one of setting `signature_version`");
    old.refuses(&by_new, "it is not the one of setting `signature_version`");
    new.refuses(&with(&by_old, "HMAC_SHA256_V1", "HMAC_SHA512_V2"), "does not match");
    old.refuses(&with(&by_new, "HMAC_SHA512_V2", "HMAC_SHA256_V1"), "does not match");
    for version in ["", "HMAC_SHA512_V3", "hmac_sha512_v2"] {
        new.refuses(&with(&by_new, "HMAC_SHA512_V2", version), "it is not the one");
    }
    // A secret that is cut short, or of the other form.
    let short = kind("redsys");
    let mut settings = KindSettings::default();
    settings.push("signature_version", None, "HMAC_SHA256_V1");
    let short =
        Sender(short.judge_with(&[hooklatch_core::config::Secret::new("c2hvcnQ=")], &settings).unwrap());
    short.refuses(&by_old, "copy it from the bank's portal whole");
}

#[test]
fn redsys_parameters_from_the_payers_browser_are_no_second_notice() {
    let sender = Sender::of("redsys");
    let at = sign_at(&sender.0, "");
    // The merchant's own request has the same key, and cannot even be signed here as a notice.
    let request = json!({ "DS_MERCHANT_ORDER": "12340069", "DS_MERCHANT_AMOUNT": "145", "Ds_Order": "1", "Ds_Response": "0000" });
    assert!(
        sender
            .0
            .sign(request.to_string().as_bytes(), &at)
            .is_err_and(|why| why.to_string().contains("every payer"))
    );
    for (body, why) in [
        (json!({ "Ds_Order": "1" }), "no Ds_Response"),
        (json!({ "Ds_Order": "1", "DS_ORDER": "2", "Ds_Response": "0000" }), "there twice"),
    ] {
        assert!(
            sender
                .0
                .sign(body.to_string().as_bytes(), &at)
                .is_err_and(|error| error.to_string().contains(why))
        );
    }
    // The same parameters that come back with the payer, in another text.
    let paid = redsys(&[("Ds_Response", "0000"), ("Ds_AuthorisationCode", "082150")]);
    let (notice, back) = (sender.signed(&paid).body, sender.signed(&paid.replace(',', ", ")).body);
    sender.check(&notice, &back, ("duplicate", "payment.authorised"));
    let upper = sender.signed(&paid.replace("Ds_Order", "DS_ORDER")).body;
    sender.check(&notice, &upper, ("conflict", "payment.authorised"));
}

const PAYFAST: &str = "m_payment_id=7&pf_payment_id=1579137&payment_status=FAILED&item_name=A+%26+B&item_description=&amount_gross=15.00&name_first=Tom&merchant_id=10027938";

#[test]
fn a_failed_payment_of_payfast_stays_one_whatever_is_written_around_what_is_signed() {
    let sender = Sender::of("payfast");
    let failed = sender.signed(PAYFAST).body;
    sender.check(&failed, &failed, ("duplicate", "payment.FAILED"));
    // Behind the signature nothing is signed, and nothing is read.
    for more in ["&amount_net=9", "&token=x", "&type=payment.COMPLETE", "&x=%22%2C%22signature%22%3A"] {
        sender.check(&failed, &[&failed[..], more.as_bytes()].concat(), ("duplicate", "payment.FAILED"));
    }
    for more in ["&payment_status=COMPLETE", "&pf_payment_id=2"] {
        sender.check(&failed, &[&failed[..], more.as_bytes()].concat(), ("duplicate", "payment.FAILED"));
    }
    let signature = text(&failed).rsplit_once('=').unwrap().1.to_owned();
    sender.check(
        &failed,
        &with(&failed, &signature, &signature.to_ascii_uppercase()),
        ("duplicate", "payment.FAILED"),
    );
    sender.check(&failed, &with(&failed, "Tom", "%54om"), ("duplicate", "payment.FAILED"));
    for (from, to, want) in [
        ("payment_status=FAILED", "payment_status=COMPLETE", "does not match"),
        ("amount_gross=15.00", "amount_gross=95.00", "does not match"),
        ("item_description=&", "", "does not match"),
        ("&signature=", "&x=1&signature=", "does not match"),
        ("m_payment_id=7&pf_payment_id=1579137", "pf_payment_id=1579137&m_payment_id=7", "does not match"),
        (
            "payment_status=FAILED&item_name=",
            "payment_status%3DFAILED%26item_name=",
            "a name that Payfast does not write",
        ),
        (
            "m_payment_id=7&pf_payment_id=",
            "m_payment_id%3D7%26pf_payment_id=",
            "a name that Payfast does not write",
        ),
        ("&name_first=Tom", "&name_first=Tom&name_first=Tom", "there twice"),
    ] {
        sender.refuses(&with(&failed, from, to), want);
    }
    let cut = with(&with(&failed, "payment_status=FAILED&", ""), "&signature=", "&signature=00&x=");
    sender.refuses(&cut, "is missing, or not before the signature");
    let json = json!({ "payment_status": "COMPLETE", "x": format!("&{}", text(&failed)) }).to_string();
    sender.refuses(json.as_bytes(), "it is JSON");
}

#[test]
fn a_payers_text_and_the_merchants_own_request_are_no_notice_of_payfast() {
    let sender = Sender::of("payfast");
    let words = sender.signed(&PAYFAST.replace("Tom", "Tom%26payment_status%3DCOMPLETE")).body;
    assert_eq!(sender.read(&words).unwrap().event_type, "payment.FAILED");
    let unescaped = with(&words, "Tom%26payment_status%3DCOMPLETE", "Tom&payment_status=COMPLETE");
    sender.refuses(&unescaped, "there twice");
    for status in ["COMPLETED", "complete", "COMPLETE+", "REVERSED"] {
        let other = sender.signed(&PAYFAST.replace("FAILED", status)).body;
        assert_eq!(sender.read(&other).unwrap().event_type, "payment.unconfirmed", "{status}");
    }
    // A merchant's form is signed with the same passphrase, in the payer's browser.
    let own = "merchant_id=10027938&merchant_key=46f0cd694581a&m_payment_id=7&amount=15.00&item_name=A";
    let secret = hooklatch_receive::provider::dev_secret(kind("payfast").spec().unwrap());
    let mac = digest(Hash::Md5, &[own.as_bytes(), b"&passphrase=", secret.as_bytes()]);
    sender.refuses(
        format!("{own}&signature={}", hex_text(&mac)).as_bytes(),
        "a field that every notice has is missing",
    );
}

#[test]
fn a_notice_of_payfast_of_another_merchant_is_refused_where_the_merchants_are_listed() {
    let mut settings = KindSettings::default();
    settings.push("merchant_ids", None, "10027938");
    let listed = kind("payfast")
        .judge_with(&[hooklatch_core::config::Secret::new("a passphrase")], &settings)
        .unwrap();
    let sender = Sender(listed);
    assert!(sender.read(&sender.signed(PAYFAST).body).is_ok());
    let other = sender.signed(&PAYFAST.replace("10027938", "10000100")).body;
    sender.refuses(&other, "`settings.merchant_ids`");
    assert!(kind("payfast").judge_with(&[], &KindSettings::default()).is_err(), "anybody could sign");
    assert!(
        kind("payfast")
            .judge_with(&[hooklatch_core::config::Secret::new("")], &KindSettings::default())
            .is_err(),
        "an empty passphrase is none"
    );
}

const NUVEI: &str = "PPP_TransactionID=3453459&Status=APPROVED&TransactionID=711&transactionType=Auth&totalAmount=115&currency=USD&responseTimeStamp=2020-03-14.16%3A22%3A34&productId=NA";

#[test]
fn one_checksum_of_nuvei_is_of_one_notice_with_one_amount_and_status() {
    let sender = Sender::of("nuvei");
    let approved = sender.signed(NUVEI).body;
    sender.check(&approved, &approved, ("duplicate", "transaction.APPROVED"));
    // What is not signed makes no second one, and is in no type.
    for (from, to) in [
        ("=Auth", "=Sale"),
        ("=711", "=712"),
        ("&transactionType=Auth", ""),
        ("=Auth", "=Auth&status=DECLINED"),
    ] {
        sender.check(&approved, &with(&approved, from, to), ("conflict", "transaction.APPROVED"));
    }
    // The same signed text, cut elsewhere.
    for (one, other) in [
        (("totalAmount=115", "totalAmount=11"), ("currency=USD", "currency=5USD")),
        (("totalAmount=115", "totalAmount=115U"), ("currency=USD", "currency=SD")),
        (("2020-03-14.16%3A22%3A34", "2020-03-14.16%3A22%3A343"), ("=3453459", "=453459")),
        (("2020-03-14.16%3A22%3A34", "2020-03-14.16%3A22%3A3"), ("=3453459", "=43453459")),
        (("Status=APPROVED", "Status=ROVED"), ("=3453459", "=3453459APP")),
    ] {
        sender.refuses(&with(&with(&approved, one.0, one.1), other.0, other.1), "not as Nuvei writes it");
    }
    for (from, to, want) in [
        ("=APPROVED", "=DECLINED", "does not match"),
        ("=115", "=915", "does not match"),
        ("=115", "=1.1e3", "not as Nuvei writes it"),
        ("Status=APPROVED", "Status=APPROVED&Status=APPROVED", "there twice"),
        ("Status=APPROVED", "status=APPROVED", "it is missing"),
    ] {
        sender.refuses(&with(&approved, from, to), want);
    }
}

#[test]
fn length_extensions_of_a_nuvei_checksum_are_refused() {
    let sender = Sender::of("nuvei");
    let secret = hooklatch_receive::provider::dev_secret(kind("nuvei").spec().unwrap());
    // The padding of SHA-256, as it is between the text that was hashed and the one that follows.
    for product in ["NA\u{80}\0\0\0APPROVED", "NA\0\0"] {
        let hashed = ["115USD2020-03-14.16:22:343453459APPROVED", product].concat();
        let checksum = hex_text(&digest(Hash::Sha256, &[secret.as_bytes(), hashed.as_bytes()]));
        let form = form_with(NUVEI.as_bytes(), "productId", product);
        sender.refuses(&form_with(&form, "advanceResponseChecksum", &checksum), "`productId`");
    }
    let lines = sender.signed(&NUVEI.replace("=NA", "=a%0Ab")).body;
    assert_eq!(
        sender.read(&lines).unwrap().event_type,
        "transaction.APPROVED",
        "a product may have two lines"
    );
    let bytes = format!("{NUVEI}%80%00&advanceResponseChecksum={}", "0".repeat(64));
    sender.refuses(bytes.as_bytes(), "`productId`");
}

#[test]
fn an_undocumented_status_of_nuvei_is_unconfirmed_once_and_blocks_no_genuine_event() {
    let sender = Sender::of("nuvei");
    let approved = sender.signed(NUVEI).body;
    let cut = |status: &str, product: &str| {
        let body = with(&approved, "Status=APPROVED", &format!("Status={status}"));
        with(&body, "productId=NA", &format!("productId={product}"))
    };
    let (one, other) = (cut("APPROVEDN", "A"), cut("APPROVEDNA", ""));
    sender.check(&approved, &one, ("accepted", "transaction.unconfirmed"));
    sender.check(&one, &other, ("conflict", "transaction.unconfirmed"));
    sender.check(&other, &approved, ("accepted", "transaction.APPROVED"));
    for status in ["APPROVE", "SUCCESS", ""] {
        let body = sender.signed(&NUVEI.replace("=APPROVED", &format!("={status}"))).body;
        assert_eq!(sender.read(&body).unwrap().event_type, "transaction.unconfirmed", "{status}");
    }
}

fn wompi(status: &str) -> Value {
    json!({
        "event": "transaction.updated",
        "data": { "transaction": {
            "id": "1234-1610641025-49201", "amount_in_cents": 4_490_000, "reference": "R1", "currency": "COP", "status": status,
        } },
        "environment": "prod",
        "signature": { "properties": ["transaction.id", "transaction.status", "transaction.amount_in_cents"], "checksum": "" },
        "timestamp": 1_530_291_411, "sent_at": "2018-07-20T16:45:05.000Z",
    })
}

/// The body with other values at these pointers.
fn set(body: &[u8], changes: &[(&str, Value)]) -> Vec<u8> {
    let mut json: Value = serde_json::from_slice(body).unwrap();
    for (pointer, value) in changes {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        json.pointer_mut(parent).unwrap()[name] = value.clone();
    }
    json.to_string().into_bytes()
}

#[test]
fn one_checksum_of_wompi_is_of_one_transaction_with_one_amount_and_status() {
    let sender = Sender::of("wompi");
    let declined = sender.signed(&wompi("DECLINED").to_string()).body;
    let transaction = "/data/transaction";
    sender.check(&declined, &declined, ("duplicate", "transaction.updated.DECLINED"));
    for (name, value) in
        [("reference", json!("R2")), ("currency", json!("USD")), ("amount_in_cents", json!("4490000"))]
    {
        let other = set(&declined, &[(&format!("{transaction}/{name}"), value)]);
        sender.check(&declined, &other, ("conflict", "transaction.updated.DECLINED"));
    }
    let upper =
        text(&declined).split("\"checksum\":\"").nth(1).unwrap().get(..64).unwrap().to_ascii_uppercase();
    let upper = set(&declined, &[("/signature/checksum", json!(upper))]);
    sender.check(&declined, &upper, ("duplicate", "transaction.updated.DECLINED"));
    let (amount, time, status, list) = (
        "/data/transaction/amount_in_cents",
        "/timestamp",
        "/data/transaction/status",
        "/signature/properties",
    );
    // A digit of the time makes no amount ten times as large: what is cut so is no transaction.
    for (amount_there, time_there) in [
        (json!(44_900_001), json!(530_291_411)),
        (json!(449_000), json!("01530291411")),
        (json!(4), json!("4900001530291411")),
    ] {
        let grown = set(&declined, &[(amount, amount_there), (time, time_there)]);
        sender.check(&declined, &grown, ("accepted", "transaction.updated.unconfirmed"));
    }
    for changes in [
        vec![(time, json!(null))],
        vec![(amount, json!(9_490_000))],
        vec![(status, json!("APPROVED"))],
        vec![(list, json!([]))],
        vec![(list, json!(["transaction.id", "transaction.status"])), (amount, json!(99_999_999))],
        vec![(list, json!(["transaction.id", "transaction.amount_in_cents"])), (status, json!("APPROVED"))],
        vec![(list, json!(vec!["transaction.id"; 40]))],
        vec![(list, json!(["transaction.id", "transaction.status", "transaction.amount_in_cents", "a/b"]))],
        vec![(list, json!({ "0": "transaction.id" }))],
    ] {
        assert!(sender.read(&set(&declined, &changes)).is_err(), "{changes:?}");
    }
    let doubled =
        with(&declined, "\"status\":\"DECLINED\"", "\"status\":\"DECLINED\",\"status\":\"APPROVED\"");
    sender.refuses(&doubled, "there twice");
}

#[test]
fn a_wompi_signature_fits_no_other_list_or_event_and_blocks_no_genuine_event() {
    let sender = Sender::of("wompi");
    let approved = sender.signed(&wompi("APPROVED").to_string()).body;
    let unconfirmed = "transaction.updated.unconfirmed";
    let other_list = set(
        &approved,
        &[
            (
                "/signature/properties",
                json!(["transaction.amount_in_cents", "transaction.id", "transaction.status", "x"]),
            ),
            ("/data/transaction/amount_in_cents", json!(1234)),
            ("/data/transaction/id", json!("-1610641025-49201")),
            ("/data/x", json!("4490000")),
        ],
    );
    sender.check(&approved, &other_list, ("accepted", unconfirmed));
    sender.check(&other_list, &approved, ("accepted", "transaction.updated.APPROVED"));
    let moved = set(
        &approved,
        &[
            ("/data/transaction/id", json!("1234-1610641025-4920")),
            ("/data/transaction/status", json!("1APPROVED")),
        ],
    );
    sender.check(&other_list, &moved, ("conflict", unconfirmed));
    for event in ["payout.updated", "x.APPROVED", "X", "", "transaction.updated.APPROVED"] {
        let renamed = set(&approved, &[("/event", json!(event))]);
        let renamed = sender.read(&renamed).unwrap();
        assert!(renamed.event_type.ends_with(".unconfirmed"), "{event}: {}", renamed.event_type);
        assert_eq!((&renamed.unreadable, renamed.on_conflict), (&None, OnConflict::Keep));
        assert_eq!(becomes(&sender.read(&other_list).unwrap(), &renamed), "conflict", "{event}");
    }
    // An event of another object, which has the shape of no transaction.
    let token = json!({
        "event": "nequi_token.updated", "data": { "nequi_token": { "id": "nequi_1", "status": "APPROVED" } },
        "signature": { "properties": ["nequi_token.id", "nequi_token.status"], "checksum": "" }, "timestamp": 1_530_291_411,
    });
    let token = sender.signed(&token.to_string()).body;
    assert_eq!(sender.read(&token).unwrap().event_type, "nequi_token.updated.unconfirmed");
    let as_transaction = set(
        &token,
        &[
            ("/event", json!("transaction.updated")),
            ("/data/transaction", json!({ "id": "nequi_1", "status": "APPROVED", "amount_in_cents": "" })),
            (
                "/signature/properties",
                json!(["transaction.id", "transaction.status", "transaction.amount_in_cents"]),
            ),
        ],
    );
    sender.check(&token, &as_transaction, ("conflict", unconfirmed));
    let other = sender.signed(&wompi("REFUNDED").to_string()).body;
    assert_eq!(sender.read(&other).unwrap().event_type, unconfirmed);
}

#[test]
fn a_key_of_redsys_is_made_of_characters_and_of_bytes() {
    // Of the second version the first sixteen characters count, as they are written.
    let settings = |version: &str| {
        let mut settings = KindSettings::default();
        settings.push("signature_version", None, version);
        settings
    };
    let secret = base64_text(b"twenty-four bytes of key");
    let of = |secret: &str, version: &str| {
        Sender(
            kind("redsys")
                .judge_with(&[hooklatch_core::config::Secret::new(secret)], &settings(version))
                .unwrap(),
        )
    };
    let body = redsys(&[]);
    let signed = of(&secret, "HMAC_SHA512_V2").signed(&body).body;
    let same_start = format!("{}xxxxxxxxxxxxxxxx", secret.get(..16).unwrap());
    assert!(of(&same_start, "HMAC_SHA512_V2").read(&signed).is_ok());
    let signed = of(&secret, "HMAC_SHA256_V1").signed(&body).body;
    of(&same_start, "HMAC_SHA256_V1").refuses(&signed, "does not match");
}
