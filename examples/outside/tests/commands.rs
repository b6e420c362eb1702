//! Every command of `hooklatch` is in the program, and `migrate` knows its tables.

use std::path::Path;
use std::process::Command;

/// Runs the program; stdout and stderr of a run that went well.
fn run(arguments: &[&str], file: &Path) -> anyhow::Result<String> {
    let output =
        Command::new(env!("CARGO_BIN_EXE_outside")).args(arguments).arg("--config").arg(file).output()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8(text)?;
    anyhow::ensure!(output.status.success(), "{text}");
    Ok(text)
}

#[test]
fn migrate_applies_our_steps_once_and_check_knows_our_kinds() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("hooklatch.toml");
    let toml = format!(
        "[database]\nurl = \"sqlite://{}\"\n[providers.adyen]\nsecrets = [\"{}\"]\n",
        folder.path().join("ours.db").display(),
        "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056",
    );
    std::fs::write(&file, toml)?;
    assert!(run(&["migrate"], &file)?.contains("applied ledger: 0001_ledger"));
    assert!(run(&["migrate"], &file)?.contains("the schema is up to date"));
    run(&["check"], &file)?;
    assert!(run(&["sign", "stripe"], &file)?.contains("stripe-signature"));
    Ok(())
}
