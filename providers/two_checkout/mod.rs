//! 2Checkout (Verifone): an HMAC over the values of a form, each with its length before it, and a receipt with a MAC of its
//! own as the answer.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    let kind = Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign);
    kind.open_with(open).answer_with(answer).samples(&[
        ("COMPLETE", include_str!("samples/COMPLETE.json")),
        ("PENDING", include_str!("samples/PENDING.json")),
        ("REFUND", include_str!("samples/REFUND.json")),
    ])
}

const SIGNATURE: &str = "SIGNATURE_SHA2_256";
/// What is not signed.
const SIGNATURES: [&str; 3] = ["HASH", SIGNATURE, "SIGNATURE_SHA3_256"];
/// A form that is not the configured list of fields, or whose text is another one as well: names are unsigned, and a length
/// before a value that begins with a digit may be another length.
const UNCONFIRMED: &str = "ipn.unconfirmed";
const STATUS: &str = "ORDERSTATUS";
/// https://verifone.cloud/docs/2checkout/API-Integration/Webhooks/06Instant_Payment_Notification_(IPN)/IPN-triggers, and the
/// sender's plug-ins.
const STATES: [&str; 13] = [
    "AUTHRECEIVED",
    "CANCELED",
    "COMPLETE",
    "INVALID",
    "PAYMENT_AUTHORIZED",
    "PAYMENT_RECEIVED",
    "PENDING",
    "PENDING_APPROVAL",
    "PENDING_ORDER_APPROVAL",
    "PURCHASE_PENDING",
    "REFUND",
    "REVERSED",
    "SUSPECT",
];
/// The fields of a notice in their order, of one that the sender's PHP package has (tests/Tco/Fixtures/Tokens.php of
/// github 2Checkout/2checkout-php-sdk); `[]` is a list with a value for each product, or each license.
const FIELDS: &str = "GIFT_ORDER SALEDATE PAYMENTDATE REFNO REFNOEXT SHOPPER_REFERENCE_NUMBER ORDERNO ORDERSTATUS PAYMETHOD \
    PAYMETHOD_CODE FIRSTNAME LASTNAME COMPANY REGISTRATIONNUMBER FISCALCODE TAX_OFFICE CBANKNAME CBANKACCOUNT ADDRESS1 \
    ADDRESS2 CITY STATE ZIPCODE COUNTRY COUNTRY_CODE PHONE FAX CUSTOMEREMAIL FIRSTNAME_D LASTNAME_D COMPANY_D ADDRESS1_D \
    ADDRESS2_D CITY_D STATE_D ZIPCODE_D COUNTRY_D COUNTRY_D_CODE PHONE_D EMAIL_D IPADDRESS IPCOUNTRY COMPLETE_DATE \
    TIMEZONE_OFFSET CURRENCY LANGUAGE ORDERFLOW IPN_PID[] IPN_PNAME[] IPN_PCODE[] IPN_EXTERNAL_REFERENCE[] IPN_INFO[] \
    IPN_QTY[] IPN_PRICE[] IPN_VAT[] IPN_VAT_RATE[] IPN_VER[] IPN_DISCOUNT[] IPN_PROMOTION_CATEGORY[] IPN_PROMONAME[] \
    IPN_PROMOCODE[] IPN_ORDER_COSTS[] IPN_SKU[] IPN_PARTNER_CODE IPN_PGROUP[] IPN_PGROUP_NAME[] MESSAGE_ID MESSAGE_TYPE \
    IPN_LICENSE_PROD[] IPN_LICENSE_TYPE[] IPN_LICENSE_REF[] IPN_LICENSE_EXP[] IPN_LICENSE_START[] IPN_LICENSE_LIFETIME[] \
    IPN_LICENSE_ADDITIONAL_INFO[] IPN_DELIVEREDCODES[] IPN_DOWNLOAD_LINK IPN_TOTAL[] IPN_TOTALGENERAL IPN_SHIPPING \
    IPN_SHIPPING_TAX AVANGATE_CUSTOMER_REFERENCE EXTERNAL_CUSTOMER_REFERENCE IPN_PARTNER_MARGIN_PERCENT \
    IPN_PARTNER_MARGIN IPN_EXTRA_MARGIN IPN_EXTRA_DISCOUNT IPN_COUPON_DISCOUNT IPN_LINK_SOURCE IPN_COMMISSION REFUND_TYPE \
    CHARGEBACK_RESOLUTION CHARGEBACK_REASON_CODE TEST_ORDER IPN_ORDER_ORIGIN FRAUD_STATUS CARD_TYPE CARD_LAST_DIGITS \
    CARD_EXPIRATION_DATE GATEWAY_RESPONSE IPN_DATE FX_RATE FX_MARKUP PAYABLE_AMOUNT PAYOUT_CURRENCY VENDOR_CODE PROPOSAL_ID";
