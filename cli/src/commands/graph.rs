//! A plan's graph as text: in waves, as DOT, as Mermaid.

use std::collections::BTreeMap;

use goalmill_common::id::{AgentType, StepId};
use goalmill_common::layout::{CleanupPart, LayoutStep, longest_paths};
use goalmill_common::plan::{DependencyStatus, Step};
use goalmill_common::status::StepStatus;
use goalmill_common::view::{PlanView, StepView};
use serde::Deserialize;
use serde_json::Value;

use crate::args::GraphForm;
use crate::context::CommandContext;
use crate::exit::Failed;
use crate::output::{Palette, Table, Tone, cleanup_words, motion_words, sanitize, step_tone};

/// One step in the drawing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    id: StepId,
    label: String,
    dependencies: Vec<StepId>,
    /// With which statuses a dependency lets it start, where that is not the usual.
    dependency_status: BTreeMap<StepId, Vec<DependencyStatus>>,
    status: Option<StepStatus>,
    /// The step that it takes back.
    undoes: Option<StepId>,
    always: bool,
    /// Whether it is a map, a loop, a wait or a plan.
    motion: Vec<String>,
}

fn label(agent_type: &AgentType) -> String {
    if agent_type.as_str().is_empty() { "engine".into() } else { agent_type.to_string() }
}

impl Node {
    pub fn of_step(step: &Step) -> Self {
        Self {
            id: step.id.clone(),
            label: label(&step.agent_type),
            dependencies: step.dependencies.clone(),
            dependency_status: step.dependency_status.clone(),
            status: None,
            undoes: step.undoes.clone(),
            always: step.always,
            motion: motion_words(step),
        }
    }

    /// - `step`: as it stands in the plan.
    fn of_view(view: &StepView, step: Option<&Step>) -> Self {
        Self {
            id: view.id.clone(),
            label: label(&view.agent_type),
            dependencies: view.dependencies.clone(),
            dependency_status: view.dependency_status.clone(),
            status: Some(view.status),
            undoes: view.undoes.clone(),
            always: view.always,
            motion: step.map(motion_words).unwrap_or_default(),
        }
    }

    /// The steps of a plan with their statuses.
    ///
    /// - `plan`: the plan as a document.
    pub fn of_plan(view: &PlanView, plan: &Value) -> Vec<Self> {
        let steps = plan["steps"].as_array().into_iter().flatten();
        let steps = steps.filter_map(|step| Step::deserialize(step).ok());
        let steps: BTreeMap<StepId, Step> = steps.map(|step| (step.id.clone(), step)).collect();
        view.steps.iter().map(|step| Self::of_view(step, steps.get(&step.id))).collect()
    }

    /// The statuses with which a dependency lets it start: `failed or skipped`; `None` for the usual ones.
    fn status_of(&self, dependency: &StepId) -> Option<String> {
        let allowed = self.dependency_status.get(dependency)?;
        Some(allowed.iter().map(|status| status.as_str()).collect::<Vec<_>>().join(" or "))
    }

    /// What its box says.
    fn lines(&self) -> impl Iterator<Item = String> {
        [self.id.to_string(), self.label.clone()].into_iter().chain(self.motion.iter().cloned())
    }

    fn cleanup(&self) -> Option<CleanupPart> {
        CleanupPart::of_marks(self.undoes.as_ref(), self.always)
    }

    fn layout_step(&self) -> LayoutStep {
        let (id, dependencies) = (self.id.clone(), self.dependencies.clone());
        LayoutStep { id, dependencies, phase: None, cleanup: self.cleanup() }
    }
}

/// Draws the plan that `text` means.
pub async fn show(context: &CommandContext, text: &str, form: GraphForm) -> Result<(), Failed> {
    let CommandContext { screen, client, .. } = context;
    let plan = client.resolve(text).await?;
    if !screen.is_for_people() {
        return screen.show(&client.graph(&plan).await?, plan.as_str(), |_| String::new());
    }
    let view = client.plan(&plan).await?;
    // A plan without steps has no graph.
    let graph = if view.steps.is_empty() { Value::Null } else { client.graph(&plan).await? };
    let nodes = Node::of_plan(&view, &graph);
    screen.text(&match form {
        GraphForm::Tree => tree(&nodes, screen.palette),
        GraphForm::Dot => dot(&nodes),
        GraphForm::Mermaid => mermaid(&nodes),
    })
}

