//! Reads how many travel: `for two`, `for 2 adults and 2 children`.

use goalmill_common::number::{to_u32, whole_u64};

use super::words::Text;

/// Largest group that is taken for one.
const PERSONS_MAX: f64 = 1e6;
/// Largest group that a number alone stands for: `for two`.
const GROUP_MAX: u32 = 20;

/// The first group that the text names.
pub(super) fn read(text: &Text) -> Option<u32> {
    let (at, count, next) = text.open().filter(|at| text.lower(*at) == "for").find_map(|at| {
        let number = text.number(at + 1)?;
        let count = whole(number.value)?;
        if !PERSONS.contains(&text.lower(number.next)) {
            let is_range = text.lower(number.next) == "to" && text.number(number.next + 1).is_some();
            let is_alone = !text.is_letters(number.next) && !SIGNS.contains(&text.lower(number.next))
                || ["in", "to", "from", "with", "on", "at", "by", "under"].contains(&text.lower(number.next));
            return (is_alone && !is_range && count <= GROUP_MAX).then_some((at, count, number.next));
        }
        let more = text.number(number.next + 2).filter(|_| matches!(text.lower(number.next + 1), "and" | "+" | ","));
        let more = more
            .and_then(|more| Some((whole(more.value)?, more.next)))
            .filter(|(_, next)| PERSONS.contains(&text.lower(*next)));
        let (others, last) = more.unwrap_or((0, number.next));
        Some((at, count + others, last + 1))
    })?;
    text.mark(at, next);
    Some(count)
}

const PERSONS: &[&str] =
    &["people", "persons", "person", "adults", "adult", "travellers", "travelers", "children", "kids", "guests"];

/// Signs that make a number something else than a group: `for 2-3`, `for 5 %`.
const SIGNS: &[&str] = &["-", "–", "%", "$", "€", "£", "/", ":"];

fn whole(value: f64) -> Option<u32> {
    (value.fract() == 0.0 && (1.0..=PERSONS_MAX).contains(&value)).then(|| to_u32(whole_u64(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn travellers_are_counted() {
        for (text, expected) in [
            ("a weekend in Rome for two", Some(2)),
            ("for 2 people", Some(2)),
            ("for 2 adults and 2 children", Some(4)),
            ("for four, please", Some(4)),
            ("for two weeks", None),
            ("for 3 days", None),
            ("for 2000 dollars", None),
            ("for 2000", None),
            ("for 2-3 people", None),
            ("for 3 to 5 days", None),
            ("not for two", None),
            ("for my wife and two kids", None),
        ] {
            assert_eq!(read(&Text::new(text)), expected, "{text}");
        }
    }
}
