//! Requests of any kind, signed as its sender signs them, from one of the kind's samples.

use std::io::Write;
use std::sync::Arc;

use super::mix::Maker;
use super::target::LoadTarget;
use hooklatch_receive::provider::{ActiveProvider, sample_line};
use hooklatch_verify::SignAt;
use hooklatch_verify::spec::EventMethod;

/// The member, or field, that makes a body as long as it shall be.
const PADDING: &str = "hooklatch_bench_padding";

/// Makes a kind's requests. Clones make events of their own.
#[derive(Clone)]
pub struct SignedMaker {
    provider: Arc<ActiveProvider>,
    target: LoadTarget,
    event_type: String,
    /// One for each size; each is drawn equally often.
    bodies: Vec<Vec<BodyPiece>>,
    body: String,
}

/// A piece of a body: text, or a place that is filled for each event.
#[derive(Debug, Clone, PartialEq, Eq)]
enum BodyPiece {
    Text(String),
    /// Place of the event's id.
    Id,
    /// Place of the digits of the event's id.
    Number,
    /// Place of the time in unix seconds.
    Now,
    /// Place of the same time as RFC 3339 has it.
    Time,
}

const PLACES: [(&str, BodyPiece); 4] = [
    ("__ID__", BodyPiece::Id),
    ("__NUM__", BodyPiece::Number),
    ("__NOW__", BodyPiece::Now),
    ("__TIME__", BodyPiece::Time),
];

impl SignedMaker {
    /// Makes requests of `provider` for `target` from this sample, as long as it is or padded to each of `sizes` bytes.
    /// The error says which size cannot be had.
    pub fn new(
        provider: ActiveProvider,
        target: &LoadTarget,
        event_type: &str,
        sample: &str,
        sizes: &[usize],
    ) -> Result<Self, String> {
        let line = sample_line(sample);
        let bodies = if sizes.is_empty() {
            vec![pieces(&line)]
        } else {
            sizes.iter().map(|bytes| Ok(pieces(&padded(&line, *bytes)?))).collect::<Result<_, String>>()?
        };
        Ok(Self {
            provider: Arc::new(provider),
            target: target.clone(),
            event_type: event_type.to_owned(),
            bodies,
            body: String::new(),
        })
    }

    fn write_body(&mut self, id: &str, now_s: i64) {
        self.body.clear();
        let number = id.get(..15).unwrap_or(id);
        for piece in self.bodies.get(fastrand::usize(..self.bodies.len().max(1))).into_iter().flatten() {
            match piece {
                BodyPiece::Text(text) => self.body.push_str(text),
                BodyPiece::Id => self.body.push_str(id),
                BodyPiece::Number => self.body.push_str(number),
                BodyPiece::Now => self.body.push_str(&now_s.to_string()),
                BodyPiece::Time => {
                    let time = jiff::Timestamp::from_second(now_s).map(|at| at.to_string());
                    self.body.push_str(&time.unwrap_or_default());
                }
            }
        }
    }
}

impl Maker for SignedMaker {
    fn make(&mut self, now_s: i64, request: &mut Vec<u8>) -> Result<(), String> {
        // 15 digits, which some kinds take alone, and letters as well for the others.
        let id = format!("{}{}", fastrand::u64(100_000_000_000_000..1_000_000_000_000_000), letters());
        self.write_body(&id, now_s);
        let at = SignAt { now_s, url: self.target.url.clone(), id, event_type: self.event_type.clone() };
        let signed = self.provider.sign(self.body.as_bytes(), &at).map_err(|why| why.to_string())?;
        let is_post = self.provider.spec().method == EventMethod::Post;
        let path = if is_post { self.target.path.clone() } else { signed.url_with_query(&self.target.path) };
        let body = if is_post { signed.body.as_slice() } else { b"" };
        let written = write!(
            request,
            "{} {path} HTTP/1.1\r\nhost: {}\r\ncontent-length: {}\r\n",
            self.provider.spec().method.as_str(),
            self.target.authority,
            body.len()
        )
        .and_then(|()| {
            signed.headers.iter().try_for_each(|(name, value)| write!(request, "{name}: {value}\r\n"))
        });
        written.map_err(|why| why.to_string())?;
        request.extend_from_slice(b"\r\n");
        request.extend_from_slice(body);
        Ok(())
    }
}

