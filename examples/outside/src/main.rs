//! Every command of `hooklatch`, with our kinds and our tables: `outside serve`, `outside migrate`, `outside check`.

fn main() -> std::process::ExitCode {
    hooklatch::cli::main_with(outside::kinds(), |app| app.migrate("ledger", outside::LEDGER))
}
