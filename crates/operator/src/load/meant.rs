//! Which event type, or which name in a payload, was probably meant by one that nothing has.

use serde_json::Value;

use hooklatch_core::mistakes::nearest;

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
    use serde_json::json;

    use super::*;

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
