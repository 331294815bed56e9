//! Constraints of a goal: values that are read, what they limit, and how much they weigh.
//!
//! A goal keeps its constraints as the caller wrote them, because planners see them. [`constraints`] reads those values
//! whose meaning is certain; everything else is a text for planners and is never measured.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::budget::COST_MAX;
use crate::word_enum::word_enum;

mod value;

pub use value::parse_value;

/// Priority from which a constraint is hard, unless it says otherwise.
pub const HARD_FROM: u8 = 8;
/// Priority of a constraint that names none.
pub const PRIORITY_DEFAULT: u8 = 5;
/// Share of a limit from which it counts as low.
pub const LOW_SHARE: f64 = 0.8;

/// A constraint of a goal.
#[derive(Clone, Debug, PartialEq)]
pub struct Constraint {
    /// The name in the goal.
    pub name: String,
    /// The value, as far as it is understood.
    pub value: ConstraintValue,
    /// Whether the value is a ceiling or a floor.
    pub bound: Bound,
    /// 1 (relaxed first) to 10.
    pub priority: u8,
    /// A plan never goes past a hard constraint.
    pub hard: bool,
    /// The expression that reads the amount of the result from outputs: `steps.total.outputs.sum`.
    pub of: Option<String>,
}

/// The value of a constraint.
#[derive(Clone, Debug, PartialEq)]
pub enum ConstraintValue {
    /// An amount in a currency.
    Money {
        /// Not negative.
        amount: f64,
        /// ISO 4217.
        currency: String,
    },
    /// A length of time, in seconds.
    Duration(f64),
    /// A moment, Unix milliseconds; a day without a time means its end, UTC.
    Date(u64),
    /// A span of days or moments, Unix milliseconds.
    Interval {
        /// Its beginning.
        from_ms: u64,
        /// Its end.
        to_ms: u64,
    },
    /// A number without a unit.
    Count(f64),
    /// One of several words.
    OneOf(Vec<String>),
    /// Words for planners.
    Text(String),
}

/// The side on which a value limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bound {
    /// The measure must not be above the value.
    #[default]
    AtMost,
    /// The measure must not be below the value when the plan ends.
    AtLeast,
}

/// What is added up to compare it with a constraint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Measure {
    /// The reported cost in this currency, ISO 4217.
    Cost(String),
    /// Tokens of language models.
    Tokens,
    /// Seconds since the goal was accepted.
    Elapsed,
    /// The time of the day, against a date.
    Deadline,
    /// A measure of this name that agents report.
    Named(String),
}

word_enum! {
    /// Where a plan stands with a constraint.
    ConstraintStatus {
        /// It holds.
        Met = "met",
        /// It holds, and more than 80 % of it is used.
        Low = "low",
        /// It is broken.
        Broken = "broken",
        /// It was given up in favour of one with a higher priority.
        Relaxed = "relaxed",
        /// It is a text for planners: nothing measures it.
        NotMeasured = "not_measured",
    }
}

/// A constraint with its state, as views show it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ConstraintView {
    /// The name in the goal.
    pub name: String,
    /// 1 (relaxed first) to 10.
    pub priority: u8,
    /// A plan never goes past a hard constraint.
    pub hard: bool,
    /// Where the plan stands with it.
    pub status: ConstraintStatus,
    /// What is measured: `spend` (what the run costs), `amount` (what its result costs, read from outputs), `tokens`,
    /// `elapsed`, `deadline`, or the name of a measure of agents.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub measure: String,
    /// The measured value so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<f64>,
    /// The limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
    /// The unit of both: a currency, `tokens`, `seconds`, `unix_ms`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// Whether the limit is a floor.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
    /// Why it was relaxed, or why nothing measures it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

impl ConstraintView {
    /// The view of a constraint that is not measured.
    pub fn not_measured(constraint: &Constraint) -> Self {
        Self {
            name: constraint.name.clone(),
            priority: constraint.priority,
            hard: constraint.hard,
            status: ConstraintStatus::NotMeasured,
            measure: String::new(),
            measured: None,
            limit: constraint.limit(),
            unit: constraint.unit().to_owned(),
            at_least: constraint.bound == Bound::AtLeast,
            reason: String::new(),
        }
    }
}

