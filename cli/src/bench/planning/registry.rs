//! The agents that plans are made for: as many, as wordy and as alike as those of a real registry.

use goalmill_common::agent::{Action, Agent, WorkerBeat};
use goalmill_common::json::Json;
use serde_json::{Value, json};

/// What agents work on: a word for their names, and a phrase for their descriptions.
const SUBJECTS: &str = "\
    flight:flights between two cities|hotel:rooms in hotels|weather:forecasts of the weather|\
    invoice:invoices of suppliers|calendar:appointments and meetings|mail:letters and electronic mail|\
    museum:museums, galleries and exhibitions|restaurant:tables in restaurants|currency:rates between currencies|\
    contract:contracts and their clauses|ticket:tickets of the help desk|payroll:wages and payslips|\
    stock:prices of shares|warehouse:goods in the warehouse|parcel:parcels and their way|\
    train:trains and their connections|taxi:rides across town|recipe:recipes and their ingredients|\
    translation:texts in other languages|image:photographs and drawings|video:films and recordings|\
    music:songs and playlists|news:headlines and articles|patent:patents and inventions|\
    law:statutes and court decisions|tax:taxes and deductions|loan:loans and mortgages|\
    insurance:policies and claims|medicine:drugs and their doses|doctor:doctors and their hours|\
    fitness:exercises and training|school:courses and lessons|library:books and their shelves|\
    survey:questionnaires and replies|report:reports and summaries|chart:charts and diagrams|\
    table:tables of figures|database:records in a database|code:programs and functions|\
    test:tests of programs|deploy:releases of software|server:servers and their load|\
    log:logs and traces|alert:alarms and incidents|map:maps and routes|\
    house:houses and flats for rent|garden:plants and seeds|car:cars and their repair|\
    energy:power and gas meters|event:concerts and fairs";

/// What each of them does: the verb, what it gives, and the names of its inputs.
const VERBS: [(&str, &str); 3] = [
    ("find", "Look up {what} that match a query, the best ones first."),
    ("prepare", "Draw up a proposal about {what} from what is known so far."),
    ("check", "Compare {what} with the wishes of the customer and tell the differences."),
];

/// So many agents; beyond the subjects there are, each again with a number.
pub fn agents(count: usize) -> Vec<Agent> {
    (0..count).map(agent).collect()
}

/// What an agent works on: the phrase in its description.
pub fn phrase(agent: usize) -> &'static str {
    subject(agent).1
}

/// One worker for all.
pub fn workers(agents: &[Agent]) -> Vec<WorkerBeat> {
    vec![WorkerBeat {
        worker: "bench".into(),
        agents: agents.iter().map(|agent| agent.agent_type.clone()).collect(),
        slots: 16,
        busy: 0,
        draining: false,
        version: String::new(),
        host: String::new(),
        started_ms: 0,
        seen_ms: 0,
        heartbeat_ms: None,
    }]
}

fn subject(at: usize) -> (&'static str, &'static str) {
    let subjects: Vec<&str> = SUBJECTS.split('|').collect();
    subjects[at % subjects.len()].split_once(':').expect("each subject has a word and a phrase")
}

fn agent(at: usize) -> Agent {
    let (word, what) = subject(at);
    let again = at / SUBJECTS.split('|').count();
    let word = if again == 0 { word.to_owned() } else { format!("{word}{again}") };
    let action = |(verb, told): &(&str, &str)| Action {
        name: format!("{verb}_{word}"),
        description: told.replace("{what}", what),
        inputs: Some(Json::of(&inputs(verb))),
        outputs: Some(Json::of(&json!({
            "type": "object",
            "properties": {"items": {"type": "array"}, "summary": {"type": "string"}, "count": {"type": "integer"}},
        }))),
    };
    Agent {
        description: format!("Knows all about {what}: finds them, prepares proposals, and checks what others made."),
        capabilities: VERBS.iter().map(|(verb, _)| format!("{verb} {what}")).collect(),
        actions: VERBS.iter().map(action).collect(),
        success_rate: 0.95,
        cost: 0.01,
        latency_ms: Some(1_500),
        ..Agent::named(format!("{word}_agent").into())
    }
}

fn inputs(verb: &str) -> Value {
    let text = json!({"type": "string", "maxLength": 4_000});
    let properties = match verb {
        "find" => {
            json!({"query": text, "limit": {"type": "integer", "minimum": 1, "maximum": 100}, "fresh": {"type": "boolean"}})
        }
        "prepare" => json!({"source": text, "style": {"enum": ["short", "long", "formal"]}, "notes": text}),
        _ => json!({"subject": text, "strict": {"type": "boolean"}, "tolerance": {"type": "number", "minimum": 0}}),
    };
    let required = match verb {
        "find" => "query",
        "prepare" => "source",
        _ => "subject",
    };
    json!({"type": "object", "properties": properties, "required": [required], "additionalProperties": false})
}
