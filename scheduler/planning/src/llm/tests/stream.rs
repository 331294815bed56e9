//! Steps that run while the rest of the answer is written.

use super::*;

#[tokio::test]
async fn steps_are_handed_over_before_the_rest_is_written() {
    let mut steps = vec![flight()];
    for n in 0..19 {
        let mut step = room();
        step["id"] = format!("room{n}").into();
        steps.push(step);
    }
    let text = json!({ "steps": steps }).to_string();
    let quarter = text.len() / 4;
    let chunk = 64;
    // The connection is cut a quarter into the plan: what came before it has been handed over.
    let cut = Scripted { chunk: Some(chunk), cut_after: Some(quarter / chunk), ..says(&json!({ "steps": steps })) };
    let world = world(LlmSettings::default(), vec![vec![cut]]).await;
    let (sender, mut parts) = mpsc::channel(100);
    let error = world.llm.stream(&request(), sender).await.expect_err("the rest never came");
    assert_ne!(error.reason, "");
    let mut got = Vec::new();
    while let Ok(part) = parts.try_recv() {
        got.push(part);
    }
    assert!(matches!(&got[0], Part::Head(head) if head.name == GOAL && head.steps.is_empty()), "{got:?}");
    assert!(matches!(&got[1], Part::Step(step) if step.id.as_str() == "flight"), "{got:?}");
}

/// A streamed answer of twenty steps, the first of which has to be repaired.
fn to_repair() -> (Scripted, String) {
    let mut first = flight();
    first["action"] = "Find Flight".into();
    first["thought"] = "hm".into();
    let rooms = (0..19).map(|n| {
        let mut step = room();
        step["id"] = format!("room{n}").into();
        step
    });
    let steps: Vec<Value> = std::iter::once(first).chain(rooms).collect();
    let plan = json!({ "steps": steps });
    (Scripted { chunk: Some(64), ..says(&plan) }, plan.to_string())
}

#[tokio::test]
async fn what_was_repaired_in_steps_that_run_is_told_though_the_stream_breaks() {
    let (script, text) = to_repair();
    let cut = Scripted { cut_after: Some(text.len() / 2 / 64), ..script };
    let world = world(LlmSettings::default(), vec![vec![cut]]).await;
    let (request, (sender, _parts)) = (request(), mpsc::channel(100));
    world.llm.stream(&request, sender).await.expect_err("the rest never came");
    let told = request.call_log.to_json().expect("something was asked");
    assert_eq!(repairs(&told["rounds"][0]), ["REMARK_DROPPED", "ACTION_NORMAL_FORM"], "{told:#}");
}

#[tokio::test]
async fn what_was_repaired_in_steps_that_run_is_told_though_nobody_waits_for_the_rest() {
    let (script, text) = to_repair();
    let hangs = Scripted { hang_after: Some(text.len() / 2 / 64), ..script };
    let world = world(LlmSettings::default(), vec![vec![hangs]]).await;
    let (request, (sender, mut parts)) = (request(), mpsc::channel(100));
    let two_steps =
        async { while !matches!(parts.recv().await, Some(Part::Step(step)) if step.id.as_str() == "room0") {} };
    tokio::select! {
        ended = world.llm.stream(&request, sender) => panic!("the model is silent: {ended:?}"),
        () = two_steps => {}
    }
    let told = request.call_log.to_json().expect("something was asked");
    let begun = &told["rounds"][0];
    assert_eq!((&begun["begun"][0], repairs(begun)), (&json!("flight"), vec!["REMARK_DROPPED", "ACTION_NORMAL_FORM"]));
}

#[tokio::test]
async fn a_streamed_plan_is_the_plan_that_was_handed_over_and_its_bad_end_is_criticised() {
    let first = Scripted { chunk: Some(16), ..says(&json!({"steps": [flight(), bad_room()]})) };
    let world = world(LlmSettings::default(), vec![vec![first, says(&json!({"steps": [room()]}))]]).await;
    let (sender, mut parts) = mpsc::channel(100);
    let planned = world.llm.stream(&request(), sender).await.expect("the correction is valid").planned;
    let mut steps = Vec::new();
    while let Ok(part) = parts.try_recv() {
        if let Part::Step(step) = part {
            steps.push(*step);
        }
    }
    assert_eq!(steps, planned.plan.steps[..1]);
    assert_eq!(ids(&planned), ["flight", "room"]);
}
