//! Atlassian Connect: a JWT that covers method, path and query of the request, and not its body.

use std::collections::BTreeMap;

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign).samples(&[
        ("jira:issue_created", include_str!("samples/jira-issue_created.json")),
        ("jira:issue_updated", include_str!("samples/jira-issue_updated.json")),
        ("comment_created", include_str!("samples/comment_created.json")),
    ])
}

const NAME: &str = "authorization";
/// How far clocks may be apart. Seconds.
const LEEWAY_S: i64 = 30;

fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let token = if request.headers.contains_key(NAME) {
        let value = deciding_header(&request.headers, NAME)?;
        let (word, token) = value.split_once(' ').unwrap_or_default();
        word.eq_ignore_ascii_case("jwt").then(|| token.trim().to_owned())
    } else {
        query_value(&request.url, "jwt")
    };
    let token = token.ok_or_else(|| VerifyError::malformed(NAME, "it is not `JWT` and a token"))?;
    let jws = Jws::parse(&token).ok_or_else(|| VerifyError::malformed(NAME, "it holds no compact JWS"))?;
    let mut secrets = keys.secrets().enumerate();
    let found = secrets.find_map(|(n, secret)| Some((n, jws.verified_hs256(secret.as_bytes())?)));
    let (secret_n, claims) = found.ok_or_else(|| VerifyError::mismatch(keys))?;
    let number = |pointer| json_text(claims, pointer).ok().and_then(|text| text.parse::<i64>().ok());
    let missing = |why| VerifyError::malformed("claims", why);
    let now_s = request.received_at_ms.div_euclid(1_000);
    let exp = number("/exp").ok_or_else(|| missing("exp is missing"))?;
    let iat = number("/iat").ok_or_else(|| missing("iat is missing"))?;
    if now_s > exp.saturating_add(LEEWAY_S) {
        return Err(VerifyError::Stale { age_s: now_s.saturating_sub(exp), tolerance_s: 30 });
    }
    if iat > now_s.saturating_add(LEEWAY_S) {
        return Err(VerifyError::Future { ahead_s: iat.saturating_sub(now_s), tolerance_s: 30 });
    }
    let qsh = json_text(claims, "/qsh").map_err(|_| missing("qsh is missing"))?;
    if same(query_hash(request.method.as_str(), &request.url, keys).as_bytes(), qsh.as_bytes()) {
        // The token is the same for all requests to this URL within a second: it names no event.
        Ok(Authenticated::plain(secret_n))
    } else {
        Err(VerifyError::malformed("claims", "qsh is of another request"))
    }
}

/// SHA-256 of `METHOD&path&query`, where the path starts behind the app's base URL and the query is sorted.
fn query_hash(method: &str, url: &str, keys: &Keys) -> String {
    let (path, query) = path_and_query(url);
    let base = keys.settings().text("base_path").unwrap_or_default().trim_end_matches('/');
    let path = path.strip_prefix(base).unwrap_or(path).trim_end_matches('/');
    let path = if path.is_empty() { "/".to_owned() } else { path.replace('&', "%26") };
    let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
    // No query of a sender has so many parameters that this leaves some out; the digest is another one then.
    for (name, value) in Form::parse(query.unwrap_or_default().as_bytes()).unwrap_or_default().pairs() {
        let (name, value) = (encoded(name), encoded(value));
        if name != "jwt" {
            names.entry(name).or_default().push(value);
        }
    }
    let pairs: Vec<String> = names
        .into_iter()
        .map(|(name, mut values)| {
            values.sort();
            format!("{name}={}", values.join(","))
        })
        .collect();
    hex_text(&digest(Hash::Sha256, &[format!("{method}&{path}&{}", pairs.join("&")).as_bytes()]))
}

/// Percent-encoded by RFC 3986.
fn encoded(text: &[u8]) -> String {
    let byte = |byte: &u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(*byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.iter().map(byte).collect()
}

fn sign(keys: &Keys, body: &[u8], at: &SignAt) -> Result<Signed, SignError> {
    let secret = keys.secrets().next().ok_or(SignError::NoSigningKey)?;
    let claims = json!({
        "iss": "jira:1", "iat": at.now_s, "exp": at.now_s.saturating_add(180),
        "qsh": query_hash("POST", &at.url, keys),
    });
    let token = jws_hs256(secret.as_bytes(), &claims.to_string());
    Ok(Signed::json(body.to_vec()).with(NAME, format!("JWT {token}")))
}
