//! The rules around a step or a plan: retries, approval, budgets, estimates, cache, priority.

use goalmill_common::goal::{Budget, Priority};
use goalmill_common::json::Json;
use goalmill_common::number::to_u32;
use goalmill_common::plan::{Approval, ApprovalDefault, Cache, Estimates, Question, RevisionPolicy, Widen};
use goalmill_common::revision::RevisionStrategy;
use serde_json::Value;

use crate::document::{DocumentPath, Fields, Table, Unit, ValidationContext, shorten, text, wrong_type};

/// How long outputs are kept for others by default, in milliseconds.
const CACHE_TTL_MS: u64 = 3_600_000;
/// Longest time that outputs are kept for others, in milliseconds.
const CACHE_TTL_MS_MAX: u64 = 30 * 24 * 3_600_000;

/// One of several words, whatever its case; dashes and blanks count as underscores.
pub(super) fn word<T: Copy>(fields: &Fields<'_, '_>, name: &str, words: &[(&str, T)]) -> Option<T> {
    let given = fields.text(name)?;
    let field = fields.get(name)?;
    let folded = given.trim().to_ascii_lowercase().replace(['-', ' '], "_");
    if let Some((_, value)) = words.iter().find(|(word, _)| *word == folded) {
        return Some(*value);
    }
    let hint = match goalmill_common::suggest::nearest(&folded, words.iter().map(|(word, _)| *word)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("use one of {}", words.iter().map(|(w, _)| format!("`{w}`")).collect::<Vec<_>>().join(", ")),
    };
    fields.context.error(
        "INVALID_VALUE",
        &fields.at.key(field.key),
        format!("`{}` is not known here", shorten(&given)),
        hint,
    );
    None
}

const APPROVAL: &Table =
    &[("limit_ms", &["timeout_ms"]), ("limit", &["timeout", "within"]), ("default", &["default_action", "on_timeout"])];

/// Reads `approve: true`, `approve: {limit, default}` and `approval_required: true`.
pub(super) fn approval(fields: &Fields<'_, '_>) -> Option<Approval> {
    let required = fields.flag("approval_required").unwrap_or(false).then(Approval::default);
    let Some(field) = fields.get("approve") else { return required };
    let map = match field.value {
        Value::Object(map) => map,
        Value::Bool(true) => return Some(Approval::default()),
        Value::Bool(false) => return required,
        Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            wrong_type(
                fields.context,
                &fields.at.key(field.key),
                field.value,
                "true, false or an object with `limit` and `default`",
            );
            return required;
        }
    };
    let at = fields.at.key(field.key);
    let inner = Fields::from_map(fields.context, &at, map, APPROVAL);
    let max = fields.context.limits.approval_ms_max;
    let limit = inner
        .duration("limit_ms", Unit::Milliseconds, 1, max, "INVALID_TIMEOUT")
        .or_else(|| inner.duration("limit", Unit::Seconds, 1, max, "INVALID_TIMEOUT"));
    let words = [
        ("approve", ApprovalDefault::Approve),
        ("approved", ApprovalDefault::Approve),
        ("reject", ApprovalDefault::Reject),
        ("rejected", ApprovalDefault::Reject),
    ];
    let usual = Approval::default();
    Some(Approval {
        limit_ms: limit.unwrap_or(usual.limit_ms.min(max)),
        default: word(&inner, "default", &words).unwrap_or(usual.default),
    })
}

const REVISION: &Table = &[
    ("max", &["max_revisions"]),
    ("threshold", &["revision_threshold"]),
    ("confidence_floor", &["min_confidence"]),
    ("budget_low", &[]),
    ("approve", &["approval"]),
    ("approval_required", &["requires_approval", "require_approval"]),
    ("widen", &[]),
    ("strategy", &["revision_strategy"]),
    ("model", &[]),
];