/// Beginning of the lists that have a value for each license.
const OF_LICENSES: &str = "IPN_LICENSE_";
/// Most products of an order, and most licenses, of which the readings are counted.
const PRODUCTS_N_MAX: usize = 16;
/// Longest signed text of which the readings are counted, and most cuts of it that are followed at once. Bytes.
const TEXT_BYTES_MAX: usize = 64 * 1024;
const CUTS_N_MAX: usize = 4_096;
/// Digits of a length.
const LENGTH_CHARS_MAX: usize = 5;
/// `YmdHis`.
const DATE_CHARS: usize = 14;

/// A field of a form, decoded.
type Pair = (String, String);

/// Whether a value may stand in the field of this name. Those that decide have shapes; the rest is text.
fn fits(name: &str, value: &[u8]) -> bool {
    let all = |is: fn(&u8) -> bool| !value.is_empty() && value.iter().all(is);
    match name {
        STATUS => STATES.iter().any(|state| state.as_bytes() == value),
        "REFNO" | "MESSAGE_ID" => all(u8::is_ascii_digit),
        "IPN_DATE" => is_date(value),
        "SALEDATE" | "PAYMENTDATE" | "COMPLETE_DATE" => {
            value.is_empty() || value.len() == 19 && all(|b| b.is_ascii_digit() || b"-: ".contains(b))
        }
        "CURRENCY" | "PAYOUT_CURRENCY" => value.is_empty() || value.len() == 3 && all(u8::is_ascii_uppercase),
        "TEST_ORDER" | "GIFT_ORDER" => matches!(value, b"" | b"0" | b"1"),
        "IPN_TOTALGENERAL" | "IPN_TOTAL" | "IPN_PRICE" | "IPN_QTY" => {
            value.is_empty() || all(|b| b.is_ascii_digit() || b".-".contains(b))
        }
        _ => true,
    }
}

fn is_date(value: &[u8]) -> bool {
    value.len() == DATE_CHARS && value.iter().all(u8::is_ascii_digit)
}

/// The name of a field without the brackets of a list, and whether it had them.
fn stem(name: &str) -> (&str, bool) {
    match name.strip_suffix(']').and_then(|rest| rest.rsplit_once('[')) {
        Some((stem, n)) if n.bytes().all(|b| b.is_ascii_digit()) => (stem, true),
        _ => (name, false),
    }
}

/// Each value with its length in bytes before it; an empty one is a `0`.
fn signed<'a>(values: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut text = Vec::new();
    for value in values {
        text.extend_from_slice(value.len().to_string().as_bytes());
        text.extend_from_slice(value);
    }
    text
}

fn is_signed(name: &[u8]) -> bool {
    !SIGNATURES.iter().any(|one| one.as_bytes() == name)
}

fn signed_text(form: &Form) -> Vec<u8> {
    let pairs = form.pairs().iter().filter(|(name, _)| is_signed(name));
    signed(pairs.map(|(_, value)| value.as_slice()))
}

/// Whether a text ends as our receipts do: whoever sees one must not be able to send it as a notice.
fn is_receipt(text: &[u8]) -> bool {
    let end = |text: &[u8]| {
        let at = text.len().checked_sub(DATE_CHARS + 2)?;
        let (rest, last) = text.split_at_checked(at)?;
        let date = last.strip_prefix(b"14").filter(|date| is_date(date));
        date.map(|_| rest.len())
    };
    end(text).and_then(|n| end(text.get(..n)?)).is_some()
}

