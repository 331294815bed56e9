//! Schema versions: migrations go forward only and are part of the program.

use goalmill_common::number::to_u32;

use crate::ArchiveError;

/// The migrations that a database of version `found` lacks, each with the version that it creates.
///
/// - `place`: a name of the database for the error message, without secrets.
pub(crate) fn missing(
    all: &'static [&'static str],
    found: u32,
    place: &str,
) -> Result<Vec<(u32, &'static str)>, ArchiveError> {
    let newest = to_u32(all.len());
    if found > newest {
        return Err(ArchiveError::Schema(format!(
            "the archive {place} has schema version {found}, and this program knows versions up to {newest}: use a \
             later version of Goalmill, or another database"
        )));
    }
    Ok((1..).zip(all.iter().copied()).filter(|(version, _)| *version > found).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_schema_is_refused_and_an_older_one_gets_what_it_lacks() {
        const ALL: &[&str] = &["a", "b", "c"];
        assert_eq!(missing(ALL, 1, "x").unwrap(), [(2, "b"), (3, "c")]);
        assert_eq!(missing(ALL, 3, "x").unwrap(), []);
        let refused = missing(ALL, 4, "`d/archive.sqlite`").unwrap_err().to_string();
        assert!(refused.contains("version 4") && refused.contains("`d/archive.sqlite`"), "{refused}");
    }
}
