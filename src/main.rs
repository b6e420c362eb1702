//! User number one of our own library: the built-in kinds, without handlers of our own.

/// Admission allocates and frees many small texts on several threads; measured in `docs/benchmarks.md`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    hooklatch::cli::main(Vec::new())
}
