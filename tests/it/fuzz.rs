//! The fuzz targets of `fuzz/` on stable: seeded random inputs and mutations of real ones, for a bounded time.
//! `HOOKLATCH_TEST_FUZZ_N` multiplies how many.

use fastrand::Rng;

#[path = "../../fuzz/src/lib.rs"]
mod targets;

/// Tokens of JSON, forms, headers, TOML and PEM.
const WORDS: [&str; 32] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    ":",
    ",",
    "=",
    "&",
    ".",
    "t=",
    "v1=",
    "\\u0000",
    "%00",
    "-----BEGIN ",
    "\n",
    "\u{0}",
    "é",
    "18446744073709551616",
    "-0.0",
    "[[event]]",
    "eyJhbGciOiJub25lIn0",
    "whsec_",
    "null",
    "|",
    "sha-256=:AAAA:,",
    ";a=1",
    "\"@method\" ",
    "v1,AAAA ",
    "%26",
    "unreadable:",
    "{\"a\":[",
];

/// Hostile inputs: many repetitions of one token, and texts that are valid in two formats.
fn attacks() -> Vec<Vec<u8>> {
    let signature = format!("hooklatch_dev|{}&", "0".repeat(40));
    let parameters = (0..40).map(|n| format!(";a{n}")).collect::<Vec<_>>().concat();
    let names: Vec<String> = (0..80).map(|n| format!("\"a{n}\"")).collect();
    let texts = [
        "a&".repeat(1_100),
        "a=%41&a=b&".repeat(300),
        format!("bt_signature={}bt_payload={}", signature.repeat(40).replace('|', "%7C"), "0".repeat(32)),
        "0".repeat(32),
        "-_azAZ09".repeat(16),
        format!("{}1{}", "[".repeat(65), "]".repeat(65)),
        format!("{{{}\"a\":1}}", "\"a\":{\"b\":[1,2.50,\"\\u0041\"]},".repeat(200)),
        format!("t=1767225600{}", ",v1=00".repeat(200)),
        "v1,AAAA v1a,AAAA ".repeat(100),
        format!("sig1=(\"@method\");created=1767225600;keyid=\"dev\"{parameters}"),
        format!("sig1=({});created=1767225600", names.join(" ")),
        "sha-256=:AAAA:,".repeat(100),
        format!("x-contentful-signed-headers,x-contentful-timestamp{}", ",a".repeat(100)),
        "https://sns.s3-us-west-2.amazonaws.com/SimpleNotificationService-00.pem".to_owned(),
        "{\"status\":\"failure\",\"hash\":\"00\",\"zz\":\"&status=success&amount=9&\"}".to_owned(),
    ];
    texts.into_iter().map(String::into_bytes).collect()
}

/// Every file of every kind with this name.
fn files(name: &str) -> Vec<Vec<u8>> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("providers");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().filter_map(|folder| std::fs::read(folder.join(name)).ok()).collect()
}

/// The vectors of every kind.
fn vectors() -> Vec<serde_json::Value> {
    let all = files("vectors.json");
    all.iter().flat_map(|file| serde_json::from_slice::<Vec<serde_json::Value>>(file).unwrap()).collect()
}

/// The texts of real requests: bodies and headers.
fn texts() -> Vec<Vec<u8>> {
    let mut texts = Vec::new();
    for vector in vectors() {
        texts.extend(vector["body"].as_str().map(|text| text.as_bytes().to_vec()));
        let headers = vector["headers"].as_object().into_iter().flatten();
        texts.extend(headers.filter_map(|(_, value)| Some(value.as_str()?.as_bytes().to_vec())));
    }
    texts.extend(attacks());
    texts
}

