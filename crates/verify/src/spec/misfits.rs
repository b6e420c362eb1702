//! Contradictions between the tables of a file, which no table shows by itself, and what the checks of tables share.

use super::event::{BodyFormat, EventSpec};
use super::fetch::ConfirmSpec;
use super::provider_toml::{EventMethod, Resend, Spec};
use super::setting::SettingSpec;
use super::signature::{LENGTH_EXTENSION, SignatureSpec};
use hooklatch_core::mistakes::Mistake;
use hooklatch_core::types::Name;

/// Remedy for a value that does not fit the rest of its file.
pub(crate) const REMEDY: &str = "correct it; providers/README.md says what each key means";

/// What to do about a sender that no `provider.toml` can describe.
pub(super) const NEEDS_CODE: &str =
    "this sender needs a mod.rs and a build: \"Where the file ends\" in providers/README.md";

/// A mistake of a key whose value has the right form.
pub(crate) fn misfit(key: &str, why: impl Into<String>) -> Mistake {
    Mistake::said(key, why, REMEDY)
}

/// Longest time over which a sender may send again: the most that ids can be kept. Hours.
pub(super) const HORIZON_H_MAX: u32 = 3_650 * 24;
/// Longest time a sender may wait. Milliseconds.
pub(super) const ANSWER_WITHIN_MS_MAX: u32 = 3_600_000;

/// Reports `why` about a key where `is_wrong`.
pub(crate) fn refuse(is_wrong: bool, key: &str, why: impl Into<String>) -> Result<(), Mistake> {
    if is_wrong { Err(misfit(key, why)) } else { Ok(()) }
}

pub(crate) fn bounded(key: &str, number: u32, max: u32) -> Result<(), Mistake> {
    if (1..=max).contains(&number) {
        Ok(())
    } else {
        Err(misfit(key, format!("write a number from 1 to {max}")))
    }
}

/// Refuses a text that is no JSON pointer, nor several separated by `|`.
pub(crate) fn pointer(key: &str, text: &str) -> Result<(), Mistake> {
    if text.split('|').all(|one| one.is_empty() || one.starts_with('/')) {
        return Ok(());
    }
    Err(misfit(key, format!("`{text}` is not a JSON pointer, it must start with `/`")))
}

impl Spec {
    /// Everything that does not fit together.
    pub fn misfits(&self) -> Vec<Mistake> {
        let alternative = self.alternative.as_ref().map_or(Ok(()), |alternative| {
            refuse(alternative.when_header.is_none(), "alternative.when_header", "say when it counts")?;
            if let Some(name) = &alternative.required_by
                && !self.setting.iter().any(|one| one.name == *name)
            {
                return Err(misfit("alternative.required_by", format!("`{name}` is no [[setting]]")));
            }
            alternative.check().map_err(|mistake| {
                let key = mistake.key.replacen("signature", "alternative", 1);
                Mistake { key, ..mistake }
            })
        });
        let checks = [
            Name::parse(&self.kind).map(drop).map_err(|error| misfit("kind", error.to_string())),
            bounded("horizon_h", self.horizon_h, HORIZON_H_MAX),
            self.check_retry_span(),
            self.check_event_types(),
            self.check_late_attempts(),
            self.resend_h.map_or(Ok(()), Resend::check),
            bounded("answer_within_ms", self.answer_within_ms, ANSWER_WITHIN_MS_MAX),
            self.body_bytes_max.map_or(Ok(()), |bytes| bounded("body_bytes_max", bytes, 64 << 20)),
            self.signature.check(),
            self.check_settings(),
            self.check_answer(),
            self.check_order_of_events(),
            self.check_signed(),
            self.check_secret_first(),
            self.check_method(),
            self.check_headers(),
            self.check_whose(),
            self.check_accept(),
            alternative,
        ];
        let signatures: Vec<&SignatureSpec> = self.signatures().collect();
        let events = self.event.iter().map(EventSpec::check);
        let handshakes = self.handshake.iter().map(|one| one.check(self.method, &signatures, &self.setting));
        let fetches = self.fetch.iter().map(|fetch| fetch.check(&self.setting));
        let confirms = self.confirm.iter().map(ConfirmSpec::check);
        let more = events.chain(handshakes).chain(fetches).chain(confirms);
        checks.into_iter().chain(more).filter_map(Result::err).collect()
    }

    /// Checks that it ends within the time for which old secrets and ids are kept.
    fn check_retry_span(&self) -> Result<(), Mistake> {
        let horizon_s = u64::from(self.horizon_h) * 3_600;
        match self.retry_span_s {
            Some(span_s) if u64::from(span_s) > horizon_s => {
                Err(misfit("retry_span_s", format!("{span_s} s are longer than horizon_h, {horizon_s} s")))
            }
            _ => Ok(()),
        }
    }

    /// Checks that each of them is a type as routes name it, once.
    fn check_event_types(&self) -> Result<(), Mistake> {
        let Some(types) = &self.event_types else { return Ok(()) };
        if !types.source.starts_with("https://") {
            return Err(misfit("event_types.source", "give the address where they were read, https://…"));
        }
        refuse(types.list.is_empty(), "event_types.list", "name at least one, or leave [event_types] out")?;
        if let Some(wrong) = types
            .list
            .iter()
            .find(|one| one.is_empty() || one.strip_suffix(".*").unwrap_or(one).contains('*'))
        {
            return Err(misfit("event_types.list", format!("`{wrong}` is no type")));
        }
        match types.list.iter().zip(types.list.iter().skip(1)).find(|(one, next)| one >= next) {
            Some((one, next)) => Err(misfit(
                "event_types.list",
                format!("`{next}` stands after `{one}`: sort them, each once"),
            )),
            None => Ok(()),
        }
    }

