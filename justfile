# What there is to do: `just --list`.

# What every push has to pass.
check:
    ./scripts/test

# Everything that has to pass before a change lands.
all:
    ./scripts/test --all

# Tests on SQLite and PostgreSQL, nothing else; words pick tests by name.
test *WORDS:
    scripts/postgres -- cargo nextest run --all-features {{WORDS}}

# A server to play with: loopback, SQLite in .hooklatch/, published secrets, a destination called echo.
dev:
    cargo run -- serve --dev

# The folder of a new built-in kind, and what is left to do.
provider NAME:
    cargo run --quiet -- new-kind {{NAME}} --folder providers

# Writes the pages of the senders from the kinds.
provider-pages:
    scripts/provider-pages

# Fuzzes one target of fuzz/ with libFuzzer; needs nightly and cargo-fuzz.
fuzz TARGET *ARGS:
    cargo +nightly fuzz run {{TARGET}} -- {{ARGS}}

# Where the two dialects differ.
diff-dialects NOUN="message":
    -diff -u crates/store/src/{{NOUN}}/sqlite.rs crates/store/src/{{NOUN}}/postgres.rs

# The end-to-end bench, as ratios within one run.
bench *ARGS:
    scripts/bench {{ARGS}}

# Licences, bans and advisories of what we depend on.
deny:
    cargo deny check
