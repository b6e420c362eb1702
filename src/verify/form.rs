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

/// The same form with one value put in or replaced, for kinds whose signature is a field.
pub fn form_with(body: &[u8], name: &str, value: &str) -> Vec<u8> {
    let is_it = |pair: &[u8]| form_pairs(pair).iter().any(|(known, _)| known == name.as_bytes());
    let others = body.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty() && !is_it(pair));
    let mut pairs: Vec<Vec<u8>> = others.map(<[u8]>::to_vec).collect();
    pairs
        .push(form_urlencoded::Serializer::new(String::new()).append_pair(name, value).finish().into_bytes());
    pairs.join(&b'&')
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
        assert_eq!(form_with(b"a=1&s=&b=2", "s", "x+/="), b"a=1&b=2&s=x%2B%2F%3D");
    }
}