/// Reads `revision: {max, threshold, …}`, or `true` for the defaults. A number is the count of revisions of a plan that
/// was exported: it says nothing about a new one.
pub(super) fn revision(fields: &Fields<'_, '_>) -> Option<RevisionPolicy> {
    let field = fields.get("revision")?;
    let at = fields.at.key(field.key);
    let map = match field.value {
        Value::Object(map) => map,
        Value::Bool(true) => return Some(RevisionPolicy::default()),
        Value::Bool(false) | Value::Number(_) => return None,
        Value::Null | Value::String(_) | Value::Array(_) => {
            wrong_type(
                fields.context,
                &at,
                field.value,
                "an object with `max`, `threshold`, `confidence_floor`, `approve`",
            );
            return None;
        }
    };
    let inner = Fields::from_map(fields.context, &at, map, REVISION);
    let usual = RevisionPolicy::default();
    let share = |name: &str, usual: f64| {
        let Some(given) = inner.amount(name) else { return usual };
        if given > 1.0 {
            let detail = format!("{given} is no share");
            fields.context.error("INVALID_VALUE", &at.key(name), detail, "give a number from 0 to 1");
        }
        given.min(1.0)
    };
    let words = [("refuse", Widen::Refuse), ("approve", Widen::Approve), ("allow", Widen::Allow)];
    Some(RevisionPolicy {
        max: inner.count("max", 0, u64::from(fields.context.limits.revisions_max)).map(to_u32),
        threshold: share("threshold", usual.threshold),
        confidence_floor: share("confidence_floor", usual.confidence_floor),
        budget_low: share("budget_low", usual.budget_low),
        approve: approval(&inner),
        widen: word(&inner, "widen", &words).unwrap_or_default(),
        strategy: revision_strategy(&inner),
        model: model(&inner),
    })
}

fn revision_strategy(fields: &Fields<'_, '_>) -> Option<RevisionStrategy> {
    let by_planners = RevisionStrategy::ALL.iter().filter(|strategy| **strategy != RevisionStrategy::Edit);
    let words: Vec<_> = by_planners.map(|strategy| (strategy.as_str(), *strategy)).collect();
    word(fields, "strategy", &words)
}

/// A name that is not empty; whether there is such a model is checked where models are known.
fn model(fields: &Fields<'_, '_>) -> Option<String> {
    let model = fields.text("model")?;
    if model.trim().is_empty() {
        let at = fields.at.key(fields.get("model")?.key);
        fields.context.error("INVALID_VALUE", &at, "the name is empty", "give the name of a model, or leave it out");
        return None;
    }
    Some(model)
}

const ASK: &Table = &[
    ("question", &["text", "prompt"]),
    ("schema", &[]),
    ("default", &[]),
    ("limit_ms", &["timeout_ms"]),
    ("limit", &["timeout", "within"]),
    ("into", &[]),
];

/// Reads `ask: "…?"` or `ask: {question, schema, default, limit, into}`.
pub(super) fn ask(fields: &Fields<'_, '_>) -> Option<Question> {
    let field = fields.get("ask")?;
    let at = fields.at.key(field.key);
    let usual_ms = Approval::default().limit_ms.min(fields.context.limits.approval_ms_max);
    let Value::Object(map) = field.value else {
        let question = text(fields.context, &at, field.value)?;
        return Some(Question { question, schema: None, default: None, limit_ms: usual_ms, into: None });
    };
    let inner = Fields::from_map(fields.context, &at, map, ASK);
    if inner.get("question").is_none() {
        fields.context.error("MISSING_FIELD", &at.key("question"), "nothing is asked", "give a `question`");
    }
    let max = fields.context.limits.approval_ms_max;
    let limit_ms = inner
        .duration("limit_ms", Unit::Milliseconds, 1, max, "INVALID_TIMEOUT")
        .or_else(|| inner.duration("limit", Unit::Seconds, 1, max, "INVALID_TIMEOUT"));
    Some(Question {
        question: inner.text("question")?,
        schema: inner.get("schema").and_then(|f| super::schema::read_schema(fields.context, &at.key(f.key), f.value)),
        default: inner.get("default").map(|f| Json::from_value(f.value)),
        limit_ms: limit_ms.unwrap_or(usual_ms),
        into: inner.text("into").filter(|name| !name.is_empty()),
    })
}

const AMOUNTS: &Table = &[
    ("tokens", &["max_tokens", "estimated_tokens"]),
    ("cost", &["max_cost", "cost_usd", "usd", "max_cost_usd", "estimated_cost"]),
    ("seconds", &["max_seconds", "time_seconds", "duration", "time", "estimated_seconds"]),
];

pub(super) fn budget(fields: &Fields<'_, '_>) -> Budget {
    let Some(field) = fields.get("budget") else { return Budget::default() };
    let at = fields.at.key(field.key);
    let Value::Object(map) = field.value else {
        wrong_type(fields.context, &at, field.value, "an object with `tokens`, `cost`, `seconds`");
        return Budget::default();
    };
    let inner = Fields::from_map(fields.context, &at, map, AMOUNTS);
    Budget {
        tokens: inner.count("tokens", 0, TOKENS_MAX),
        cost: inner.amount("cost"),
        seconds: seconds(&inner, "seconds"),
    }
}

