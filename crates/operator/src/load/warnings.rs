//! Warnings about what is allowed and most likely not meant: `check` prints them, and refuses nothing for them. And
//! which event type, or which name in a payload, was probably meant by one that nothing has.

use serde_json::Value;

use hooklatch_core::config::{AdminConfig, Config, ProviderConfig, Secret};
use hooklatch_core::mistakes::nearest;
use hooklatch_core::types::{Name, Role};
use hooklatch_receive::provider::{Kind, Provider};
use hooklatch_verify::spec::{Source, Spec};

/// Warnings about operators and providers, one line each.
pub fn warnings(config: &Config, kinds: &[Provider]) -> Vec<String> {
    let mut warnings: Vec<String> = few_approvers(&config.admin).into_iter().collect();
    let mut seen: Vec<PlacedSecret> = Vec::new();
    for (name, provider) in &config.providers {
        let kind = kinds.iter().find(|kind| kind.kind() == provider.kind.as_str());
        let Some(spec) = kind.and_then(|kind| kind.spec().ok()) else { continue };
        settings(&mut warnings, name, provider, spec);
        age(&mut warnings, name, provider, spec);
        warnings.extend(body_size(name, provider, spec));
        warnings.extend(batch_size(name, config.server.events_n_max, spec));
        if !provider.has_search {
            warnings.push(format!(
                "providers.{name}.search: is off: a search finds events of this provider by their event ids alone, not by \
                 a payment, order or invoice in them"
            ));
        }
        warnings.extend(types(name, provider, spec));
        let own = secrets(name, provider, spec);
        warnings.extend(own.iter().filter_map(|one| shared(one, &seen)));
        seen.extend(own);
    }
    warnings
}

/// Too few people for two of them to agree to an operation.
fn few_approvers(admin: &AdminConfig) -> Option<String> {
    let people_n = admin.tokens.iter().filter(|token| token.role >= Role::Operator).count();
    (admin.approvals_n > 1 && people_n < 2).then(|| {
        format!(
            "admin.approvals_n: is 2, and admin.tokens has {people_n} with the role operator or admin: unless `hooklatch tokens \
             list` shows others, no operator can approve an operation, and each is cancelled after {} h",
            admin.approval_h
        )
    })
}

/// Warnings of the kind itself about values of its settings.
fn settings(warnings: &mut Vec<String>, name: &Name, provider: &ProviderConfig, spec: &Spec) {
    for setting in &spec.setting {
        let values: Vec<&str> = provider
            .settings
            .all(&setting.name)
            .flat_map(|one| one.value.reveal().split([',', ' ']))
            .map(str::trim)
            .collect();
        let is_it = setting.warn_is.as_deref().is_some_and(|word| values.contains(&word));
        let lacks = |word: &str| !values.is_empty() && !values.contains(&word);
        if let Some(warn) =
            setting.warn.as_ref().filter(|_| is_it || setting.warn_lacks.as_deref().is_some_and(lacks))
        {
            warnings.push(format!("providers.{name}.settings.{}: {warn}", setting.name));
        }
    }
}

/// A body cap below what the sender documents.
fn body_size(name: &Name, provider: &ProviderConfig, spec: &Spec) -> Option<String> {
    let (largest, cap) = (spec.body_bytes_max?, provider.body_bytes_max);
    let warning = || {
        format!(
            "providers.{name}.body_bytes_max: {cap} bytes are less than the largest body of {}, {largest} bytes: a larger \
             event is refused with 413, and lost unless its sender sends it again",
            spec.title
        )
    };
    (cap < largest).then(warning)
}

/// Fewer events in one request than the sender may put there.
fn batch_size(name: &Name, cap: u32, spec: &Spec) -> Option<String> {
    let largest = spec.events_n_max.filter(|largest| cap < *largest)?;
    Some(format!(
        "server.events_n_max: {cap} is less than the {largest} events that {} may put into one request, for \
         providers.{name}: a larger batch is kept as one unreadable event; set it to {largest}, or make the sender's batches \
         smaller",
        spec.title
    ))
}

