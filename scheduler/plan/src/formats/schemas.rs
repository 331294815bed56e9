//! JSON Schemas of the forms, as `goalmill schema --format` prints them.

use goalmill_common::document_format::DocumentFormat;
use serde_json::{Value, json};

/// The JSON Schema of the documents of a form; fields that it does not name are fields of our own form.
pub fn format_schema(format: DocumentFormat) -> Value {
    let mut schema = match format {
        DocumentFormat::Subtasks => subtasks(),
        DocumentFormat::PlanAndExecute => plan_and_execute(),
        DocumentFormat::Actions => actions(),
        DocumentFormat::Phases => phases(),
        DocumentFormat::Nodes => nodes(),
    };
    if let Some(map) = schema.as_object_mut() {
        map.insert("$schema".into(), json!("https://json-schema.org/draft/2020-12/schema"));
        map.insert("title".into(), json!(format!("Documents of the form `{format}`")));
    }
    schema
}

fn text() -> Value {
    json!({"type": "string"})
}

fn texts() -> Value {
    json!({"type": "array", "items": {"type": "string"}})
}

/// Ids of steps, as text or numbers.
fn ids() -> Value {
    json!({"type": "array", "items": {"type": ["string", "integer"]}})
}

fn amount() -> Value {
    json!({"type": ["number", "null"], "minimum": 0})
}

fn share() -> Value {
    json!({"type": ["number", "null"], "minimum": 0, "maximum": 1})
}

fn status(words: &[&str]) -> Value {
    json!({"type": "string", "enum": words, "description": "Ignored on submission."})
}

fn pass_context() -> Value {
    json!({"type": "boolean", "default": true,
           "description": "Whether steps get the goal and the outputs of the steps that they depend on, if none refers to outputs itself."})
}

fn subtasks() -> Value {
    let step_words = ["pending", "in_progress", "completed", "failed", "blocked"];
    json!({
        "anyOf": [{"$ref": "#/$defs/plan"}, {"$ref": "#/$defs/tasks"}, {"$ref": "#/$defs/goal"}, {"$ref": "#/$defs/agent"},
                  {"$ref": "#/$defs/feedback"}, {"$ref": "#/$defs/revision"}],
        "$defs": {
            "goal": {
                "type": "object",
                "required": ["description"],
                "properties": {
                    "goal_id": text(), "goal_type": text(), "description": text(),
                    "constraints": {"type": "array", "items": {
                        "type": "object", "required": ["type", "value"],
                        "properties": {"type": text(), "value": {}, "priority": {"type": "integer", "minimum": 1, "maximum": 10}}}},
                    "success_criteria": texts(), "deadline": text(),
                    "priority": {"type": "integer", "minimum": 1, "maximum": 10}, "metadata": {"type": "object"},
                },
            },
            "plan": {
                "type": "object",
                "required": ["subtasks"],
                "properties": {
                    "plan_id": text(), "goal_id": text(),
                    "subtasks": {"type": "array", "items": {"$ref": "#/$defs/subtask"}},
                    "execution_strategy": {"type": "string", "enum": ["sequential", "parallel", "hybrid"]},
                    "estimated_total_duration": amount(), "confidence_score": share(), "alternative_plans": texts(),
                    "created_at": text(), "updated_at": text(), "pass_context": pass_context(),
                },
            },
            "subtask": {
                "type": "object",
                "required": ["task_id", "description"],
                "properties": {
                    "task_id": text(), "description": text(), "agent_type": text(), "dependencies": ids(),
                    "inputs": {"type": "object"}, "expected_outputs": texts(), "status": status(&step_words),
                    "priority": {"type": "integer", "minimum": 1, "maximum": 10},
                    "estimated_duration_seconds": amount(),
                    "retry_policy": {"type": "object", "properties": {
                        "max_retries": {"type": "integer", "minimum": 0}, "backoff_seconds": amount()}},
                },
            },
            "tasks": {
                "type": "object",
                "required": ["tasks"],
                "properties": {"tasks": {"type": "array", "items": {
                    "type": "object",
                    "required": ["description"],
                    "properties": {"description": text(), "agent_type": text(), "dependencies": ids()}}}},
            },
            "agent": {
                "type": "object",
                "required": ["agent_type", "capabilities"],
                "properties": {
                    "agent_type": text(), "capabilities": texts(), "specialization": text(),
                    "cost_per_invocation": amount(), "avg_latency_ms": amount(), "success_rate": share(),
                },
            },
            "revision": {
                "type": "object",
                "required": ["revision_id", "original_plan_id"],
                "description": "An edit of the plan that it names.",
                "properties": {
                    "revision_id": text(), "original_plan_id": text(), "trigger": text(), "changes": texts(),
                    "new_subtasks": {"type": "array", "items": {"$ref": "#/$defs/subtask"}},
                    "removed_task_ids": texts(), "modified_task_ids": texts(), "confidence_delta": {"type": "number"},
                    "created_at": text(),
                },
            },
            "feedback": {
                "type": "object",
                "required": ["task_id", "feedback_type"],
                "properties": {
                    "task_id": text(),
                    "feedback_type": {"type": "string", "enum": [
                        "success", "partial_success", "failure", "constraint_violation", "dependency_failure"]},
                    "actual_outputs": {"type": "object"}, "errors": texts(), "duration_seconds": amount(), "cost": amount(),
                    "suggested_adjustments": {},
                },
            },
        },
    })
}