/// Steps in waves: steps of one wave may run concurrently. The clean-up comes last.
pub fn tree(nodes: &[Node], palette: Palette) -> String {
    let steps: Vec<LayoutStep> = nodes.iter().map(Node::layout_step).collect();
    let mut order: Vec<(usize, &Node)> = longest_paths(&steps).into_iter().zip(nodes).collect();
    order.sort_by_key(|(before, _)| *before);
    let mut table = Table::new(&["", "", "", "", ""]).right(&[0]);
    let mut last = String::new();
    for (before, node) in order {
        let wave = if node.cleanup().is_some() { "clean-up".to_owned() } else { (before + 1).to_string() };
        let heading = if wave == last { String::new() } else { wave.clone() };
        last = wave;
        let status = node.status.unwrap_or(StepStatus::Pending);
        let named = |id: &StepId| match node.status_of(id) {
            Some(status) => format!("{id} ({status})"),
            None => id.to_string(),
        };
        let after: Vec<String> = node.dependencies.iter().map(named).collect();
        let after = (!after.is_empty()).then(|| format!("after {}", after.join(", ")));
        let part = cleanup_words(node.undoes.as_ref(), node.always);
        let motion = node.motion.iter().map(|words| sanitize(words).into_owned());
        let remarks: Vec<String> = part.into_iter().chain(motion).chain(after).collect();
        table.row([
            format!("  {}", palette.tone(Tone::Dim, heading)),
            palette.tone(step_tone(status), status.mark()),
            node.id.to_string(),
            node.label.clone(),
            palette.tone(Tone::Dim, remarks.join(", ")),
        ]);
    }
    table.render(palette, "  no steps yet")
}

fn dot(nodes: &[Node]) -> String {
    let mut text = String::from("digraph plan {\n  rankdir=LR;\n  node [shape=box, style=rounded];\n");
    let box_of = |node: &Node| {
        let lines = node.lines().chain(node.status.map(|status| status.to_string()));
        let lines: Vec<String> = lines.map(|line| line.replace('\\', "\\\\").replace('"', "\\\"")).collect();
        format!("\"{}\" [label=\"{}\"];\n", node.id, lines.join("\\n"))
    };
    let (cleanup, others): (Vec<&Node>, Vec<&Node>) = nodes.iter().partition(|node| node.cleanup().is_some());
    others.iter().for_each(|node| text.push_str(&format!("  {}", box_of(node))));
    if !cleanup.is_empty() {
        text.push_str("  subgraph cluster_cleanup {\n    label=\"clean-up\";\n");
        cleanup.iter().for_each(|node| text.push_str(&format!("    {}", box_of(node))));
        text.push_str("  }\n");
    }
    for node in nodes {
        for dependency in &node.dependencies {
            let label = node.status_of(dependency).map(|status| format!(" [label=\"{status}\"]")).unwrap_or_default();
            text.push_str(&format!("  \"{dependency}\" -> \"{}\"{label};\n", node.id));
        }
        if let Some(undone) = &node.undoes {
            text.push_str(&format!("  \"{undone}\" -> \"{}\" [label=\"undo\", style=dashed];\n", node.id));
        }
    }
    text.push_str("}\n");
    text
}

