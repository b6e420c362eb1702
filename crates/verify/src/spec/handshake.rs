//! `[[handshake]]`: requests that get a response of their own instead of admission, as data.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::misfits::{misfit, pointer, refuse};
use super::pattern::{Pattern, Piece};
use super::provider_toml::{EventMethod, ok};
use super::setting::SettingSpec;
use super::signature::{Encoding, Scheme, SignatureSpec};
use hooklatch_core::mistakes::Mistake;

/// Letters and digits of ASCII and `-_+/=`, or some of them. Never a brace, quote, blank or separator, so that a text
/// of these is no JSON object, and no list of anything.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Chars(Vec<(u8, u8)>);

impl Chars {
    /// True when `text` is made of these, of at least one and of `length_max` at most.
    pub fn fit(&self, text: &str, length_max: usize) -> bool {
        let is_known = |byte: u8| self.0.iter().any(|(from, to)| (*from..=*to).contains(&byte));
        (1..=length_max).contains(&text.len()) && text.bytes().all(is_known)
    }
}

impl TryFrom<String> for Chars {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let mut ranges = Vec::new();
        let mut rest = text.as_bytes();
        while let Some((from, tail)) = rest.split_first() {
            let (range, tail) = match tail {
                [b'-', to, tail @ ..] => ((*from, *to), tail),
                _ => ((*from, *from), tail),
            };
            let is_same_sort =
                |is_of: fn(&u8) -> bool| is_of(&range.0) && is_of(&range.1) && range.0 <= range.1;
            let is_plain = range.0 == range.1 && b"-_+/=".contains(from);
            let sorts = [u8::is_ascii_uppercase, u8::is_ascii_lowercase, u8::is_ascii_digit];
            if !is_plain && !sorts.into_iter().any(is_same_sort) {
                return Err(format!(
                    "`{text}` is no set of characters: write letters, digits, ranges of them, and any of `_+/=-`"
                ));
            }
            ranges.push(range);
            rest = tail;
        }
        if ranges.is_empty() { Err("it names no character".to_owned()) } else { Ok(Self(ranges)) }
    }
}

/// One handshake: when every condition that is written holds, the answer is sent and nothing is admitted.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandshakeSpec {
    /// Method of the request.
    #[serde(default = "post")]
    pub method: String,
    /// True when the request is signed like any other; an unsigned one is answered before verification.
    #[serde(default)]
    pub signed: bool,
    /// A value of the query that must be there.
    pub query: Option<String>,
    /// A header that must be there.
    pub header: Option<String>,
    /// A header and the value it must have.
    #[serde(default)]
    pub when_header: BTreeMap<String, String>,
    /// JSON pointers and the texts they must hold.
    #[serde(default)]
    pub when: BTreeMap<String, String>,
    /// JSON pointers at which there must be nothing.
    #[serde(default)]
    pub without: Vec<String>,
    /// A field of a form that must be the only one.
    pub form: Option<String>,
    /// A value of the query that must be a secret of ours.
    pub token: Option<TokenSpec>,
    /// A setting that must be `open`: the operator has armed it.
    pub armed_by: Option<String>,
    /// JSON pointer to a secret that the sender sends for pairing: it must be there, and is kept until an operator
    /// reads it, once.
    pub keeps: Option<String>,
    /// A MAC of a text of the request by the newest secret, for `{mac}`.
    pub mac: Option<MacSpec>,
    /// Status of the answer.
    #[serde(default = "ok")]
    pub status: u16,
    /// Body of the answer.
    #[serde(default = "Pattern::empty")]
    pub body: Pattern,
    /// The answer's body as a JSON object of texts, instead of `body`.
    #[serde(default)]
    pub json: BTreeMap<String, Pattern>,
    /// The body's content type; `application/json` for `json`, else `text/plain`.
    pub content_type: Option<String>,
    /// Headers of the answer; one whose places are not in the request is left out.
    #[serde(default)]
    pub headers: BTreeMap<String, Pattern>,
}

