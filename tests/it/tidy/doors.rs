//! `mod.rs` is a door: docs, declarations, re-exports, at most one entry function.

use super::{code, files, nothing};

/// Words at the left margin of a file that is no door.
const FLOORS: [&str; 8] =
    ["struct ", "enum ", "impl", "trait ", "const ", "static ", "type ", "macro_rules!"];

/// A line at the left margin without its visibility: `pub(crate) struct X` is `struct X`. A line further in belongs to
/// the entry function, and stays as it is.
fn bare(line: &str) -> &str {
    let Some(line) = line.strip_prefix("pub") else { return line };
    let line = if line.starts_with('(') { line.split_once(')').unwrap().1 } else { line };
    line.trim_start()
}

/// The mistakes of a `mod.rs`.
fn mistakes(text: &str) -> Vec<String> {
    let lines: Vec<&str> = code(text).lines().map(bare).collect();
    let floors = lines.iter().filter(|line| FLOORS.iter().any(|floor| line.starts_with(floor)));
    let mut mistakes: Vec<String> = floors.map(|line| format!("`{line}`")).collect();
    let is_function = |line: &&&str| line.starts_with("fn ") || line.starts_with("async fn ");
    let functions_n = lines.iter().filter(is_function).count();
    if functions_n > 1 {
        mistakes.push(format!("{functions_n} functions"));
    }
    mistakes
}

#[test]
fn every_mod_rs_is_a_door() {
    let doors = files("src", "/mod.rs").into_iter();
    let of = |(name, text): (String, String)| {
        mistakes(&text).into_iter().map(move |mistake| format!("{name} has {mistake}")).collect::<Vec<_>>()
    };
    nothing(
        "move these into files of their own, named for what they are",
        &doors.flat_map(of).collect::<Vec<_>>(),
    );
}

#[test]
fn a_floor_is_told_from_a_door() {
    let door = "//! A room.\n\nmod a;\n\npub(crate) use a::{\n    A,\n};\n\n/// Goes in.\npub fn enter() {\n    A;\n}\n";
    assert_eq!(mistakes(door), [""; 0]);
    assert_eq!(
        mistakes("pub fn list() -> &'static [u8] {\n    const LIST: &[u8] = &[1];\n    LIST\n}\n"),
        [""; 0]
    );
    assert_eq!(mistakes("mod a;\npub(crate) struct Floor;\n"), ["`struct Floor;`"]);
    assert_eq!(mistakes("impl<T> A for T {}\n"), ["`impl<T> A for T {}`"]);
    assert_eq!(mistakes("fn a() {}\npub async fn b() {}\n"), ["2 functions"]);
    assert_eq!(mistakes("mod a;\n#[cfg(test)]\nmod tests {\n    struct X;\n}\n"), [""; 0]);
}
