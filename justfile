# A convenience: every recipe is one plain command.

default:
    @just --list

# Everything in one process: a goal planned and run to its end.
demo:
    cargo run -- dev --demo

# The pure packages; seconds, no Redis.
test-engine:
    cargo test -p goalmill-common -p goalmill-engine -p goalmill-shard

# Before a commit: format, clippy of the packages that changed since `main`, tests of the pure packages; a minute, warm.
check:
    cargo fmt --all --check
    bash tests/changed | xargs --no-run-if-empty cargo clippy --locked --all-targets
    cargo test --locked --quiet -p goalmill-common -p goalmill-expression -p goalmill-plan -p goalmill-engine -p goalmill-shard -p goalmill-reader

# Everything.
test:
    bash tests/run

# The advisory database; needs a network that reaches GitHub.
advisories:
    cargo deny check advisories

lint:
    cargo fmt --all --check && cargo clippy --workspace --all-targets -- -D warnings
    cargo clippy -p goalmill --no-default-features -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items

# The simulation from a seed.
sim seed:
    GOALMILL_SIM_SEED={{seed}} cargo test -p goalmill-tests --test sim -- --nocapture

# Exactly what CI runs.
ci:
    bash .ci/run
