//! The fields that the import knows, and those that say nothing to a plan.

pub(super) const WORKFLOW_FIELDS: &[&str] = &[
    "name", "description", "version", "tasks", "inputParameters", "inputTemplate", "outputParameters",
    "timeoutSeconds", "failureWorkflow",
];

pub(super) const WORKFLOW_IGNORED: &[&str] = &[
    "schemaVersion",
    "ownerEmail",
    "ownerApp",
    "restartable",
    "timeoutPolicy",
    "createTime",
    "updateTime",
    "createdBy",
    "updatedBy",
    "workflowStatusListenerEnabled",
    "accessPolicy",
    "variables",
    "metadata",
    "enforceSchema",
    "tags",
];

pub(super) const TASK_FIELDS: &[&str] = &[
    "name",
    "taskReferenceName",
    "type",
    "description",
    "inputParameters",
    "optional",
    "startDelay",
    "retryCount",
    "taskDefinition",
    "decisionCases",
    "defaultCase",
    "evaluatorType",
    "expression",
    "caseValueParam",
    "caseExpression",
    "forkTasks",
    "joinOn",
    "loopOver",
    "loopCondition",
    "subWorkflowParam",
    "dynamicForkTasksParam",
    "dynamicForkTasksInputParamName",
    "displayName",
];

pub(super) const TASK_IGNORED: &[&str] = &[
    "asyncComplete",
    "rateLimited",
    "permissive",
    "onStateChange",
    "defaultExclusiveJoinTask",
    "cacheConfig",
    "workflowTaskType",
    "taskType",
];
