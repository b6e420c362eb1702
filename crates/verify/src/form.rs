//! `application/x-www-form-urlencoded` bodies as bytes: what a sender signed may be in any character set.

/// Most fields of a form. Senders have a few dozen; a stranger's body of half a million empty ones would be sorted and
/// copied before verification.
pub const FIELDS_N_MAX: usize = 1_000;

/// A form, parsed once: names and values in their order, decoded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Form(Vec<(Vec<u8>, Vec<u8>)>);

impl Form {
    /// The reason to report when [`Form::parse`] returns `None`.
    pub const TOO_MANY: &'static str = "it has more than 1000 fields";

    /// `None` when it has more than [`FIELDS_N_MAX`] fields, which is checked before anything is decoded.
    pub fn parse(body: &[u8]) -> Option<Self> {
        if raw_pairs(body).nth(FIELDS_N_MAX).is_some() {
            return None;
        }
        Some(Self(raw_pairs(body).map(pair).collect()))
    }

    /// The one value of this name; `None` when there is none, or several.
    pub fn one(&self, name: &str) -> Option<&[u8]> {
        let mut values = self.0.iter().filter(|(known, _)| known == name.as_bytes());
        let value = &values.next()?.1;
        values.next().is_none().then_some(value)
    }

    /// Returns the value of [`Form::one`] when it is UTF-8.
    pub fn text(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(self.one(name)?).ok()
    }

    /// All fields: names and values, decoded, in their order.
    pub fn pairs(&self) -> &[(Vec<u8>, Vec<u8>)] {
        &self.0
    }

    /// All fields, for kinds that sort or drop some.
    pub fn into_pairs(self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.0
    }
}

fn raw_pairs(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    body.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty())
}

fn pair(raw: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let at = raw.iter().position(|byte| *byte == b'=').unwrap_or(raw.len());
    (decoded(raw.get(..at).unwrap_or_default()), decoded(raw.get(at + 1..).unwrap_or_default()))
}

/// The same form with one value put in or replaced, for kinds whose signature is a field.
pub fn form_with(body: &[u8], name: &str, value: &str) -> Vec<u8> {
    let added = form_urlencoded::Serializer::new(String::new()).append_pair(name, value).finish();
    let others = form_without(body, name);
    let pairs: Vec<&[u8]> =
        [others.as_slice(), added.as_bytes()].into_iter().filter(|part| !part.is_empty()).collect();
    pairs.join(&b'&')
}

/// The same form without the fields of this name, the others as they were written.
pub(crate) fn form_without(body: &[u8], name: &str) -> Vec<u8> {
    let others: Vec<&[u8]> = raw_pairs(body).filter(|raw| pair(raw).0 != name.as_bytes()).collect();
    others.join(&b'&')
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
        let form = |body: &[u8]| Form::parse(body).expect("a form");
        let pairs = form(b"a=1+2%2B&&b&c=%ff%zz=").into_pairs();
        let want: [(&[u8], &[u8]); 3] = [(b"a", b"1 2+"), (b"b", b""), (b"c", b"\xff%zz=")];
        assert_eq!(pairs.iter().map(|(n, v)| (n.as_slice(), v.as_slice())).collect::<Vec<_>>(), want);
        assert_eq!(form(b"a=1&b=2").one("b"), Some(b"2".as_slice()));
        assert_eq!(form(b"a=1&a=1").one("a"), None);
        assert_eq!(form(b"a=%ff").text("a"), None);
        assert!(Form::parse("a&".repeat(FIELDS_N_MAX).as_bytes()).is_some());
        assert_eq!(Form::parse("a&".repeat(FIELDS_N_MAX + 1).as_bytes()), None);
        assert_eq!(form_without(b"a=+1&%73=x&b", "s"), b"a=+1&b");
        assert_eq!(form_with(b"", "s", "x"), b"s=x");
        assert_eq!(form_with(b"a=1&s=&b=2", "s", "x+/="), b"a=1&b=2&s=x%2B%2F%3D");
    }
}