/// Bounds of a signed time that are not the sender's.
fn age(warnings: &mut Vec<String>, name: &Name, provider: &ProviderConfig, spec: &Spec) {
    let kinds_own = spec.tolerance_s();
    if let (Some(own_s), Some(tolerance_s)) = (kinds_own, provider.age.tolerance_s) {
        let key = format!("providers.{name}.tolerance_s: {tolerance_s} s is");
        if tolerance_s > own_s {
            warnings.push(format!(
                "{key} wider than the {own_s} s of this kind: anyone who has recorded a request can send it again for so \
                 long, and only what is remembered of its event shows that it is a copy"
            ));
        } else if tolerance_s < own_s {
            warnings.push(format!(
                "{key} narrower than the {own_s} s of this kind: what is under way for longer, or comes while our clock \
                 is ahead by more, is refused, and lost once its sender gives up"
            ));
        }
    }
    let horizon_s = u64::from(spec.horizon_h) * 3_600;
    if let Some(max_age_s) = provider.age.max_age_s.filter(|s| u64::from(*s) < horizon_s) {
        warnings.push(format!(
            "providers.{name}.max_age_s: {max_age_s} s is less than the {} h for which this sender sends an event again: \
             should its later attempts carry the time of the first, they are refused, and the event is lost",
            spec.horizon_h
        ));
    }
}

/// Types that anyone who has seen a request could write.
fn types(name: &Name, provider: &ProviderConfig, spec: &Spec) -> Option<String> {
    let key = format!("providers.{name}.types");
    let unsigned = spec.event.iter().find(|event| event.is_type_unsigned());
    if spec.needs_types() && provider.types.iter().any(|one| one.as_str() == "*") {
        return Some(format!(
            "{key}: allows every type, and nothing signs the type of this kind: anyone who holds one request can have it accepted \
             once for each type; list the types that its sender is configured to send"
        ));
    }
    match (unsigned, provider.types.is_empty()) {
        (Some(event), true) => {
            let header = event.event_type.0.iter().find_map(|source| match source {
                Source::Header(name) => name.split('|').next(),
                _ => None,
            });
            Some(format!(
                "{key}: is not there, and the type of this kind is in a header that no signature covers, `{}`: anyone who \
                 has seen one request can have it taken for any type; list the types that its sender is configured to send",
                header.unwrap_or_default()
            ))
        }
        (None, false) => Some(format!(
            "{key}: changes nothing: no type of this kind is in an unsigned header; leave it out"
        )),
        _ => None,
    }
}

/// A secret with its place in the configuration.
struct PlacedSecret {
    place: String,
    provider: Name,
    kind: Name,
    secret: Secret,
}

/// Secrets with which a provider verifies its requests, public keys excepted.
fn secrets(name: &Name, provider: &ProviderConfig, spec: &Spec) -> Vec<PlacedSecret> {
    let placed = |place: String, text: &str| PlacedSecret {
        place: format!("providers.{name}.{place}"),
        provider: name.clone(),
        kind: provider.kind.clone(),
        // One sender shows it with this prefix, another takes it without.
        secret: Secret::new(text.strip_prefix("whsec_").unwrap_or(text)),
    };
    let mut list = Vec::new();
    let is_public = spec.signature.scheme.is_public();
    for (n, secret) in provider.secrets.iter().enumerate().filter(|_| !is_public) {
        match spec.signature.secret_separator {
            Some(separator) => {
                let each = secret.reveal().split(separator).map(str::trim).filter(|one| !one.is_empty());
                list.extend(each.map(|one| placed(format!("secrets[{n}]"), one)));
            }
            None => list.push(placed(format!("secrets[{n}]"), secret.reveal())),
        }
    }
    let of_scheme = spec.signature.keys.as_deref().filter(|_| spec.signature.scheme.is_mac());
    let named = spec.secret_settings().map(|(setting, _)| setting).filter(|one| Some(*one) != of_scheme);
    for setting in named.chain(of_scheme) {
        let values = provider.settings.all(setting);
        list.extend(values.map(|one| placed(format!("settings.{setting}"), one.value.reveal())));
    }
    list
}

/// A secret that is another provider's as well: who can sign for one can sign for the other.
fn shared(one: &PlacedSecret, seen: &[PlacedSecret]) -> Option<String> {
    let other = seen.iter().find(|other| other.secret.is(one.secret.reveal()))?;
    let (place, own, others) = (&one.place, &one.provider, &other.provider);
    let so = if one.kind == other.kind {
        format!(
            "a request that was signed for `{others}` is believed at `{own}` as well, where its event is not known"
        )
    } else {
        let kind = &one.kind;
        format!(
            "anyone who has it can send as both, and where the two kinds sign alike a request to `{others}` is believed at \
             `{own}`, and read as `{kind}`"
        )
    };
    Some(format!("{place}: is the same secret as {}: {so}; have one made for each", other.place))
}

