//! Maps: a step with `for_each` becomes a plan with one step for each item, once the list is known.

use std::collections::BTreeSet;

use goalmill_common::event::{ItemWork, StepCompleted, StepEvent, StepExpanded};
use goalmill_common::failure::{Failure, FailureClass};
use goalmill_common::id::{ID_CHARS_MAX, StepId};
use goalmill_common::json::{Json, json_bytes};
use goalmill_common::limits::Limits;
use goalmill_common::number::{to_u32, to_usize};
use goalmill_common::plan::{
    Cache, Collect, ForEach, Join, OnFailure, OnItemFailure, Plan, Question, Step, Strategy, UndoOn,
};
use goalmill_common::text::shorten;
use goalmill_expression as expression;
use serde_json::{Value, json};

use crate::attempt::failure;
use crate::attempt::spent::Spent;
use crate::cleanup::done_work;
use crate::cleanup::done_work::items_with_outputs;
use crate::graph::StepIndex;
use crate::people::hook;
use crate::render::{self, RenderedItem, Unrendered, payloads};
use crate::sub_plan::family_limits;
use crate::turn::Turn;
use crate::{budget, cleanup};

/// Bytes of outputs that the items of a map read together when each of them reads outputs of other steps.
const ITEM_READS_MAX: usize = 64 << 20;
/// When the plan of a map undoes its items, if the plan around it undoes anything: that plan may fail while it cancels
/// this one.
const UNDO_ON: [UndoOn; 2] = [UndoOn::Failed, UndoOn::Cancelled];
/// Characters of a wrong list that an error shows.
const SHOWN_CHARS: usize = 80;

/// Puts the plan of its items in the place of a map. Returns whether the step continues as a `plan` step: it does not
/// when it waits for payloads, failed, or has no items.
pub(crate) fn expand_map(turn: &mut Turn<'_>, i: StepIndex) -> bool {
    let Some(map) = turn.state.plan.step(i).for_each.clone() else { return true };
    let plan = match plan_of_items(turn, i, &map) {
        Ok(plan) => plan,
        Err(why) => {
            failure::put_off(turn, i, why);
            return false;
        }
    };
    payloads::forget_payloads(turn, i);
    if plan.steps.is_empty() {
        let completed = StepCompleted { outputs: Value::Array(Vec::new()).into(), ..StepCompleted::default() };
        if let Some(completed) = hook::ask_hooks_after(turn, i, completed) {
            turn.emit_next(i, StepEvent::Completed(Box::new(completed)));
        }
        return false;
    }
    let items = to_u32(plan.steps.iter().filter(|step| !step.is_cleanup()).count());
    turn.emit_step(i, StepEvent::Expanded(Box::new(StepExpanded { items, plan: Box::new(plan) })));
    if let Some(failure) = budget::would_exceed_budget(turn.state, i) {
        let message = format!("{items} items: {}", failure.message);
        failure::give_up(turn, i, Failure { message, ..failure }, Spent::default());
        return false;
    }
    true
}

fn plan_of_items(turn: &mut Turn<'_>, i: StepIndex, map: &ForEach) -> Result<Plan, Unrendered> {
    let plan = if turn.state.plan.step(i).undoes_map() {
        undo_of_items(turn, i, map)?
    } else {
        let items = turn.expressions(i).for_each(map)?;
        let groups = groups_of(turn, map, &items).map_err(Unrendered::Failed)?;
        items_of(turn, i, map, &groups)?
    };
    if !plan.steps.is_empty() {
        let room = family_limits::check_family_room(turn, Some(&plan));
        room.and_then(|()| family_limits::check_family_bytes(turn, json_bytes(&plan) as u64))
            .map_err(Unrendered::Failed)?;
    }
    Ok(plan)
}

