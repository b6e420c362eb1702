//! The certificate of a client, as those may read it who decide what it may do.

use sha2::{Digest, Sha256};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::types::ClientCertificate;

/// Reads a certificate that was verified in a handshake; `None` when it cannot be read.
pub fn client_certificate(der: &[u8]) -> Option<ClientCertificate> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let names = certificate.subject_alternative_name().ok().flatten();
    let names = names.map(|names| names.value.general_names.iter().filter_map(name).collect());
    Some(ClientCertificate {
        subject: certificate.subject().to_string(),
        names: names.unwrap_or_default(),
        fingerprint: Sha256::digest(der).into(),
    })
}

/// The end of a certificate's validity, in unix seconds; `None` when it cannot be read.
pub fn not_after_s(der: &[u8]) -> Option<i64> {
    X509Certificate::from_der(der).ok().map(|(_, found)| found.validity().not_after.timestamp())
}

fn name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some(format!("dns:{name}")),
        GeneralName::URI(uri) => Some(format!("uri:{uri}")),
        GeneralName::RFC822Name(email) => Some(format!("email:{email}")),
        _ => None,
    }
}
