//! Who gets steps with agent type `auto`.
