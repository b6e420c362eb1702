//! What a test needs besides the program. `scripts/test` provides it and lists what it could not provide.
//!
//! A test that lacks something ends early and leaves a line in the file `HOOKLATCH_TEST_SKIPS`. With
//! `HOOKLATCH_TEST_REQUIRE_ALL` it fails instead.

use std::io::Write as _;

/// The value of a variable that names a place, such as a URL or a program.
pub fn place(variable: &str) -> Option<String> {
    let found = std::env::var(variable).ok();
    if found.is_none() {
        skip(variable);
    }
    found
}

/// Records that the running test is skipped for want of `what`.
pub fn skip(what: &str) {
    assert!(std::env::var_os("HOOKLATCH_TEST_REQUIRE_ALL").is_none(), "{what} is missing");
    eprintln!("SKIPPED: {what} is missing; ./scripts/test provides it");
    if let Some(file) = std::env::var_os("HOOKLATCH_TEST_SKIPS") {
        let mut file = std::fs::File::options().append(true).create(true).open(file).unwrap();
        writeln!(file, "{what}").unwrap();
    }
}

/// How often a server is killed: a few times with every push, many times at night.
pub fn kills_n() -> u32 {
    if is_nightly() { 60 } else { 5 }
}

/// True in the long runs of `scripts/test --nightly`.
pub fn is_nightly() -> bool {
    std::env::var_os("HOOKLATCH_TEST_NIGHTLY").is_some()
}