/// The plan that undoes what the items of a completed map have done, the last one first.
fn undo_of_items(turn: &mut Turn<'_>, i: StepIndex, map: &ForEach) -> Result<Plan, Unrendered> {
    let limits = &turn.context.limits;
    let spec = turn.state.plan.step(i);
    let target = done_work::undone_step(turn.state, i);
    let outputs = target.and_then(|target| turn.state.steps[target].outputs()).map(Json::value);
    let (Some(target), Some(Value::Array(outputs))) = (target, outputs) else { return Ok(Plan::default()) };
    let items = turn.state.plan.step(target).plan.as_deref();
    let done =
        done_work::items_done(turn.state, target).map_or_else(|| items_with_outputs(&outputs), <[ItemWork]>::to_vec);
    let template = Step { undoes: None, ..template(spec, map) };
    family_limits::check_room_of_items(turn, &template, done.len()).map_err(Unrendered::Failed)?;
    let mut bytes = ItemBytes::for_items(&[&template], done.len(), limits).map_err(Unrendered::Failed)?;
    let (mut steps, mut again) = (Vec::new(), BTreeSet::new());
    for work in done.iter().rev() {
        let n = to_usize(work.item);
        let item = items.and_then(|plan| plan.steps.get(n));
        let output = if work.unknown { None } else { outputs.get(n) }.unwrap_or(&Value::Null);
        let output = if output.is_null() { &json!({}) } else { output };
        let done = (item.map(|item| &item.inputs), output);
        let rendered = turn.expressions(i).undo_of_item(n, done)?;
        bytes.add(&rendered).map_err(Unrendered::Failed)?;
        // The undo step of one agent is that of the others too.
        let is_same = item.is_none_or(|item| item.agent_type == template.agent_type);
        let doer = work.agent_type.as_ref().filter(|_| is_same).unwrap_or(&template.agent_type);
        steps.push(Step {
            id: if again.insert(n) { item_id(&spec.id, n) } else { format!("{}:{}", n, steps.len()).into() },
            agent_type: doer.clone(),
            inputs: Json::from_value(&expression::literal(&rendered.inputs.value())),
            when: (!rendered.runs).then(|| "false".to_owned()),
            ..template.clone()
        });
    }
    let (name, strategy, collect) = (spec.id.to_string(), Strategy::Sequential, Collect::List);
    turn.work.add(bytes.bytes, 0);
    Ok(Plan { name, strategy, collect, steps, ..Plan::default() })
}

/// The step that undoes the items of a map.
fn undo_template<'s>(turn: &'s Turn<'_>, i: StepIndex) -> Option<&'s Step> {
    cleanup::undo_of(turn.state, i).map(|undo| turn.state.plan.step(undo)).filter(|undo| undo.undoes_map())
}

/// The undo steps of the items of a map, which run when its plan fails or is cancelled.
fn undos_of_items(undo: Option<&Step>, items: &[Step]) -> Vec<Step> {
    let Some(undo) = undo else { return Vec::new() };
    let of = |item: &Step| {
        let id = format!("{}:undo", item.id);
        let id = if id.len() > ID_CHARS_MAX { format!("undo{}", item_number(&item.id)) } else { id };
        Step { id: id.into(), undoes: Some(item.id.clone()), for_each: None, ..undo.clone() }
    };
    items.iter().filter(|item| item.when.is_none()).map(of).collect()
}

/// The items, or lists of them, that each get a step.
fn groups_of(turn: &Turn<'_>, map: &ForEach, items: &Json) -> Result<Vec<Value>, Failure> {
    let Value::Array(items) = items.value() else {
        let shown = shorten(items.text(), SHOWN_CHARS);
        let message = format!("`for_each` gives {shown}, which is not a list");
        return Err(Failure::new(FailureClass::Permanent, "FOR_EACH_NOT_A_LIST", message));
    };
    let groups: Vec<Value> = match map.batch {
        None => items,
        Some(size) => items.chunks(to_usize(size).max(1)).map(|group| Value::Array(group.to_vec())).collect(),
    };
    let (most, name) = match map.items_max {
        Some(most) => (to_usize(most), "items_max"),
        None => (turn.context.limits.items_max, "limits.items_max"),
    };
    if groups.len() <= most.min(turn.context.limits.steps_max) {
        return Ok(groups);
    }
    let message = format!("`for_each` gives {} items, at most {most} are allowed (`{name}`)", groups.len());
    Err(Failure::new(FailureClass::Permanent, "TOO_MANY_ITEMS", message))
}

