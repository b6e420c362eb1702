//! App Store Server Notifications V2: a JWS in the body, by a certificate that it brings along and Apple's root vouches
//! for. What a notification is about is in further such JWS inside.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    let kind = Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign);
    kind.open_with(open).samples(&[
        ("TEST", include_str!("samples/TEST.json")),
        ("DID_RENEW", include_str!("samples/DID_RENEW.json")),
        ("SUBSCRIBED.INITIAL_BUY", include_str!("samples/SUBSCRIBED.INITIAL_BUY.json")),
        ("RENEWAL_EXTENSION.SUMMARY", include_str!("samples/RENEWAL_EXTENSION.SUMMARY.json")),
        (
            "EXTERNAL_PURCHASE_TOKEN.UNREPORTED",
            include_str!("samples/EXTERNAL_PURCHASE_TOKEN.UNREPORTED.json"),
        ),
        ("RESCIND_CONSENT", include_str!("samples/RESCIND_CONSENT.json")),
    ])
}

/// `Apple Root CA - G3`, <https://www.apple.com/certificateauthority/>: SHA-256 63343abf…653e9179.
const ROOT: &str = include_str!("apple_root_ca_g3.pem");
/// What the certificate that signs, and the one that vouches for it, are marked with: those of developers lead to the
/// same root.
const MARKS: [&str; 2] = ["1.2.840.113635.100.6.11.1", "1.2.840.113635.100.6.2.1"];
/// The certificates of `x5c`, with the root.
const CHAIN_N: usize = 3;
/// How far clocks may be apart, as in Apple's library. Seconds.
const SKEW_S: i64 = 60;
/// The member with the signed text.
const SIGNED: &str = "/signedPayload";
/// Where a notification has further JWS.
const NESTED: [&str; 3] =
    ["/data/signedTransactionInfo", "/data/signedRenewalInfo", "/appData/signedAppTransactionInfo"];
/// What a notification is about: one of these.
const SUBJECTS: [&str; 4] = ["data", "summary", "externalPurchaseToken", "appData"];

fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let text = json_text(&request.body, SIGNED)
        .map_err(|_| VerifyError::malformed(SIGNED, "the body has no such text"))?;
    let claims = Reader::new(keys).claims(&text)?;
    let json = Json::parse(&claims).ok_or_else(|| VerifyError::malformed(SIGNED, "it is not JSON inside"))?;
    is_ours(keys, &json)?;
    let signed_at = json.text("/signedDate").unwrap_or_default();
    check_timestamp(keys, TimeUnit::Ms, "signedDate", &signed_at, request.received_at_ms)?;
    Ok(Authenticated::of(0, &[&claims]).at(signed_at))
}

/// Reads JWS of one message: whose chain is known already is not asked for again.
struct Reader<'a> {
    keys: &'a Keys,
    known: Option<(Vec<Vec<u8>>, CertificateChain)>,
}

impl<'a> Reader<'a> {
    fn new(keys: &'a Keys) -> Self {
        Self { keys, known: None }
    }

    /// The claims of a JWS that Apple signed, at a time when its certificates were valid.
    fn claims(&mut self, text: &str) -> Result<Vec<u8>, VerifyError> {
        let malformed = |why| VerifyError::malformed(SIGNED, why);
        let jws = Jws::parse(text).ok_or_else(|| malformed("it is no compact JWS"))?;
        if jws.header("/alg").as_deref() != Some("ES256") {
            return Err(malformed("its algorithm is not ES256"));
        }
        let certificate = |n: usize| decode_base64_long(&jws.header(&format!("/x5c/{n}"))?);
        let chain: Option<Vec<Vec<u8>>> = (0..CHAIN_N).map(certificate).collect();
        let chain = chain.filter(|_| jws.header(&format!("/x5c/{CHAIN_N}")).is_none());
        let vouched =
            self.vouched(chain.ok_or_else(|| malformed("it brings no three certificates along"))?)?;
        let claims = jws.verified(&vouched.key).ok_or_else(|| VerifyError::mismatch(self.keys))?;
        let signed_at =
            json_text(claims, "/signedDate").or_else(|_| json_text(claims, "/receiptCreationDate"));
        let signed_at_ms = signed_at.ok().and_then(|text| text.parse::<i64>().ok());
        let signed_at_ms = signed_at_ms.ok_or_else(|| malformed("it does not say when it was signed"))?;
        if vouched.is_valid_at(signed_at_ms.div_euclid(1_000), SKEW_S) {
            Ok(claims.to_vec())
        } else {
            Err(VerifyError::NoKey("its certificates were not valid when it was signed".to_owned()))
        }
    }

