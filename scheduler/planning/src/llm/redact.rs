//! Redacts probable secrets in texts that are stored.

/// What stands where a secret stood.
const MASK: &str = "[redacted]";
/// Names whose values are secrets.
const NAMES: [&str; 9] =
    ["password", "passwd", "secret", "api_key", "apikey", "access_token", "auth_token", "authorization", "credential"];
/// Beginnings of keys that services hand out.
const PREFIXES: [&str; 11] =
    ["sk-", "sk_", "pk_live_", "rk_live_", "ghp_", "gho_", "github_pat_", "xoxb-", "xoxp-", "AKIA", "eyJhbGciOi"];
/// Letters after such a beginning that make it a key.
const KEY_CHARS_MIN: usize = 12;

/// The text with values of secret names and keys of known forms masked. Linear in its length.
pub fn redact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut is_secret_next = false;
    while !rest.is_empty() {
        let word_len = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        if word_len == 0 {
            let c = rest.chars().next().expect("the rest is not empty");
            // A line, an item or a table ends what a name may be of.
            is_secret_next &= !matches!(c, '\n' | ',' | '{' | '}' | '[' | ']');
            out.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        }
        let (word, behind) = rest.split_at(word_len);
        let assigns = behind.trim_start_matches(['"', '\'', ' ', '\\']).starts_with([':', '=']);
        if is_secret_next && !assigns {
            out.push_str(MASK);
            is_secret_next = word.eq_ignore_ascii_case("bearer") || word.eq_ignore_ascii_case("basic");
        } else if is_key(word) {
            out.push_str(MASK);
        } else {
            out.push_str(word);
            is_secret_next = assigns && is_secret_name(word);
        }
        rest = behind;
    }
    out
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '+' | '!' | '$' | '%' | '&' | '*' | '@' | '#')
}

fn is_secret_name(word: &str) -> bool {
    let name: String = word.to_ascii_lowercase().replace('-', "_");
    NAMES.iter().any(|known| name.contains(known)) || matches!(name.as_str(), "token" | "pwd")
}

fn is_key(word: &str) -> bool {
    PREFIXES.iter().any(|prefix| word.strip_prefix(prefix).is_some_and(|rest| rest.len() >= KEY_CHARS_MIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_and_nothing_else() {
        for (text, expected) in [
            (r#"{"password": "hunter2!", "city": "Rome"}"#, r#"{"password": "[redacted]", "city": "Rome"}"#),
            ("api-key=abc123 and more", "api-key=[redacted] and more"),
            ("Authorization: Bearer abc.def\nnext: line", "Authorization: [redacted] [redacted]\nnext: line"),
            ("use sk-proj-abcdefgh12345678 here", "use [redacted] here"),
            ("the token economy: a report", "the token economy: a report"),
            ("a risk-free plan for 2 people", "a risk-free plan for 2 people"),
            ("Übernachtung für zwei", "Übernachtung für zwei"),
        ] {
            assert_eq!(redact(text), expected);
        }
    }
}
