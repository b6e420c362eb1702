//! Which file uses which, from their `use` lines and paths: no circles among the files of a module.

use std::collections::{BTreeMap, BTreeSet};

use super::{code, files, nothing};

/// A module's path from the crate's root, such as `["store", "message"]`.
type Module = Vec<String>;

/// A file, and the paths that it names.
struct Source {
    /// Its path from the project's root.
    name: String,
    /// Every path that it names outside its re-exports.
    paths: Vec<Vec<String>>,
    /// Its re-exports: the name that it gives on, and where that comes from.
    given_on: BTreeMap<String, Vec<String>>,
}

fn module_of(name: &str) -> Module {
    let path = name.trim_start_matches("src/").trim_end_matches(".rs");
    let parts: Module = path.split('/').map(str::to_owned).collect();
    match parts.split_last() {
        Some((last, folder)) if last == "mod" => folder.to_vec(),
        _ => parts,
    }
}

/// The text without comments, attributes' arguments left as they are.
fn without_comments(text: &str) -> String {
    let lines = code(text).lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.map(|line| line.split(" // ").next().unwrap()).collect::<Vec<_>>().join("\n")
}

/// The paths of a `use` tree: `a::{b, c::{d}}` is `a::b` and `a::c::d`.
fn paths_of_tree(before: &[String], tree: &str) -> Vec<Vec<String>> {
    let (mut depth, mut branches) = (0, vec![String::new()]);
    for c in tree.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if c == ',' && depth == 0 {
            branches.push(String::new());
        } else {
            branches.last_mut().unwrap().push(c);
        }
    }
    let mut paths = Vec::new();
    for branch in branches.iter().map(|branch| branch.trim()).filter(|branch| !branch.is_empty()) {
        let (head, inner) = match branch.split_once('{') {
            Some((head, rest)) => (head, Some(rest.trim_end().strip_suffix('}').unwrap())),
            None => (branch.split(" as ").next().unwrap(), None),
        };
        let names = head.split("::").map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned);
        let path: Vec<String> = before.iter().cloned().chain(names).collect();
        match inner {
            Some(inner) => paths.extend(paths_of_tree(&path, inner)),
            None => paths.push(path),
        }
    }
    paths
}

fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or_default().trim()
}

/// The text before the `use` of a statement, its `pub` included, and the tree after it.
fn use_of(statement: &str) -> Option<(&str, &str)> {
    let (before, _) =
        statement.match_indices("use ").map(|(at, _)| statement.split_at(at)).find(|(before, _)| {
            let before = last_line(before);
            before.is_empty() || (before.starts_with("pub") && !before.contains("fn "))
        })?;
    let (before, after) = statement.split_at(before.len());
    Some((before, after.strip_prefix("use ")?))
}

fn read(name: String, text: &str) -> Source {
    let (mut paths, mut given_on) = (Vec::new(), BTreeMap::new());
    let mut rest_of_text = String::new();
    for statement in without_comments(text).split_inclusive(';') {
        let Some((before, after)) = use_of(statement) else {
            rest_of_text.push_str(statement);
            continue;
        };
        rest_of_text.push_str(before);
        let found = paths_of_tree(&[], after.trim_end_matches(';'));
        if last_line(before).starts_with("pub") {
            given_on.extend(found.into_iter().filter_map(|path| Some((path.last()?.clone(), path))));
        } else {
            paths.extend(found);
        }
    }
    let is_of_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    for word in rest_of_text.split(|c| !is_of_path(c)).filter(|word| word.contains("::")) {
        paths.push(word.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect());
    }
    Source { name, paths, given_on }
}

