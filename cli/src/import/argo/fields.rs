//! The fields that the import knows, and those that say where containers run.

pub(super) const SPEC_FIELDS: &[&str] =
    &["entrypoint", "templates", "arguments", "onExit", "parallelism", "activeDeadlineSeconds", "templateDefaults"];

/// What says where and as whom containers run: here that is a matter of the workers.
pub(super) const INFRASTRUCTURE: &[&str] = &[
    "serviceAccountName",
    "automountServiceAccountToken",
    "nodeSelector",
    "affinity",
    "tolerations",
    "imagePullSecrets",
    "securityContext",
    "podGC",
    "podMetadata",
    "podPriorityClassName",
    "podSpecPatch",
    "ttlStrategy",
    "archiveLogs",
    "artifactGC",
    "artifactRepositoryRef",
    "dnsConfig",
    "dnsPolicy",
    "executor",
    "hostAliases",
    "hostNetwork",
    "schedulerName",
    "volumes",
    "volumeClaimTemplates",
    "volumeClaimGC",
    "workflowMetadata",
    "metadata",
    "priority",
    "podDisruptionBudget",
    "metrics",
    "initContainers",
    "sidecars",
    "archiveLocation",
    "resources",
    "volumeMounts",
    "imagePullPolicy",
    "workingDir",
    "ports",
    "lifecycle",
    "livenessProbe",
    "readinessProbe",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "tty",
    "stdin",
    "daemon",
];

pub(super) const TEMPLATE_FIELDS: &[&str] = &[
    "name", "inputs", "outputs", "steps", "dag", "container", "script", "suspend", "http", "retryStrategy", "timeout",
    "activeDeadlineSeconds", "parallelism", "synchronization", "failFast",
];

pub(super) const CALL_FIELDS: &[&str] = &[
    "name", "template", "inline", "arguments", "when", "withItems", "withParam", "withSequence", "continueOn",
    "dependencies", "depends", "onExit",
];
