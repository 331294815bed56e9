//! Finds the word that somebody probably meant.

/// Longest word that is compared, in characters.
const CHARS_MAX: usize = 64;

/// Most words that are compared.
const WORDS_MAX: usize = 2_000;

/// The nearest of `words` to `word`, when it is near enough to be a slip: at most a third of the letters differ.
pub fn nearest<'a>(word: &str, words: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted: Vec<char> = word.chars().take(CHARS_MAX + 1).map(fold).collect();
    if wanted.is_empty() || wanted.len() > CHARS_MAX {
        return None;
    }
    let limit = (wanted.len() / 3).max(1);
    let mut best: Option<(usize, &str)> = None;
    for candidate in words.into_iter().take(WORDS_MAX) {
        let longest = best.map_or(limit, |(distance, _)| distance.saturating_sub(1));
        if candidate.len().abs_diff(word.len()) > longest + 8 {
            continue;
        }
        let letters: Vec<char> = candidate.chars().take(CHARS_MAX + 1).map(fold).collect();
        if letters.len().abs_diff(wanted.len()) > longest {
            continue;
        }
        let distance = distance(&wanted, &letters);
        if distance <= longest && best.is_none_or(|(d, _)| distance < d) {
            best = Some((distance, candidate));
        }
        if distance == 0 {
            break;
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// `Task-ID` and `task_id` are the same word.
fn fold(c: char) -> char {
    match c {
        '-' | ' ' => '_',
        c => c.to_ascii_lowercase(),
    }
}

/// Edits that turn one into the other, a swap of neighbours being one (optimal string alignment).
///
/// Source: L. Boytsov, "Indexing methods for approximate dictionary searching", 2011, 2.2.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let same = usize::from(a[i - 1] != b[j - 1]);
            row[j] = (above[j] + 1).min(row[j - 1] + 1).min(above[j - 1] + same);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_word_and_another_word_does_not() {
        let words = ["steps", "dependencies", "description", "timeout"];
        assert_eq!(nearest("stpes", words), Some("steps"));
        assert_eq!(nearest("dependancies", words), Some("dependencies"));
        assert_eq!(nearest("Time-Out", words), Some("timeout"));
        assert_eq!(nearest("colour", words), None);
        assert_eq!(nearest("", words), None);
    }
}
