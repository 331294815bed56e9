# A convenience: every recipe is one plain command.

default:
    @just --list

# Everything in one process: a goal planned and run to its end.
demo:
    cargo run -- dev --demo

# The pure packages; seconds, no Redis.
test-engine:
    cargo test -p goalmill-common -p goalmill-engine

# Everything.
test:
    bash tests/run

# The advisory database; needs a network that reaches GitHub.
advisories:
    cargo deny check advisories

lint:
    cargo fmt --all --check && cargo clippy --workspace --all-targets -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items

# The simulation from a seed.
sim seed:
    GOALMILL_SIM_SEED={{seed}} cargo test -p goalmill-tests --test sim -- --nocapture

# Exactly what CI runs.
ci:
    bash .ci/run
