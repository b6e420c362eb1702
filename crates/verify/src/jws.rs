//! JSON Web Signatures in their compact form, parsed here: one algorithm that the kind names, no `none`, nothing that
//! the message may choose for itself.

use super::encoding::{Hash, base64url_text, decode_base64url, decode_base64url_long, hmac, same};
use super::error::SignError;
use super::keys::{Keys, KeysExt};
use super::private::published_chain;
use super::public::{PublicKey, PublicScheme};
use hooklatch_core::json::{PointerTarget, find, text_of};

/// A compact JWS, not verified yet.
#[derive(Debug, Clone)]
pub struct Jws {
    header: Vec<u8>,
    claims: Vec<u8>,
    signed: String,
    signature: Vec<u8>,
}

impl Jws {
    /// Parses `header.claims.signature`; `None` for anything else, and for headers that demand what we do
    /// not know (`crit`).
    pub fn parse(text: &str) -> Option<Self> {
        let (signed, signature) = text.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        if claims.contains('.') {
            return None;
        }
        let jws = Self {
            header: decode_base64url_long(header)?,
            claims: decode_base64url_long(claims)?,
            signed: signed.to_owned(),
            signature: decode_base64url(signature)?,
        };
        jws.understood()
    }

    /// Parses `header..signature` as [`Jws::parse`] does; its claims are `payload`, because the JWS is detached from
    /// its content.
    pub fn parse_detached(text: &str, payload: &[u8]) -> Option<Self> {
        let (header, signature) = text.split_once("..").filter(|(_, signature)| !signature.contains('.'))?;
        let jws = Self {
            header: decode_base64url_long(header)?,
            claims: payload.to_vec(),
            signed: format!("{header}.{}", base64url_text(payload)),
            signature: decode_base64url(signature)?,
        };
        jws.understood()
    }

    fn understood(self) -> Option<Self> {
        (find(&self.header, "/crit") == PointerTarget::Missing).then_some(self)
    }

    /// A text of the header, such as `/alg` or `/kid`.
    pub fn header(&self, pointer: &str) -> Option<String> {
        text_of(&self.header, pointer).ok()
    }

    /// The claims, once the signature is verified.
    pub fn verified(&self, key: &PublicKey) -> Option<&[u8]> {
        let scheme = match self.header("/alg")?.as_str() {
            "RS256" => PublicScheme::RsaSha256,
            "ES256" => PublicScheme::P256Fixed,
            "ES512" => PublicScheme::P521Fixed,
            "RS512" => PublicScheme::RsaSha512,
            "EdDSA" => PublicScheme::Ed25519,
            _ => return None,
        };
        key.verifies(scheme, self.signed.as_bytes(), &self.signature).then_some(self.claims.as_slice())
    }

    /// The claims, once the HS256 signature by `secret` is verified.
    pub fn verified_hs256(&self, secret: &[u8]) -> Option<&[u8]> {
        let is_ours = self.header("/alg")? == "HS256"
            && same(&hmac(Hash::Sha256, secret, &[self.signed.as_bytes()]), &self.signature);
        is_ours.then_some(self.claims.as_slice())
    }
}

/// A compact JWS with HS256, for kinds that sign.
pub fn jws_hs256(secret: &[u8], claims: &str) -> String {
    let head = base64url_text(br#"{"alg":"HS256","typ":"JWT"}"#);
    let signed = format!("{head}.{}", base64url_text(claims.as_bytes()));
    let mac = hmac(Hash::Sha256, secret, &[signed.as_bytes()]);
    format!("{signed}.{}", base64url_text(&mac))
}

/// A compact JWS by the private key of `keys`, for kinds that sign; `alg` is `RS256` or `ES256`.
pub fn jws_signed(keys: &Keys, alg: &str, kid: &str, claims: &str) -> Result<String, SignError> {
    let scheme = if alg == "ES256" { PublicScheme::P256Fixed } else { PublicScheme::RsaSha256 };
    let head = serde_json::json!({ "alg": alg, "kid": kid, "typ": "JWT" });
    let (signed, signature) = signed(keys, scheme, &head, claims.as_bytes())?;
    Ok(format!("{signed}.{signature}"))
}

/// `header..signature` of `payload`, for kinds that sign what is not in the JWS; the algorithm is that of `scheme`.
pub fn jws_detached(
    keys: &Keys,
    scheme: PublicScheme,
    head: &serde_json::Value,
    payload: &[u8],
) -> Result<String, SignError> {
    let (signed, signature) = signed(keys, scheme, head, payload)?;
    let head = signed.split('.').next().unwrap_or_default();
    Ok(format!("{head}..{signature}"))
}

/// A compact JWS with ES256 by the published chain of certificates, which is in its `x5c`; for kinds that sign.
pub fn jws_chained(keys: &Keys, claims: &[u8]) -> Result<String, SignError> {
    let head = serde_json::json!({ "alg": "ES256", "x5c": published_chain() });
    let (signed, signature) = signed(keys, PublicScheme::P256Fixed, &head, claims)?;
    Ok(format!("{signed}.{signature}"))
}

/// The text that is signed, and the text of its signature.
fn signed(
    keys: &Keys,
    scheme: PublicScheme,
    head: &serde_json::Value,
    payload: &[u8],
) -> Result<(String, String), SignError> {
    let signed = format!("{}.{}", base64url_text(head.to_string().as_bytes()), base64url_text(payload));
    let signature = keys.sign_public(scheme, signed.as_bytes())?;
    Ok((signed, base64url_text(&signature)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jws_is_believed_with_its_own_key_and_algorithm_alone() {
        let text = jws_hs256(b"key", r#"{"a":1}"#);
        let jws = Jws::parse(&text).expect("a JWS");
        assert_eq!(jws.verified_hs256(b"key"), Some(br#"{"a":1}"#.as_slice()));
        assert_eq!(jws.verified_hs256(b"other"), None);
        let none = format!("{}.{}.", base64url_text(br#"{"alg":"none"}"#), base64url_text(b"{}"));
        assert!(Jws::parse(&none).is_none_or(|jws| jws.verified_hs256(b"key").is_none()));
        for bad in ["", ".", "..", "a.b", "a.b.c.d", "é.b.c"] {
            assert!(Jws::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_detached_jws_is_of_its_content_alone() {
        // RFC 7515, appendix A.2, with its content taken out.
        let header = "eyJhbGciOiJSUzI1NiJ9";
        let payload = b"{\"iss\":\"joe\",\r\n \"exp\":1300819380,\r\n \"http://example.com/is_root\":true}";
        let signature = "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
        let key = r#"{"kty":"RSA","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ","e":"AQAB"}"#;
        let key = PublicKey::parse(key).expect("a key");
        let text = format!("{header}..{signature}");
        let authenticated = |text: &str, payload: &[u8]| {
            Jws::parse_detached(text, payload).is_some_and(|jws| jws.verified(&key) == Some(payload))
        };
        assert!(authenticated(&text, payload));
        assert!(!authenticated(&text, b"{}") && !authenticated(&text, b""));
        for other in [header, "", "..", "a..b", &format!("{header}.e30.{signature}"), &format!("{text}..x")] {
            assert!(!authenticated(other, payload), "{other}");
        }
        let critical = base64url_text(br#"{"alg":"RS256","b64":false,"crit":["b64"]}"#);
        assert!(Jws::parse_detached(&format!("{critical}..{signature}"), payload).is_none());
    }
}
