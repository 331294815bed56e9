//! The text of a goal is read before it is planned.

use goalmill_common::config::PlannerSettings;
use goalmill_common::event::GoalChanged;
use goalmill_common::planning::ReadGoal;

use super::*;
use crate::pipeline::Pipeline;

const TRIP: &str = "Fly to Rome for under $2,000 by 3 May 2027, with notes.pdf; every night has a room";

fn fields(constraints: &Value, deadline: &str) -> Value {
    json!({"constraints": constraints, "success_criteria": [], "deadline": deadline, "inputs": []})
}

/// A pipeline over one scripted model, and a request for the trip.
async fn reading(mode: ReadGoal, answers: Vec<Scripted>) -> (ScriptedServer, Pipeline, PlanRequest) {
    let server = ScriptedServer::start(Script::new(answers)).await.expect("a port is free");
    let model = ModelSettings { retries: 0, ..server.settings("m0", Dialect::Openai) };
    let models = ModelRegistry::from_settings(&[model], Clock::system(), Random::seeded(1)).expect("it is valid");
    let llm = LlmSettings { read_goal: mode, ..LlmSettings::default() };
    let settings = PlannerSettings { order: vec!["llm".into()], llm, ..PlannerSettings::default() };
    let pipeline = Pipeline::from_settings(&settings, &Arc::new(models), without_routing(), None).expect("it is valid");
    let goal = Goal { description: TRIP.into(), ..Goal::default() };
    (server, pipeline, PlanRequest { goal, ..request() })
}

async fn planned(pipeline: &Pipeline, request: PlanRequest) -> Planned {
    let request = pipeline.read_goal(request).await;
    pipeline.plan_goal(&request).await.expect("the model has a plan")
}

fn notes(planned: &Planned) -> Vec<(&str, &str)> {
    let of_goal = planned.warnings.iter().filter(|warning| warning.code.starts_with("GOAL_"));
    of_goal.map(|warning| (warning.code.as_str(), warning.pointer.as_str())).collect()
}

fn read(planned: &Planned) -> &GoalChanged {
    planned.goal.as_deref().expect("something was read")
}

#[tokio::test]
async fn what_the_text_states_is_planned_with_and_told() {
    let mut answer = fields(&json!([{"name": "Budget", "value": "2000 USD"}]), "by 3 May 2027");
    answer["success_criteria"] = json!(["every night has a room"]);
    answer["inputs"] = json!([{"name": "file", "value": "notes.pdf"}]);
    let (server, pipeline, request) = reading(ReadGoal::Use, vec![says(&answer), says(&good())]).await;
    let planned = planned(&pipeline, request).await;
    let read = read(&planned);
    assert_eq!(Value::Object(read.constraints.clone()), json!({"budget": "2000 USD"}));
    assert_eq!(read.deadline_ms, Some(1_809_388_799_999), "the end of 3 May 2027");
    assert_eq!((read.inputs["file"].as_str(), read.model.as_str()), (Some("notes.pdf"), "m0"));
    assert_eq!(
        read.read_lines(),
        [
            "budget: 2000 USD",
            "reached when: every night has a room",
            "deadline: 2027-05-03T23:59:59.999Z",
            "input file: notes.pdf"
        ]
    );
    assert_eq!((notes(&planned), planned.plan.approve), (vec![], None));
    assert!(server.seen()[1].body.to_string().contains("2000 USD"), "the planner is told");
}

#[tokio::test]
async fn what_the_text_does_not_state_is_dropped_with_a_note() {
    let invented = json!([
        {"name": "budget", "value": "$2,000"}, {"name": "hotel", "value": "four stars"}, {"name": "nights", "value": 7},
        {"name": "a long name!", "value": "Rome"},
    ]);
    let mut answer = fields(&invented, "by Friday");
    answer["success_criteria"] = json!(["the room has a view"]);
    let (_server, pipeline, request) = reading(ReadGoal::Use, vec![says(&answer), says(&good())]).await;
    let planned = planned(&pipeline, request).await;
    assert_eq!(read(&planned).read, ["/constraints/budget"]);
    let pointers: Vec<&str> = notes(&planned).into_iter().map(|(_, pointer)| pointer).collect();
    let expected =
        ["/constraints/hotel", "/constraints/nights", "/constraints/a_long_name!", "/success_criteria/0", "/deadline"];
    assert_eq!(pointers, expected);
}

