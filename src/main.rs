//! User number one of our own library: the built-in kinds, without handlers of our own.

fn main() -> std::process::ExitCode {
    hooklatch::cli::main(Vec::new())
}
