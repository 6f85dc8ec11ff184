# Common tasks. `just` alone lists the recipes.

_default:
    @just --list

# All checks, as in CI. Arguments choose steps: `just check lint test`.
check *steps:
    scripts/check {{ steps }}

# Check the formatting.
fmt:
    cargo fmt --all --check

# Clippy for every target of every crate; warnings are errors.
lint:
    scripts/check lint

# Unit, integration, compile-fail and example tests of the default members. Arguments go to cargo: `just test plan`.
test *args:
    cargo test --lib --bins --tests --examples {{ args }}

# Property tests with a new seed, so with new cases; prints the seed. `just properties 7 schemas` repeats seed 7.
properties seed=`od -An -N4 -tu4 /dev/urandom | tr -d ' '` *args:
    @echo "seed {{ seed }}"
    PROPTEST_RNG_SEED={{ seed }} cargo test --lib --tests {{ args }}

# Check that every crate compiles for macOS; needs the target.
macos *args:
    scripts/check-macos {{ args }}

# Run the programs in doc comments, the README and the guide.
doctest:
    cargo test --doc

# Build the documentation; broken links are errors.
doc:
    scripts/check docs

# Compare the public API with docs/public-api.txt; `just api --write` writes the list.
api *args: doc
    scripts/public-api {{ args }}

# Lower the lists of tidy exceptions and write the list of messages.
tidy:
    HAFT_TIDY=write cargo test -p haft --test it tidy

# Licences, advisories and sources of the dependencies.
deny:
    scripts/check licences

# Validate request bodies of every dialect with the vendors' SDK types. Needs python3 and a package index.
vendor-types:
    scripts/vendor-types

# Run the official MCP conformance suite. Needs npm with a registry.
mcp-conformance:
    scripts/mcp-conformance

# Reference MCP servers behind haft and the official clients in front of it.
mcp-peers:
    scripts/mcp-peers

# What the gateway adds to a call, next to other proxies. `just bench-mcp --write`.
bench-mcp *args:
    scripts/bench-mcp {{ args }}

# Review changed snapshots one by one.
snap:
    cargo insta test --review

# Cost of one call and of 100 parallel calls, compared with a bare call and two peers. `just bench --json`.
bench *args:
    cargo run --release --package haft-benches -- {{ args }}

# Instructions of one call, under valgrind. `just instructions --check` compares them with the checked-in numbers.
instructions *args:
    scripts/instructions {{ args }}

# The same tool through Python libraries and through haft, in one run. Needs their scripts, python3 and a package index.
bench-peers *args:
    scripts/bench-peers {{ args }}

# Search, read, open and launch, compared with rg, sed, a plain open, a plain spawn and bubblewrap. Installs rg and bubblewrap from Debian if they are missing.
bench-builtin *args:
    scripts/bench-builtin {{ args }}

# 10 000 calls of `haft explain --calls`; needs a release build of haft-cli.
bench-explain *args:
    scripts/bench-explain {{ args }}

# A million calls with random failures: one result each, constant memory, no leaked process or file. `just soak --calls 20000`.
soak *args:
    cargo run --release --package haft-benches --bin soak -- {{ args }}

# Lines, crates and times of builds: `just build-cost` counts, `just build-cost all` measures everything in about an hour.
build-cost *args:
    scripts/build-cost {{ args }}

# Run fuzz targets: `just fuzz` runs each for a minute, `just fuzz 600 streams` one for ten minutes.
fuzz *args:
    scripts/fuzz {{ args }}