fn letters() -> String {
    (0..8).map(|_| fastrand::alphabetic()).collect()
}

/// Length of a line once its places are filled. Bytes.
fn filled_bytes(line: &str) -> usize {
    let of = |piece: &BodyPiece| match piece {
        BodyPiece::Text(text) => text.len(),
        BodyPiece::Id => 23,
        BodyPiece::Number => 15,
        BodyPiece::Now => 10,
        BodyPiece::Time => 20,
    };
    pieces(line).iter().map(of).sum()
}

/// The line, made this long by one member, or field, more.
fn padded(line: &str, bytes: usize) -> Result<String, String> {
    let least = filled_bytes(line);
    let object = line.strip_suffix('}').filter(|_| line.starts_with('{') && line.len() > 2);
    let is_form = !line.starts_with(['{', '[', '<']) && line.contains('=');
    let (before, after) = match object {
        Some(open) => (format!("{open},\"{PADDING}\":\""), "\"}"),
        None if is_form => (format!("{line}&{PADDING}="), ""),
        None => {
            return Err(
                "the sample is neither a JSON object nor a form, so it cannot be made longer".to_owned()
            );
        }
    };
    let added_bytes = before.len() + after.len() - line.len();
    let padding_bytes = bytes.checked_sub(least + added_bytes).ok_or_else(|| {
        format!("{bytes} bytes are too few: the least for this sample is {}", least + added_bytes)
    })?;
    // Text that compresses about as well as a payload does, not one letter.
    let words = "Lorem+ipsum+dolor+sit+amet,+1999+eur.+consectetur+adipiscing+elit-";
    let padding: String = words.chars().cycle().take(padding_bytes).collect();
    Ok(format!("{before}{padding}{after}"))
}

fn pieces(line: &str) -> Vec<BodyPiece> {
    let mut found = Vec::new();
    let mut rest = line;
    loop {
        let next = PLACES.iter().filter_map(|(place, piece)| Some((rest.find(place)?, place.len(), piece)));
        let Some((at, bytes, piece)) = next.min_by_key(|(at, ..)| *at) else { break };
        let (before, after) = rest.split_at(at);
        found.extend([BodyPiece::Text(before.to_owned()), piece.clone()]);
        rest = after.split_at(bytes).1;
    }
    found.push(BodyPiece::Text(rest.to_owned()));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_have_the_sizes_that_were_asked_for_and_stay_what_they_were() {
        #[track_caller]
        fn check(line: &str, bytes: usize, want: Result<&str, &str>) {
            let found = padded(line, bytes);
            match want {
                Ok(start) => {
                    let found = found.expect("long enough");
                    assert!(found.starts_with(start), "{found}");
                    assert_eq!(filled_bytes(&found), bytes);
                }
                Err(why) => assert!(found.expect_err("refused").contains(why)),
            }
        }
        check(r#"{"id":"__ID__"}"#, 100, Ok(r#"{"id":"__ID__","hooklatch_bench_padding":"Lorem+"#));
        check(r#"{"id":"__ID__","at":__NOW__}"#, 2_048, Ok(r#"{"id":"__ID__","at":__NOW__,"#));
        check("id=__NUM__&t=__TIME__", 200, Ok("id=__NUM__&t=__TIME__&hooklatch_bench_padding=Lorem+"));
        check(r#"{"id":"__ID__"}"#, 20, Err("the least for this sample is 61"));
        check("<a>__ID__</a>", 200, Err("neither a JSON object nor a form"));
        check(r#"[{"id":1}]"#, 200, Err("neither"));
    }

    #[test]
    fn a_line_is_taken_apart_at_its_places() {
        let text = |text: &str| BodyPiece::Text(text.to_owned());
        assert_eq!(pieces("plain"), [text("plain")]);
        assert_eq!(
            pieces("a__NOW__b__ID____NUM__"),
            [text("a"), BodyPiece::Now, text("b"), BodyPiece::Id, text(""), BodyPiece::Number, text("")]
        );
    }
}
