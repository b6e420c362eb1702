//! `[server.tls]`, `[admin.tls]` and `forwarded`: what both listeners may have.

use std::path::PathBuf;

use crate::config::{Checker, Field, ForwardedHeader, ListenerTlsConfig, Table};
use crate::tls::server_config;

/// Reads `tls` of a listener, and its files.
pub(super) fn listener_tls(checker: &mut Checker<'_>, table: &mut Table) -> Option<ListenerTlsConfig> {
    let mut table = table.take(checker, "tls")?.table(checker)?;
    let problems_before = checker.problems.len();
    let remedy = "name a file in PEM form";
    let cert = table.needed(checker, "cert_file", remedy);
    let key = table.needed(checker, "key_file", remedy);
    let client_ca = table.take(checker, "client_ca_file");
    let needed = table.take(checker, "client_needed");
    let is_client_needed = needed.as_ref().and_then(|field| field.flag(checker)).unwrap_or(false);
    table.finish(checker);
    let config = ListenerTlsConfig {
        cert_file: path(checker, cert.as_ref())?,
        key_file: path(checker, key.as_ref())?,
        client_ca_file: path(checker, client_ca.as_ref()),
        is_client_needed,
    };
    if let Some(field) = needed.filter(|_| is_client_needed && client_ca.is_none()) {
        checker.problem(&field, "is true, and no authority is named", "name one in client_ca_file");
    }
    if checker.problems.len() > problems_before {
        return None;
    }
    // Whoever can read the key can be us.
    checker.secret_files.insert(config.key_file.clone());
    if let Err(mistake) = server_config(&config) {
        let place = match mistake.key {
            "cert_file" => cert,
            "key_file" => key,
            _ => client_ca,
        };
        checker.problem(
            &place?,
            mistake.why,
            "a path is relative to the config file's folder; check the file and its rights",
        );
        return None;
    }
    Some(config)
}

fn path(checker: &mut Checker<'_>, field: Option<&Field>) -> Option<PathBuf> {
    let text = field?.text(checker)?;
    Some(checker.folder.join(text))
}

/// Reads `forwarded`: whether and where proxies say who called them.
pub(super) fn forwarded(checker: &mut Checker<'_>, table: &mut Table) -> ForwardedHeader {
    let words = [
        ("off", ForwardedHeader::Off),
        ("forwarded", ForwardedHeader::Forwarded),
        ("x-forwarded-for", ForwardedHeader::XForwardedFor),
    ];
    table.word(checker, "forwarded", &words).unwrap_or_default()
}
