//! Detects a goal whose amount the shell expanded: in double quotes `$2000` becomes `000`.

/// Currency signs and words.
const SIGNS: &[char] = &['$', '€', '£', '¥'];
const CURRENCIES: &[&str] =
    &["usd", "eur", "gbp", "chf", "jpy", "dollar", "dollars", "euro", "euros", "pounds", "bucks", "yen", "francs"];
/// A number this many words from `budget` counts as its amount.
const NEAR: usize = 3;

/// Whether `goal` mentions a budget without an amount.
pub fn lacks_amount(goal: &str) -> bool {
    let words: Vec<String> = goal.split_whitespace().map(str::to_lowercase).collect();
    let budgets: Vec<usize> = words
        .iter()
        .enumerate()
        .filter(|(_, word)| word.trim_matches(|c: char| !c.is_alphanumeric()).starts_with("budget"))
        .map(|(place, _)| place)
        .collect();
    if budgets.is_empty() {
        return false;
    }
    !words.iter().enumerate().any(|(place, word)| {
        let is_money = is_amount_with_sign(word)
            || words.get(place + 1).is_some_and(|next| is_currency(next)) && amount(word).is_some();
        let is_near = budgets.iter().any(|budget| budget.abs_diff(place) <= NEAR);
        is_money || (is_near && amount(word).is_some())
    })
}

fn is_currency(word: &str) -> bool {
    CURRENCIES.contains(&word.trim_matches(|c: char| !c.is_alphanumeric()))
}

fn is_amount_with_sign(word: &str) -> bool {
    let bare = word.trim_matches(|c: char| matches!(c, '(' | ')' | ',' | '.' | ';' | ':' | '"' | '\''));
    let stripped = bare.trim_matches(|c: char| SIGNS.contains(&c));
    let attached = CURRENCIES.iter().find_map(|name| stripped.strip_suffix(name).or(stripped.strip_prefix(name)));
    (stripped.len() < bare.len() && amount(stripped).is_some()) || attached.is_some_and(|rest| amount(rest).is_some())
}

/// A positive number, with thousands separators or `k`; `000`, left of `$2000`, is none.
fn amount(word: &str) -> Option<f64> {
    let bare = word.trim_matches(|c: char| matches!(c, '(' | ')' | ',' | '.' | ';' | ':' | '"' | '\''));
    let (digits, factor) = bare.strip_suffix('k').map_or((bare, 1.0), |rest| (rest, 1_000.0));
    let digits: String = digits.chars().filter(|c| !matches!(c, ',' | '_' | '\'')).collect();
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    digits.parse::<f64>().ok().map(|number| number * factor).filter(|number| *number > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_that_the_shell_ate_is_noticed() {
        assert!(lacks_amount("Plan a 3-day trip to Paris in May with a 000 budget"));
        assert!(lacks_amount("Plan a trip on a tight budget"));
        assert!(lacks_amount("Plan a trip for 3 people to Paris in the sunny May on a budget"));
    }

    #[test]
    fn amounts_are_read() {
        for goal in [
            "Plan a 3-day trip to Paris in May with a $2000 budget",
            "a trip with a budget of 2,000",
            "a trip for €1.5k, that is all the budget there is",
            "budget: 2000USD",
            "spend at most 300 dollars of this year's huge remaining travel budget",
        ] {
            assert!(!lacks_amount(goal), "{goal}");
        }
        assert!(!lacks_amount("Plan a trip to Paris"));
    }
}