fn verify(request: &RawRequest, keys: &Keys) -> Result<Believed, VerifyError> {
    let malformed = |why| VerifyError::malformed("body", why);
    if matches!(request.body.trim_ascii_start().first(), Some(b'{' | b'[')) {
        return Err(malformed("it is no form"));
    }
    let form = Form::parse(&request.body).ok_or_else(|| malformed(Form::TOO_MANY))?;
    let wrong = || VerifyError::malformed(SIGNATURE, "it is missing, there twice or not hexadecimal");
    let given =
        form.text(SIGNATURE).and_then(|text| decode_hex(&text.to_ascii_lowercase())).ok_or_else(wrong)?;
    let text = signed_text(&form);
    if is_receipt(&text) {
        return Err(malformed("it is what a receipt of ours signs"));
    }
    let secret_n = keys.mac_matches(&[&text], &given).ok_or_else(|| VerifyError::mismatch(keys))?;
    Ok(Believed::of(secret_n, &[&text]))
}

/// The configured fields in their order.
fn fields(keys: &Keys) -> Vec<String> {
    let own = keys.settings().all("fields").flat_map(|one| one.value.reveal().split([',', ' ', '\n']));
    let own: Vec<&str> = own.map(str::trim).filter(|name| !name.is_empty()).collect();
    let list = if own.is_empty() { FIELDS.split_ascii_whitespace().collect() } else { own };
    list.into_iter().filter(|name| is_signed(name.as_bytes())).map(str::to_owned).collect()
}

/// The names of the values of a form with so many products and licenses.
fn expanded(fields: &[String], products_n: usize, licenses_n: usize) -> Vec<&str> {
    let times = |name: &str| match stem(name) {
        (_, false) => 1,
        (stem, true) if stem.starts_with(OF_LICENSES) => licenses_n,
        _ => products_n,
    };
    fields.iter().flat_map(|name| std::iter::repeat_n(stem(name).0, times(name))).collect()
}

/// True when the form is the configured list, and its text no other form of that list.
fn is_confirmed(keys: &Keys, pairs: &[Pair]) -> bool {
    let fields = fields(keys);
    let is_named = |names: &[&str]| {
        names.len() == pairs.len()
            && names.iter().zip(pairs).all(|(name, (given, value))| {
                *name == stem(given).0 && fits(name, value.as_bytes()) && !value.contains('\u{fffd}')
            })
    };
    let text = signed(pairs.iter().map(|(_, value)| value.as_bytes()));
    if text.len() > TEXT_BYTES_MAX {
        return false;
    }
    let has_lists = |of_licenses: bool| {
        fields
            .iter()
            .map(|name| stem(name))
            .any(|(name, is_list)| is_list && name.starts_with(OF_LICENSES) == of_licenses)
    };
    let products = if has_lists(false) { 1..=PRODUCTS_N_MAX } else { 0..=0 };
    let licenses_n_max = if has_lists(true) { PRODUCTS_N_MAX } else { 0 };
    let (mut readings_n, mut is_one) = (0_usize, false);
    for products_n in products {
        for licenses_n in 0..=licenses_n_max {
            let names = expanded(&fields, products_n, licenses_n);
            let Some(n) = ways(&names, &text) else { return false };
            readings_n = readings_n.saturating_add(n);
            is_one |= is_named(&names);
        }
    }
    is_one && readings_n == 1
}

/// In how many ways the text is values that fit these names; `None` when there are too many cuts to follow.
fn ways(names: &[&str], text: &[u8]) -> Option<usize> {
    let mut cuts = std::collections::BTreeMap::from([(0_usize, 1_usize)]);
    for name in names {
        let mut next = std::collections::BTreeMap::new();
        for (at, n) in cuts {
            for end in ends(name, text, at) {
                let sum: &mut usize = next.entry(end).or_default();
                *sum = sum.saturating_add(n);
            }
        }
        if next.len() > CUTS_N_MAX {
            return None;
        }
        cuts = next;
    }
    Some(cuts.get(&text.len()).copied().unwrap_or_default())
}

