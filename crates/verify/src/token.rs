//! Shared tokens and HTTP Basic: they authenticate the sender, not the content. Compared in constant time.

use super::encoding::{decode_base64, same};
use super::error::VerifyError;
use super::form::Form;
use super::keys::Keys;
use super::request::{RawRequest, deciding_header, first_present};
use crate::spec::{LayoutSlot, SignatureSpec};
use hooklatch_core::json::{Document, PointerTarget, elements, text_of};

/// One of the secrets, in a header, in the query, at a JSON pointer, or in every element of a batch.
pub(crate) fn verify(spec: &SignatureSpec, keys: &Keys, request: &RawRequest) -> Result<usize, VerifyError> {
    if let Some(name) = &spec.query {
        let form = Form::parse(&request.body).ok_or_else(|| VerifyError::malformed(name, Form::TOO_MANY))?;
        let token = form
            .one(name)
            .ok_or_else(|| VerifyError::malformed(name, "the query has no such value, or two"))?;
        return keys.token_matches(token).ok_or(VerifyError::Mismatch { keys_n: keys.len() });
    }
    let Some(pointer) = &spec.json else {
        let name = first_present(&request.headers, &spec.headers)?;
        let value = deciding_header_bytes(request, name)?;
        let value = std::str::from_utf8(value).map_err(|_| VerifyError::malformed(name, "it is not text"))?;
        let mut token = None;
        spec.layout.read(value, |_, slot, text| token = Some(text).filter(|_| slot == LayoutSlot::Signature));
        let token =
            token.ok_or_else(|| VerifyError::malformed(name, "it has another layout than the kind's"))?;
        return matched(keys, token);
    };
    let missing = || VerifyError::malformed(pointer, "the body has no token there");
    let Some(each) = &spec.each else {
        return matched(keys, &text_of(&request.body, pointer).map_err(|_| missing())?);
    };
    let document = Document::parse(&request.body).ok_or_else(missing)?;
    let PointerTarget::One(list) = document.find(each) else { return Err(missing()) };
    let mut oldest = None;
    for range in elements(list).ok_or_else(missing)? {
        let element = list.get(range).unwrap_or_default();
        oldest = oldest.max(Some(matched(keys, &text_of(element, pointer).map_err(|_| missing())?)?));
    }
    oldest.ok_or_else(missing)
}

fn matched(keys: &Keys, token: &str) -> Result<usize, VerifyError> {
    keys.token_matches(token.as_bytes()).ok_or(VerifyError::Mismatch { keys_n: keys.len() })
}

/// `Authorization: Basic …` with the settings `username` and `password`. The credentials are compared as one
/// text, so a colon in the password needs no rule.
pub(crate) fn basic(keys: &Keys, request: &RawRequest) -> Result<usize, VerifyError> {
    const NAME: &str = "authorization";
    let value = deciding_header(&request.headers, NAME)?;
    let malformed = || VerifyError::malformed(NAME, "it is not `Basic` and base64");
    let (word, text) = value.split_once(' ').ok_or_else(malformed)?;
    let given =
        decode_base64(text.trim()).filter(|_| word.eq_ignore_ascii_case("basic")).ok_or_else(malformed)?;
    let wanted = format!("{}:{}", keys.setting("username")?, keys.setting("password")?);
    if same(wanted.as_bytes(), &given) { Ok(0) } else { Err(VerifyError::Mismatch { keys_n: 1 }) }
}

/// A token may be any text, so bytes above ASCII count as well.
fn deciding_header_bytes<'a>(request: &'a RawRequest, name: &str) -> Result<&'a [u8], VerifyError> {
    let mut values = request.headers.get_all(name).iter();
    let value = values.next().ok_or_else(|| VerifyError::HeaderMissing(name.to_owned()))?;
    if values.next().is_some() {
        Err(VerifyError::HeaderRepeated(name.to_owned()))
    } else {
        Ok(value.as_bytes())
    }
}
