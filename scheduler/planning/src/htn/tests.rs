use std::collections::BTreeSet;

use goalmill_common::goal::Goal;
use goalmill_common::limits;

use super::*;

#[test]
fn a_tour_becomes_steps_that_wait_only_for_what_they_need() {
    let planned = plan(&tour()).expect("the shipped domain fits");
    let shape = shape(&planned);
    let expected = [
        ("fly_home_stop1", ""),
        ("stay_stop1", "fly_home_stop1"),
        ("see_stop1", ""),
        ("fly_stop1_stop2", ""),
        ("stay_stop2", "fly_stop1_stop2"),
        ("see_stop2", ""),
        ("fly_stop2_home", ""),
        ("add_up", "fly_home_stop1 stay_stop1 see_stop1 fly_stop1_stop2 stay_stop2 see_stop2 fly_stop2_home"),
    ];
    assert_eq!(shape, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    let steps = &planned.plan.steps;
    assert_eq!(steps[0].inputs.value()["destination"], "Paris");
    assert_eq!(steps[1].inputs.value()["flight"], "{{ steps.fly_home_stop1.outputs.best }}");
    let flights = steps[7].inputs.value()["flights"].clone();
    assert_eq!(
        flights,
        "{{ steps.fly_home_stop1.outputs.total + steps.fly_stop1_stop2.outputs.total + steps.fly_stop2_home.outputs.total }}"
    );
    let account = planned.provenance.as_ref().map(Json::value).unwrap_or_default();
    assert_eq!(account["domain"], "itinerary");
    assert_eq!(account["methods"][0], json!({"task": "tour home", "method": "go_on"}));
    assert_eq!(planned.warnings.iter().filter(|w| w.code == "FACT_ASSUMED").count(), 3);
}

#[test]
fn domains_are_listed_with_what_they_match() {
    let planner = HtnPlanner::from_settings(&PlannerSettings::default()).expect("the shipped domains are in order");
    let rules = planner.rules();
    let listed: Vec<_> = rules.iter().map(|rule| (rule.planner.as_str(), rule.rule.as_str())).collect();
    assert_eq!(listed, [("htn", "itinerary"), ("htn", "release")]);
    assert!(rules.iter().all(|rule| rule.score.is_some() && !rule.signals.is_empty()), "{rules:?}");
    assert!(!rules[0].required_facts.is_empty(), "{:?}", rules[0]);
}

#[test]
fn a_release_builds_side_by_side_and_deploys_in_the_order_of_needs() {
    let planned = plan(&release(json!([["web", "api"]]))).expect("the shipped domain fits");
    let shape = shape(&planned);
    let of = |id: &str| shape.iter().find(|(own, _)| own == id).map(|(_, d)| d.as_str());
    assert_eq!(shape.len(), 12);
    assert_eq!(of("build_web"), Some(""));
    assert_eq!(of("build_api"), Some(""));
    let waits: BTreeSet<_> = of("deploy_web_production").into_iter().flat_map(|d| d.split(' ')).collect();
    assert!(waits.contains("check_api_production"), "{waits:?}");
    assert_eq!(of("check_web_production"), Some("deploy_web_production"));
}

#[test]
fn the_same_goal_gives_the_same_plan() {
    let first = plan(&release(json!([["web", "api"]]))).map(|p| p.plan);
    assert_eq!(first, plan(&release(json!([["web", "api"]]))).map(|p| p.plan));
}

#[test]
fn needs_in_a_circle_and_missing_facts_are_told() {
    let refused = plan(&release(json!([["web", "api"], ["api", "web"]]))).expect_err("nothing can be first");
    assert_ne!(refused.reason, "");
    let mut request = release(json!([]));
    request.goal.constraints.remove("services");
    let refused = plan(&request).expect_err("there are no services");
    assert_eq!(refused.issues[0].pointer, "/constraints/services");
    request.goal.description = "Knit a sweater".into();
    assert!(plan(&request).is_err_and(|e| e.issues.is_empty()));
    request.revision = 1;
    assert!(plan(&request).is_err());
}

#[test]
fn names_from_outside_cannot_write_hddl() {
    let mut request = release(json!([]));
    request.goal.constraints.insert("services".into(), json!(["a) (done a", "7 up", "{{ x }}"]));
    let planned = plan(&request).expect("names are only names");
    let ids: BTreeSet<&str> = planned.plan.steps.iter().map(|s| s.id.as_str()).collect();
    assert!(ids.contains("build_a___done_a") && ids.contains("build_x7_up"), "{ids:?}");
    request.goal.constraints.insert("services".into(), json!("api"));
    assert!(plan(&request).is_err_and(|e| e.reason.contains("no list")));
}

#[test]
fn a_directory_of_domains_is_read_and_its_faults_are_located() {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let settings = PlannerSettings { domains_dir: dir.path().display().to_string(), ..PlannerSettings::default() };
    let refused = |text: &str| {
        std::fs::write(dir.path().join("tea.yaml"), text).expect("a temporary file can be written");
        HtnPlanner::from_settings(&settings).map(drop).map_err(|e| e.to_string())
    };
    assert!(HtnPlanner::from_settings(&settings).is_err_and(|e| matches!(e, LoadError::Empty { .. })));
    let head =
        "id: tea\nversion: 1\ngoal_type: tea\nconfidence: 0.9\nmatch: {score: 1, signals: [{weight: 1, any: [tea]}]}\n";
    let hddl = "hddl: \"(define (domain tea) (:action boil :parameters ()))\"\ntasks: [(boil)]\n";
    let fault = refused(&format!(
        "{head}hddl: \"(define (domain tea) (:action boil :effect (hot)))\"\ntasks: [(boil)]\nactions: {{}}"
    ));
    assert!(fault.is_err_and(|e| e.contains("tea.yaml`: hddl:1:") && e.contains("`hot`")));
    let fault = refused(&format!("{head}{hddl}actions: {{pour: {{agent_type: kettle}}}}"));
    assert!(fault.is_err_and(|e| e.contains("actions.pour")));
    assert_eq!(
        refused(&format!("{head}{hddl}actions: {{boil: {{agent_type: kettle, step: {{timeout_ms: 5}}}}}}")),
        Ok(())
    );
    let planner = HtnPlanner::from_settings(&settings).expect("the file is well formed");
    let mut request = tour();
    request.goal.description = "Make tea".into();
    let planned = planner.search_plan(&request, &mut || false).expect("the domain fits");
    assert_eq!((planned.plan.steps[0].agent_type.as_str(), planned.plan.steps[0].timeout_ms), ("kettle", Some(5)));
}

#[tokio::test]
async fn the_planner_answers_from_a_thread_of_its_own() {
    let planner = HtnPlanner::from_settings(&PlannerSettings::default()).expect("the shipped domains are well formed");
    let answer = planner.plan(&tour()).await.expect("the shipped domain fits");
    assert_eq!(answer.planned.plan.steps.len(), 8);
    assert_eq!(planner.name(), "htn");
}

fn plan(request: &PlanRequest) -> Result<Planned, PlanningError> {
    let settings = PlannerSettings { htn_nodes_max: 20_000, ..PlannerSettings::default() };
    let planner = HtnPlanner::from_settings(&settings).expect("the shipped domains are well formed");
    planner.search_plan(request, &mut || false)
}

fn shape(planned: &Planned) -> Vec<(String, String)> {
    let steps = planned.plan.steps.iter();
    let dependencies =
        |s: &goalmill_common::plan::Step| s.dependencies.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    steps.map(|s| (s.id.to_string(), dependencies(s))).collect()
}

fn tour() -> PlanRequest {
    let constraints = json!({"destination": "Paris", "further_destinations": ["Lyon"]});
    request("Plan an itinerary through France", constraints)
}

fn release(needs: Value) -> PlanRequest {
    request("Release the shop", json!({"services": ["web", "api"], "needs": needs}))
}

fn request(description: &str, constraints: Value) -> PlanRequest {
    let constraints = if let Value::Object(fields) = constraints { fields } else { Map::new() };
    PlanRequest {
        goal: Goal { description: description.into(), constraints, ..Goal::default() },
        agents: Vec::new(),
        limits: limits::Limits::default(),
        now_ms: 1_795_000_000_000,
        revision: 0,
        is_part: false,
        call_log: crate::CallLog::default(),
        terms: Default::default(),
        reading: None,
    }
}