/// A value of the query that must be a token of ours. Never a secret: a query stands in the log of every proxy.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenSpec {
    /// Name of the value in the query.
    pub query: String,
    /// The setting it must equal; where the operator wrote none, nothing is answered.
    pub setting: String,
}

/// The value of `{mac}`. A caller who may choose the text has it signed by us, so it must be a text that no body could
/// be.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MacSpec {
    /// The text that the MAC is of.
    pub of: Pattern,
    /// Characters that the text may have; a text with any other is not answered.
    pub chars: Chars,
    /// Most characters of that text.
    pub length_max: usize,
    /// Scheme of the MAC.
    #[serde(default = "sha256")]
    pub scheme: Scheme,
    /// Encoding of the MAC.
    #[serde(default)]
    pub encoding: Encoding,
}

impl HandshakeSpec {
    pub fn check(
        &self,
        events_by: EventMethod,
        signatures: &[&SignatureSpec],
        settings: &[SettingSpec],
    ) -> Result<(), Mistake> {
        const METHODS: [&str; 4] = ["GET", "HEAD", "OPTIONS", "POST"];
        refuse(
            !METHODS.contains(&self.method.as_str()),
            "handshake.method",
            format!("`{}` is not one of {}", self.method, METHODS.join(", ")),
        )?;
        let has_condition = self.query.is_some()
            || self.header.is_some()
            || self.form.is_some()
            || self.keeps.is_some()
            || !self.when.is_empty()
            || !self.when_header.is_empty();
        refuse(
            self.method == events_by.as_str() && !has_condition,
            "handshake",
            format!("a {} needs a condition, or every event would be one", self.method),
        )?;
        if let Some(token) = &self.token
            && !settings.iter().any(|one| one.name == token.setting)
        {
            return Err(misfit("handshake.token", format!("`{}` is no [[setting]]", token.setting)));
        }
        if let Some(mac) = &self.mac {
            self.check_mac(mac, signatures)?;
        }
        if self.keeps.is_some() && !settings.iter().any(|one| Some(&one.name) == self.armed_by.as_ref()) {
            return Err(misfit(
                "handshake.keeps",
                "anybody could teach us a secret: name the [[setting]] by which the operator \
                        allows it with `armed_by`",
            ));
        }
        let templates = self.json.values().chain(self.headers.values()).chain([&self.body]);
        if let Some(text) = templates.into_iter().find(|text| !self.may_say(text)) {
            return Err(misfit("handshake", format!("`{}` tells a stranger what is ours", text.as_str())));
        }
        let pointers = self.when.keys().chain(&self.without).chain(&self.keeps);
        pointers.into_iter().try_for_each(|key| pointer("handshake.when", key))
    }

    /// An unsigned handshake is anybody's: what it answers may hold what was asked, and nothing of ours.
    fn may_say(&self, text: &Pattern) -> bool {
        let is_asked = |piece: &Piece| {
            matches!(
                piece,
                Piece::Literal(_) | Piece::Header(_) | Piece::Json(_) | Piece::Query(_) | Piece::Mac
            )
        };
        self.signed || text.pieces().iter().all(is_asked)
    }

    /// A caller who may choose what we sign must not be able to choose a body: every body of the kind is a JSON
    /// object then, whose brace [`Chars`] never has.
    fn check_mac(&self, mac: &MacSpec, signatures: &[&SignatureSpec]) -> Result<(), Mistake> {
        if !(1..=LENGTH_MAX).contains(&mac.length_max) {
            return Err(misfit("handshake.mac.length_max", format!("write a number from 1 to {LENGTH_MAX}")));
        }
        if self.signed {
            return Ok(());
        }
        if !signatures.iter().all(|way| way.scheme.is_mac() && way.signed.has(&Piece::Body)) {
            return Err(misfit(
                "handshake.mac",
                "an unsigned one is for kinds that sign {body} with an HMAC",
            ));
        }
        if !signatures.iter().all(|way| way.body_object) {
            return Err(misfit(
                "handshake.mac",
                "an unsigned one signs whatever it is asked: set \
                        `signature.body_object = true`, so that no body can be such a text",
            ));
        }
        Ok(())
    }
}