/// The plan with one step for each item. Values are literal in it, so that nothing is rendered twice.
fn items_of(turn: &mut Turn<'_>, i: StepIndex, map: &ForEach, items: &[Value]) -> Result<Plan, Unrendered> {
    let limits = &turn.context.limits;
    let spec = turn.state.plan.step(i);
    let reads = render::bytes_seen(turn.state, i, map);
    if reads.saturating_mul(items.len()) > ITEM_READS_MAX {
        let message = format!(
            "each of {} items reads {reads} bytes of outputs of other steps; put what an item needs into its list",
            items.len()
        );
        return Err(Unrendered::Failed(too_large(message)));
    }
    let (template, undo) = (template(spec, map), undo_template(turn, i));
    family_limits::check_room_of_items(turn, &template, items.len()).map_err(Unrendered::Failed)?;
    let copied: Vec<&Step> = std::iter::once(&template).chain(undo).collect();
    let mut bytes = ItemBytes::for_items(&copied, items.len(), limits).map_err(Unrendered::Failed)?;
    let mut steps = Vec::with_capacity(items.len());
    for (n, item) in items.iter().enumerate() {
        let locals = locals(map, n, item);
        let rendered = turn.expressions(i).item(&locals)?;
        bytes.add(&rendered).map_err(Unrendered::Failed)?;
        let ask = template.ask.as_ref().zip(rendered.question);
        let cache = template.cache.as_ref().zip(rendered.cache_key);
        steps.push(Step {
            id: item_id(&spec.id, n),
            inputs: Json::from_value(&expression::literal(&rendered.inputs.value())),
            when: (!rendered.runs).then(|| "false".to_owned()),
            ask: ask.map(|(ask, text)| Question { question: expression::literal_text(&text), ..ask.clone() }),
            wait: rendered.wait,
            cache: cache.map(|(cache, key)| Cache { key: expression::literal_text(&key), ..cache.clone() }),
            ..template.clone()
        });
    }
    let undos = undos_of_items(undo, &steps);
    steps.extend(undos);
    let undo_on = turn.state.plan.definition().undo_on.as_ref();
    let undo_on = undo_on.map(|on| if on.is_empty() { Vec::new() } else { UNDO_ON.into() });
    turn.work.add(bytes.bytes, 0);
    Ok(Plan {
        name: turn.state.plan.step(i).id.to_string(),
        max_parallel: map.max_parallel,
        collect: Collect::List,
        undo_on,
        failures_max: match map.on_item_failure {
            OnItemFailure::Fail | OnItemFailure::Continue => None,
            OnItemFailure::AtMost(most) => Some(most),
        },
        steps,
        ..Plan::default()
    })
}

/// Bytes of the plan of a map's items. They are counted before anything is made of them: each item has a copy of the
/// fields of its step, and of the undo step.
struct ItemBytes {
    bytes: usize,
    max: usize,
}

impl ItemBytes {
    /// - `copied`: the steps that each item has a copy of.
    fn for_items(copied: &[&Step], items: usize, limits: &Limits) -> Result<Self, Failure> {
        let each: usize = copied.iter().map(|step| json_bytes(*step)).sum();
        let counted = Self { bytes: each.saturating_mul(items), max: limits.plan_bytes_max };
        counted.check_item_bytes(|| format!("{items} items with a step of {each} bytes each"))?;
        Ok(counted)
    }

    /// Counts what an item has of its own.
    fn add(&mut self, item: &RenderedItem) -> Result<(), Failure> {
        self.bytes = self.bytes.saturating_add(item.bytes());
        self.check_item_bytes(|| "the steps of the items".into())
    }

    fn check_item_bytes(&self, what: impl FnOnce() -> String) -> Result<(), Failure> {
        if self.bytes <= self.max {
            return Ok(());
        }
        let (what, max) = (what(), self.max);
        Err(too_large(format!("{what} have more than {max} bytes together (`limits.plan_bytes_max`)")))
    }
}

fn too_large(message: String) -> Failure {
    Failure::new(FailureClass::Permanent, "FOR_EACH_TOO_LARGE", message)
}

/// The step of an item, but for what each item has of its own.
fn template(spec: &Step, map: &ForEach) -> Step {
    let on_failure = match map.on_item_failure {
        OnItemFailure::Fail => OnFailure::Abort,
        OnItemFailure::Continue | OnItemFailure::AtMost(_) => OnFailure::Continue,
    };
    let inputs = Json::default();
    let mut step = Step { for_each: None, join: Join::All, phase: None, on_failure, inputs, ..spec.clone() };
    step.dependencies.clear();
    step.dependency_status.clear();
    step
}

/// `hotels:0`, or the number alone where that would be too long.
fn item_id(step: &StepId, n: usize) -> StepId {
    let id = format!("{step}:{n}");
    if id.len() > ID_CHARS_MAX { n.to_string().into() } else { id.into() }
}

/// The number at the end of an item's id.
fn item_number(id: &StepId) -> &str {
    let text = id.as_str();
    text.rsplit_once(':').map_or(text, |(_, number)| number)
}

/// What the fields of an item's step see besides `goal` and `steps`.
fn locals<'m>(map: &'m ForEach, n: usize, item: &Value) -> Vec<(&'m str, Json)> {
    let item = Json::from_value(item);
    let named = map.name.as_deref().map(|name| (name, item.clone()));
    [("item", item), ("index", Value::from(n).into())].into_iter().chain(named).collect()
}
