//! Time of the engine for plans of a shape.
use goalmill_common::limits::Limits;
use goalmill_plan::validate::validate_plan;
use goalmill_spec::{Script, drive};
use serde_json::{Value, json};
use std::io::Write;
use std::time::Instant;
fn main() {
    let step = |n: usize| json!({"id": format!("s{n}"), "agent_type": "w", "action": "a", "inputs": {"n": n}});
    let wide: Vec<Value> = (0..5000).map(step).collect();
    let chain: Vec<Value> = (0..2000)
        .map(|n| {
            let mut s = step(n);
            if n > 0 {
                s["depends_on"] = json!([format!("s{}", n - 1)]);
            }
            s
        })
        .collect();
    let undo: Vec<Value> = (0..2000)
        .map(|n| {
            let mut s = step(n);
            s["undo"] = json!({"action": "u"});
            s
        })
        .collect();
    let map = vec![
        json!({"id": "m", "agent_type": "w", "action": "a", "for_each": (0..4000).collect::<Vec<_>>(), "inputs": {"x": "{{ item }}"}}),
    ];
    for (name, steps, n) in [("wide", wide, 5000), ("chain", chain, 2000), ("undo", undo, 2000), ("map", map, 4000)] {
        let plan = validate_plan(&json!({"steps": steps}), &Limits::default()).unwrap().plan().clone();
        let script = Script::default();
        let mut best = f64::MAX;
        for _ in 0..7 {
            let t = Instant::now();
            let run = drive(&plan, &script);
            let us = t.elapsed().as_secs_f64() * 1e6 / f64::from(n);
            if let Err(e) = run {
                writeln!(std::io::stdout(), "{e:?}").unwrap();
            }
            best = best.min(us);
        }
        writeln!(std::io::stdout(), "{name}: {best:.2} us a step").unwrap();
    }
}
