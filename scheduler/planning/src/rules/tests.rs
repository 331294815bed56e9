use std::collections::BTreeSet;

use goalmill_common::agent::Agent;
use goalmill_common::goal::Goal;
use goalmill_common::limits::Limits;
use goalmill_common::plan::Step;

use super::*;

/// 2026-11-21, a Saturday.
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
        "goal": PARIS, "origin": "New York", "destination": "Paris", "month": "May 2027", "travellers": 1, "budget": 2000,
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
    assert_eq!((account["rule"].as_str(), account["version"].as_u64()), (Some("travel"), Some(7)));
    assert!(account["missing"]["budget"].is_string());
    assert_eq!(account["assumed"]["origin"], "New York");
}

#[test]
fn goals_find_their_rule() {
    let mut wrong = Vec::new();
    for (goal, rule) in [
        (PARIS, "travel"),
        ("A weekend in Rome for two", "travel"),
        ("I want to travel to Japan for two weeks", "travel"),
        ("5 days in Kyoto under 1500 euros", "travel"),
        ("Research the history of tea and write a report with sources", "research"),
        ("Write a report on solid-state batteries", "research"),
        ("Find recent papers on graph neural networks and summarise them", "research"),
        ("Analyse sales.csv and plot revenue per month", "data_analysis"),
        ("Analyze the quarterly sales data and find trends", "data_analysis"),
        ("Make a dashboard of the order data", "data_analysis"),
        ("Automate the nightly backup", "task_automation"),
        ("Deploy the service", "release"),
        ("Prepare the release of version 2.4", "release"),
        ("Migrate the orders database from MySQL to Postgres", "migration"),
        ("Find out why the server went down", "incident"),
        ("Compare three project management tools", "comparison"),
        ("Write a poem about a trip to Paris", "content"),
        ("Write two blog posts about bees", "content"),
        ("Fix the login bug", "code_change"),
        ("Add an export button to the booking tool", "code_change"),
        ("Plan a trip to Paris or Rome", "generic"),
        ("Don't plan a trip to Paris", "generic"),
        ("Translate the manual", "generic"),
        ("去巴黎三天", "generic"),
        ("", "generic"),
    ] {
        let found = account(&plan(goal))["rule"].clone();
        if found != rule {
            wrong.push(format!("{goal}: {rule} expected, {found} found"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_nobody_wants_planned_stays_generic() {
    for goal in ["Make my grandmother happy", "Tell me a joke", "asdf qwer zxcv", "What is the capital of Mongolia?"] {
        let planned = plan(goal);
        assert_eq!((account(&planned)["rule"].as_str(), planned.confidence), (Some("generic"), 0.3), "{goal}");
    }
}

#[test]
fn a_goal_that_no_rule_takes_gets_an_honest_plan() {
    let planned = plan("Knit a sweater");
    let steps: Vec<_> = planned.plan.steps.iter().map(|s| (s.id.as_str(), s.agent_type.as_str())).collect();
    assert_eq!(
        steps,
        [("analyse", "general_agent"), ("act", "general_agent"), ("check", "general_agent"), ("outcome", ""),]
    );
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
    let planned = RulesPlanner::built_in().plan_by_rules(&request).expect("the goal names its rule");
    assert_eq!(account(&planned)["rule"], "travel");
}

#[test]
fn the_callers_success_criteria_win() {
    let mut request = request(PARIS);
    request.goal.success_criteria = vec!["fun".into()];
    let planned = RulesPlanner::built_in().plan_by_rules(&request).expect("the goal is known");
    assert_eq!(planned.plan.metadata["success_criteria"], json!(["fun"]));
}

#[test]
fn the_stand_in_takes_what_nobody_serves() {
    let mut request = request("Research the history of tea");
    request.agents = vec![Agent::named("general_agent".into()), Agent::named("research_agent".into())];
    let planned = RulesPlanner::built_in().plan_by_rules(&request).expect("the goal is known");
    let agents: BTreeSet<_> = planned.plan.steps.iter().map(|s| s.agent_type.as_str()).collect();
    assert_eq!(agents, BTreeSet::from(["general_agent", "research_agent"]));
    assert_eq!(account(&planned)["stood_in"], json!({"report": "writer_agent"}));
    assert_eq!(inputs(&planned, "report")["task"], "Write the report");
    // Agents of a model serve no trips by name.
    let mut request = self::request(PARIS);
    request.agents = vec![Agent::named("general_agent".into())];
    let trip = RulesPlanner::built_in().plan_by_rules(&request).expect("the goal is known").plan;
    let served = |step: &Step| step.kind.is_inline() || step.agent_type.as_str() == "general_agent";
    assert!(trip.steps.iter().all(served), "{:?}", trip.steps);
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

/// Goals that name each rule, without and with a budget, a detail and constraints.
fn plans_of_every_rule() -> Vec<(String, Planned)> {
    let planner = RulesPlanner::built_in();
    let mut plans = Vec::new();
    for rule in &planner.rules {
        for text in ["Do it for sales.csv", "Do it by train, cost under 300 EUR"] {
            let mut request = request(text);
            request.goal.goal_type = rule.goal_type.clone();
            request.goal.constraints.insert("destination".into(), "Rome".into());
            if text.contains("train") {
                request.goal.constraints.insert("exclusions".into(), json!(["noise"]));
                request.goal.constraints.insert("subtasks".into(), json!(["one", "two", "three"]));
            }
            let planned = planner.plan_by_rules(&request).expect("the goal names its rule");
            plans.push((format!("{}: {text}", rule.id), planned));
        }
    }
    plans
}

#[test]
fn every_step_of_every_rule_has_an_agent_an_action_and_the_outputs_of_its_dependencies() {
    let agents: Vec<Agent> = serde_json::from_str(include_str!("../../../../config/agents/demo.json")).expect("cards");
    for (name, planned) in plans_of_every_rule() {
        let steps = &planned.plan.steps;
        assert!(steps.len() >= 3, "{name}");
        for step in steps.iter().filter(|step| !step.kind.is_inline()) {
            let agent = agents.iter().find(|agent| agent.agent_type == step.agent_type);
            let action = agent.and_then(|agent| agent.actions.iter().find(|action| action.name == step.action));
            assert!(action.is_some(), "{name}: {} wants {} {}", step.id, step.agent_type, step.action);
            assert!(!step.description.contains("${") && !step.description.is_empty(), "{name}: {}", step.id);
            for seen in seen(step) {
                assert!(step.dependencies.iter().any(|d| d.as_str() == seen), "{name}: {} sees {seen}", step.id);
            }
            for needed in &step.dependencies {
                assert!(steps.iter().any(|other| other.id == *needed), "{name}: {} needs {needed}", step.id);
            }
        }
    }
}

#[test]
fn details_and_constraints_reach_every_step() {
    for (name, planned) in plans_of_every_rule().iter().filter(|(name, _)| name.contains("train")) {
        assert!(planned.plan.steps.iter().any(|step| step.id.as_str().ends_with("_3")), "{name}");
        for step in planned.plan.steps.iter().filter(|step| !step.kind.is_inline()) {
            let inputs = step.inputs.text();
            assert!(inputs.contains("noise") && inputs.contains("by train"), "{name}: {}: {inputs}", step.id);
        }
        assert!(planned.plan.metadata["success_criteria"].to_string().contains("300 EUR"), "{name}");
    }
}

#[test]
fn sub_tasks_of_the_constraints_become_steps() {
    let mut request = request("Deploy the shop");
    request.goal.constraints.insert("subtasks".into(), json!(["api", "page"]));
    let planned = RulesPlanner::built_in().plan_by_rules(&request).expect("the rule fits");
    let rollout = |n: u32| planned.plan.steps.iter().find(|s| s.id.as_str() == format!("rollout_{n}"));
    let second = rollout(2).expect("there are two");
    assert_eq!(second.description, "page");
    assert!(second.dependencies.iter().any(|d| d.as_str() == "rollout_1"), "{:?}", second.dependencies);
    assert_eq!(inputs(&planned, "observe")["rollout"][1], "{{ steps.rollout_2.outputs.result }}");
    request.limits.planned_steps_max = 7;
    let folded = RulesPlanner::built_in().plan_by_rules(&request).expect("the sub-tasks do not have to be steps");
    assert_eq!(inputs(&folded, "rollout")["requirements"]["subtasks"][1], "page");
}

#[test]
fn a_part_that_is_not_understood_is_reported_and_lowers_the_confidence() {
    let clear = plan("Deploy the shop");
    let unclear = plan("Deploy the shop by 05/06/2027");
    assert!(clear.warnings.iter().all(|warning| warning.code != "FACT_UNREAD"));
    assert!(unclear.warnings.iter().any(|w| w.code == "FACT_UNREAD" && w.detail.contains("2027")));
    assert!(unclear.confidence < clear.confidence);
}

#[test]
fn the_generic_plan_is_no_part_of_another_plan() {
    let rules = RulesPlanner::built_in();
    for (goal, is_known) in [("Knit a sweater", false), (PARIS, true)] {
        let whole = request(goal);
        assert!(rules.plan_by_rules(&whole).is_ok(), "{goal}");
        assert_eq!(rules.plan_by_rules(&PlanRequest { is_part: true, ..whole }).is_ok(), is_known, "{goal}");
    }
}

#[test]
fn limits_hold_and_revisions_are_refused() {
    let mut narrow = request(PARIS);
    narrow.limits.planned_steps_max = 3;
    let refused = RulesPlanner::built_in().plan_by_rules(&narrow).expect_err("the plan has four steps");
    assert!(refused.reason.contains("limits.planned_steps_max"), "{refused}");
    let mut revision = request(PARIS);
    revision.revision = 1;
    assert!(RulesPlanner::built_in().plan_by_rules(&revision).is_err());
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
    let removed = tea.replace("signals:", "examples: [Make tea], signals:");
    assert!(
        refused(&format!("{removed}plan: {{steps: [{{id: a}}]}}")).contains("match.examples: examples are no longer")
    );
    let twice = tea.replace("any: [tea]", "any: [tea], fact: topic");
    assert!(refused(&format!("{twice}plan: {{steps: [{{id: a}}]}}")).contains("match.signals[0]"));
    std::fs::write(dir.path().join("tea.yaml"), format!("{tea}plan: {{steps: [{{id: brew, agent_type: kettle}}]}}"))
        .expect("a temporary file can be written");
    let planner = RulesPlanner::from_dir(dir.path()).expect("the file is well formed");
    let brewed = planner.plan_by_rules(&request("Make tea")).expect("the rule fits");
    assert_eq!(brewed.plan.steps[0], Step::new("brew", "kettle"));
    let other = planner.plan_by_rules(&request("Make coffee")).expect("the generic rule is always there");
    assert_eq!(account(&other)["rule"], "generic");
}

#[test]
fn a_fact_that_nobody_asks_for_is_a_guess() {
    let of_text = plan("Deploy the shop with a budget of 300 EUR");
    let told = |planned: &Planned| {
        let found = planned.warnings.iter().find(|warning| warning.code == FACT_GUESSED);
        found.map(|warning| warning.pointer.clone())
    };
    assert_eq!((told(&of_text).as_deref(), of_text.confidence), (Some("/constraints/budget"), 0.3));
    assert_eq!(account(&of_text)["guessed"], json!(["budget"]));
    let mut stated = request("Deploy the shop with a budget of 300 EUR");
    stated.goal.constraints.insert("budget".into(), "300 EUR".into());
    let stated = RulesPlanner::built_in().plan_by_rules(&stated).expect("the rule fits");
    assert_eq!((told(&stated), stated.confidence), (None, 0.6), "the goal states it");
    let paris = plan(PARIS);
    assert_eq!((told(&paris), paris.confidence), (None, 0.85), "the rule asks for all of it");
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
        is_part: false,
        call_log: crate::CallLog::default(),
        terms: Default::default(),
        reading: None,
    }
}

fn plan(description: &str) -> Planned {
    RulesPlanner::built_in().plan_by_rules(&request(description)).expect("there is a plan for every goal")
}

fn inputs(planned: &Planned, step: &str) -> Value {
    planned.plan.steps.iter().find(|s| s.id.as_str() == step).map(|s| s.inputs.value()).unwrap_or_default()
}

fn account(planned: &Planned) -> Value {
    planned.provenance.as_ref().map(Json::value).unwrap_or_default()
}
