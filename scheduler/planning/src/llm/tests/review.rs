//! Plans that hold are looked at once more.

use super::*;

fn reviewing() -> LlmSettings {
    LlmSettings { review: true, ..LlmSettings::default() }
}

fn finds(step: &str, severity: &str) -> Scripted {
    says(&json!({"findings": [{"step": step, "severity": severity, "reason": "rooms are closed in May"}]}))
}

fn inn() -> Value {
    let mut inn = room();
    inn["agent_type"] = "inns".into();
    inn["description"] = "Book an inn".into();
    inn
}

fn told(planned: &Planned) -> Vec<(&str, &str)> {
    let reviewed = planned.warnings.iter().filter(|warning| warning.code.starts_with("REVIEW_"));
    reviewed.map(|warning| (warning.code.as_str(), warning.pointer.as_str())).collect()
}

#[tokio::test]
async fn what_a_review_calls_an_error_is_corrected_once() {
    let strong = vec![finds("room", "error"), says(&json!({"steps": [inn()]})), finds("room", "error")];
    let world = world(reviewing(), vec![vec![says(&good())], strong]).await;
    let planned = world.llm.plan(&request()).await.expect("the correction is valid").planned;
    assert_eq!(planned.plan.steps[1].agent_type.as_str(), "inns");
    let account = account(&planned);
    let expected = [["plan", "cheap", "m0"], ["review", "strong", "m1"], ["critique", "strong", "m1"]];
    assert_eq!(rounds(&account), expected);
    assert_eq!(account["rounds"][1]["issues"][0]["code"], "REVIEW_ERROR");
    let seen = world.servers[1].seen();
    assert!(seen[0].body.to_string().contains("Find a flight"), "the whole plan is shown");
    assert!(seen[1].body.to_string().contains("rooms are closed in May"));
    assert_eq!((told(&planned), planned.confidence), (vec![], CONFIDENCE_AFTER_CRITIQUE));
}

#[tokio::test]
async fn what_a_review_finds_doubtful_is_told() {
    let world = world(reviewing(), vec![vec![says(&good())], vec![finds("room", "warning")]]).await;
    let World { servers, llm, .. } = world;
    let pipeline = pipeline::Pipeline::new(vec![Arc::new(llm)], Duration::from_mins(1), without_routing());
    let planned = pipeline.plan_goal(&request()).await.expect("the plan is valid");
    assert_eq!((told(&planned), servers[1].calls()), (vec![("REVIEW_WARNING", "/steps/1")], 1));
    assert_eq!(planned.confidence, CONFIDENCE_AT_ONCE, "nothing was changed");
    let shown = goalmill_common::view::Preview::from_planned(planned, 0.0, Default::default(), 0.0);
    let is_shown = shown.warnings.iter().any(|warning| warning.code == "REVIEW_WARNING");
    assert!(shown.valid && is_shown, "a dry run shows it");
}

#[tokio::test]
async fn a_review_never_refuses_a_plan() {
    let same = says(&json!({"steps": [bad_room()]}));
    let down = || Scripted { times: Some(9), status: Some(500), error: Some("down".into()), ..Scripted::default() };
    let no_better = vec![finds("room", "error"), same.clone(), same];
    let unknown = finds("nobody", "error");
    for (cheap, strong, expected) in [
        (vec![], no_better, vec![("REVIEW_ERROR", "/steps/1")]),
        (vec![], vec![unknown, down()], vec![("REVIEW_ERROR", "")]),
        (vec![down()], vec![Scripted::text("It looks fine to me.")], vec![]),
        (vec![down()], vec![down()], vec![]),
    ] {
        let cheap = std::iter::once(says(&good())).chain(cheap).collect();
        let world = world(reviewing(), vec![cheap, strong]).await;
        let planned = world.llm.plan(&request()).await.expect("the plan stays").planned;
        assert_eq!((ids(&planned), told(&planned)), (vec!["flight", "room"], expected));
    }
}

#[tokio::test]
async fn a_review_that_hangs_leaves_the_plan_its_time() {
    let hangs = Scripted { times: Some(9), hang: true, ..Scripted::default() };
    let world = hurried_world(reviewing(), Duration::from_secs(2), vec![vec![says(&good()), hangs]]).await;
    let planned = tokio::time::timeout(Duration::from_secs(2), world.llm.plan(&request())).await;
    let planned = planned.expect("there is time left").expect("the plan stays").planned;
    assert_eq!((ids(&planned), rounds(&account(&planned)).len()), (vec!["flight", "room"], 2));
}

#[tokio::test]
async fn correcting_has_the_time_that_looking_left() {
    let late = |delay_ms, answer: Scripted| Scripted { delay_ms, ..answer };
    let strong = vec![late(1_500, finds("room", "error")), late(1_300, says(&json!({"steps": [inn()]})))];
    let world = hurried_world(reviewing(), Duration::from_secs(10), vec![vec![says(&good())], strong]).await;
    let planned = world.llm.plan(&request()).await.expect("the plan is valid").planned;
    assert_eq!((planned.plan.steps[1].agent_type.as_str(), told(&planned)), ("inns", vec![]));
}

#[tokio::test]
async fn a_correction_that_changes_nothing_is_none() {
    let strong = vec![finds("room", "error"), says(&good())];
    let world = world(reviewing(), vec![vec![says(&good())], strong]).await;
    let planned = world.llm.plan(&request()).await.expect("the plan is valid").planned;
    assert_eq!((told(&planned), planned.confidence), (vec![("REVIEW_ERROR", "/steps/1")], CONFIDENCE_AT_ONCE));
}

#[tokio::test]
async fn of_several_plans_that_hold_the_one_with_the_fewest_errors_is_taken() {
    let settings = LlmSettings { candidates: 2, ..reviewing() };
    let when = |word: &str, answer: Scripted| Scripted { when: vec![word.into()], times: Some(1), ..answer };
    let strong = vec![when("Book a room", finds("room", "error")), when("Book an inn", says(&json!({"findings": []})))];
    let drafts = vec![says(&good()), says(&json!({"steps": [flight(), inn()]}))];
    let world = world(settings, vec![drafts, strong]).await;
    let planned = world.llm.plan(&request()).await.expect("both are valid").planned;
    assert_eq!(planned.plan.steps[1].agent_type.as_str(), "inns");
    assert_eq!((told(&planned), world.servers[1].calls()), (vec![], 2));
}

#[tokio::test]
async fn a_plan_that_tools_built_is_reviewed_as_well() {
    let turns = vec![calls(&[("add_step", flight()), ("add_step", room())]), calls(&[("finalize_plan", json!({}))])];
    let strong = vec![finds("room", "error"), says(&json!({"steps": [inn()]}))];
    let world = world(reviewing(), vec![turns, strong]).await;
    let planned = world.tools.plan(&request()).await.expect("the correction is valid").planned;
    assert_eq!((planned.plan.steps[1].agent_type.as_str(), told(&planned)), ("inns", vec![]));
}
