//! A page in Markdown, as far as tests read it.

use std::fs;
use std::path::{Path, PathBuf};

/// A fenced block: the word behind its fence, and its text.
pub struct Block {
    pub language: String,
    pub text: String,
}

/// The folder of the package.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The text of a page, named from the root.
pub fn page(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Every page of this repository, named from the root.
pub fn pages() -> Vec<String> {
    let mut found: Vec<PathBuf> =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "providers/README.md"].map(PathBuf::from).into();
    for folder in ["docs", "docs/adr", "docs/providers", "docs/runbooks"] {
        let entries = fs::read_dir(root().join(folder)).unwrap();
        let names = entries.map(|entry| Path::new(folder).join(entry.unwrap().file_name()));
        found.extend(names.filter(|name| name.extension().is_some_and(|ending| ending == "md")));
    }
    found.sort();
    found.into_iter().map(|name| name.to_str().unwrap().to_owned()).collect()
}

/// The fenced blocks of a page, in their order, without the indentation of their fences.
pub fn blocks(text: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut indent = None;
    for line in text.lines() {
        let fence = line.trim_start().strip_prefix("```");
        match (fence, indent) {
            (Some(language), None) => {
                indent = Some(line.len() - line.trim_start().len());
                found.push(Block { language: language.trim().to_owned(), text: String::new() });
            }
            (Some(_), Some(_)) => indent = None,
            (None, Some(indent)) => {
                let block = found.last_mut().unwrap();
                block.text.push_str(line.get(indent..).unwrap_or_default());
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    found
}

/// What stands in backticks outside of fenced blocks; a line end in it is a space.
pub fn inline(text: &str) -> Vec<String> {
    let mut outside = String::new();
    let mut is_fenced = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        } else if !is_fenced {
            outside.push_str(line);
            outside.push('\n');
        }
    }
    // A paragraph's odd backtick must not turn the next one inside out.
    let of_paragraph = |paragraph: &str| -> Vec<String> {
        let spans = paragraph.split('`').skip(1).step_by(2);
        spans.map(|span| span.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    };
    outside.split("\n\n").flat_map(of_paragraph).collect()
}

#[test]
fn inline_code_and_code_blocks_are_parsed_as_rendered() {
    let text = "a `b c`\n`d\n  e`\n\n```sh\nx `y`\n```\n  ```toml\n  k = 1\n    l = 2\n  ```\n`f";
    assert_eq!(inline(text), ["b c", "d e", "f"]);
    let blocks: Vec<(String, String)> =
        blocks(text).into_iter().map(|block| (block.language, block.text)).collect();
    let want = [("sh", "x `y`\n"), ("toml", "k = 1\n  l = 2\n")];
    assert_eq!(blocks, want.map(|(language, text)| (language.to_owned(), text.to_owned())));
}
