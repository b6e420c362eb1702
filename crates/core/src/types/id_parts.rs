//! Ids that Hooklatch composes of several texts, and their parts.

/// Beginnings of composed ids that end with a mark of the content, with the word for people.
const MARKED: [(&str, &str); 2] = [("content:", "content"), ("signal:", "signal")];
/// Beginnings of ids that are a digest alone.
const DIGESTS: [(&str, &str); 2] = [("unreadable:", "unreadable"), ("conflict:", "conflict")];
/// Characters of a digest that people are shown.
const MARK_SHOWN_N: usize = 8;

/// The parts of a composed id of an event or an object: `23:8835…,13:AUTHORISATION,4:true` has three. Empty for any
/// other id.
pub fn id_parts(id: &str) -> Vec<&str> {
    match MARKED.iter().find_map(|(prefix, _)| id.strip_prefix(prefix)) {
        Some(rest) => netstrings(rest).0,
        None => match netstrings(id) {
            (parts, "") if parts.len() > 1 => parts,
            _ => Vec::new(),
        },
    }
}

/// An id as people read it: the parts of a composed one, and a digest by its first characters. `None` for an id that is
/// read as it is.
pub fn readable_id(id: &str) -> Option<String> {
    let marked = |(prefix, word): &(&str, &'static str)| Some((*word, id.strip_prefix(prefix)?));
    let Some((word, rest)) = MARKED.iter().chain(&DIGESTS).find_map(marked) else {
        let parts = id_parts(id);
        return (!parts.is_empty()).then(|| shown(parts));
    };
    let (mut parts, mark) = netstrings(rest);
    let (mark, firing) = mark.split_once('#').unwrap_or((mark, ""));
    let mut mark: String = mark.chars().take(MARK_SHOWN_N).collect();
    if !firing.is_empty() {
        mark = format!("{mark} no. {firing}");
    }
    let mark = format!("{word} {mark}");
    parts.push(&mark);
    Some(shown(parts))
}

fn shown(parts: Vec<&str>) -> String {
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ")
}

/// The length-prefixed texts that `text` begins with, separated by commas, and what stands behind them.
fn netstrings(text: &str) -> (Vec<&str>, &str) {
    let (mut parts, mut rest) = (Vec::new(), text);
    while let Some((part, after)) = netstring(rest) {
        parts.push(part);
        rest = after;
        match after.strip_prefix(',') {
            Some(behind) if !behind.is_empty() => rest = behind,
            _ => break,
        }
    }
    (parts, rest)
}

fn netstring(text: &str) -> Option<(&str, &str)> {
    let (length, rest) = text.split_once(':')?;
    let is_length = (1..=3).contains(&length.len()) && length.bytes().all(|byte| byte.is_ascii_digit());
    let length: usize = length.parse().ok().filter(|_| is_length)?;
    let (part, after) = rest.split_at_checked(length)?;
    (after.is_empty() || after.starts_with(',')).then_some((part, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_composed_id_is_read_by_its_parts_and_any_other_as_it_is() {
        #[track_caller]
        fn check(id: &str, parts: &[&str], readable: Option<&str>) {
            assert_eq!((id_parts(id), readable_id(id).as_deref()), (parts.to_vec(), readable), "{id}");
        }
        let adyen = "16:7914073381342284,13:AUTHORISATION,4:true";
        let parts = ["7914073381342284", "AUTHORISATION", "true"];
        check(adyen, &parts, Some("7914073381342284 · AUTHORISATION · true"));
        check("7:payment,3:a,b", &["payment", "a,b"], Some("payment · a,b"));
        check("0:,2:\u{e4},1:x", &["", "\u{e4}", "x"], Some("\u{e4} · x"));
        check("signal:5:72d3a,abcdefghijklmnopqrstuv#3", &["72d3a"], Some("72d3a · signal abcdefgh no. 3"));
        check("content:5:72d3a,abcdefghijklmnopqrstuv", &["72d3a"], Some("72d3a · content abcdefgh"));
        check("signal:abcdefghijklmnopqrstuv", &[], Some("signal abcdefgh"));
        check("unreadable:0123456789abcdef", &[], Some("unreadable 01234567"));
        check("conflict:0123456789abcdef", &[], Some("conflict 01234567"));
        // Ids of senders that only look like it.
        for id in [
            "evt_1",
            "",
            "3:abc",
            "3:abcd,1:x",
            "3:abc,1:x,",
            "3:abc,1:x,y",
            "1:\u{e4},1:x",
            "0004:abcd,1:x",
            "+1:a,1:b",
        ] {
            check(id, &[], None);
        }
    }
}
