//! The optional parts of this binary, and the refusal of settings that ask for another one.

use goalmill_common::config::{Feature, Loaded, exports_traces};

use crate::exit::Failed;

/// Each part, and whether it is built in.
const FEATURES: [(Feature, bool); 3] = [
    (Feature::Mcp, cfg!(feature = "mcp")),
    (Feature::Otel, cfg!(feature = "otel")),
    (Feature::Postgres, cfg!(feature = "postgres")),
];

/// The parts that are built in.
pub fn built_in() -> Vec<Feature> {
    FEATURES.iter().filter(|(_, is_built_in)| *is_built_in).map(|(feature, _)| *feature).collect()
}

/// Refuses settings of a scheduler that ask for a part that is not built in.
pub fn check_features(loaded: &Loaded) -> Result<(), Failed> {
    let missing = loaded.missing_features(exports_traces(), &built_in());
    if missing.is_empty() {
        return Ok(());
    }
    let missing: Vec<String> = missing.iter().map(ToString::to_string).collect();
    Err(Failed::invalid(missing.join("; ")).help("see the optional parts: goalmill version -o json"))
}

#[cfg(test)]
mod tests {
    use goalmill_common::config::ArchiveKind;

    use super::*;
    use crate::exit::Exit;

    /// Holds with and without the features: `cargo test -p goalmill --no-default-features --bins part`.
    #[test]
    fn settings_are_refused_if_they_ask_for_a_part_that_is_not_built_in() {
        check_features(&Loaded::default()).expect("defaults ask for nothing");
        let mut loaded = Loaded::default();
        loaded.settings.archive.store = ArchiveKind::Postgres;
        match check_features(&loaded) {
            Ok(()) => assert!(built_in().contains(&Feature::Postgres)),
            Err(failed) => {
                assert!(!built_in().contains(&Feature::Postgres));
                assert_eq!(failed.exit, Exit::InvalidInput);
                assert!(failed.message.contains("--features postgres"), "{failed}");
            }
        }
    }
}