impl Constraint {
    /// What is measured against it; `None` for a text for planners.
    pub fn measure(&self) -> Option<Measure> {
        let words: Vec<&str> = self.name.split(['_', '-', ' ', '.']).collect();
        let has = |names: &[&str]| words.iter().any(|word| names.contains(&word.to_ascii_lowercase().as_str()));
        match &self.value {
            ConstraintValue::Money { currency, .. } if has(&COST) => Some(Measure::Cost(currency.clone())),
            ConstraintValue::Count(_) if has(&["token", "tokens"]) => Some(Measure::Tokens),
            ConstraintValue::Duration(_) if ELAPSED.contains(&self.stem()) => Some(Measure::Elapsed),
            ConstraintValue::Date(_) if has(&DEADLINE) => Some(Measure::Deadline),
            ConstraintValue::Money { .. } | ConstraintValue::Count(_) | ConstraintValue::Duration(_) => {
                Some(Measure::Named(self.stem().to_owned()))
            }
            ConstraintValue::Date(_)
            | ConstraintValue::Interval { .. }
            | ConstraintValue::OneOf(_)
            | ConstraintValue::Text(_) => None,
        }
    }

    /// Whether it limits what the result costs: money whose name does not say that the run is meant. What the run costs
    /// is a part of that.
    pub fn limits_result(&self) -> bool {
        let mut words = self.name.split(['_', '-', ' ', '.']);
        matches!(self.measure(), Some(Measure::Cost(_)))
            && self.bound == Bound::AtMost
            && !words.any(|word| RUN.contains(&word.to_ascii_lowercase().as_str()))
    }

    /// The limit as a number in the unit of its measure.
    pub fn limit(&self) -> Option<f64> {
        match &self.value {
            ConstraintValue::Money { amount, .. } => Some(*amount),
            ConstraintValue::Duration(seconds) => Some(*seconds),
            ConstraintValue::Date(ms) => Some(*ms as f64),
            ConstraintValue::Count(count) => Some(*count),
            ConstraintValue::Interval { .. } | ConstraintValue::OneOf(_) | ConstraintValue::Text(_) => None,
        }
    }

    /// The unit of the limit, for people; empty for a plain number.
    pub fn unit(&self) -> &str {
        match &self.value {
            ConstraintValue::Money { currency, .. } => currency,
            ConstraintValue::Duration(_) => "seconds",
            ConstraintValue::Date(_) | ConstraintValue::Interval { .. } => "unix_ms",
            ConstraintValue::Count(_) if self.measure() == Some(Measure::Tokens) => "tokens",
            ConstraintValue::Count(_) | ConstraintValue::OneOf(_) | ConstraintValue::Text(_) => "",
        }
    }

    /// The name without what only says how it limits: `max_emails` and `emails_limit` limit `emails`.
    fn stem(&self) -> &str {
        let stem = PREFIXES.iter().find_map(|prefix| self.name.strip_prefix(prefix)).unwrap_or(&self.name);
        let is_time = matches!(self.value, ConstraintValue::Duration(_));
        let unit = ["_seconds", "_secs", "_minutes", "_mins", "_hours"].iter().find_map(|unit| stem.strip_suffix(unit));
        let stem = unit.filter(|_| is_time).unwrap_or(stem);
        stem.strip_suffix("_limit").or_else(|| stem.strip_suffix("_max")).unwrap_or(stem)
    }
}

impl Measure {
    /// The word for it in views and events.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Cost(_) => SPEND,
            Self::Tokens => "tokens",
            Self::Elapsed => "elapsed",
            Self::Deadline => "deadline",
            Self::Named(name) => name,
        }
    }
}

/// The measure of what a run costs: what agents and models report.
pub const SPEND: &str = "spend";
/// The measure of what the result of a plan costs, read from outputs.
pub const AMOUNT: &str = "amount";

/// Words in the name of an amount of money that can only mean the cost of the execution.
const RUN: [&str; 9] = ["spend", "spending", "fee", "fees", "run", "execution", "agents", "models", "llm"];
/// Words in the name of an amount of money that make it a limit on the cost of the execution.
const COST: [&str; 9] = ["budget", "cost", "costs", "spend", "spending", "expense", "expenses", "fee", "fees"];
/// Words in the name of a date that make it a deadline.
const DEADLINE: [&str; 7] = ["deadline", "due", "finish", "finished", "complete", "completed", "until"];
/// Names of a duration that limit the execution, and not something that the plan is about.
const ELAPSED: [&str; 13] = [
    "seconds", "minutes", "hours", "time", "time_budget", "execution_time", "execution_duration", "runtime", "elapsed",
    "elapsed_time", "timeout", "wall_time", "plan_duration",
];
/// Beginnings of a name that only say how it limits.
const PREFIXES: [&str; 6] = ["max_", "maximum_", "min_", "minimum_", "total_", "limit_"];

