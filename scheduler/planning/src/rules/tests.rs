use std::collections::BTreeSet;

use goalmill_common::agent::Agent;
use goalmill_common::goal::Goal;
use goalmill_common::limits::Limits;
use goalmill_common::plan::Step;

use super::*;

/// 2026-11-21.
const NOW_MS: u64 = 1_795_293_490_279;
const PARIS: &str = "Plan a 3-day trip to Paris in May with a $2000 budget";

#[test]
fn the_trip_to_paris_is_planned_as_shown() {
    let planned = plan(PARIS);
    assert_eq!((planned.planner.as_str(), planned.confidence), ("rules", 0.85));
    let shape: Vec<(String, String, String)> = planned
        .plan
        .steps
        .iter()
        .map(|s| {
            let dependencies: Vec<_> = s.dependencies.iter().map(ToString::to_string).collect();
            (s.id.to_string(), s.agent_type.to_string(), dependencies.join(" "))
        })
        .collect();
    let expected = [
        ("flights", "flight_agent", ""),
        ("activities", "activity_agent", ""),
        ("hotels", "hotel_agent", "flights"),
        ("budget", "validation_agent", "flights hotels activities"),
    ];
    assert_eq!(shape, expected.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned())));
    assert_eq!(planned.plan.max_parallel, Some(3));
    let success = json!(["flight", "hotel 3 nights", "≥ 5 activities", "total ≤ 2000 USD"]);
    assert_eq!(planned.plan.metadata["success_criteria"], success);
    let inputs = inputs(&planned, "flights");
    let expected = json!({
        "origin": "New York", "destination": "Paris", "month": "May 2027", "travellers": 1, "budget": 2000,
        "currency": "USD",
    });
    assert_eq!(inputs, expected);
    let budget = self::inputs(&planned, "budget");
    assert_eq!(budget["budget"], 2000);
    assert_eq!(budget["flights"], "{{ steps.flights.outputs.total }}");
}