/// Longest text that a handshake may be asked to sign, in characters.
const LENGTH_MAX: usize = 512;

fn post() -> String {
    "POST".to_owned()
}
fn sha256() -> Scheme {
    Scheme::HmacSha256
}

#[cfg(test)]
mod tests {
    use crate::spec::Spec;

    use super::*;

    #[test]
    fn a_set_is_ranges_and_single_characters_and_never_what_a_body_starts_with() {
        let chars = Chars::try_from("A-Za-f0-9_-".to_owned()).expect("a set");
        for good in ["abcDEF", "0_-9", "-"] {
            assert!(chars.fit(good, 6), "{good}");
        }
        for bad in ["", "g", "a b", "{}", "é", "abcdefa"] {
            assert!(!chars.fit(bad, 6), "{bad}");
        }
        for bad in ["", "{", " -~", "A-z", "9-0", "a-", "\"", "[", ".", "&", "é", "+-/"] {
            let is_refused = Chars::try_from(bad.to_owned()).is_err();
            assert_eq!(is_refused, bad != "a-", "{bad}");
        }
    }

    /// A kind that signs a text chosen by the caller.
    const X: &str = include_str!("../../../../providers/x_twitter/provider.toml");

    #[test]
    fn an_unsigned_handshake_signs_nothing_that_could_be_a_body() {
        #[track_caller]
        fn check(from: &str, to: &str, want: &str) {
            let text = X.replacen(from, to, 1);
            assert_ne!(text, X, "the row changes nothing");
            let error = Spec::parse(&text).expect_err(want).to_string();
            assert!(error.contains(want), "{error}");
        }
        assert!(Spec::parse(X).is_ok());
        check("body_object = true", "", "signature.body_object = true");
        check(r#"chars = "A-Za-z0-9_+/=-", "#, "", "missing field `chars`");
        check("length_max = 128, ", "", "missing field `length_max`");
        check("length_max = 128", "length_max = 100000", "handshake.mac.length_max");
        check("A-Za-z0-9_+/=-", " -~", "is no set of characters");
        check("A-Za-z0-9_+/=-", "a-z{", "is no set of characters");
        check(r#"scheme = "hmac-sha256""#, r#"scheme = "code""#, "sign {body} with an HMAC");
        check(
            r#"scheme = "hmac-sha256""#,
            "scheme = \"token\"\nweak = \"token\"",
            "sign {body} with an HMAC",
        );
        let other =
            "\n[alternative]\nscheme = \"hmac-sha1\"\nheaders = [\"x\"]\nwhen_header = \"x\"\n[[event]]";
        check("\n[[event]]", other, "signature.body_object = true");
        check("sha256={mac}", "{setting:a}", "tells a stranger what is ours");
        let token = "query = \"crc_token\"\ntoken = { query = \"t\", setting = \"s\" }";
        check(r#"query = "crc_token""#, token, "`s` is no [[setting]]");
    }

    #[test]
    fn a_secret_is_kept_where_the_operator_allows_it_alone() {
        const NOTION: &str = include_str!("../../../../providers/notion/provider.toml");
        let mistake = |from: &str, to: &str| {
            let text = NOTION.replacen(from, to, 1);
            assert_ne!(text, NOTION, "the row changes nothing");
            Spec::parse(&text).expect_err(to).to_string()
        };
        assert!(Spec::parse(NOTION).is_ok());
        assert!(mistake("armed_by = \"pairing\"\n", "").contains("anybody could teach us"));
        assert!(mistake("armed_by = \"pairing\"", "armed_by = \"other\"").contains("anybody could teach us"));
        assert!(mistake("/verification_token", "verification_token").contains("handshake.when"));
    }
}