#[tokio::test]
async fn what_the_goal_states_wins_over_its_text() {
    let answer = fields(
        &json!([{"name": "budget", "value": "$2,000"}, {"name": "max_cost", "value": "$2,000"}, {"name": "city", "value": "Rome"}]),
        "3 May 2027",
    );
    let (_server, pipeline, mut request) = reading(ReadGoal::Use, vec![says(&answer), says(&good())]).await;
    request.goal.constraints.insert("budget".into(), "1500 USD".into());
    request.goal.deadline_ms = Some(1_800_000_000_000);
    let planned = planned(&pipeline, request).await;
    assert_eq!(Value::Object(read(&planned).constraints.clone()), json!({"budget": "1500 USD", "city": "Rome"}));
    assert_eq!(read(&planned).deadline_ms, Some(1_800_000_000_000));
    let dropped: Vec<&str> = notes(&planned).into_iter().map(|(_, pointer)| pointer).collect();
    assert_eq!(dropped, ["/constraints/budget", "/constraints/max_cost", "/deadline"]);
}

#[tokio::test]
async fn a_goal_that_no_model_can_read_is_planned_as_it_is() {
    let texts = ["I cannot say.", "[]", "{\"constraints\": [{\"name\": \"bud"];
    let answers = texts.map(|text| Scripted { text: Some(text.into()), ..Scripted::default() });
    let down = Scripted { status: Some(500), error: Some("down".into()), ..Scripted::default() };
    for answer in answers.into_iter().chain([down]) {
        let (server, pipeline, request) = reading(ReadGoal::Use, vec![answer, says(&good())]).await;
        let planned = planned(&pipeline, request).await;
        assert_eq!((notes(&planned), planned.goal.as_ref()), (vec![("GOAL_NOT_READ", "/description")], None));
        assert_eq!((server.calls(), planned.plan.steps.len()), (2, 2), "one question is enough");
    }
}

#[tokio::test]
async fn no_model_is_asked_unless_the_goal_or_the_settings_say_so() {
    let (server, pipeline, request) = reading(ReadGoal::Off, vec![says(&good())]).await;
    let plain = planned(&pipeline, request.clone()).await;
    assert_eq!((server.calls(), plain.goal), (1, None));
    let (server, pipeline, mut request) = reading(ReadGoal::Use, vec![says(&good())]).await;
    request.goal.planning.read_goal = Some(ReadGoal::Off);
    planned(&pipeline, request).await;
    assert_eq!(server.calls(), 1, "the goal wins over the settings");
}

#[tokio::test]
async fn a_reading_that_is_to_be_approved_makes_the_plan_wait() {
    let answer = fields(&json!([{"name": "budget", "value": "$2,000"}]), "");
    let (_server, pipeline, mut request) = reading(ReadGoal::Off, vec![says(&answer), says(&good())]).await;
    request.goal.planning.read_goal = Some(ReadGoal::Approve);
    let planned = planned(&pipeline, request).await;
    assert!(planned.plan.approve.is_some() && planned.goal.is_some());
}

#[tokio::test]
async fn the_reading_is_recorded_and_paid_from_the_budget_of_the_goal() {
    let answer = says(&fields(&json!([]), ""));
    let (server, pipeline, mut request) = reading(ReadGoal::Use, vec![answer, says(&good())]).await;
    request.goal.budget.tokens = Some(5_000);
    let notes = Arc::new(Notes::default());
    request.call_log = CallLog::new(0, notes.clone(), &[]);
    let request = pipeline.read_goal(request).await;
    let recorded = notes.kept();
    assert_eq!((recorded.len(), recorded[0].planner.as_str()), (1, ModelAsked::GOAL_READER));
    assert!(recorded[0].usage.tokens > 0);
    assert_eq!(request.call_log.left_of(&request.goal.budget).tokens, Some(5_000 - recorded[0].usage.tokens));
    // Another scheduler takes over: it has the answer, and asks for the plan only.
    let goal = Goal { description: TRIP.into(), ..Goal::default() };
    let again = PlanRequest { goal, call_log: CallLog::new(0, notes, &recorded), ..self::request() };
    pipeline.read_goal(again).await;
    assert_eq!(server.calls(), 1);
}
