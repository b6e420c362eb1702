//! The signature base of RFC 9421, section 2.5, from structured fields taken apart by hand. Components with
//! parameters (`;sf`, `;bs`, `;key`, `;req`, `;tr`) are not known, and make a signature unusable.

use hooklatch::kind::prelude::*;

/// One member of `Signature-Input`.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) label: String,
    pub(super) components: Vec<String>,
    /// Names and values as they are written.
    parameters: Vec<(String, String)>,
    /// The member's value as it is written: the last line of the base.
    raw: String,
}

impl Input {
    /// A parameter as it is written.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// A parameter that is a quoted text.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        let inner = self.parameter(name)?.strip_prefix('"')?.strip_suffix('"')?;
        (!inner.contains(['"', '\\'])).then(|| inner.to_owned())
    }
}

/// Longest value of a header that is looked at, all its lines together. Bytes.
const VALUE_BYTES_MAX: usize = 8_192;
/// Most members of a dictionary: signatures, or digests.
const MEMBERS_N_MAX: usize = 8;
/// Most parts of a request that one signature may cover.
const COMPONENTS_N_MAX: usize = 64;
/// Most parameters of one signature; RFC 9421 knows six.
const PARAMETERS_N_MAX: usize = 16;

/// All values of a header as one, as section 2.1 combines them; `None` for one that is too long.
pub(super) fn combined(request: &RawRequest, name: &str) -> Option<String> {
    let values = request.headers.get_all(name).iter();
    let texts: Option<Vec<&str>> = values.map(|value| value.to_str().ok().map(str::trim)).collect();
    let text = texts.filter(|texts| !texts.is_empty()).map(|texts| texts.join(", "))?;
    (text.len() <= VALUE_BYTES_MAX).then_some(text)
}

/// The members of a dictionary: split at commas that are in no quotes and no brackets.
fn members(text: &str) -> Option<Vec<(String, String)>> {
    let (mut depth, mut is_quoted, mut from, mut parts) = (0_usize, false, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '"' => is_quoted = !is_quoted,
            '(' if !is_quoted => depth += 1,
            ')' if !is_quoted => depth = depth.checked_sub(1)?,
            ',' if !is_quoted && depth == 0 => {
                parts.push(text.get(from..at)?);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text.get(from..)?);
    if parts.len() > MEMBERS_N_MAX {
        return None;
    }
    let member = |part: &str| {
        let (name, value) = part.trim().split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    };
    parts.into_iter().map(member).collect()
}

/// The members of `Signature-Input`; `None` when one of them is no list of quoted names, or a label is there twice:
/// who signs has no reason to, and who adds one hopes that another is taken.
pub(super) fn inputs(text: &str) -> Option<Vec<Input>> {
    let inputs: Vec<Input> =
        members(text)?.into_iter().map(|(label, raw)| input(label, raw)).collect::<Option<_>>()?;
    let is_again = |(n, one): (usize, &Input)| inputs.iter().take(n).any(|other| other.label == one.label);
    let is_doubled = inputs.iter().enumerate().any(is_again);
    (!is_doubled).then_some(inputs)
}

fn input(label: String, raw: String) -> Option<Input> {
    let (list, rest) = raw.strip_prefix('(')?.split_once(')')?;
    if list.split_ascii_whitespace().nth(COMPONENTS_N_MAX).is_some() {
        return None;
    }
    let components: Option<Vec<String>> = list
        .split_ascii_whitespace()
        .map(|item| {
            let name = item.strip_prefix('"')?.strip_suffix('"')?;
            let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"@-_.".contains(&b);
            (!name.is_empty() && name.bytes().all(is_plain)).then(|| name.to_owned())
        })
        .collect();
    let components = components?;
    let mut parameters: Vec<(String, String)> = Vec::new();
    for (n, item) in rest.split(';').skip(1).enumerate() {
        if n >= PARAMETERS_N_MAX {
            return None;
        }
        let (name, value) = item.trim().split_once('=').unwrap_or((item.trim(), "?1"));
        if parameters.iter().any(|(known, _)| known == name) {
            return None;
        }
        parameters.push((name.to_owned(), value.to_owned()));
    }
    let is_list_clear = components
        .iter()
        .enumerate()
        .all(|(n, name)| !components.iter().skip(n + 1).any(|other| other == name));
    (is_list_clear && (rest.is_empty() || rest.starts_with(';'))).then_some(Input {
        label,
        components,
        parameters,
        raw,
    })
}

/// The bytes under `label` in `Signature`.
pub(super) fn signature(text: &str, label: &str) -> Option<Vec<u8>> {
    let members = members(text)?;
    let mut ours = members.iter().filter(|(name, _)| name == label);
    let value = &ours.next()?.1;
    let inner = value.strip_prefix(':')?.strip_suffix(':')?;
    if ours.next().is_some() { None } else { decode_base64(inner) }
}

/// What is signed; `None` when it covers something that is not there.
pub(super) fn message(request: &RawRequest, input: &Input) -> Option<String> {
    let mut base = String::new();
    for name in &input.components {
        let value = if name.starts_with('@') { derived(request, name)? } else { combined(request, name)? };
        base.extend(["\"", name, "\": ", &value, "\n"]);
    }
    Some(format!("{base}\"@signature-params\": {}", input.raw))
}

fn derived(request: &RawRequest, name: &str) -> Option<String> {
    let url = request.url.as_str();
    let (scheme, rest) = url.split_once("://")?;
    let authority =
        rest.find(['/', '?']).and_then(|end| rest.get(..end)).unwrap_or(rest).to_ascii_lowercase();
    let usual_port = if scheme == "https" { ":443" } else { ":80" };
    let (path, query) = path_and_query(url);
    let query = query.map(|query| format!("?{query}"));
    Some(match name {
        "@method" => request.method.as_str().to_owned(),
        "@target-uri" => url.to_owned(),
        "@authority" => authority.strip_suffix(usual_port).unwrap_or(&authority).to_owned(),
        "@scheme" => scheme.to_ascii_lowercase(),
        "@request-target" => format!("{path}{}", query.unwrap_or_default()),
        "@path" => path.to_owned(),
        "@query" => query.unwrap_or_else(|| "?".to_owned()),
        _ => return None,
    })
}

/// Whether the digests of this header that we know are the body's; at least one must be.
pub(super) fn is_digest_of(request: &RawRequest, name: &str) -> bool {
    let known = |(algorithm, value): &(String, String)| {
        let hash = match algorithm.as_str() {
            "sha-256" => Hash::Sha256,
            "sha-512" => Hash::Sha512,
            _ => return None,
        };
        let given = value.strip_prefix(':').and_then(|text| text.strip_suffix(':')).and_then(decode_base64);
        Some(given.is_some_and(|given| same(&digest(hash, &[&request.body]), &given)))
    };
    let Some(members) = combined(request, name).as_deref().and_then(members) else { return false };
    // Each costs a digest of the whole body.
    let is_again =
        |(n, one): (usize, &(String, String))| members.iter().take(n).any(|other| other.0 == one.0);
    if members.iter().enumerate().any(is_again) {
        return false;
    }
    let results: Vec<bool> = members.iter().filter_map(known).collect();
    !results.is_empty() && results.into_iter().all(|is_right| is_right)
}
