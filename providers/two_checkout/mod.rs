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
/// A form that is not the configured list of fields, or in whose text a field that decides may be elsewhere: names are
/// unsigned, and a length before a value that begins with a digit may be another length.
const UNCONFIRMED: &str = "ipn.unconfirmed";
const STATUS: &str = "ORDERSTATUS";
/// <https://verifone.cloud/docs/2checkout/API-Integration/Webhooks/06Instant_Payment_Notification_(IPN)/IPN-triggers>, and the
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
/// The fields of a notice in their order, of one that the sender's PHP package has (the fixture `Tokens` of
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
/// What decides about money and delivery. What a payer writes may be cut in several ways beside it, and is then one notice
/// however it is cut.
const DECIDING: [&str; 15] = [
    "CURRENCY",
    "FRAUD_STATUS",
    "IPN_DATE",
    "IPN_PID",
    "IPN_PRICE",
    "IPN_QTY",
    "IPN_TOTAL",
    "IPN_TOTALGENERAL",
    "MESSAGE_ID",
    "MESSAGE_TYPE",
    "ORDERNO",
    STATUS,
    "REFNO",
    "REFNOEXT",
    "TEST_ORDER",
];
/// Most products of an order, and most licenses, of which the readings are followed.
const PRODUCTS_N_MAX: usize = 8;
/// Longest signed text of which the readings are followed, and most cuts of it at once. Bytes.
const TEXT_BYTES_MAX: usize = 64 * 1024;
const CUTS_N_MAX: usize = 1_024;
/// Digits of a length.
const LENGTH_CHARS_MAX: usize = 5;
/// `YmdHis`.
const DATE_CHARS: usize = 14;

/// A field of a form, decoded.
type Pair = (String, String);

/// Whether a value may stand in the field of this name. The shapes are those that the documented values have: the stricter
/// they are, the fewer texts have two readings.
fn fits(name: &str, value: &[u8]) -> bool {
    let all = |is: fn(&u8) -> bool| value.iter().all(is);
    let is_empty = value.is_empty();
    match name {
        STATUS => STATES.iter().any(|state| state.as_bytes() == value),
        "REFNO" => is_whole(value),
        "MESSAGE_ID" => is_whole(value) && (9..=16).contains(&value.len()),
        "IPN_DATE" => is_date(value),
        "IPN_PID" | "IPN_QTY" => is_whole(value) && value != b"0",
        "IPN_PGROUP" | "IPN_LICENSE_PROD" | "ORDERNO" => is_empty || is_whole(value),
        "IPN_PRICE" | "IPN_VAT" | "IPN_DISCOUNT" | "IPN_TOTAL" | "IPN_TOTALGENERAL" => {
            is_decimal(value, Some(2))
        }
        "IPN_VAT_RATE"
        | "IPN_SHIPPING"
        | "IPN_SHIPPING_TAX"
        | "IPN_PARTNER_MARGIN_PERCENT"
        | "IPN_PARTNER_MARGIN"
        | "IPN_EXTRA_MARGIN"
        | "IPN_EXTRA_DISCOUNT"
        | "IPN_COUPON_DISCOUNT"
        | "IPN_COMMISSION"
        | "FX_RATE"
        | "FX_MARKUP"
        | "PAYABLE_AMOUNT" => is_empty || is_decimal(value, None),
        "SALEDATE" | "PAYMENTDATE" | "COMPLETE_DATE" | "IPN_LICENSE_EXP" | "IPN_LICENSE_START" => {
            is_empty || value.len() == 19 && all(|b| b.is_ascii_digit() || b"-: ".contains(b))
        }
        "CURRENCY" | "PAYOUT_CURRENCY" => is_empty || value.len() == 3 && all(u8::is_ascii_uppercase),
        "MESSAGE_TYPE"
        | "ORDERFLOW"
        | "IPN_LICENSE_TYPE"
        | "IPN_LICENSE_LIFETIME"
        | "REFUND_TYPE"
        | "FRAUD_STATUS"
        | "CHARGEBACK_RESOLUTION"
        | "COUNTRY_CODE"
        | "COUNTRY_D_CODE"
        | "LANGUAGE" => all(|b| b.is_ascii_alphabetic() || b"_ -".contains(b)),
        "TEST_ORDER" | "GIFT_ORDER" => matches!(value, b"" | b"0" | b"1"),
        "CUSTOMEREMAIL" | "EMAIL_D" => is_empty || value.contains(&b'@'),
        "IPADDRESS" => is_empty || all(|b| b.is_ascii_hexdigit() || b".:".contains(b)) && value.len() > 4,
        "TIMEZONE_OFFSET" => is_empty || value.starts_with(b"GMT"),
        _ => true,
    }
}

