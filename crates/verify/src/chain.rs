//! Chains of certificates that a request carries, such as `x5c` of a JWS: whether they lead to a root that the settings
//! name. Marks identify the purpose of the first certificate: extensions that its authority gives to such certificates
//! alone. Parsing is `x509-parser`, verification is `ring`.

use x509_parser::oid_registry::{
    OID_PKCS1_SHA256WITHRSA, OID_PKCS1_SHA384WITHRSA, OID_PKCS1_SHA512WITHRSA, OID_SIG_ECDSA_WITH_SHA256,
    OID_SIG_ECDSA_WITH_SHA384, Oid,
};
use x509_parser::pem::Pem;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::public::PublicKey;

/// Algorithms that certificates may be signed with. SHA-1 is not one of them.
const ALGORITHMS: [Oid<'static>; 5] = [
    OID_SIG_ECDSA_WITH_SHA256,
    OID_SIG_ECDSA_WITH_SHA384,
    OID_PKCS1_SHA256WITHRSA,
    OID_PKCS1_SHA384WITHRSA,
    OID_PKCS1_SHA512WITHRSA,
];
/// Longest certificate that is read. Bytes.
const CERTIFICATE_BYTES_MAX: usize = 8_192;

/// The key of a certificate that a root vouches for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateChain {
    /// The key that is vouched for.
    pub key: PublicKey,
    /// First moment at which every certificate is valid, the root's included. Unix seconds.
    pub from_s: i64,
    /// Last moment at which every certificate is valid. Unix seconds.
    pub until_s: i64,
}

impl CertificateChain {
    /// True when every certificate was valid at this time, or `skew_s` before or after.
    pub fn is_valid_at(&self, at_s: i64, skew_s: i64) -> bool {
        (self.from_s.saturating_sub(skew_s)..=self.until_s.saturating_add(skew_s)).contains(&at_s)
    }
}

/// The key of the first certificate in `chain` (DER), or why the chain is not trusted. Each is signed by the next, and
/// the last by one of the `roots` (PEM, one after the other). Each must have its mark, the object identifier of an
/// extension: there are as many certificates as `marks`, the root not counted; it may stand behind them, and is not
/// looked at.
pub fn vouched(chain: &[Vec<u8>], roots: &str, marks: &[&str]) -> Result<CertificateChain, &'static str> {
    let chain = chain.get(..marks.len()).ok_or("the chain is too short")?;
    let chain: Vec<X509Certificate<'_>> =
        chain.iter().map(|der| parsed(der)).collect::<Option<_>>().ok_or("a certificate cannot be read")?;
    let has_mark = |(certificate, mark): (&X509Certificate<'_>, &&str)| {
        certificate.extensions().iter().any(|one| one.oid.to_id_string() == **mark)
    };
    if !chain.iter().zip(marks).all(has_mark) {
        return Err("a certificate is for another purpose");
    }
    let pems: Vec<Pem> = Pem::iter_from_buffer(roots.as_bytes()).filter_map(Result::ok).collect();
    let roots: Vec<X509Certificate<'_>> = pems.iter().filter_map(|pem| parsed(&pem.contents)).collect();
    let (leaf, last) = chain.first().zip(chain.last()).ok_or("the chain is empty")?;
    // The last link first: a stranger can have made all others.
    let root =
        roots.iter().find(|root| is_issued(last, root)).ok_or("no known root vouches for the chain")?;
    let mut authorities = chain.iter().skip(1).chain([root]).enumerate();
    if !authorities.all(|(depth, issuer)| is_authority(issuer, depth)) {
        return Err("a certificate that vouches for another may not");
    }
    let is_link = |pair: &[X509Certificate<'_>]| matches!(pair, [certificate, issuer] if is_issued(certificate, issuer));
    if !chain.windows(2).rev().all(is_link) {
        return Err("a certificate was not issued by the next");
    }
    let validities = || chain.iter().chain([root]).map(|one| one.validity());
    Ok(CertificateChain {
        key: PublicKey::of_parsed(leaf.public_key()).ok_or("the key of the certificate cannot be read")?,
        from_s: validities().map(|one| one.not_before.timestamp()).max().unwrap_or(i64::MAX),
        until_s: validities().map(|one| one.not_after.timestamp()).min().unwrap_or(i64::MIN),
    })
}