/// Where a value of this name that begins at `at` may end.
fn ends(name: &str, text: &[u8], at: usize) -> Vec<usize> {
    let rest = text.get(at..).unwrap_or_default();
    if rest.first() == Some(&b'0') {
        return if fits(name, b"") { vec![at + 1] } else { Vec::new() };
    }
    let end = |digits_n: usize| {
        let digits = rest.get(..digits_n).filter(|digits| digits.iter().all(u8::is_ascii_digit))?;
        let value_n: usize = std::str::from_utf8(digits).ok()?.parse().ok()?;
        let value = rest.get(digits_n..digits_n.checked_add(value_n)?)?;
        fits(name, value).then_some(at + digits_n + value_n)
    };
    (1..=LENGTH_CHARS_MAX).filter_map(end).collect()
}

/// What is signed alone, with the type, and lists as lists.
fn open(keys: &Keys, body: &[u8]) -> Result<Vec<u8>, String> {
    let members = json_members(body).ok_or("the body is no form")?;
    let pair = |(name, raw): (_, &[u8])| {
        let name: std::borrow::Cow<'_, str> = name;
        Some((name.into_owned(), serde_json::from_slice::<String>(raw).ok()?))
    };
    let pairs: Option<Vec<Pair>> = members.into_iter().map(pair).collect();
    let mut pairs = pairs.ok_or("the body is no form of texts")?;
    pairs.retain(|(name, _)| is_signed(name.as_bytes()));
    let is_confirmed = is_confirmed(keys, &pairs);
    let mut opened = serde_json::Map::new();
    for (name, value) in &pairs {
        let (name, is_list) = stem(name);
        match opened.get_mut(name) {
            Some(serde_json::Value::Array(list)) => list.push(json!(value)),
            Some(one) => *one = json!([one.clone(), value]),
            None => drop(opened.insert(name.to_owned(), if is_list { json!([value]) } else { json!(value) })),
        }
    }
    let status = opened.get(STATUS).and_then(|status| status.as_str()).filter(|_| is_confirmed);
    let event_type = json!(status.unwrap_or(UNCONFIRMED));
    opened.insert("type".to_owned(), event_type);
    Ok(serde_json::Value::Object(opened).to_string().into_bytes())
}

/// The receipt, without which 2Checkout sends the notice again; dated when the request arrived.
fn answer(verified: &Verified, keys: &Keys) -> Option<String> {
    let request = verified.request();
    let form = Form::parse(&request.body)?;
    let first = |name: &str| {
        let is_it = |known: &[u8]| std::str::from_utf8(known).is_ok_and(|known| stem(known) == (name, true));
        form.pairs().iter().find(|(known, _)| is_it(known)).map(|(_, value)| value.as_slice())
    };
    let (product, title) = (first("IPN_PID")?, first("IPN_PNAME")?);
    let sent = form.one("IPN_DATE").filter(|date| is_date(date))?;
    let now = rfc3339_text(request.received_at_ms.div_euclid(1_000));
    let now: String = now.chars().filter(char::is_ascii_digit).take(DATE_CHARS).collect();
    let text = signed([product, title, sent, now.as_bytes()].into_iter());
    let secret = keys.secrets().nth(verified.secret_n())?;
    let mac = hex_text(&hmac(Hash::Sha256, secret.as_bytes(), &[&text]));
    Some(format!("<sig algo=\"sha256\" date=\"{now}\">{mac}</sig>"))
}

fn sign(keys: &Keys, body: &[u8], _: &SignAt) -> Result<Signed, SignError> {
    let form = Form::parse(body).ok_or_else(|| SignError::Body(Form::TOO_MANY.to_owned()))?;
    let mac = keys.mac(&[signed_text(&form)]).ok_or(SignError::NoSigningKey)?;
    Ok(Signed::form(form_with(body, SIGNATURE, &hex_text(&mac))))
}