/// The pattern that was probably meant by one that fits none of the `known` types.
pub(super) fn meant_type(pattern: &str, known: &[&str]) -> Option<String> {
    let Some(stem) = pattern.strip_suffix('*') else {
        // Half of a type, such as `invoice` for `invoice.*`.
        let longer = known
            .iter()
            .find_map(|one| one.strip_prefix(pattern)?.chars().next().filter(|c| is_separator(*c)));
        let meant = near(pattern, known.iter().copied());
        return meant.map(str::to_owned).or_else(|| longer.map(|separator| format!("{pattern}{separator}*")));
    };
    let whole = stem.trim_end_matches(is_separator);
    if known.contains(&whole) {
        return Some(whole.to_owned());
    }
    // A beginning is compared with beginnings that end alike: with their separator, or without.
    let end = |at: usize, c: char| if stem == whole { at } else { at + c.len_utf8() };
    let stems = known.iter().flat_map(|one| {
        let places = one.char_indices().filter(|(_, c)| is_separator(*c));
        places.filter_map(move |(at, c)| one.get(..end(at, c)))
    });
    near(stem, stems).map(|meant| format!("{meant}*"))
}

/// The one that `text` is written almost like: other capitals, other separators, or a few letters.
fn near<'a>(text: &str, known: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let letters = |text: &str| text.chars().filter(|c| !is_separator(*c)).collect::<String>().to_lowercase();
    let same = known.clone().find(|one| letters(one) == letters(text));
    same.or_else(|| nearest(text, known.filter(|one| !is_other_word(text, one))))
}

/// True when the two differ by what stands before their last word, as `issues.opened` and `issues.reopened` do.
fn is_other_word(one: &str, other: &str) -> bool {
    let last = |text: &str| text.rsplit(is_separator).find(|word| !word.is_empty()).map(str::to_owned);
    let (Some(one), Some(other)) = (last(one), last(other)) else { return false };
    one != other && (one.ends_with(&other) || other.ends_with(&one))
}

fn is_separator(c: char) -> bool {
    !c.is_alphanumeric()
}

/// The pointer that was probably meant by one that leads nowhere in `payload`: its first wrong name is replaced.
pub(super) fn meant_name(payload: &Value, pointer: &str) -> Option<String> {
    let names: Vec<&str> = pointer.split('/').collect();
    let mut at = payload;
    for (place, name) in names.iter().enumerate().skip(1) {
        if let Some(below) = at.get(name) {
            at = below;
            continue;
        }
        let known = at.as_object()?.keys().map(String::as_str);
        // Of a short name, only a letter too many is taken for a mistake.
        let shorter = |known: &&str| name.strip_prefix(*known).is_some_and(|rest| rest.chars().count() == 1);
        let near = nearest(name, known.clone()).or_else(|| known.clone().find(shorter))?;
        let mut meant = names.clone();
        *meant.get_mut(place)? = near;
        return Some(meant.join("/")).filter(|meant| payload.pointer(meant).is_some());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_misspelled_type_is_reported_and_an_unrelated_one_is_not() {
        let known =
            ["invoice.paid", "charge.refunded", "issues.opened", "push", "AUTHORISATION", "orders/create"];
        for (pattern, want) in [
            ("invoice.payd", Some("invoice.paid")),
            ("invoice.piad", Some("invoice.paid")),
            ("Invoice.Paid", Some("invoice.paid")),
            ("invoice_paid", Some("invoice.paid")),
            ("invoice.paid ", Some("invoice.paid")),
            ("AUTHORIZATION", Some("AUTHORISATION")),
            ("order/create", Some("orders/create")),
            ("invoice", Some("invoice.*")),
            ("invoce.*", Some("invoice.*")),
            ("INVOICE.*", Some("invoice.*")),
            ("invoce*", Some("invoice*")),
            ("push.*", Some("push")),
            ("issues.reopened", None),
            ("invoice.voided", None),
            ("customer.*", None),
            ("charge.dispute.created", None),
            ("payment_intent.succeeded", None),
            ("p*", None),
        ] {
            assert_eq!(meant_type(pattern, &known).as_deref(), want, "{pattern}");
        }
    }

    #[test]
    fn the_name_that_was_meant_is_looked_for_where_the_pointer_goes_wrong() {
        let payload = json!({ "id": 1, "customer": { "email": "a" } });
        for (pointer, want) in [
            ("/idd", Some("/id")),
            ("/custmer/email", Some("/customer/email")),
            ("/customer/emial", Some("/customer/email")),
            ("/customer/name", None),
            ("/custmer/name", None),
            ("/id/x", None),
        ] {
            assert_eq!(meant_name(&payload, pointer).as_deref(), want, "{pointer}");
        }
    }
}