/// A certificate and nothing behind it, without unknown critical extensions.
fn parsed(der: &[u8]) -> Option<X509Certificate<'_>> {
    if der.len() > CERTIFICATE_BYTES_MAX {
        return None;
    }
    let (rest, certificate) = X509Certificate::from_der(der).ok()?;
    let is_unknown = |one: &x509_parser::extensions::X509Extension<'_>| {
        let parsed = one.parsed_extension();
        one.critical && (parsed.unsupported() || parsed.error().is_some())
    };
    (rest.is_empty() && !certificate.extensions().iter().any(is_unknown)).then_some(certificate)
}

fn is_issued(certificate: &X509Certificate<'_>, issuer: &X509Certificate<'_>) -> bool {
    let algorithm = &certificate.signature_algorithm;
    certificate.issuer().as_raw() == issuer.subject().as_raw()
        && ALGORITHMS.contains(&algorithm.algorithm)
        && certificate.tbs_certificate.signature.algorithm == algorithm.algorithm
        && certificate.verify_signature(Some(issuer.public_key())).is_ok()
}

/// True when it may sign certificates, with `depth` authorities below it.
fn is_authority(certificate: &X509Certificate<'_>, depth: usize) -> bool {
    let Ok(Some(constraints)) = certificate.basic_constraints() else { return false };
    let limit = constraints.value.path_len_constraint;
    let is_deep = limit.is_some_and(|limit| usize::try_from(limit).is_ok_and(|limit| depth > limit));
    let may_sign = match certificate.key_usage() {
        Ok(Some(usage)) => usage.value.key_cert_sign(),
        Ok(None) => true,
        Err(_) => false,
    };
    constraints.value.ca && !is_deep && may_sign
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode_base64_long;

    /// Apple's own test chain, and its real one: npm @apple/app-store-server-library 3.1.0,
    /// dist/tests/unit-tests/jws_verification.test.js.
    const ROOT: &str = "MIIBgjCCASmgAwIBAgIJALUc5ALiH5pbMAoGCCqGSM49BAMDMDYxCzAJBgNVBAYTAlVTMRMwEQYDVQQIDApDYWxpZm9ybmlhMRIwEAYDVQQHDAlDdXBlcnRpbm8wHhcNMjMwMTA1MjEzMDIyWhcNMzMwMTAyMjEzMDIyWjA2MQswCQYDVQQGEwJVUzETMBEGA1UECAwKQ2FsaWZvcm5pYTESMBAGA1UEBwwJQ3VwZXJ0aW5vMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEc+/Bl+gospo6tf9Z7io5tdKdrlN1YdVnqEhEDXDShzdAJPQijamXIMHf8xWWTa1zgoYTxOKpbuJtDplz1XriTaMgMB4wDAYDVR0TBAUwAwEB/zAOBgNVHQ8BAf8EBAMCAQYwCgYIKoZIzj0EAwMDRwAwRAIgemWQXnMAdTad2JDJWng9U4uBBL5mA7WI05H7oH7c6iQCIHiRqMjNfzUAyiu9h6rOU/K+iTR0I/3Y/NSWsXHX+acc";
    const INTERMEDIATE: &str = "MIIBnzCCAUWgAwIBAgIBCzAKBggqhkjOPQQDAzA2MQswCQYDVQQGEwJVUzETMBEGA1UECAwKQ2FsaWZvcm5pYTESMBAGA1UEBwwJQ3VwZXJ0aW5vMB4XDTIzMDEwNTIxMzEwNVoXDTMzMDEwMTIxMzEwNVowRTELMAkGA1UEBhMCVVMxCzAJBgNVBAgMAkNBMRIwEAYDVQQHDAlDdXBlcnRpbm8xFTATBgNVBAoMDEludGVybWVkaWF0ZTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABBUN5V9rKjfRiMAIojEA0Av5Mp0oF+O0cL4gzrTF178inUHugj7Et46NrkQ7hKgMVnjogq45Q1rMs+cMHVNILWqjNTAzMA8GA1UdEwQIMAYBAf8CAQAwDgYDVR0PAQH/BAQDAgEGMBAGCiqGSIb3Y2QGAgEEAgUAMAoGCCqGSM49BAMDA0gAMEUCIQCmsIKYs41ullssHX4rVveUT0Z7Is5/hLK1lFPTtun3hAIgc2+2RG5+gNcFVcs+XJeEl4GZ+ojl3ROOmll+ye7dynQ=";
    const LEAF: &str = "MIIBoDCCAUagAwIBAgIBDDAKBggqhkjOPQQDAzBFMQswCQYDVQQGEwJVUzELMAkGA1UECAwCQ0ExEjAQBgNVBAcMCUN1cGVydGlubzEVMBMGA1UECgwMSW50ZXJtZWRpYXRlMB4XDTIzMDEwNTIxMzEzNFoXDTMzMDEwMTIxMzEzNFowPTELMAkGA1UEBhMCVVMxCzAJBgNVBAgMAkNBMRIwEAYDVQQHDAlDdXBlcnRpbm8xDTALBgNVBAoMBExlYWYwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAATitYHEaYVuc8g9AjTOwErMvGyPykPa+puvTI8hJTHZZDLGas2qX1+ErxgQTJgVXv76nmLhhRJH+j25AiAI8iGsoy8wLTAJBgNVHRMEAjAAMA4GA1UdDwEB/wQEAwIHgDAQBgoqhkiG92NkBgsBBAIFADAKBggqhkjOPQQDAwNIADBFAiBX4c+T0Fp5nJ5QRClRfu5PSByRvNPtuaTsk0vPB3WAIAIhANgaauAj/YP9s0AkEhyJhxQO/6Q2zouZ+H1CIOehnMzQ";
    const LEAF_OF_OTHER_MARK: &str = "MIIBoDCCAUagAwIBAgIBDzAKBggqhkjOPQQDAzBFMQswCQYDVQQGEwJVUzELMAkGA1UECAwCQ0ExEjAQBgNVBAcMCUN1cGVydGlubzEVMBMGA1UECgwMSW50ZXJtZWRpYXRlMB4XDTIzMDEwNTIxMzczMVoXDTMzMDEwMTIxMzczMVowPTELMAkGA1UEBhMCVVMxCzAJBgNVBAgMAkNBMRIwEAYDVQQHDAlDdXBlcnRpbm8xDTALBgNVBAoMBExlYWYwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAATitYHEaYVuc8g9AjTOwErMvGyPykPa+puvTI8hJTHZZDLGas2qX1+ErxgQTJgVXv76nmLhhRJH+j25AiAI8iGsoy8wLTAJBgNVHRMEAjAAMA4GA1UdDwEB/wQEAwIHgDAQBgoqhkiG92NkBgsCBAIFADAKBggqhkjOPQQDAwNIADBFAiAb+7S3i//bSGy7skJY9+D4VgcQLKFeYfIMSrUCmdrFqwIhAIMVwzD1RrxPRtJyiOCXLyibIvwcY+VS73HYfk0O9lgz";
    const INTERMEDIATE_OF_OTHER_MARK: &str = "MIIBnjCCAUWgAwIBAgIBDTAKBggqhkjOPQQDAzA2MQswCQYDVQQGEwJVUzETMBEGA1UECAwKQ2FsaWZvcm5pYTESMBAGA1UEBwwJQ3VwZXJ0aW5vMB4XDTIzMDEwNTIxMzYxNFoXDTMzMDEwMTIxMzYxNFowRTELMAkGA1UEBhMCVVMxCzAJBgNVBAgMAkNBMRIwEAYDVQQHDAlDdXBlcnRpbm8xFTATBgNVBAoMDEludGVybWVkaWF0ZTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABBUN5V9rKjfRiMAIojEA0Av5Mp0oF+O0cL4gzrTF178inUHugj7Et46NrkQ7hKgMVnjogq45Q1rMs+cMHVNILWqjNTAzMA8GA1UdEwQIMAYBAf8CAQAwDgYDVR0PAQH/BAQDAgEGMBAGCiqGSIb3Y2QGAgIEAgUAMAoGCCqGSM49BAMDA0cAMEQCIFROtTE+RQpKxNXETFsf7Mc0h+5IAsxxo/X6oCC/c33qAiAmC5rn5yCOOEjTY4R1H1QcQVh+eUwCl13NbQxWCuwxxA==";
    const LEAF_BELOW_IT: &str = "MIIBnzCCAUagAwIBAgIBDjAKBggqhkjOPQQDAzBFMQswCQYDVQQGEwJVUzELMAkGA1UECAwCQ0ExEjAQBgNVBAcMCUN1cGVydGlubzEVMBMGA1UECgwMSW50ZXJtZWRpYXRlMB4XDTIzMDEwNTIxMzY1OFoXDTMzMDEwMTIxMzY1OFowPTELMAkGA1UEBhMCVVMxCzAJBgNVBAgMAkNBMRIwEAYDVQQHDAlDdXBlcnRpbm8xDTALBgNVBAoMBExlYWYwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAATitYHEaYVuc8g9AjTOwErMvGyPykPa+puvTI8hJTHZZDLGas2qX1+ErxgQTJgVXv76nmLhhRJH+j25AiAI8iGsoy8wLTAJBgNVHRMEAjAAMA4GA1UdDwEB/wQEAwIHgDAQBgoqhkiG92NkBgsBBAIFADAKBggqhkjOPQQDAwNHADBEAiAUAs+gzYOsEXDwQquvHYbcVymyNqDtGw9BnUFp2YLuuAIgXxQ3Ie9YU0cMqkeaFd+lyo0asv9eyzk6stwjeIeOtTU=";
    const REAL_ROOT: &str = "MIICQzCCAcmgAwIBAgIILcX8iNLFS5UwCgYIKoZIzj0EAwMwZzEbMBkGA1UEAwwSQXBwbGUgUm9vdCBDQSAtIEczMSYwJAYDVQQLDB1BcHBsZSBDZXJ0aWZpY2F0aW9uIEF1dGhvcml0eTETMBEGA1UECgwKQXBwbGUgSW5jLjELMAkGA1UEBhMCVVMwHhcNMTQwNDMwMTgxOTA2WhcNMzkwNDMwMTgxOTA2WjBnMRswGQYDVQQDDBJBcHBsZSBSb290IENBIC0gRzMxJjAkBgNVBAsMHUFwcGxlIENlcnRpZmljYXRpb24gQXV0aG9yaXR5MRMwEQYDVQQKDApBcHBsZSBJbmMuMQswCQYDVQQGEwJVUzB2MBAGByqGSM49AgEGBSuBBAAiA2IABJjpLz1AcqTtkyJygRMc3RCV8cWjTnHcFBbZDuWmBSp3ZHtfTjjTuxxEtX/1H7YyYl3J6YRbTzBPEVoA/VhYDKX1DyxNB0cTddqXl5dvMVztK517IDvYuVTZXpmkOlEKMaNCMEAwHQYDVR0OBBYEFLuw3qFYM4iapIqZ3r6966/ayySrMA8GA1UdEwEB/wQFMAMBAf8wDgYDVR0PAQH/BAQDAgEGMAoGCCqGSM49BAMDA2gAMGUCMQCD6cHEFl4aXTQY2e3v9GwOAEZLuN+yRhHFD/3meoyhpmvOwgPUnPWTxnS4at+qIxUCMG1mihDK1A3UT82NQz60imOlM27jbdoXt2QfyFMm+YhidDkLF1vLUagM6BgD56KyKA==";
    const REAL_INTERMEDIATE: &str = "MIIDFjCCApygAwIBAgIUIsGhRwp0c2nvU4YSycafPTjzbNcwCgYIKoZIzj0EAwMwZzEbMBkGA1UEAwwSQXBwbGUgUm9vdCBDQSAtIEczMSYwJAYDVQQLDB1BcHBsZSBDZXJ0aWZpY2F0aW9uIEF1dGhvcml0eTETMBEGA1UECgwKQXBwbGUgSW5jLjELMAkGA1UEBhMCVVMwHhcNMjEwMzE3MjAzNzEwWhcNMzYwMzE5MDAwMDAwWjB1MUQwQgYDVQQDDDtBcHBsZSBXb3JsZHdpZGUgRGV2ZWxvcGVyIFJlbGF0aW9ucyBDZXJ0aWZpY2F0aW9uIEF1dGhvcml0eTELMAkGA1UECwwCRzYxEzARBgNVBAoMCkFwcGxlIEluYy4xCzAJBgNVBAYTAlVTMHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEbsQKC94PrlWmZXnXgtxzdVJL8T0SGYngDRGpngn3N6PT8JMEb7FDi4bBmPhCnZ3/sq6PF/cGcKXWsL5vOteRhyJ45x3ASP7cOB+aao90fcpxSv/EZFbniAbNgZGhIhpIo4H6MIH3MBIGA1UdEwEB/wQIMAYBAf8CAQAwHwYDVR0jBBgwFoAUu7DeoVgziJqkipnevr3rr9rLJKswRgYIKwYBBQUHAQEEOjA4MDYGCCsGAQUFBzABhipodHRwOi8vb2NzcC5hcHBsZS5jb20vb2NzcDAzLWFwcGxlcm9vdGNhZzMwNwYDVR0fBDAwLjAsoCqgKIYmaHR0cDovL2NybC5hcHBsZS5jb20vYXBwbGVyb290Y2FnMy5jcmwwHQYDVR0OBBYEFD8vlCNR01DJmig97bB85c+lkGKZMA4GA1UdDwEB/wQEAwIBBjAQBgoqhkiG92NkBgIBBAIFADAKBggqhkjOPQQDAwNoADBlAjBAXhSq5IyKogMCPtw490BaB677CaEGJXufQB/EqZGd6CSjiCtOnuMTbXVXmxxcxfkCMQDTSPxarZXvNrkxU3TkUMI33yzvFVVRT4wxWJC994OsdcZ4+RGNsYDyR5gmdr0nDGg=";
    const REAL_LEAF: &str = "MIIEMTCCA7agAwIBAgIQR8KHzdn554Z/UoradNx9tzAKBggqhkjOPQQDAzB1MUQwQgYDVQQDDDtBcHBsZSBXb3JsZHdpZGUgRGV2ZWxvcGVyIFJlbGF0aW9ucyBDZXJ0aWZpY2F0aW9uIEF1dGhvcml0eTELMAkGA1UECwwCRzYxEzARBgNVBAoMCkFwcGxlIEluYy4xCzAJBgNVBAYTAlVTMB4XDTI1MDkxOTE5NDQ1MVoXDTI3MTAxMzE3NDcyM1owgZIxQDA+BgNVBAMMN1Byb2QgRUNDIE1hYyBBcHAgU3RvcmUgYW5kIGlUdW5lcyBTdG9yZSBSZWNlaXB0IFNpZ25pbmcxLDAqBgNVBAsMI0FwcGxlIFdvcmxkd2lkZSBEZXZlbG9wZXIgUmVsYXRpb25zMRMwEQYDVQQKDApBcHBsZSBJbmMuMQswCQYDVQQGEwJVUzBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABNnVvhcv7iT+7Ex5tBMBgrQspHzIsXRi0Yxfek7lv8wEmj/bHiWtNwJqc2BoHzsQiEjP7KFIIKg4Y8y0/nynuAmjggIIMIICBDAMBgNVHRMBAf8EAjAAMB8GA1UdIwQYMBaAFD8vlCNR01DJmig97bB85c+lkGKZMHAGCCsGAQUFBwEBBGQwYjAtBggrBgEFBQcwAoYhaHR0cDovL2NlcnRzLmFwcGxlLmNvbS93d2RyZzYuZGVyMDEGCCsGAQUFBzABhiVodHRwOi8vb2NzcC5hcHBsZS5jb20vb2NzcDAzLXd3ZHJnNjAyMIIBHgYDVR0gBIIBFTCCAREwggENBgoqhkiG92NkBQYBMIH+MIHDBggrBgEFBQcCAjCBtgyBs1JlbGlhbmNlIG9uIHRoaXMgY2VydGlmaWNhdGUgYnkgYW55IHBhcnR5IGFzc3VtZXMgYWNjZXB0YW5jZSBvZiB0aGUgdGhlbiBhcHBsaWNhYmxlIHN0YW5kYXJkIHRlcm1zIGFuZCBjb25kaXRpb25zIG9mIHVzZSwgY2VydGlmaWNhdGUgcG9saWN5IGFuZCBjZXJ0aWZpY2F0aW9uIHByYWN0aWNlIHN0YXRlbWVudHMuMDYGCCsGAQUFBwIBFipodHRwOi8vd3d3LmFwcGxlLmNvbS9jZXJ0aWZpY2F0ZWF1dGhvcml0eS8wHQYDVR0OBBYEFIFioG4wMMVA1ku9zJmGNPAVn3eqMA4GA1UdDwEB/wQEAwIHgDAQBgoqhkiG92NkBgsBBAIFADAKBggqhkjOPQQDAwNpADBmAjEA+qXnREC7hXIWVLsLxznjRpIzPf7VHz9V/CTm8+LJlrQepnmcPvGLNcX6XPnlcgLAAjEA5IjNZKgg5pQ79knF4IbTXdKv8vutIDMXDmjPVT3dGvFtsGRwXOywR2kZCdSrfeot";
    const MARKS: [&str; 2] = ["1.2.840.113635.100.6.11.1", "1.2.840.113635.100.6.2.1"];
    fn der(text: &str) -> Vec<u8> {
        decode_base64_long(text).expect("base64")
    }

    #[track_caller]
    fn judged(chain: &[&str], root: &str) -> Result<CertificateChain, &'static str> {
        let chain: Vec<Vec<u8>> = chain.iter().map(|text| der(text)).collect();
        vouched(&chain, &format!("-----BEGIN CERTIFICATE-----\n{root}\n-----END CERTIFICATE-----\n"), &MARKS)
    }

    #[test]
    fn the_chains_of_apples_own_tests_are_judged_as_there() {
        let key = judged(&[LEAF, INTERMEDIATE, ROOT], ROOT);
        let wanted = "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE4rWBxGmFbnPIPQI0zsBKzLxsj8pD2vqbr0yPISUx2WQyxmrNql9fhK8YEEyYFV7++p5i4YUSR/o9uQIgCPIhrA==";
        assert_eq!(key.ok().map(|chain| chain.key), PublicKey::parse(wanted));
        assert!(judged(&[REAL_LEAF, REAL_INTERMEDIATE, REAL_ROOT], REAL_ROOT).is_ok());
        let two_roots =
            format!("{ROOT}\n-----END CERTIFICATE-----\n-----BEGIN CERTIFICATE-----\n{REAL_ROOT}");
        assert!(judged(&[REAL_LEAF, REAL_INTERMEDIATE], &two_roots).is_ok(), "the second of two roots");
        for (chain, root, why) in [
            ([LEAF_OF_OTHER_MARK, INTERMEDIATE], ROOT, "another purpose"),
            ([LEAF_BELOW_IT, INTERMEDIATE_OF_OTHER_MARK], ROOT, "another purpose"),
            ([LEAF, INTERMEDIATE], REAL_ROOT, "no known root"),
            ([LEAF, INTERMEDIATE], "", "no known root"),
            ([REAL_LEAF, INTERMEDIATE], ROOT, "not issued by the next"),
            ([LEAF, REAL_INTERMEDIATE], REAL_ROOT, "not issued by the next"),
            ([INTERMEDIATE, LEAF], ROOT, "another purpose"),
        ] {
            let error = judged(&chain, root).expect_err(why);
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_chain_counts_while_all_of_it_is_valid_and_at_its_whole_length() {
        let chain = judged(&[LEAF, INTERMEDIATE], ROOT).expect("a chain");
        // The leaf is valid from 2023-01-05 21:31:34 on, the intermediate until 2033-01-01 21:31:05.
        assert_eq!((chain.from_s, chain.until_s), (1_672_954_294, 1_988_227_865));
        assert!(chain.is_valid_at(1_672_954_234, 60) && !chain.is_valid_at(1_672_954_233, 60));
        assert!(chain.is_valid_at(1_988_227_925, 60) && !chain.is_valid_at(1_988_227_926, 60));
        assert_eq!(judged(&[LEAF], ROOT).err(), Some("the chain is too short"));
        assert_eq!(judged(&["MA==", INTERMEDIATE], ROOT).err(), Some("a certificate cannot be read"));
        let trailing = [der(LEAF), vec![0]].concat();
        assert!(judged(&[&crate::base64_text(&trailing), INTERMEDIATE], ROOT).is_err());
    }

    #[test]
    fn a_certificate_that_may_not_sign_certificates_is_not_trusted_as_an_issuer() {
        let roots = format!("-----BEGIN CERTIFICATE-----\n{INTERMEDIATE}\n-----END CERTIFICATE-----\n");
        let of_intermediate = vouched(&[der(LEAF)], &roots, &MARKS[..1]);
        assert!(of_intermediate.is_ok(), "an authority of path length 0 may sign a leaf");
        let (leaf, intermediate) = (der(LEAF), der(INTERMEDIATE));
        let (_, leaf) = X509Certificate::from_der(&leaf).expect("a certificate");
        let (_, intermediate) = X509Certificate::from_der(&intermediate).expect("a certificate");
        assert!(!is_authority(&leaf, 0));
        assert!(is_authority(&intermediate, 0) && !is_authority(&intermediate, 1));
    }
}