fn mermaid(nodes: &[Node]) -> String {
    let places: BTreeMap<&StepId, usize> = nodes.iter().enumerate().map(|(place, node)| (&node.id, place)).collect();
    let mut text = String::from("flowchart LR\n");
    let box_of = |(place, node): &(usize, &Node)| {
        let label = node.lines().collect::<Vec<_>>().join(" · ").replace('#', "#35;").replace('"', "#quot;");
        format!("s{place}[\"{label}\"]\n")
    };
    let (cleanup, others): (Vec<_>, Vec<_>) = nodes.iter().enumerate().partition(|(_, node)| node.cleanup().is_some());
    others.iter().for_each(|node| text.push_str(&format!("  {}", box_of(node))));
    if !cleanup.is_empty() {
        text.push_str("  subgraph cleanup [clean-up]\n");
        cleanup.iter().for_each(|node| text.push_str(&format!("    {}", box_of(node))));
        text.push_str("  end\n");
    }
    for (place, node) in nodes.iter().enumerate() {
        for (id, from) in node.dependencies.iter().filter_map(|id| Some((id, places.get(id)?))) {
            let label = node.status_of(id).map(|status| format!("|{status}|")).unwrap_or_default();
            text.push_str(&format!("  s{from} -->{label} s{place}\n"));
        }
        if let Some(from) = node.undoes.as_ref().and_then(|undone| places.get(undone)) {
            text.push_str(&format!("  s{from} -.->|undo| s{place}\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: &str, dependencies: &[&str]) -> Node {
        let dependencies = dependencies.iter().map(|id| StepId::from(*id)).collect();
        let dependency_status = BTreeMap::new();
        Node {
            id: id.into(),
            label: "agent".into(),
            dependencies,
            dependency_status,
            status: None,
            undoes: None,
            always: false,
            motion: Vec::new(),
        }
    }

    #[test]
    fn waves_follow_the_longest_path() {
        let nodes = [
            node("budget", &["flights", "hotels"]),
            node("flights", &[]),
            node("hotels", &["flights"]),
            node("sights", &[]),
        ];
        let want = "  1  ·  flights  agent\n     ·  sights   agent\n  2  ·  hotels   agent  after flights\n  3  ·  budget   \
                    agent  after flights, hotels\n";
        assert_eq!(tree(&nodes, Palette::plain()), want);
    }

    #[test]
    fn the_clean_up_stands_at_the_end() {
        let undo = Node { undoes: Some("book".into()), ..node("book-undo", &[]) };
        let always = Node { always: true, ..node("report", &[]) };
        let nodes = [always, undo, node("book", &[]), node("pay", &["book"])];
        let want = "         1  ·  book       agent\n         2  ·  pay        agent  after book\n  \
                    clean-up  ·  book-undo  agent  undoes book\n            ·  report     agent  always\n";
        assert_eq!(tree(&nodes, Palette::plain()), want);
    }

    #[test]
    fn a_cycle_and_a_missing_dependency_still_draw() {
        let text = tree(&[node("a", &["b"]), node("b", &["a"]), node("c", &["nowhere"])], Palette::plain());
        assert_eq!(text.lines().count(), 3);
    }

    #[test]
    fn other_tools_can_draw_it() {
        let nodes = [node("a", &[]), node("b", &["a"])];
        assert!(dot(&nodes).contains("\"a\" -> \"b\";"));
        assert!(mermaid(&nodes).contains("s0 --> s1"));
    }

    #[test]
    fn maps_loops_waits_and_clean_up_are_drawn() {
        let motion = |id: &str, words: &str| Node { motion: vec![words.to_owned()], ..node(id, &[]) };
        let undo = Node { undoes: Some("book".into()), ..node("book:undo", &[]) };
        let always = Node { always: true, ..node("report", &["book:undo"]) };
        let nodes = [motion("book", "for each item"), undo, motion("look", "until outputs.x == \"#1\""), always];
        let drawn = dot(&nodes);
        assert_eq!(
            drawn.lines().skip(3).collect::<Vec<_>>(),
            [
                r#"  "book" [label="book\nagent\nfor each item"];"#,
                r##"  "look" [label="look\nagent\nuntil outputs.x == \"#1\""];"##,
                "  subgraph cluster_cleanup {",
                r#"    label="clean-up";"#,
                r#"    "book:undo" [label="book:undo\nagent"];"#,
                r#"    "report" [label="report\nagent"];"#,
                "  }",
                r#"  "book" -> "book:undo" [label="undo", style=dashed];"#,
                r#"  "book:undo" -> "report";"#,
                "}",
            ]
        );
        assert_eq!(
            mermaid(&nodes).lines().skip(1).collect::<Vec<_>>(),
            [
                r#"  s0["book · agent · for each item"]"#,
                r#"  s2["look · agent · until outputs.x == #quot;#35;1#quot;"]"#,
                "  subgraph cleanup [clean-up]",
                r#"    s1["book:undo · agent"]"#,
                r#"    s3["report · agent"]"#,
                "  end",
                "  s0 -.->|undo| s1",
                "  s1 --> s3",
            ]
        );
        assert!(tree(&nodes, Palette::plain()).contains("book       agent  for each item"));
    }

    #[test]
    fn an_edge_names_the_statuses_that_it_is_for() {
        let mut on_failure = node("b", &["a"]);
        on_failure.dependency_status.insert("a".into(), vec![DependencyStatus::Failed, DependencyStatus::Skipped]);
        let nodes = [node("a", &[]), on_failure];
        assert!(tree(&nodes, Palette::plain()).contains("after a (failed or skipped)"));
        assert!(dot(&nodes).contains("\"a\" -> \"b\" [label=\"failed or skipped\"];"));
        assert!(mermaid(&nodes).contains("s0 -->|failed or skipped| s1"));
    }
}
