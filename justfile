# What we do often. `just` alone lists the recipes.

_default:
    @just --list

# Everything that must hold before a commit: format, lint, tests, doc tests, docs, licences.
check: fmt lint test doctest doc deny

# What CI runs: the same, and the demonstration.
ci:
    .ci/run

# The code is formatted.
fmt:
    cargo fmt --all --check

# No warnings, in any target of any crate.
lint:
    cargo clippy --workspace --all-targets -- -D warnings

# Unit, walk, compile, command and example tests of the default members. Arguments go to cargo: `just test plan`.
test *args:
    cargo test --lib --bins --tests --examples {{ args }}

# Every crate compiles for macOS, checked from any machine that has the target.
macos *args:
    scripts/check-macos {{ args }}

# The programs in documentation comments, the README and the guide run.
doctest:
    cargo test --doc

# The documentation builds, and its links hold.
doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

# Licences, advisories and sources of the dependencies.
deny:
    @if cargo deny --version >/dev/null 2>&1; then \
        cargo deny check; \
    else \
        echo "deny: skipped, cargo-deny is not installed (cargo install cargo-deny)"; \
    fi

# Whole request bodies of every dialect, read with the vendors' own types. Needs python3 and a package index.
vendor-types:
    scripts/vendor-types

# Read changed snapshots one by one, then accept or reject them.
snap:
    cargo insta test --review

# Cost of one call and of a hundred at once, beside a bare call and two peers. `just bench --json`.
bench *args:
    cargo run --release --package haft-benches -- {{ args }}

# The same tool through the Python libraries people use, beside ours, in one run. Needs their scripts, python3 and a package index.
bench-peers *args:
    scripts/bench-peers {{ args }}

# Search, reading, opening and launching beside rg, sed, a plain open, a plain spawn and bubblewrap. Installs rg and bubblewrap from Debian where they are missing.
bench-builtin *args:
    scripts/bench-builtin {{ args }}

# A million calls through everything, with failures by chance: answered once, memory flat, nothing left behind. `just soak --calls 20000`.
soak *args:
    cargo run --release --package haft-benches --bin soak -- {{ args }}

# Each fuzz target for a while: `just fuzz` is a minute each, `just fuzz 600 streams` ten for one.
fuzz *args:
    scripts/fuzz {{ args }}
