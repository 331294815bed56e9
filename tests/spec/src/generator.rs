//! Random cases: a document and a script, each from a seed.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Map, Value, json};

use crate::case::{Case, StoredDocument};
use crate::script::{Act, Deed, Does, Forking, Script, SentEvent, Wish};

/// Plans inside plans, at most.
const DEPTH_MAX: u32 = 2;
/// Acts that are listed for each action.
const ACTS: usize = 6;

/// A random case.
pub fn generate(seed: u64) -> Case {
    let mut generator = Generator {
        random: StdRng::seed_from_u64(seed),
        steps: 0,
        script: Script::default(),
        has_budget: false,
        cached: Vec::new(),
        stored: Vec::new(),
        reads_inputs: false,
    };
    generator.has_budget = generator.one_in(4);
    let document = generator.plan(0);
    generator.deeds();
    if generator.one_in(4) {
        generator.script.deadline_ms = Some(20_000 + generator.below(150_000));
    }
    if generator.one_in(4) {
        generator.script.start_ms = Some(1 + generator.below(60_000));
    }
    if generator.one_in(4) {
        let step = format!("s{}", 1 + generator.pick(generator.steps));
        let step = Some(step).filter(|_| generator.one_in(3));
        generator.script.fork = Some(Forking { after_ms: 1 + generator.below(20_000), step });
    }
    generator.script.events.sort_by_key(|event| event.at_ms);
    Case { stored: generator.stored, document, script: generator.script }
}

struct Generator {
    random: StdRng,
    /// Steps so far, in all plans.
    steps: usize,
    script: Script,
    has_budget: bool,
    /// Actions whose outputs are cached.
    cached: Vec<String>,
    /// Plans that are stored.
    stored: Vec<StoredDocument>,
    /// Whether the plan that is written reads the inputs of its step.
    reads_inputs: bool,
}

/// A step that others may depend on.
struct Earlier {
    id: String,
    /// Whether its outputs may have `n`.
    gives_number: bool,
    /// Whether its failure counts as a skip.
    never_fails: bool,
}

impl Generator {
    fn below(&mut self, bound: u64) -> u64 {
        self.random.random_range(0..bound)
    }

    fn pick(&mut self, bound: usize) -> usize {
        self.random.random_range(0..bound)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// A plan document.
    ///
    /// - `depth`: plans around it.
    fn plan(&mut self, depth: u32) -> Value {
        let most = if depth == 0 { 5 } else { 3 };
        let count = 1 + self.below(most);
        let (mut steps, mut earlier) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let step = self.step(depth, &earlier);
            let gives_number = step.get("action").is_some() && step.get("for_each").is_none();
            let never_fails = step.get("on_failure").is_some_and(|word| word == "skip");
            let id = step["id"].as_str().unwrap_or_default().to_owned();
            earlier.push(Earlier { id, gives_number, never_fails });
            steps.push(Value::Object(step));
        }
        let mut plan = Map::new();
        if self.one_in(if depth == 0 { 3 } else { 5 }) {
            let always: Vec<Value> = (0..=self.below(2)).map(|_| self.always(&earlier)).collect();
            plan.insert("always".into(), always.into());
        }
        if self.one_in(5) {
            plan.insert("phases".into(), json!([{"id": "p1"}, {"id": "p2"}]));
            let second = self.pick(steps.len() + 1);
            for (n, step) in steps.iter_mut().enumerate().filter(|_| self.below(4) > 0) {
                step["phase"] = if n < second { "p1" } else { "p2" }.into();
            }
        }
        plan.insert("steps".into(), steps.into());
        match self.below(12) {
            0..=2 => drop(plan.insert("max_parallel".into(), (1 + self.below(2)).into())),
            3..=5 => drop(plan.insert("strategy".into(), "sequential".into())),
            _ => {}
        }
        if self.one_in(5) {
            plan.insert("failures_max".into(), self.below(2).into());
        }
        if self.one_in(10) {
            plan.insert("continue_on_failure".into(), true.into());
        }
        if self.one_in(16) {
            let on = ["failed", "cancelled"][usize::from(self.one_in(2))];
            plan.insert("undo_on".into(), json!([on]));
        }
        if depth == 0 && self.has_budget {
            plan.insert("budget".into(), json!({"tokens": self.below(40)}));
        }
        plan.into()
    }