    /// Checks that the last attempt is still believed: where no document says that each is signed anew, it carries the
    /// time of the first.
    fn check_late_attempts(&self) -> Result<(), Mistake> {
        let Some(span_s) = self.retry_span_s else { return Ok(()) };
        let tables = [("signature", Some(&self.signature)), ("alternative", self.alternative.as_ref())];
        for (table, signature) in tables {
            let Some(signature) = signature.filter(|one| one.attempts_signed_anew.is_none()) else {
                continue;
            };
            if let Some(tolerance_s) = signature.tolerance_s.filter(|tolerance_s| *tolerance_s < span_s) {
                let why = format!(
                    "{tolerance_s} s are shorter than retry_span_s, so that later attempts would be refused: write {span_s} \
                     or more, or in attempts_signed_anew the page that says that each attempt is signed anew"
                );
                return Err(misfit(&format!("{table}.tolerance_s"), why));
            }
        }
        Ok(())
    }

    fn check_order_of_events(&self) -> Result<(), Mistake> {
        refuse(self.event.is_empty(), "event", "at least one [[event]] is needed")?;
        let is_for_all = |event: &EventSpec| event.when_header.is_none() && event.when_content_type.is_none();
        refuse(
            self.event.iter().position(is_for_all) != Some(self.event.len() - 1),
            "event",
            "the last [[event]], and only that one, has no when_header and no when_content_type",
        )?;
        Ok(())
    }

    /// Checks that `signed = true` can be right; of a scheme in code, only the code knows what it covers.
    fn check_signed(&self) -> Result<(), Mistake> {
        if self.signature.check().is_err() {
            return Ok(());
        }
        for event in &self.event {
            // Events with the other signature's header are signed that way.
            let is_other = |other: &&SignatureSpec| {
                event.when_header.is_some() && event.when_header == other.when_header
            };
            let signature = self.alternative.as_ref().filter(is_other).unwrap_or(&self.signature);
            for identity in event.identity.iter().filter(|identity| identity.signed) {
                let mut sources = identity.id.0.iter().chain(&event.event_type.0);
                if let Some(what) =
                    signature.nothing_covered().or_else(|| sources.find_map(|one| signature.uncovered(one)))
                {
                    return Err(misfit(
                        "event.identity.signed",
                        format!("the signature does not cover {what}: write signed = false"),
                    ));
                }
            }
        }
        Ok(())
    }

    /// Checks that a hash with the secret in front is of JSON alone, to which no byte can be appended.
    fn check_secret_first(&self) -> Result<(), Mistake> {
        let is_json = |event: &EventSpec| event.body == BodyFormat::Json && event.form_field.is_none();
        let tables = [("signature", Some(&self.signature)), ("alternative", self.alternative.as_ref())];
        let open = tables.into_iter().find(|(_, one)| one.is_some_and(SignatureSpec::is_secret_first));
        match open.filter(|_| !self.event.iter().all(is_json)) {
            Some((table, _)) => Err(misfit(&format!("{table}.signed"), LENGTH_EXTENSION)),
            None => Ok(()),
        }
    }

    /// Checks that a GET is read from the query, and that a token of the query is used with GET alone.
    fn check_method(&self) -> Result<(), Mistake> {
        let is_query = self.method == EventMethod::Get;
        if !is_query && self.signatures().any(|one| one.query.is_some()) {
            return Err(misfit("signature.query", "it is for events that come by GET: method = \"GET\""));
        }
        match self.event.iter().find(|event| is_query && event.body != BodyFormat::Form) {
            Some(_) => Err(misfit("event.body", "what comes by GET is in the query: write body = \"form\"")),
            None => Ok(()),
        }
    }

    /// Checks that handlers see no header that anybody could have written.
    fn check_headers(&self) -> Result<(), Mistake> {
        let covers = |one: &SignatureSpec, name: &String| {
            one.nothing_covered().is_none() && one.covers_header(name) && !one.headers.contains(name)
        };
        match self.headers.iter().find(|name| !self.signatures().all(|one| covers(one, name))) {
            Some(name) => Err(misfit(
                "headers",
                format!("the signature does not cover the header `{name}`: leave it out"),
            )),
            None => Ok(()),
        }
    }

    /// After a valid signature the only response is success, or the sender would retry for days.
    fn check_answer(&self) -> Result<(), Mistake> {
        match self.answer.iter().map(|answer| answer.status).find(|status| !(200..=299).contains(status)) {
            Some(status) => {
                Err(misfit("answer.status", format!("{status} is not a success: write 200 to 299")))
            }
            None => Ok(()),
        }
    }

    /// Checks the warnings of settings, and that every setting that has keys exists.
    fn check_settings(&self) -> Result<(), Mistake> {
        let is_odd =
            |one: &&SettingSpec| (one.warn_is.is_some() || one.warn_lacks.is_some()) != one.warn.is_some();
        if let Some(one) = self.setting.iter().find(is_odd) {
            return Err(misfit(
                "setting.warn",
                format!("`{}` needs both what to say, and warn_is or warn_lacks", one.name),
            ));
        }
        let is_unknown = |name: &&String| self.setting.iter().all(|setting| setting.name != **name);
        match self.signature.keys.iter().find(is_unknown) {
            Some(name) => {
                Err(misfit("signature.keys", format!("no [[setting]] is called `{name}`: declare it")))
            }
            None => Ok(()),
        }
    }
}
