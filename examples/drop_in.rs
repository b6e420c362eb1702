//! A kind as a folder, in a program of one's own: every command of `hooklatch`, and one kind more.
//!
//! ```sh
//! cargo run --example drop_in -- providers acme
//! cargo run --example drop_in -- sign acme
//! ```

#[path = "acme/mod.rs"]
mod acme;

fn main() -> std::process::ExitCode {
    hooklatch::cli::main(vec![acme::provider()])
}