    fn step(&mut self, depth: u32, earlier: &[Earlier]) -> Map<String, Value> {
        self.steps += 1;
        let id = format!("s{}", self.steps);
        let mut step = Map::new();
        step.insert("id".into(), id.into());
        match self.below(14) {
            0 => self.wait_for(&mut step),
            1 | 2 => self.wait_event(&mut step),
            // The shares of a budget among plans inside are not specified yet.
            3 | 4 if depth < DEPTH_MAX && !self.has_budget => {
                step.insert("kind".into(), "plan".into());
                if self.one_in(2) {
                    self.use_stored(&mut step, depth);
                } else {
                    step.insert("plan".into(), self.plan(depth + 1));
                }
                match self.below(8) {
                    0 => self.repeat(&mut step),
                    1 => drop(step.insert("timeout".into(), format!("{}ms", 5_000 + self.below(60_000)).into())),
                    _ => {}
                }
            }
            5 if depth == 0 && earlier.is_empty() => drop(step.insert("kind".into(), "message".into())),
            _ => self.agent(&mut step, depth),
        }
        self.dependencies(&mut step, earlier);
        if self.one_in(12) {
            self.approve(&mut step);
        }
        if self.one_in(8) && step.contains_key("action") && !step.contains_key("for_each") {
            self.ask(&mut step);
        }
        match self.below(8) {
            0 => drop(step.insert("on_failure".into(), "skip".into())),
            1 | 2 => drop(step.insert("on_failure".into(), "continue".into())),
            _ => {}
        }
        step
    }

    /// Uses a new stored plan, or one that was used before. The name of a plan says how deep it may be used.
    fn use_stored(&mut self, step: &mut Map<String, Value>, depth: u32) {
        let around = depth + 1;
        let name = format!("p{around}");
        let versions = |stored: &[StoredDocument]| stored.iter().filter(|stored| stored.name == name).count();
        if versions(&self.stored) == 0 || self.random.random() {
            let outer = std::mem::replace(&mut self.reads_inputs, true);
            let mut document = self.plan(around);
            self.reads_inputs = outer;
            document["input_schema"] =
                json!({"type": "object", "properties": {"n": {"type": "integer", "default": 4}}});
            self.stored.push(StoredDocument { name: name.clone(), document });
        }
        let version = 1 + self.pick(versions(&self.stored));
        step.insert("use".into(), if self.one_in(2) { name } else { format!("{name}@{version}") }.into());
        let inputs = if self.one_in(3) { json!({}) } else { json!({"n": self.below(9)}) };
        step.insert("inputs".into(), inputs);
    }

    /// What people do: no two deeds in one millisecond.
    fn deeds(&mut self) {
        let mut deeds = std::mem::take(&mut self.script.deeds);
        if self.one_in(3) {
            let at_ms = self.below(120_000);
            deeds.push(Deed { at_ms, does: Wish::Cancel });
        }
        if self.one_in(4) {
            let at_ms = self.below(60_000);
            deeds.push(Deed { at_ms, does: Wish::Pause });
            if self.below(4) > 0 {
                deeds.push(Deed { at_ms: at_ms + 1 + self.below(60_000), does: Wish::Resume });
            }
        }
        for _ in 0..[0, 1, 2, 3, 4][self.pick(5)] {
            let step = format!("s{}", 1 + self.pick(self.steps));
            let at_ms = self.below(60_000);
            let does = match self.below(5) {
                0 => Wish::Skip(step),
                1 => Wish::Complete(step),
                2 => Wish::Change(step),
                3 => Wish::Retry(step),
                _ => Wish::Remove(step),
            };
            deeds.push(Deed { at_ms, does });
        }
        deeds.sort_by_key(|deed| deed.at_ms);
        deeds.dedup_by_key(|deed| deed.at_ms);
        self.script.deeds = deeds;
    }