/// One of `corpus` with a few changes, now and then nothing but noise.
fn mutated(rng: &mut Rng, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut input = if rng.u8(..) < 16 {
        (0..rng.usize(..64)).map(|_| rng.u8(..)).collect()
    } else {
        corpus[rng.usize(..corpus.len())].clone()
    };
    for _ in 0..rng.usize(..6) {
        let at = rng.usize(..=input.len());
        match rng.u8(..6) {
            0 if at < input.len() => input[at] ^= 1 << rng.u8(..8),
            1 if at < input.len() => drop(input.drain(at..(at + rng.usize(1..16)).min(input.len()))),
            2 => drop(input.splice(at..at, WORDS[rng.usize(..WORDS.len())].bytes())),
            3 => input.truncate(at),
            4 => {
                let other = &corpus[rng.usize(..corpus.len())];
                let from = rng.usize(..=other.len());
                let to = rng.usize(from..=other.len()).min(from + 64);
                drop(input.splice(at..at, other[from..to].iter().copied()));
            }
            _ => drop(input.splice(at..at, [rng.u8(..)].into_iter().cycle().take(rng.usize(1..40)))),
        }
    }
    input
}

/// Feeds `target` with `n` inputs; a failure says which one.
fn feed(n: usize, corpus: &[Vec<u8>], prefix_n: usize, target: fn(&[u8])) {
    let more = std::env::var("HOOKLATCH_TEST_FUZZ_N").map_or(1, |n| n.parse().unwrap());
    for seed in 0..(n * more) as u64 {
        let mut rng = Rng::with_seed(seed);
        let mut input: Vec<u8> = (0..prefix_n).map(|_| rng.u8(..)).collect();
        input.extend(mutated(&mut rng, corpus));
        let is_fine = std::panic::catch_unwind(|| target(&input)).is_ok();
        assert!(is_fine, "seed {seed}: {}", String::from_utf8_lossy(&input));
    }
}

#[test]
fn no_header_or_body_panics_or_is_believed_unsigned() {
    feed(20_000, &texts(), 4, targets::headers);
}

#[test]
fn nothing_that_any_handshake_says_is_the_signature_of_a_body() {
    feed(20_000, &[texts(), attacks()].concat(), 4, targets::handshakes);
}

#[test]
fn no_changed_request_is_believed_unless_what_is_signed_is_as_it_was() {
    feed(20_000, &texts(), 4, targets::requests);
}

#[test]
fn no_spec_panics_and_what_is_read_stands_any_request() {
    feed(2_000, &files("provider.toml"), 0, targets::specs);
}

#[test]
fn no_form_or_query_panics() {
    feed(20_000, &texts(), 0, targets::forms);
}

#[test]
fn no_json_panics_or_changes_when_it_is_written_again() {
    feed(20_000, &texts(), 0, targets::json);
}

#[test]
fn no_jws_panics_or_is_believed_by_another_key() {
    let is_jws = |text: &Vec<u8>| text.starts_with(b"eyJ");
    feed(20_000, &texts().into_iter().filter(is_jws).collect::<Vec<_>>(), 0, targets::jws);
}

#[test]
fn no_key_or_certificate_panics_or_believes_a_forgery() {
    let mut keys = Vec::new();
    for vector in vectors() {
        for (_, value) in vector["settings"].as_object().into_iter().flatten() {
            keys.extend(value.as_str().map(|text| text.as_bytes().to_vec()));
            keys.push(value.to_string().into_bytes());
        }
    }
    feed(10_000, &keys, 0, targets::keys);
}

#[test]
fn no_file_of_vectors_panics() {
    let one = vectors().iter().map(|vector| vector.to_string().into_bytes()).collect::<Vec<_>>();
    feed(2_000, &one, 0, targets::vectors);
}

#[test]
fn json_that_is_nested_without_end_is_refused_and_not_followed() {
    for open in ["[", "{\"a\":"] {
        let deep = open.repeat(100_000);
        targets::json(deep.as_bytes());
        let close = if open == "[" { "]" } else { "}" };
        let whole = format!("{deep}1{}", close.repeat(100_000));
        targets::json(whole.as_bytes());
    }
}