/// A whole number as it is written: without zeros before it.
fn is_whole(value: &[u8]) -> bool {
    !value.is_empty()
        && value.iter().all(u8::is_ascii_digit)
        && (value.len() == 1 || value.first() != Some(&b'0'))
}

/// A number with so many decimals; `None`: any, or none.
fn is_decimal(value: &[u8], decimals_n: Option<usize>) -> bool {
    let value = value.strip_prefix(b"-").unwrap_or(value);
    let mut parts = value.splitn(2, |b| *b == b'.');
    let (whole, part) = (parts.next().unwrap_or_default(), parts.next());
    let is_part = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    is_whole(whole)
        && match (part, decimals_n) {
            (Some(part), Some(n)) => part.len() == n && is_part(part),
            (Some(part), None) => is_part(part),
            (None, n) => n.is_none(),
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

/// Whether a text ends as our receipts do: a holder of one must not be able to send it as a notice.
fn is_receipt(text: &[u8]) -> bool {
    let end = |text: &[u8]| {
        let at = text.len().checked_sub(DATE_CHARS + 2)?;
        let (rest, last) = text.split_at_checked(at)?;
        let date = last.strip_prefix(b"14").filter(|date| is_date(date));
        date.map(|_| rest.len())
    };
    end(text).and_then(|n| end(text.get(..n)?)).is_some()
}

fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
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
    Ok(Authenticated::of(secret_n, &[&text]))
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

/// True when the form is the configured list, and each field that decides has one place in its text, however the rest is
/// cut.
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
        let lists = fields.iter().map(|name| stem(name)).filter(|(_, is_list)| *is_list);
        lists.into_iter().any(|(name, _)| name.starts_with(OF_LICENSES) == of_licenses)
    };
    let products = if has_lists(false) { 1..=PRODUCTS_N_MAX } else { 0..=0 };
    let licenses_n_max = if has_lists(true) { PRODUCTS_N_MAX } else { 0 };
    let (mut places, mut own) = (Places::new(), Vec::new());
    let is_of_licenses = |name: &String| stem(name).1 && name.starts_with(OF_LICENSES);
    let before = fields.iter().position(is_of_licenses).and_then(|n| fields.get(..n)).unwrap_or(&fields);
    for products_n in products {
        // With another number of products few texts are read as far as the licenses.
        let mut cuts = std::collections::BTreeSet::from([0]);
        for name in expanded(before, products_n, 0) {
            cuts = steps(name, &text, &cuts).into_iter().map(|(_, end)| end).collect();
            if cuts.len() > CUTS_N_MAX {
                return false;
            }
        }
        if cuts.is_empty() {
            continue;
        }
        for licenses_n in 0..=licenses_n_max {
            let names = expanded(&fields, products_n, licenses_n);
            if !add_places(&names, &text, &mut places) {
                return false;
            }
            if is_named(&names) {
                own = names;
            }
        }
    }
    let is_at_one_place = |name: &&str| {
        let times = own.iter().filter(|known| known == &name).count();
        places.get(*name).map_or(0, std::collections::BTreeSet::len) == times
    };
    !own.is_empty() && DECIDING.iter().all(is_at_one_place)
}

/// Where in a text the fields that decide may be.
type Places<'a> = std::collections::BTreeMap<&'a str, std::collections::BTreeSet<(usize, usize)>>;

/// Adds where they are in each reading of the text as values that fit these names; false when there are too many to follow.
fn add_places<'a>(names: &[&'a str], text: &[u8], places: &mut Places<'a>) -> bool {
    let mut cuts = std::collections::BTreeSet::from([0]);
    let mut taken: Vec<(&'a str, Vec<(usize, usize)>)> = Vec::with_capacity(names.len());
    for name in names {
        let step = steps(name, text, &cuts);
        cuts = step.iter().map(|(_, end)| *end).collect();
        if cuts.is_empty() {
            return true;
        }
        if cuts.len() > CUTS_N_MAX {
            return false;
        }
        taken.push((name, step));
    }
    // From the end back: those steps alone that lead there.
    cuts.retain(|at| *at == text.len());
    for (name, mut step) in taken.into_iter().rev() {
        step.retain(|(_, end)| cuts.contains(end));
        cuts = step.iter().map(|(at, _)| *at).collect();
        if DECIDING.contains(&name) {
            places.entry(name).or_default().extend(step);
        }
    }
    true
}

/// The values of this name that begin at one of these cuts: from where to where.
fn steps(name: &str, text: &[u8], cuts: &std::collections::BTreeSet<usize>) -> Vec<(usize, usize)> {
    cuts.iter().flat_map(|at| ends(name, text, *at).into_iter().map(move |end| (*at, end))).collect()
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