    fn ask(&mut self, step: &mut Map<String, Value>) {
        let mut ask = Map::from_iter([("question".to_owned(), Value::from("how many?"))]);
        ask.insert("limit".into(), format!("{}ms", 1_000 + self.below(60_000)).into());
        if self.one_in(2) {
            ask.insert("default".into(), json!({"n": 2}));
        }
        if self.below(3) > 0 {
            ask.insert("into".into(), "z".into());
        }
        step.insert("ask".into(), ask.into());
        if self.below(3) > 0 {
            let at_ms = self.below(90_000);
            self.script.deeds.push(Deed { at_ms, does: Wish::Answer(format!("s{}", self.steps)) });
        }
    }

    fn approve(&mut self, step: &mut Map<String, Value>) {
        let default = ["approve", "reject"][usize::from(self.one_in(2))];
        let limit = format!("{}ms", 1_000 + self.below(60_000));
        step.insert("approve".into(), json!({"limit": limit, "default": default}));
        if self.below(3) > 0 {
            let id = format!("s{}", self.steps);
            let does = if self.one_in(3) { Wish::Reject(id) } else { Wish::Approve(id) };
            let at_ms = self.below(90_000);
            self.script.deeds.push(Deed { at_ms, does });
        }
    }

    fn agent(&mut self, step: &mut Map<String, Value>, depth: u32) {
        let mut action = format!("a{}", self.steps);
        let is_cached = self.one_in(8);
        match self.cached.last() {
            Some(known) if is_cached && self.random.random() => action.clone_from(known),
            _ => self.acts(&action, 8),
        }
        let calls_back = !is_cached && self.one_in(6);
        if calls_back {
            step.insert("callback".into(), true.into());
            self.call_back(&action);
        }
        let mut inputs = Map::from_iter([("x".to_owned(), json!(self.below(5)))]);
        step.insert("agent_type".into(), "w".into());
        step.insert("action".into(), action.clone().into());
        self.retry(step);
        if self.one_in(3) {
            step.insert("timeout".into(), format!("{}ms", 5_000 + self.below(40_000)).into());
        }
        if self.one_in(10) {
            let action = format!("f{}", self.steps);
            self.acts(&action, 4);
            step.insert("fallback".into(), json!({"action": action}));
        }
        if self.one_in(10) {
            step.insert("expected_outputs".into(), json!(["n"]));
        }
        match self.below(8) {
            0 if !is_cached => self.repeat(step),
            1..=3 if depth < DEPTH_MAX && !self.has_budget => self.map(step, &mut inputs),
            _ => {}
        }
        if step.contains_key("repeat") {
            inputs.insert("round".into(), "{{ iteration }}".into());
        }
        if self.reads_inputs {
            let read = ["inputs.n", "goal.metadata.stored_plan"][usize::from(self.one_in(4))];
            inputs.insert("given".into(), format!("{{{{ {read} }}}}").into());
        }
        step.insert("inputs".into(), inputs.into());
        if is_cached {
            let ttl = format!("{}ms", 1 + self.below(90_000));
            let cache = json!({"key": "{{ inputs.x }}", "ttl": ttl});
            step.insert("cache".into(), if self.one_in(3) { true.into() } else { cache });
            self.cached.push(action);
        }
        if self.one_in(6) && !step.contains_key("for_each") {
            step.insert("resource".into(), "r".into());
        }
        if self.one_in(2) {
            let action = format!("u{}", self.steps);
            self.acts(&action, 1);
            let mut inputs = json!({"of": "{{ inputs.x }}", "got": "{{ outputs.n | default('none') }}"});
            if self.one_in(2) {
                // Undo steps see the inputs that were sent.
                inputs["saw"] = "{{ inputs.y | default('none') }}".into();
            }
            let mut undo = Map::from_iter([("action".to_owned(), Value::from(action)), ("inputs".to_owned(), inputs)]);
            self.retry(&mut undo);
            step.insert("undo".into(), undo.into());
        }
    }