/// The module whose file defines what `path` names in the file of `module`; `None` when it is no file of ours.
fn definer(
    sources: &BTreeMap<Module, Source>,
    module: &Module,
    path: &[String],
    depth: u8,
) -> Option<Module> {
    let (first, mut rest) = path.split_first()?;
    let mut at = match first.as_str() {
        "crate" => Module::new(),
        "self" => module.clone(),
        "super" => module[..module.len().checked_sub(1)?].to_vec(),
        name => {
            let child: Module = module.iter().cloned().chain([name.to_owned()]).collect();
            sources.contains_key(&child).then_some(child)?
        }
    };
    while let Some((name, more)) = rest.split_first() {
        if name == "super" {
            at.pop()?;
        } else {
            let child: Module = at.iter().cloned().chain([name.clone()]).collect();
            if !sources.contains_key(&child) {
                break;
            }
            at = child;
        }
        rest = more;
    }
    let given_on = rest.first().and_then(|name| sources.get(&at)?.given_on.get(name));
    let through = given_on.filter(|_| depth < 8).and_then(|path| definer(sources, &at, path, depth + 1));
    through.or_else(|| sources.contains_key(&at).then_some(at))
}

/// Each file, and those that it can be reached from by itself.
fn circles(arrows: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let reached = |from: &String| -> BTreeSet<String> {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(file) = open.pop() {
            for next in arrows.get(&file).into_iter().flatten() {
                if seen.insert(next.clone()) {
                    open.push(next.clone());
                }
            }
        }
        seen
    };
    let reach: BTreeMap<&String, BTreeSet<String>> =
        arrows.keys().map(|file| (file, reached(file))).collect();
    let mut found = BTreeSet::new();
    for (file, far) in &reach {
        if far.contains(*file) {
            let circle = far.iter().filter(|other| reach.get(other).is_some_and(|back| back.contains(*file)));
            found.insert(circle.cloned().collect::<Vec<_>>().join(" <-> "));
        }
    }
    found.into_iter().collect()
}

fn arrows(texts: Vec<(String, String)>) -> BTreeMap<String, BTreeSet<String>> {
    let sources: BTreeMap<Module, Source> =
        texts.into_iter().map(|(name, text)| (module_of(&name), read(name, &text))).collect();
    let mut arrows: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (module, source) in &sources {
        let to = source.paths.iter().filter_map(|path| definer(&sources, module, path, 0));
        let others =
            to.filter(|other| other != module).filter_map(|other| Some(sources.get(&other)?.name.clone()));
        arrows.entry(source.name.clone()).or_default().extend(others);
    }
    arrows
}

#[test]
fn no_two_files_need_each_other() {
    let found = circles(&arrows(files("src", ".rs")));
    nothing("what these share belongs into a file below them", &found);
}

#[test]
fn a_circle_is_found_through_a_door_a_path_and_a_list() {
    let text = |name: &str, text: &str| (format!("src/{name}.rs"), text.to_owned());
    let found = |texts: Vec<(String, String)>| circles(&arrows(texts));
    let door = || text("room/mod.rs".trim_end_matches(".rs"), "mod a;\nmod b;\npub use a::{A, Other};\n");
    let through_the_door = vec![
        door(),
        text("room/a", "use super::b::B;\npub struct A;"),
        text("room/b", "use std::fmt;\nuse crate::room::{\n    A,\n};\npub struct B;"),
    ];
    assert_eq!(found(through_the_door), ["src/room/a.rs <-> src/room/b.rs"]);
    let by_a_path = vec![
        door(),
        text("room/a", "fn a() { super::b::b(); }"),
        text("room/b", "fn b() { crate::room::a::a(); }"),
    ];
    assert_eq!(found(by_a_path), ["src/room/a.rs <-> src/room/b.rs"]);
    let with_a_floor = vec![
        text("room/mod", "mod a;\npub(crate) struct Floor;\nfn f() { a::a() }"),
        text("room/a", "use super::Floor;\n"),
    ];
    assert_eq!(found(with_a_floor), ["src/room/a.rs <-> src/room/mod.rs"]);
    let downwards =
        vec![door(), text("room/a", "use super::b::B;"), text("room/b", "//! use super::a::A;\n")];
    assert_eq!(found(downwards), [""; 0]);
}