fn plan_and_execute() -> Value {
    let count = json!({"type": "integer", "minimum": 0});
    json!({
        "anyOf": [{"$ref": "#/$defs/plan"}, {"$ref": "#/$defs/configured"}],
        "$defs": {
            "plan": {
                "type": "object",
                "required": ["steps"],
                "properties": {
                    "goal": {"type": ["string", "object"]},
                    "steps": {"type": "array", "items": {"$ref": "#/$defs/step"}},
                    "success_criteria": {"type": ["string", "array"]},
                    "estimated_total_tokens": count, "created_at": text(), "pass_context": pass_context(),
                },
            },
            "step": {
                "type": "object",
                "required": ["id", "description"],
                "properties": {
                    "id": {"type": ["string", "integer"]}, "description": text(), "action": text(),
                    "parameters": {"type": "object"}, "dependencies": ids(), "expected_output": text(),
                    "fallback_action": {"type": ["string", "null"]}, "estimated_tokens": count,
                },
            },
            "configured": {
                "type": "object",
                "anyOf": [{"required": ["plan"]}, {"required": ["goal"]}],
                "properties": {
                    "plan": {"$ref": "#/$defs/plan"}, "goal": {"type": ["string", "object"]},
                    "planning_prompt": text(), "planning_model": text(), "planning_temperature": amount(),
                    "max_steps": count, "require_dependencies": {"type": "boolean"},
                    "require_fallbacks": {"type": "boolean"}, "structured_output": {"type": "boolean"},
                    "execution_mode": {"type": "string", "enum": ["sequential", "parallel", "adaptive", "hybrid"]},
                    "max_parallel": {"type": "integer", "minimum": 1}, "step_timeout": amount(),
                    "continue_on_failure": {"type": "boolean"}, "retry_failed_steps": {"type": ["boolean", "integer"]},
                    "max_revisions": count, "revision_threshold": share(),
                },
            },
        },
    })
}

fn actions() -> Value {
    let words = ["pending", "in_progress", "completed", "failed", "skipped"];
    let verbs = ["plan.decompose", "plan.execute", "plan.replan", "plan.status"];
    json!({
        "anyOf": [{"$ref": "#/$defs/plan"}, {"$ref": "#/$defs/workflow"}],
        "$defs": {
            "plan": {
                "type": "object",
                "required": ["subtasks"],
                "properties": {
                    "id": text(), "goal": text(),
                    "strategy": {"type": "string", "enum": ["flat", "hierarchical", "iterative"]},
                    "subtasks": {"type": "array", "items": {"$ref": "#/$defs/subtask"}},
                    "metadata": {"type": "object", "properties": {
                        "created_at": {"type": ["number", "string", "null"]},
                        "replan_count": {"type": "integer", "minimum": 0},
                        "max_replans": {"type": "integer", "minimum": 0}}},
                    "pass_context": pass_context(),
                },
            },
            "subtask": {
                "type": "object",
                "required": ["id", "description"],
                "properties": {
                    "id": {"type": ["string", "integer"]}, "description": text(), "dependencies": ids(),
                    "status": status(&words), "result": {},
                    "subtasks": {"type": "array", "items": {"$ref": "#/$defs/subtask"}},
                },
            },
            "workflow": {
                "type": "object",
                "required": ["nodes"],
                "properties": {
                    "state": {"type": "object"},
                    "nodes": {"type": "array", "items": {
                        "type": "object",
                        "required": ["action"],
                        "properties": {
                            "name": text(), "action": {"type": "string", "enum": verbs}, "with": {"$ref": "#/$defs/with"}}}},
                },
            },
            "with": {
                "type": "object",
                "properties": {
                    "goal": text(), "model": text(), "strategy": text(), "max_depth": {}, "max_subtasks": {},
                    "prompt_template": text(), "temperature": {}, "plan": {"type": ["string", "object"]}, "parallel": {},
                    "max_concurrent": {}, "subtask_executor": {"type": "object"},
                    "on_subtask_failure": {"type": "string", "enum": ["replan", "retry", "skip", "abort"]},
                    "max_retries": {}, "retry_delay": {}, "max_replans": {}, "include_completed": {}, "include_details": {},
                },
            },
        },
    })
}

