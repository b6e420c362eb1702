# What there is to do: `just --list`.

# Everything that has to pass before a change lands.
check:
    ./scripts/test

# Tests only, on both databases; words pick tests by name.
test *WORDS:
    scripts/postgres -- scripts/brokers -- cargo nextest run {{WORDS}}

# A server to play with: loopback, SQLite in .hooklatch/, published secrets, a far side called echo.
dev:
    cargo run -- serve --dev

# The folder of a new kind, and what is left to do.
provider NAME:
    scripts/provider {{NAME}}

# Where the two dialects differ.
diff-dialects NOUN="message":
    -diff -u src/store/sqlite/{{NOUN}}.rs src/store/postgres/{{NOUN}}.rs

# The end-to-end bench, as ratios within one run.
bench *ARGS:
    scripts/bench {{ARGS}}

# Licences, bans and advisories of what we depend on.
deny:
    cargo deny check
