//! `new-kind`: writes the folder of a working kind for an invented sender, and lists what is left to do.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;

use super::shared::say;
use super::sign::kind_vectors;
use hooklatch_core::types::Name;
use hooklatch_operator::load::Kinds;
use hooklatch_receive::provider::{Kind, Provider};
use hooklatch_verify::DevKeys;

const SPEC: &str = include_str!("provider.toml");
/// The guide that documents every key, for users who have only the program.
const GUIDE: &str = include_str!("../../../providers/README.md");
const PAIRS: &str = include_str!("identity.json");
const SAMPLE: &str = "{\n  \"id\": \"evt___ID__\",\n  \"type\": \"{TYPE}\",\n  \"created\": __NOW__,\n  \"data\": { \"id\": \"thing_1\" }\n}\n";
const TYPES: [&str; 3] = ["thing.created", "thing.changed", "thing.deleted"];

#[derive(Args)]
pub(super) struct NewKindArgs {
    /// Name of the kind and of its folder.
    #[arg(required_unless_present = "guide")]
    name: Option<String>,
    /// Print the guide to kinds instead, which documents every key of a `provider.toml`.
    #[arg(long, conflicts_with_all = ["name", "folder"])]
    guide: bool,
    /// Folder that the kind's folder is made in; the one of `[kinds] folder` by default, else `kinds`.
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

/// Writes the folder; an existing one is not changed.
pub(super) fn new_kind(args: &NewKindArgs, kinds: &Kinds) -> anyhow::Result<ExitCode> {
    let Some(name) = args.name.as_deref() else {
        say(GUIDE.trim_end());
        return Ok(ExitCode::SUCCESS);
    };
    Name::parse(name)
        .map_err(|why| anyhow::anyhow!("`{}` is not a name of a kind: {why}", name.escape_debug()))?;
    let configured = kinds.folder.as_ref().map(|folder| folder.path.clone());
    let parent = args.folder.clone().or(configured).unwrap_or_else(|| PathBuf::from("kinds"));
    let folder = parent.join(name);
    if folder.exists() {
        anyhow::bail!("`{}` is there already: choose another name, or move it away", folder.display());
    }
    write(&folder, name)?;
    say(steps(&parent, &folder, name));
    Ok(ExitCode::SUCCESS)
}

fn write(folder: &Path, name: &str) -> anyhow::Result<()> {
    // Some proxies drop headers with an underscore.
    let spec = SPEC.replace("{NAME}", name).replace("{STEM}", &name.replace('_', "-"));
    let samples = TYPES.map(|one| (one.to_owned(), SAMPLE.replace("{TYPE}", one)));
    let kind = Provider::from_spec(&spec).with_samples(samples.to_vec());
    let vectors = kind_vectors(&kind, None, &DevKeys::default())?;
    let mut files = vec![
        ("provider.toml".to_owned(), spec),
        ("identity.json".to_owned(), PAIRS.to_owned()),
        ("vectors.json".to_owned(), format!("{vectors}\n")),
    ];
    files.extend(samples.map(|(one, text)| (format!("samples/{one}.json"), text)));
    let samples = folder.join("samples");
    std::fs::create_dir_all(&samples).with_context(|| format!("could not make `{}`", samples.display()))?;
    for (file, text) in files {
        let file = folder.join(file);
        std::fs::write(&file, text).with_context(|| format!("could not write `{}`", file.display()))?;
    }
    Ok(())
}

/// What is left to do, for a built-in kind where the folder is the one of the source tree.
fn steps(parent: &Path, folder: &Path, name: &str) -> String {
    let (at, parent_at) = (folder.display(), parent.display());
    let first = format!(
        "wrote {at}\n\n\
         1. fill in {at}/provider.toml (providers/README.md documents every key; `hooklatch new-kind --guide` prints it)\n\
         2. put the sender's own example events into {at}/samples in place of the invented ones, a file for each type,\n   \
         and name them in {at}/identity.json\n"
    );
    if parent.join("mod.rs").is_file() {
        return format!(
            "{first}3. add to {parent_at}/mod.rs, in alphabetical order:\n       \
             kind!(\"{name}\": \"thing.created\" in \"thing.created\", \"thing.changed\" in \"thing.changed\", \
             \"thing.deleted\" in \"thing.deleted\"),\n\
             4. cargo run -- sign {name} --vectors >target/vectors.json && mv target/vectors.json {at}/vectors.json\n   \
             and add requests that the sender really sent\n\
             5. write into {at}/identity.json what a redelivery changes, and what two events share\n\
             6. cargo nextest run providers kinds tidy\n\
             7. scripts/provider-pages"
        );
    }
    let variable = name.to_uppercase().replace('-', "_");
    format!(
        "{first}3. in hooklatch.toml:    [kinds]\n                         folder = \"{parent_at}\"\n                         \
         [providers.{name}]\n                         secrets = [{{ env = \"{variable}_SECRET\" }}]\n\
         4. hooklatch check       lists all that is wrong with it\n\
         5. hooklatch sign {name} --vectors >vectors.new && mv vectors.new {at}/vectors.json\n   \
         whenever the signature changes; add requests that the sender really sent\n\
         6. write into {at}/identity.json what a redelivery changes, and what two events share; hooklatch check judges both"
    )
}