fn phases() -> Value {
    let words = ["pending", "running", "completed", "failed", "skipped"];
    json!({
        "type": "object",
        "required": ["phases"],
        "properties": {
            "id": text(), "query": text(),
            "status": status(&["planning", "running", "completed", "failed"]),
            "phases": {"type": "array", "items": {"$ref": "#/$defs/phase"}},
            "createdAt": {"type": ["string", "null"]}, "completedAt": {"type": ["string", "null"]},
            "pass_context": pass_context(),
        },
        "$defs": {
            "phase": {
                "type": "object",
                "required": ["id", "steps"],
                "properties": {
                    "id": text(), "planId": text(), "name": text(), "status": status(&words),
                    "steps": {"type": "array", "items": {"$ref": "#/$defs/step"}},
                    "replanCheckpoint": {"type": "boolean"}, "order": {"type": "integer"},
                },
            },
            "step": {
                "type": "object",
                "required": ["id"],
                "properties": {
                    "id": {"type": ["string", "integer"]}, "phaseId": text(), "type": text(), "toolName": text(),
                    "config": {"type": "object"}, "dependencies": ids(), "status": status(&words),
                    "order": {"type": "integer"},
                },
            },
        },
    })
}

fn nodes() -> Value {
    json!({
        "anyOf": [{"$ref": "#/$defs/graph"}, {"$ref": "#/$defs/list"}, {"$ref": "#/$defs/state"}, {"$ref": "#/$defs/line"}],
        "$defs": {
            "step": {
                "type": "object",
                "required": ["id"],
                "properties": {
                    "id": text(),
                    "type": {"type": "string", "enum": ["tool", "message", "finish", "internal", "llm", "plan"]},
                    "toolId": text(), "input": {}, "meta": {"type": "object"},
                },
            },
            "graph": {
                "type": "object",
                "required": ["nodes"],
                "properties": {
                    "planId": text(),
                    "nodes": {"type": "object", "additionalProperties": {"$ref": "#/$defs/step"}},
                    "edges": {"type": "object", "additionalProperties": texts()},
                },
            },
            "list": {
                "type": "object",
                "required": ["steps"],
                "properties": {
                    "planId": text(), "steps": {"type": "array", "items": {"$ref": "#/$defs/step"}},
                    "edges": {"type": "object", "additionalProperties": texts()},
                },
            },
            "state": {
                "type": "object",
                "required": ["goal"],
                "properties": {
                    "sessionId": text(), "transcript": {"type": "array"}, "memorySnapshot": {},
                    "goal": {"type": ["string", "object"]}, "stepCount": {"type": "integer"},
                    "limits": {"type": "object", "properties": {"maxSteps": {"type": "integer"}, "costCeiling": amount()}},
                },
            },
            "line": {
                "description": "A line of a stream.",
                "anyOf": [
                    {"$ref": "#/$defs/step"},
                    {"type": "object", "required": ["partialReasoning"]},
                    {"type": "object", "required": ["finish"]},
                    {"type": "object", "required": ["type"], "properties": {
                        "type": {"enum": ["step", "partial", "reasoning", "finish"]}, "step": {"$ref": "#/$defs/step"}}},
                ],
            },
        },
    })
}