    fn always(&mut self, earlier: &[Earlier]) -> Value {
        self.steps += 1;
        let action = format!("l{}", self.steps);
        self.acts(&action, 1);
        let mut inputs = Map::from_iter([("plan".to_owned(), Value::from("{{ plan.status }}"))]);
        let seen = earlier.get(self.pick(earlier.len()));
        let seen = seen.map(|step| format!("{{{{ steps.{}.status }}}}", step.id));
        inputs.extend(seen.map(|seen| ("seen".to_owned(), seen.into())));
        let mut step = Map::new();
        step.insert("id".into(), format!("s{}", self.steps).into());
        step.insert("agent_type".into(), "w".into());
        step.insert("action".into(), action.into());
        step.insert("inputs".into(), inputs.into());
        self.retry(&mut step);
        step.into()
    }

    /// Waits between retries are never random.
    fn retry(&mut self, step: &mut Map<String, Value>) {
        let max = self.below(3);
        let (initial, factor) = (format!("{}ms", 100 + self.below(5_000)), 1 + self.below(2));
        let retry = if max == 0 {
            json!({"max": 0})
        } else {
            json!({"max": max, "initial": initial, "factor": factor, "jitter": "none"})
        };
        step.insert("retry".into(), retry);
    }

    fn repeat(&mut self, step: &mut Map<String, Value>) {
        let max = 1 + self.below(3);
        let until = match self.below(3) {
            0 => "false".to_owned(),
            1 if step.contains_key("action") => format!("outputs.n | default(0) > {}", self.below(9)),
            _ => format!("iteration >= {}", 1 + self.below(3)),
        };
        let mut repeat = Map::from_iter([("until".to_owned(), Value::from(until)), ("max".to_owned(), max.into())]);
        if self.one_in(2) {
            repeat.insert("delay".into(), format!("{}ms", 1 + self.below(9_000)).into());
        }
        if self.one_in(2) {
            repeat.insert("on_max".into(), "continue".into());
        }
        step.insert("repeat".into(), repeat.into());
    }

    fn map(&mut self, step: &mut Map<String, Value>, inputs: &mut Map<String, Value>) {
        let items =
            if self.one_in(4) { json!([{"v": 1}, {}, {"v": 3}]) } else { json!([{"v": 1}, {"v": 2}, {"v": 3}]) };
        step.insert("for_each".into(), items);
        inputs.insert("x".into(), "{{ item.v }}".into());
        inputs.insert("index".into(), "{{ index }}".into());
        // Without a condition every item has a value.
        if self.one_in(3) {
            step.insert("when".into(), "item.v is defined".into());
        } else {
            inputs.insert("x".into(), "{{ item.v | default(0) }}".into());
        }
        if self.one_in(4) {
            step.insert("max_parallel".into(), (1 + self.below(2)).into());
        }
        match self.below(5) {
            0..=2 => drop(step.insert("on_item_failure".into(), "continue".into())),
            3 => drop(step.insert("on_item_failure".into(), json!({"at_most": 1}))),
            _ => {}
        }
    }

    fn wait_for(&mut self, step: &mut Map<String, Value>) {
        step.insert("kind".into(), "wait".into());
        step.insert("wait".into(), json!({"for": format!("{}ms", 1 + self.below(30_000))}));
    }

    fn wait_event(&mut self, step: &mut Map<String, Value>) {
        let name = if self.one_in(3) { "shared".to_owned() } else { format!("e{}", self.steps) };
        for n in 0..self.below(3) {
            let (at_ms, data) = (self.below(60_000), json!({"n": n}));
            self.script.events.push(SentEvent { at_ms, name: name.clone(), key: "k".into(), data });
        }
        let mut wait = Map::from_iter([("event".to_owned(), Value::from(name)), ("key".to_owned(), "k".into())]);
        wait.insert("timeout".into(), format!("{}ms", 20_000 + self.below(60_000)).into());
        match self.below(3) {
            0 => drop(wait.insert("on_timeout".into(), "skip".into())),
            1 => drop(wait.insert("on_timeout".into(), json!({"default": {"n": 0}}))),
            _ => {}
        }
        step.insert("kind".into(), "wait".into());
        step.insert("wait".into(), wait.into());
        match self.below(4) {
            // One event completes one iteration.
            0 if !self.has_budget => {
                let inner = Map::from_iter([("id".to_owned(), json!(format!("s{}w", self.steps)))]);
                let inner: Map<String, Value> =
                    inner.into_iter().chain(std::mem::take(step).into_iter().skip(1)).collect();
                step.insert("id".into(), format!("s{}", self.steps).into());
                step.insert("kind".into(), "plan".into());
                step.insert("plan".into(), json!({"steps": [inner]}));
                self.repeat(step);
            }
            1 if !self.has_budget => drop(step.insert("for_each".into(), json!([1, 2]))),
            _ => {}
        }
    }

