//! The `hooklatch` program: the library with the built-in kinds and no handlers of its own.

/// Admission allocates and frees many small texts on several threads; measured in `docs/benchmarks.md`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    hooklatch::cli::main(Vec::new())
}