    fn vouched(&mut self, chain: Vec<Vec<u8>>) -> Result<CertificateChain, VerifyError> {
        if let Some((known, vouched)) = &self.known
            && *known == chain
        {
            return Ok(vouched.clone());
        }
        let root = self.keys.settings().text("root_certificates").unwrap_or(ROOT);
        let vouched = vouched(&chain, root, &MARKS).map_err(|why| VerifyError::NoKey(why.to_owned()))?;
        self.known = Some((chain, vouched.clone()));
        Ok(vouched)
    }
}

/// Anybody with an app has notifications signed: they must be about ours, and not about purchases that cost nothing.
fn is_ours(keys: &Keys, claims: &Json<'_>) -> Result<(), VerifyError> {
    let malformed = |why| Err(VerifyError::malformed("claims", why));
    let mut subjects = SUBJECTS.into_iter().filter(|name| !claims.is_missing(&format!("/{name}")));
    let (Some(subject), None) = (subjects.next(), subjects.next()) else {
        return malformed("they are about no app, or about several things");
    };
    let field = |name: &str| claims.text(&format!("/{subject}/{name}")).ok();
    let is_sandbox = field("externalPurchaseId").is_some_and(|id| id.starts_with("SANDBOX"));
    let environment = match subject {
        "externalPurchaseToken" => Some(if is_sandbox { "Sandbox" } else { "Production" }.to_owned()),
        _ => field("environment"),
    };
    let is_among = |setting: &str, given: &Option<String>| {
        let mut known = keys.settings().all(setting).flat_map(|one| one.value.reveal().split(','));
        known.any(|known| Some(known.trim()) == given.as_deref())
    };
    keys.check_account("bundle_ids", field("bundleId").as_deref())?;
    let is_production = environment.as_deref() == Some("Production");
    let is_wanted = if keys.settings().has("environments") {
        is_among("environments", &environment)
    } else {
        is_production
    };
    if !is_wanted {
        return malformed("they are from an environment that is not in the settings");
    }
    if is_production && keys.settings().has("app_apple_id") && !is_among("app_apple_id", &field("appAppleId"))
    {
        return malformed("they are about another app with that bundle id");
    }
    Ok(())
}

/// The notification, with what is signed inside it opened.
fn open(keys: &Keys, body: &[u8]) -> Result<Vec<u8>, String> {
    let mut reader = Reader::new(keys);
    let mut claims = reader.claims(&json_text(body, SIGNED)?).map_err(|why| why.to_string())?;
    for pointer in NESTED {
        let Some(raw) = json_raw(&claims, pointer).filter(|raw| *raw != b"null") else { continue };
        let text: String = serde_json::from_slice(raw).map_err(|_| format!("{pointer} is no text"))?;
        let inner = reader.claims(&text).map_err(|why| format!("{pointer}: {why}"))?;
        let outer_bundle =
            json_text(&claims, "/data/bundleId").or_else(|_| json_text(&claims, "/appData/bundleId"));
        is_of_same(&inner, outer_bundle.ok()).map_err(|why| format!("{pointer}: {why}"))?;
        claims =
            json_with(&claims, pointer, &inner).ok_or_else(|| format!("{pointer} is not JSON inside"))?;
    }
    Ok(claims)
}

/// A transaction of another app has no place in a notification about this one. Renewals do not say whose they are.
fn is_of_same(inner: &[u8], outer_bundle: Option<String>) -> Result<(), &'static str> {
    match (json_text(inner, "/bundleId").ok(), outer_bundle) {
        (Some(inner), Some(outer)) if inner != outer => Err("it is about another app"),
        _ => Ok(()),
    }
}

/// By the published chain, which a provider trusts that has its root in the settings.
fn sign(keys: &Keys, body: &[u8], _: &SignAt) -> Result<Signed, SignError> {
    let mut claims = body.to_vec();
    for pointer in NESTED {
        let Some(inner) = json_raw(&claims, pointer).filter(|raw| raw.starts_with(b"{")) else { continue };
        let text = json!(jws_chained(keys, inner)?).to_string();
        claims = json_with(&claims, pointer, text.as_bytes())
            .ok_or_else(|| SignError::Body("it is not JSON".to_owned()))?;
    }
    Ok(Signed::json(json!({ "signedPayload": jws_chained(keys, &claims)? }).to_string().into_bytes()))
}
