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
    assert_eq!((account["rule"].as_str(), account["version"].as_u64()), (Some("travel"), Some(4)));
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
        ("Summarise the incident", "summary"),
        ("Translate this travel blog to German", "translation"),
        ("Write a poem about a trip to Paris", "content"),
        ("I have an image of a trip to Rome, please classify it", "generic"),
        ("Deploy the service", "release"),
        ("We're moving from Leeds to Bristol in January", "relocation"),
        ("Every Monday pull the sales and email a summary to the managers", "task_automation"),
        ("Raise 5,000 euros for the school library", "fundraising"),
        ("Design an experiment on the germination of seeds", "experiment"),
        ("Plan a low-maintenance garden", "renovation"),
        ("去巴黎三天", "generic"),
        ("", "generic"),
    ] {
        assert_eq!(account(&plan(goal))["rule"], rule, "{goal}");
    }
}

#[test]
fn a_rule_needs_its_object_as_well_as_a_word_of_its_kind() {
    let mut wrong = Vec::new();
    for (goal, kind) in [
        ("Plan a press breakfast for 20 journalists", "event"),
        ("Plan healthy meals and breakfasts for a week", "meal_plan"),
        ("The export failed last night. Find the reason and rerun it", "incident"),
        ("I need a present for my aunt, around 40 pounds", "purchase"),
        ("Write the interim report for our research grant", "status_report"),
        ("Remove the unused feature flags from the billing service", "code_cleanup"),
        ("Refactor the order module into smaller parts", "code_cleanup"),
        ("Our cafe keeps running out of milk. Set up a reorder system", "stock_reorder"),
        ("Prepare a fire-safety refresher for the night shift", "lesson"),
        ("Write an annotated bibliography of recent studies on noise and sleep", "research"),
        ("Rent out our flat from 1 March", "letting"),
        ("Get the cottage ready to let: paint the hall, take photos", "letting"),
        ("Organise a day trip to the observatory for 28 pupils", "event"),
        ("Help me lose 4 kilos by June", "training_plan"),
        ("Write a privacy notice for EU customers", "policy"),
        ("Plan our move to Leeds in two months", "relocation"),
    ] {
        let planned = plan(goal);
        if planned.plan.metadata["goal_type"] != kind {
            wrong.push(format!("{goal}: {kind} for {}", account(&planned)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_goal_without_clear_signals_gets_the_kind_of_the_nearest_example() {
    let mut wrong = Vec::new();
    for (goal, rule) in [
        ("How do I claim for a burst pipe in the bathroom", "claim"),
        ("My grandson's laptop makes a grinding noise", "repair"),
        ("Nobody in town has heard of our shop, we want more customers", "campaign"),
        ("We want to grow salad and carrots behind the house", "gardening"),
    ] {
        let planned = plan(goal);
        let account = account(&planned);
        let told = account["similarity"]["example"].as_str().unwrap_or_default();
        let warning = planned.warnings.iter().find(|warning| warning.code == "KIND_GUESSED");
        let is_told = warning.is_some_and(|warning| !told.is_empty() && warning.detail.contains(told));
        if account["rule"] != rule || !is_told || !(0.4..=0.5).contains(&planned.confidence) {
            wrong.push(format!("{goal}: {} {} {warning:?}", account["rule"], planned.confidence));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn signals_decide_alone_where_similarity_agrees() {
    let planned = plan("Translate the manual into French");
    assert!(account(&planned)["similarity"].is_null() && planned.confidence == 0.65);
    assert!(planned.warnings.iter().all(|warning| warning.code != "KIND_GUESSED"));
}

#[test]
fn a_kind_that_similarity_does_not_support_is_stated_with_less_confidence() {
    let sure = plan("Translate the manual into French");
    assert!(account(&sure)["nearest"].is_null() && sure.confidence == 0.65);
    let mut wrong = Vec::new();
    for goal in [
        "Set up a checklist for the weekly inspection of our ladders, every Tuesday",
        "Watch four people use the new parking machine",
        "Order the words of a dictionary by their length",
    ] {
        let planned = plan(goal);
        let nearest = account(&planned)["nearest"]["example"].clone();
        if !(0.3..=0.5).contains(&planned.confidence) || !nearest.is_string() {
            wrong.push(format!("{goal}: {} {} {nearest}", account(&planned)["rule"], planned.confidence));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_request_behind_a_situation_is_found() {
    let mut wrong = Vec::new();
    for (goal, kind) in [
        ("Our cello sounds dull since summer, can you find us somebody who looks at it?", "search"),
        (
            "There are eleven of us at the pool and we need a duty roster for July where nobody has two late shifts",
            "schedule",
        ),
        ("For my aunt's 60th on 4 May we'd like to organise a picnic. She sits in a wheelchair.", "event"),
        ("The trade fair is in three weeks, so please translate our price list into Dutch", "translation"),
    ] {
        let planned = plan(goal);
        if planned.plan.metadata["goal_type"] != kind {
            wrong.push(format!("{goal}: {kind} for {}", account(&planned)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn one_word_of_another_field_does_not_decide() {
    let mut wrong = Vec::new();
    for (goal, kind) in [
        ("Find health insurance for two freelancers, under 300 euros a month", "search"),
        ("File a claim with the insurance for the broken window", "claim"),
        ("Update the privacy policy of our clinic", "policy"),
        ("Draft terms and conditions for our bike rental", "contract"),
        ("Write a one-page cover letter for the post of a gardener", "job_application"),
        ("Proofread my CV and my cover letter", "review"),
        ("Submit the application for the research grant by May", "application"),
        ("Raise 900 pounds for the swimming club", "fundraising"),
        ("Raise the conversion rate of our landing page", "improvement"),
        ("Find the reasons for the many sick days in the warehouse", "cause_analysis"),
        ("Find out why the server went down on Sunday", "incident"),
        ("My neighbour's hedge grows over my fence. What can I do about it?", "advice"),
        ("Find a new home for our two donkeys", "giving_away"),
        ("Find a good care home for my mother near Cork", "search"),
        ("The export button writes empty files, sort it out", "bug_fix"),
        ("Add an export button to the booking tool", "feature"),
        ("Summary of the attached board paper", "summary"),
        ("Close the books for 2026", "accounting"),
        ("How do I turn my flower stall into a proper business?", "business_plan"),
        ("Which dangers has a bonfire in the yard", "risk_assessment"),
        ("Our staff room needs a new sofa, up to 600 euros", "purchase"),
        ("Our book club meets in May. Find a room for 12 people", "search"),
        ("Go through the answers of our guests and tell me what they liked most", "data_analysis"),
        ("Go through the phone bills and list the calls that were charged twice", "audit"),
    ] {
        let planned = plan(goal);
        if planned.plan.metadata["goal_type"] != kind {
            wrong.push(format!("{goal}: {kind} for {}", account(&planned)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_verb_that_is_a_name_here_does_not_hide_the_fault() {
    for goal in [
        "the import button in the admin area does nothing on firefox, please fix",
        "Clicking export on the report page does nothing",
    ] {
        assert_eq!(account(&plan(goal))["rule"], "bug_fix", "{goal}");
    }
    assert_eq!(account(&plan("Export the address book to CSV"))["rule"], "conversion");
}

#[test]
fn what_nobody_wants_planned_stays_generic() {
    for goal in ["Make my grandmother happy", "Tell me a joke", "asdf qwer zxcv", "What is the capital of Mongolia?"] {
        let planned = plan(goal);
        assert_eq!((account(&planned)["rule"].as_str(), planned.confidence), (Some("generic"), 0.3), "{goal}");
    }
}

#[test]
fn rules_without_examples_are_recognised_by_signals_only() {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let rule = |examples: &str| {
        let text = format!(
            "id: tea\nversion: 1\ngoal_type: tea\nconfidence: 0.9\nmatch:\n  score: 1\n  signals: [{{weight: 1, any: [tea]}}]\n{examples}plan: {{steps: [{{id: brew, agent_type: kettle}}]}}\n"
        );
        std::fs::write(dir.path().join("tea.yaml"), text).expect("a temporary file can be written");
        RulesPlanner::from_dir(dir.path())
    };
    let made = |planner: &RulesPlanner, goal: &str| planner.make(&request(goal)).expect("there is always a plan");
    let plain = rule("").expect("the file is well formed");
    assert_eq!(account(&made(&plain, "Brew a hot drink with leaves and water"))["rule"], "generic");
    let with = rule("  examples: [Brew a hot drink with leaves, Put the kettle on, Serve Earl Grey]\n");
    let with = with.expect("the file is well formed");
    let guessed = made(&with, "Brew a hot drink with leaves and water");
    assert_eq!(account(&guessed)["similarity"]["example"], "Brew a hot drink with leaves");
    assert!(guessed.confidence <= 0.5, "{}", guessed.confidence);
    assert_eq!(made(&with, "Make tea").confidence, 0.9);
    assert_eq!(account(&made(&with, "Repair the roof of our barn before winter"))["rule"], "generic");
    for fault in ["  examples: [\"\"]\n", "  examples: [\"12\"]\n"] {
        assert!(rule(fault).is_err_and(|e| e.to_string().contains("match.examples[0]")), "{fault}");
    }
}

#[test]
fn every_shipped_kind_has_examples_of_its_own() {
    let rules = RulesPlanner::built_in().rules;
    let mut seen = BTreeSet::new();
    for rule in rules.iter().filter(|rule| rule.matching.is_some()) {
        assert!((6..=24).contains(&rule.examples().len()), "{} has {}", rule.id, rule.examples().len());
        for example in rule.examples() {
            assert!(seen.insert(example.to_lowercase()), "`{example}` of {} stands twice", rule.id);
        }
    }
}

#[test]
fn what_a_goal_rules_out_is_no_sign_of_its_kind() {
    let planned = plan("Plan a weekend in Rome for two, we don't want to rent a car");
    assert_eq!(account(&planned)["rule"], "travel");
    assert_eq!(account(&planned)["facts"]["exclusions"], json!(["rent a car"]));
}

#[test]
fn listed_sub_tasks_of_a_trip_become_steps() {
    let planned = plan("Plan a trip to Rome: book a tour of the Vatican, ask for a late check-in");
    let tasks: Vec<_> = planned.plan.steps.iter().filter(|s| s.id.as_str().starts_with("task_")).collect();
    let said: Vec<_> = tasks.iter().map(|step| step.description.as_str()).collect();
    assert_eq!(said, ["book a tour of the Vatican", "ask for a late check-in"]);
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
    let planned = RulesPlanner::built_in().make(&request).expect("the goal names its rule");
    assert_eq!(account(&planned)["rule"], "travel");
}

#[test]
fn routines_have_a_rule_and_travel_and_research_keep_theirs() {
    for goal in ["Automate the nightly backup", "Deploy the service every morning"] {
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
    // Agents of a model serve no trips by name.
    let mut request = self::request(PARIS);
    request.agents = vec![Agent::named("general_agent".into())];
    let trip = RulesPlanner::built_in().make(&request).expect("the goal is known").plan;
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

/// Goals that name each rule, without and with a budget and sub-tasks.
fn plans_of_every_rule() -> Vec<(String, Planned)> {
    let planner = RulesPlanner::built_in();
    let mut plans = Vec::new();
    for rule in &planner.rules {
        for text in ["Do it for sales.csv", "Do it in Rome for 300 EUR without noise: one, two, three"] {
            let mut request = request(text);
            request.goal.goal_type = rule.goal_type.clone();
            for (name, value) in [("topic", "tea"), ("dataset", "sales.csv"), ("destination", "Rome")] {
                request.goal.constraints.insert(name.into(), value.into());
            }
            let planned = planner.make(&request).expect("the goal names its rule");
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
fn what_the_goal_asks_for_reaches_every_step() {
    for (name, planned) in plans_of_every_rule().iter().filter(|(name, _)| name.contains("noise")) {
        let has_subtasks = planned.plan.steps.iter().any(|step| step.id.as_str().ends_with("_3"));
        assert!(has_subtasks || name.starts_with("travel"), "{name}");
        for step in planned.plan.steps.iter().filter(|step| !step.kind.is_inline()) {
            let inputs = step.inputs.text();
            assert!(inputs.contains("noise"), "{name}: {}", step.id);
        }
        let success = planned.plan.metadata["success_criteria"].to_string();
        assert!(success.contains("ruled out: noise") && success.contains("300 EUR"), "{name}: {success}");
    }
}

#[test]
fn listed_sub_tasks_become_steps() {
    let planned = plan("Onboard our new colleague: laptop, accounts, first project");
    let prepared = |n: u32| planned.plan.steps.iter().find(|s| s.id.as_str() == format!("prepare_{n}"));
    assert_eq!(prepared(2).map(|step| step.description.as_str()), Some("accounts"));
    let welcome = planned.plan.steps.iter().find(|s| s.id.as_str() == "welcome").expect("it is in the rule");
    assert!(welcome.dependencies.iter().any(|d| d.as_str() == "prepare_3"));
    assert_eq!(inputs(&planned, "welcome")["prepare"][2], "{{ steps.prepare_3.outputs.result }}");
    let numbered = plan("Knit a sweater:\n1. buy wool\n2. knit\n3. wash it");
    let knit = numbered.plan.steps.iter().find(|s| s.id.as_str() == "act_2").expect("the goal lists three");
    assert!(knit.dependencies.iter().any(|d| d.as_str() == "act_1"), "{:?}", knit.dependencies);
    let mut narrow = request("Knit: one, two, three, four, five");
    narrow.limits.planned_steps_max = 4;
    let folded = RulesPlanner::built_in().make(&narrow).expect("the sub-tasks do not have to be steps");
    assert_eq!(inputs(&folded, "act")["requirements"]["subtasks"][4], "five");
}

#[test]
fn a_part_that_is_not_understood_is_reported_and_lowers_the_confidence() {
    let clear = plan("Translate the manual into French by 6 May");
    let unclear = plan("Translate the manual into French by 05/06/2027");
    assert!(clear.warnings.iter().all(|warning| warning.code != "FACT_UNREAD"));
    assert!(unclear.warnings.iter().any(|w| w.code == "FACT_UNREAD" && w.detail.contains("05/06/2027")));
    assert!(unclear.confidence < clear.confidence);
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

pub(super) fn request(description: &str) -> PlanRequest {
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