/// More tokens than that are a slip.
const TOKENS_MAX: u64 = 1_000_000_000_000;

/// Reads `estimates: {…}` or the fields that stand for it.
pub(super) fn estimates(fields: &Fields<'_, '_>) -> Estimates {
    let mut out = Estimates {
        seconds: seconds(fields, "estimated_seconds"),
        tokens: fields.count("estimated_tokens", 0, TOKENS_MAX),
        cost: fields.amount("estimated_cost"),
    };
    let Some(field) = fields.get("estimates") else { return out };
    let at = fields.at.key(field.key);
    let Value::Object(map) = field.value else {
        wrong_type(fields.context, &at, field.value, "an object with `seconds`, `tokens`, `cost`");
        return out;
    };
    let inner = Fields::from_map(fields.context, &at, map, AMOUNTS);
    out.seconds = seconds(&inner, "seconds").or(out.seconds);
    out.tokens = inner.count("tokens", 0, TOKENS_MAX).or(out.tokens);
    out.cost = inner.amount("cost").or(out.cost);
    out
}

/// Seconds as a number, or a duration with a unit.
fn seconds(fields: &Fields<'_, '_>, name: &str) -> Option<f64> {
    if fields.get(name)?.value.is_string() {
        fields.duration(name, Unit::Seconds, 0, u64::MAX, "INVALID_VALUE").map(|ms| ms as f64 / 1_000.0)
    } else {
        fields.amount(name)
    }
}

const CACHE: &Table = &[("key", &[]), ("ttl_ms", &[]), ("ttl", &["ttl_seconds", "max_age"])];

/// The key of a cache that names none: all of the step's inputs, as they will be sent.
const CACHE_KEY: &str = "{{ inputs | tojson }}";

/// Reads `true` (by all inputs), a key, or an object; without a `key`, that goes by all inputs too.
pub(super) fn cache(context: &ValidationContext<'_>, at: &DocumentPath<'_>, value: &Value) -> Option<Cache> {
    let map = match value {
        Value::Object(map) => map,
        Value::Bool(false) => return None,
        Value::Bool(true) => return Some(Cache { key: CACHE_KEY.into(), ttl_ms: CACHE_TTL_MS }),
        Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return text(context, at, value).map(|key| Cache { key, ttl_ms: CACHE_TTL_MS });
        }
    };
    let fields = Fields::from_map(context, at, map, CACHE);
    let ttl = |name, unit| fields.duration(name, unit, 1, CACHE_TTL_MS_MAX, "INVALID_VALUE");
    let ttl_ms = ttl("ttl_ms", Unit::Milliseconds).or_else(|| ttl("ttl", Unit::Seconds)).unwrap_or(CACHE_TTL_MS);
    let key = if fields.get("key").is_some() { fields.text("key")? } else { CACHE_KEY.to_owned() };
    Some(Cache { key, ttl_ms })
}

/// Reads 1 to 10, or a word.
pub(super) fn priority(fields: &Fields<'_, '_>) -> Option<Priority> {
    let words = [("low", 2), ("normal", 5), ("medium", 5), ("high", 8), ("urgent", 10), ("critical", 10)];
    if fields.get("priority")?.value.is_string() {
        word(fields, "priority", &words).map(Priority)
    } else {
        fields.count("priority", 1, 10).and_then(|n| u8::try_from(n).ok()).map(Priority)
    }
}

/// The time limit under its names, at most `max` milliseconds.
pub(super) fn timeout_within(fields: &Fields<'_, '_>, max: u64) -> Option<u64> {
    let forms = [("timeout", Unit::Seconds), ("timeout_ms", Unit::Milliseconds), ("timeout_seconds", Unit::Seconds)];
    let mut given = None;
    for (name, unit) in forms {
        let Some(field) = fields.get(name) else { continue };
        let Some(ms) = fields.duration(name, unit, 1, max, "INVALID_TIMEOUT") else { continue };
        if given.is_some_and(|first| first != ms) {
            let at = fields.at.key(field.key);
            fields.context.error("CONFLICTING_FIELDS", &at, "the step has two different timeouts", "keep one of them");
        }
        given = Some(ms);
    }
    given
}