#[test]
fn what_was_assumed_and_what_is_missing_is_told() {
    let planned = plan("Plan a trip to Rome");
    let said: Vec<(String, String)> = planned.warnings.iter().map(|w| (w.code.clone(), w.pointer.clone())).collect();
    let expected = [
        ("FACT_MISSING", "/constraints/budget"),
        ("FACT_MISSING", "/constraints/month"),
        ("FACT_ASSUMED", "/constraints/duration"),
        ("FACT_ASSUMED", "/constraints/origin"),
        ("FACT_ASSUMED", "/constraints/travellers"),
    ];
    assert_eq!(said, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    assert!(!inputs(&planned, "budget").as_object().is_some_and(|i| i.contains_key("budget")));
    let account = account(&planned);
    assert_eq!((account["rule"].as_str(), account["version"].as_u64()), (Some("travel"), Some(1)));
    assert!(account["missing"]["budget"].is_string());
    assert_eq!(account["assumed"]["origin"], "New York");
}

#[test]
fn goals_find_their_rule() {
    for (goal, rule) in [
        (PARIS, "travel"),
        ("A weekend in Rome for two", "travel"),
        ("Organise our honeymoon in Bali", "travel"),
        ("I want to travel to Japan for two weeks", "travel"),
        ("plan a 3 day trip to paris, texas", "travel"),
        ("5 days in Kyoto under 1500 euros", "travel"),
        ("Research the history of tea and write a report with sources", "research"),
        ("Write a report on solid-state batteries", "research"),
        ("Find recent papers on graph neural networks and summarise them", "research"),
        ("Analyse sales.csv and plot revenue per month", "data_analysis"),
        ("Analyze the quarterly sales data and find trends", "data_analysis"),
        ("Make a dashboard of the order data", "data_analysis"),
        ("Summarise the incident", "generic"),
        ("Translate this travel blog to German", "generic"),
        ("Write a poem about a trip to Paris", "generic"),
        ("I have an image of a trip to Rome, please classify it", "generic"),
        ("Deploy the service", "generic"),
        ("去巴黎三天", "generic"),
        ("", "generic"),
    ] {
        assert_eq!(account(&plan(goal))["rule"], rule, "{goal}");
    }
}

#[test]
fn a_goal_that_no_rule_takes_gets_an_honest_plan() {
    let planned = plan("Knit a sweater");
    let steps: Vec<_> = planned.plan.steps.iter().map(|s| (s.id.as_str(), s.agent_type.as_str())).collect();
    assert_eq!(steps, [("analyse", "general_agent"), ("act", "general_agent"), ("check", "general_agent")]);
    assert_eq!(planned.confidence, 0.3);
    assert_eq!(planned.warnings[0].code, "GENERIC_PLAN");
    assert_eq!(account(&planned)["note"], planned.warnings[0].detail);
}

#[test]
fn a_trip_without_a_place_asks_for_it() {
    let planned = plan("Plan a 3-day trip in May");
    let account = account(&planned);
    assert_eq!(account["rule"], "generic");
    assert!(account["missing"]["destination"].is_string());
    assert!(planned.warnings.iter().any(|w| w.code == "FACT_MISSING" && w.pointer == "/constraints/destination"));
}

#[test]
fn a_named_goal_type_decides() {
    let mut request = request("Paris");
    request.goal.goal_type = "travel_planning".into();
    request.goal.constraints.insert("destination".into(), "Paris".into());
    let planned = RulesPlanner::built_in().make(&request).expect("the goal names its rule");
    assert_eq!(account(&planned)["rule"], "travel");
}

#[test]
fn routines_have_a_rule_and_travel_and_research_keep_theirs() {
    for goal in [
        "Automate the nightly backup",
        "Back up the database every night and notify me",
        "Deploy the service every morning",
    ] {
        assert_eq!(account(&plan(goal))["rule"], "task_automation", "{goal}");
    }
    assert_eq!(account(&plan(PARIS))["rule"], "travel");
    let mut request = request("make tea");
    request.goal.goal_type = "task_automation".into();
    let planned = RulesPlanner::built_in().make(&request).expect("the goal names its rule");
    assert_eq!(account(&planned)["rule"], "task_automation");
    request.goal.goal_type = "custom:research".into();
    request.goal.description = "make tea".into();
    assert!(request.goal.is_of_type("research") && !request.goal.is_of_type("tea"));
}

#[test]
fn the_callers_success_criteria_win() {
    let mut request = request(PARIS);
    request.goal.success_criteria = vec!["fun".into()];
    let planned = RulesPlanner::built_in().make(&request).expect("the goal is known");
    assert_eq!(planned.plan.metadata["success_criteria"], json!(["fun"]));
}

#[test]
fn the_stand_in_takes_what_nobody_serves() {
    let mut request = request("Research the history of tea");
    request.agents = vec![Agent::named("general_agent".into()), Agent::named("research_agent".into())];
    let planned = RulesPlanner::built_in().make(&request).expect("the goal is known");
    let agents: BTreeSet<_> = planned.plan.steps.iter().map(|s| s.agent_type.as_str()).collect();
    assert_eq!(agents, BTreeSet::from(["general_agent", "research_agent"]));
    assert_eq!(account(&planned)["stood_in"], json!({"report": "writer_agent"}));
    assert_eq!(inputs(&planned, "report")["task"], "Write the report");
}

#[test]
fn every_shipped_plan_is_a_graph_whose_expressions_see_dependencies_only() {
    for goal in [PARIS, "Research the history of tea", "Analyse sales.csv for trends", "Knit"] {
        let plan = plan(goal).plan;
        let mut before: BTreeSet<&str> = BTreeSet::new();
        for step in &plan.steps {
            assert!(step.dependencies.iter().all(|d| before.contains(d.as_str())), "{goal}: {}", step.id);
            for seen in seen(step) {
                assert!(step.dependencies.iter().any(|d| d.as_str() == seen), "{goal}: {} sees {seen}", step.id);
            }
            before.insert(step.id.as_str());
        }
        assert_eq!(before.len(), plan.steps.len());
    }
}

#[test]
fn limits_hold_and_revisions_are_refused() {
    let mut narrow = request(PARIS);
    narrow.limits.planned_steps_max = 3;
    let refused = RulesPlanner::built_in().make(&narrow).expect_err("the plan has four steps");
    assert!(refused.reason.contains("limits.planned_steps_max"), "{refused}");
    let mut revision = request(PARIS);
    revision.revision = 1;
    assert!(RulesPlanner::built_in().make(&revision).is_err());
}

#[test]
fn a_directory_of_rules_is_read_and_its_faults_are_located() {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let refused = |text: &str| {
        std::fs::write(dir.path().join("tea.yaml"), text).expect("a temporary file can be written");
        RulesPlanner::from_dir(dir.path()).expect_err("the file is at fault").to_string()
    };
    assert!(RulesPlanner::from_dir(dir.path()).is_err_and(|e| matches!(e, LoadError::Empty { .. })));
    assert!(refused("id: tea\nversion: x").contains("line 2"));
    let tea =
        "id: tea\nversion: 1\ngoal_type: tea\nconfidence: 0.9\nmatch: {score: 1, signals: [{weight: 1, any: [tea]}]}\n";
    assert!(refused(&format!("{tea}plan: {{steps: []}}")).contains("tea.yaml`: plan.steps"));
    assert!(refused(&format!("{tea}plan: {{steps: [{{id: \"${{ a b }}\"}}]}}")).contains("plan.steps[0].id"));
    assert!(
        refused(&format!("{tea}facts: {{colour: {{question: x}}}}\nplan: {{steps: [{{id: a}}]}}"))
            .contains("facts.colour")
    );
    std::fs::write(dir.path().join("tea.yaml"), format!("{tea}plan: {{steps: [{{id: brew, agent_type: kettle}}]}}"))
        .expect("a temporary file can be written");
    let planner = RulesPlanner::from_dir(dir.path()).expect("the file is well formed");
    let brewed = planner.make(&request("Make tea")).expect("the rule fits");
    assert_eq!(brewed.plan.steps[0], Step::new("brew", "kettle"));
    let other = planner.make(&request("Make coffee")).expect("the generic rule is always there");
    assert_eq!(account(&other)["rule"], "generic");
}

fn seen(step: &Step) -> Vec<String> {
    let text = step.inputs.text();
    text.split("{{ steps.").skip(1).filter_map(|rest| rest.split('.').next()).map(str::to_owned).collect()
}

fn request(description: &str) -> PlanRequest {
    PlanRequest {
        goal: Goal { description: description.into(), ..Goal::default() },
        agents: Vec::new(),
        limits: Limits::default(),
        now_ms: NOW_MS,
        revision: 0,
        call_log: crate::CallLog::default(),
        terms: Default::default(),
    }
}

fn plan(description: &str) -> Planned {
    RulesPlanner::built_in().make(&request(description)).expect("there is a plan for every goal")
}

fn inputs(planned: &Planned, step: &str) -> Value {
    planned.plan.steps.iter().find(|s| s.id.as_str() == step).map(|s| s.inputs.value()).unwrap_or_default()
}

fn account(planned: &Planned) -> Value {
    planned.provenance.as_ref().map(Json::value).unwrap_or_default()
}