/// Reads the constraints of a goal. Names are sorted; a value that is not understood is a text.
pub fn constraints(map: &Map<String, Value>) -> Vec<Constraint> {
    map.iter().filter(|(name, _)| name.as_str() != NOTES).map(|(name, value)| constraint(name, value)).collect()
}

/// The name under which a goal keeps constraints that are plain sentences.
pub const NOTES: &str = "notes";

fn constraint(name: &str, value: &Value) -> Constraint {
    let fields = value.as_object();
    let stated = |key: &str| fields.and_then(|fields| fields.get(key));
    let priority = stated("priority").and_then(Value::as_u64).and_then(|n| u8::try_from(n).ok());
    let priority = priority.filter(|n| (1..=10).contains(n)).unwrap_or(PRIORITY_DEFAULT);
    let hard = stated("hard").and_then(Value::as_bool).unwrap_or(priority >= HARD_FROM);
    let (value, bound) = parse_value(name, value);
    let of = stated("of").and_then(Value::as_str).map(ToOwned::to_owned);
    Constraint { name: name.to_owned(), value, bound, priority, hard, of }
}

/// What an agent reports beside cost and tokens, by name. The cost in another currency than the US dollar is
/// `cost_EUR`.
pub type Measures = std::collections::BTreeMap<String, f64>;

/// Most measures of one report, and of one plan.
pub const MEASURES_MAX: usize = 32;

/// The measure under which a cost in this currency is added up.
pub fn cost_measure(currency: &str) -> String {
    format!("cost_{}", currency.to_ascii_uppercase())
}

/// Keeps the measures of a report that may be added up: finite, not negative, with a short name.
pub fn bounded_measures(measures: Measures) -> Measures {
    let fits = |(name, amount): &(String, f64)| {
        crate::id::is_id(name) && name.len() <= 64 && amount.is_finite() && *amount >= 0.0
    };
    measures.into_iter().filter(fits).take(MEASURES_MAX).map(|(name, n)| (name, n.min(COST_MAX))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> Vec<Constraint> {
        constraints(value.as_object().expect("an object"))
    }

    #[test]
    fn priority_makes_a_constraint_hard_unless_it_says_otherwise() {
        let given = json!({
            "a": {"value": "10 USD", "priority": 8}, "b": {"value": 3, "priority": 7}, "c": {"value": 3, "hard": true},
            "d": {"value": 3, "priority": 9, "hard": false}, "e": 3,
        });
        let hard: Vec<bool> = read(given).iter().map(|c| c.hard).collect();
        assert_eq!(hard, [true, false, true, false, false]);
    }

    #[test]
    fn names_decide_what_is_measured() {
        let measure = |name: &str, value: Value| {
            let map = Map::from_iter([(name.to_owned(), value)]);
            constraints(&map)[0].measure()
        };
        let named = |name: &str| Some(Measure::Named(name.into()));
        assert_eq!(measure("budget", json!("100 USD")), Some(Measure::Cost("USD".into())));
        assert_eq!(measure("max_cost", json!("€50")), Some(Measure::Cost("EUR".into())));
        assert_eq!(measure("hotel_price", json!("300 EUR")), named("hotel_price"));
        assert_eq!(measure("max_tokens", json!(10_000)), Some(Measure::Tokens));
        assert_eq!(measure("max_time", json!("2 hours")), Some(Measure::Elapsed));
        assert_eq!(measure("time_limit", json!("2 hours")), Some(Measure::Elapsed));
        assert_eq!(measure("time_limit_seconds", json!(90)), Some(Measure::Elapsed));
        assert_eq!(measure("duration", json!("3 days")), named("duration"));
        assert_eq!(measure("deadline", json!("2027-05-01")), Some(Measure::Deadline));
        assert_eq!(measure("travel_date", json!("2027-05-01")), None);
        assert_eq!(measure("max_emails", json!(5)), named("emails"));
        assert_eq!(measure("quality", json!("venue rated at least 4 stars")), None);
    }
}
