//! `application/x-www-form-urlencoded` bodies as bytes: what a sender signed may be in any character set.

/// Names and values in their order, decoded.
pub fn form_pairs(body: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let pairs = body.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty());
    let split = |pair: &[u8]| {
        let at = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
        (decoded(pair.get(..at).unwrap_or_default()), decoded(pair.get(at + 1..).unwrap_or_default()))
    };
    pairs.map(split).collect()
}

/// The one value of this name; `None` when there is none, or several.
pub fn form_value(body: &[u8], name: &str) -> Option<Vec<u8>> {
    let mut values = form_pairs(body).into_iter().filter(|(known, _)| known == name.as_bytes());
    let value = values.next()?.1;
    values.next().is_none().then_some(value)
}

fn decoded(text: &[u8]) -> Vec<u8> {
    let spaced: Vec<u8> = text.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    percent_encoding::percent_decode(&spaced).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_decoded_as_bytes() {
        let pairs = form_pairs(b"a=1+2%2B&&b&c=%ff%zz=");
        let want: [(&[u8], &[u8]); 3] = [(b"a", b"1 2+"), (b"b", b""), (b"c", b"\xff%zz=")];
        assert_eq!(pairs.iter().map(|(n, v)| (n.as_slice(), v.as_slice())).collect::<Vec<_>>(), want);
        assert_eq!(form_value(b"a=1&b=2", "b").as_deref(), Some(b"2".as_slice()));
        assert_eq!(form_value(b"a=1&a=1", "a"), None);
    }
}