    fn dependencies(&mut self, step: &mut Map<String, Value>, earlier: &[Earlier]) {
        let mut dependencies: Vec<Value> = Vec::new();
        let is_use = step.contains_key("use");
        for other in earlier {
            if self.one_in(2) {
                let statuses = [json!(["failed"]), json!(["completed", "skipped"]), json!(["completed"])];
                let is = statuses[if other.never_fails { 1 + self.pick(2) } else { self.pick(3) }].clone();
                let named = json!({"step": other.id, "is": is});
                dependencies.push(if self.one_in(5) { named } else { other.id.clone().into() });
                if other.gives_number && self.one_in(4) && !step.contains_key("when") && !step.contains_key("for_each")
                {
                    let when = format!("steps.{}.outputs.n | default({}) > 3", other.id, self.below(9));
                    step.insert("when".into(), when.into());
                }
                if let (true, Some(Value::Object(inputs))) = (self.one_in(3), step.get_mut("inputs")) {
                    let text = format!("{{{{ steps.{}.outputs.n | default('none') }}}}", other.id);
                    let name = if is_use { "n" } else { "y" };
                    inputs.insert(name.into(), text.into());
                }
            }
        }
        if dependencies.len() > 1 && self.one_in(2) {
            let join = if self.one_in(2) { json!("any") } else { json!({"at_least": 1}) };
            step.insert("join".into(), join);
        }
        if !dependencies.is_empty() {
            step.insert("depends_on".into(), dependencies.into());
        }
    }

    /// Lets the agent accept the tasks, and report by callback.
    fn call_back(&mut self, action: &str) {
        let mut acts = self.script.acts.remove(action).unwrap_or_default();
        for act in acts.iter_mut().filter(|act| !matches!(act.does, Does::Cut | Does::Lost)) {
            act.accepts_ms = (self.below(4) > 0).then(|| 1 + self.below(9_000));
        }
        self.script.acts.insert(action.to_owned(), acts);
    }

    /// - `trouble`: how many of twenty acts do not complete.
    fn acts(&mut self, action: &str, trouble: u64) {
        let mut acts: Vec<Act> = (0..ACTS).map(|_| self.act(trouble)).collect();
        if self.one_in(30) {
            // Each attempt takes its worker along.
            acts.iter_mut().for_each(|act| (act.does, act.tokens) = (Does::Lost, 0));
        }
        self.script.acts.insert(action.to_owned(), acts);
    }

    fn act(&mut self, trouble: u64) -> Act {
        let after_ms = 1 + self.below(40_000);
        let does = if self.below(20) >= trouble {
            let n = self.below(9);
            Does::Answer(if self.one_in(12) { json!({"z": n}) } else { json!({"n": n}) })
        } else {
            match self.below(11) {
                0 | 1 => Does::Busy,
                2..=4 => Does::Refuse,
                5 | 6 => Does::Cut,
                7 | 8 => Does::Lost,
                _ => Does::Silent,
            }
        };
        let tokens = if self.has_budget { self.below(15) } else { 0 };
        let is_counted = !matches!(does, Does::Silent | Does::Lost);
        let tokens = if is_counted { tokens } else { 0 };
        Act { tokens, records: self.one_in(6), stores: self.one_in(8), ..Act::new(after_ms, does) }
    }
}
