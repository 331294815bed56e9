//! Texts of the error codes: what each code means, and what to do about it.
//!
//! `goalmill explain` prints this table, and `docs/errors/README.md` is generated from it.

/// Where a code occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeKind {
    /// `code` of a problem object: a refused request.
    Problem,
    /// `errors[].code` of a problem object: one position of a document.
    Issue,
    /// The failure of an attempt, a step or a plan.
    Failure,
    /// A remark, repair or doubt of a planner.
    Note,
}

impl CodeKind {
    /// The word in the output of `goalmill explain`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Problem => "problem",
            Self::Issue => "issue",
            Self::Failure => "failure",
            Self::Note => "note",
        }
    }

    /// What the codes of this kind have in common, as Markdown.
    #[cfg(test)]
    fn introduction(self) -> &'static str {
        match self {
            Self::Problem => PROBLEMS,
            Self::Issue => ISSUES,
            Self::Failure => FAILURES,
            Self::Note => NOTES,
        }
    }
}

/// Codes of one kind about one topic.
#[derive(Debug)]
pub struct CodeSection {
    /// Where the codes occur.
    pub kind: CodeKind,
    /// The topic.
    pub title: &'static str,
    /// Codes and their texts; the texts are Markdown.
    pub codes: &'static [(&'static str, &'static str)],
}

/// All codes, those of one kind together.
pub const SECTIONS: &[CodeSection] = &[
    CodeSection {
        kind: CodeKind::Problem,
        title: "The request",
        codes: &[
            (
                "INVALID_ENTRY",
                "An entry of `goalmill:goals` is no valid [submission](../protocol.md#2-submitting); `errors` \
                names the attribute.",
            ),
            (
                "DEADLINE_OVER",
                "The deadline of the goal is in the past, or before its start. Give a later one, or none.",
            ),
            (
                "INVALID_TRACEPARENT",
                "`traceparent`, which becomes an HTTP header of every call to an agent, must be that of W3C Trace \
                Context: `00-<32 hex digits>-<16 hex digits>-<2 hex digits>`, lower case.",
            ),
            (
                "UNSUPPORTED_TYPE",
                "This version does not know the `type` of the message. Send `goalmill.goal.submit.v1` or \
                `goalmill.plan.submit.v1`, or upgrade the schedulers first.",
            ),
            (
                "INVALID_GOAL",
                "The goal is invalid; `errors` lists the issues with their positions. `goalmill schema goal` \
                prints the schema.",
            ),
            (
                "INVALID_PLAN",
                "The plan is invalid; `errors` lists the issues with their positions. `goalmill plan validate \
                FILE` reports the same without running anything.",
            ),
            (
                "INVALID_REQUEST",
                "A parameter or field is missing, unknown, of the wrong type, or out of range; `errors` lists \
                every position with a hint.",
            ),
            (
                "UNKNOWN_PARAMETER",
                "The endpoint has no parameter of this name; the hint lists its parameters. Correct or omit it.",
            ),
            (
                "INVALID_IDEMPOTENCY_KEY",
                "The header `Idempotency-Key` is empty, too long, or has characters that are not printable. Use \
                any short text, a different one for each submission.",
            ),
            (
                "IDEMPOTENCY_KEY_REUSED",
                "A different submission with this key was accepted before. Use a new key for a new submission; \
                send the same body to get the plan of the old one.",
            ),
            (
                "BODY_TOO_LARGE",
                "The body exceeds the limit that the detail names. Pass large data by reference, or split the \
                plan.",
            ),
            (
                "REQUEST_TIMEOUT",
                "The request did not arrive within `api.head_ms` and `api.body_ms`. Send it again; on a slow \
                connection, raise these settings.",
            ),
            ("UNSUPPORTED_MEDIA_TYPE", "Send JSON as `application/json`, or YAML as `application/yaml`."),
            (
                "INVALID_EVENT_ID",
                "`Last-Event-ID`, or `after`, is not the number of an event of this plan. Send that of the last \
                event you have, or omit it.",
            ),
        ],
    },
    CodeSection {
        kind: CodeKind::Problem,
        title: "The address",
        codes: &[
            (
                "MISDIRECTED_REQUEST",
                "The API on a loopback address was called with a host name that is not allowed. Use `localhost` \
                or an IP address, or add the name to `api.hosts`.",
            ),
            (
                "FOREIGN_ORIGIN",
                "A web page of another origin sent the request. To allow it, add its origin to `api.origins`.",
            ),
            (
                "UNAUTHENTICATED",
                "The request has no credentials, or invalid, expired or revoked ones. Send `Authorization: Bearer \
                TOKEN` (command line: `GOALMILL_TOKEN`). An administrator creates tokens: `goalmill token \
                create`.",
            ),
            (
                "FORBIDDEN",
                "The detail names the missing [role](../access.md#roles). A request of the web page that writes \
                also needs the `X-CSRF-Token` of its session: reload the page.",
            ),
            (
                "TOO_MANY_FAILURES",
                "Too many requests from this address had invalid credentials (`api.failures_per_minute`). Wait \
                for `Retry-After`, and correct the token of the client.",
            ),
            (
                "FOREIGN_NAMESPACE",
                "The goal names another namespace than that of the stream by which it came. Leave `namespace` \
                out, or submit to the stream of that namespace.",
            ),
            (
                "NAMESPACE_LIMIT_REACHED",
                "The namespace has used up the [limit](../access.md#limits-of-namespaces) in the detail. Wait for \
                `Retry-After`, or raise it under `namespaces` in the settings of all schedulers and restart \
                them. A repeated submission through Redis needs a new `id`.",
            ),
            (
                "ISSUER_UNAVAILABLE",
                "The keys of the identity provider (`api.oidc`) have not been read, or are older than \
                `api.oidc.keys_ms`, and it does not answer: see the log of the scheduler. Tokens of the \
                installation stay valid.",
            ),
            (
                "STORED_PLAN_NOT_FOUND",
                "The namespace has no stored plan of this name, or not this version; `errors` has the place of a step \
                that uses it. `goalmill plan list --stored` lists names and versions. Without a server no stored plan \
                is known: name one with `--server`.",
            ),
            (
                "STORED_PLAN_RETIRED",
                "The version of the [stored plan](../plan-lifecycle.md#stored-plans) was retired; plans that run go on. \
                Use a newer version, or store the document again.",
            ),
            (
                "TOKEN_NOT_FOUND",
                "No token has this id; it may have been revoked. `goalmill token list` shows existing ones.",
            ),
            (
                "NOT_FOUND",
                "The path does not exist; `/openapi.json` lists all. A client that is newer than the scheduler \
                may request others.",
            ),
            ("METHOD_NOT_ALLOWED", "The path exists, but not with this method; the header `Allow` lists the methods."),
            (
                "PLAN_NOT_FOUND",
                "No plan has this id, or its log has expired (`scheduler.retention_ms` after its end, without an \
                [archive](../archive.md)). `goalmill plan list` shows existing plans.",
            ),
            (
                "STEP_NOT_FOUND",
                "The plan has no such step, or a revision removed it. `goalmill plan get PLAN` lists the steps.",
            ),
            (
                "DEAD_LETTER_NOT_FOUND",
                "The dead letter does not exist: it may have been retried or discarded. `goalmill dead list` \
                shows existing ones.",
            ),
            ("WORKER_NOT_FOUND", "No live worker has this id. `goalmill worker list` shows live workers."),
            (
                "QUEUE_NOT_FOUND",
                "The agent type has no queue: no step and no worker has used it. `goalmill queue list` shows \
                existing queues.",
            ),
        ],
    },
    CodeSection {
        kind: CodeKind::Problem,
        title: "The state",
        codes: &[
            (
                "PLAN_FINAL",
                "The plan has ended and cannot change. To continue from it: `goalmill plan fork PLAN`; to run it \
                again: `goalmill plan export PLAN | goalmill run -`.",
            ),
            (
                "NOT_ALLOWED",
                "The status of the plan or step does not allow this; the detail names the status and the possible \
                actions.",
            ),
            (
                "PLAN_QUARANTINED",
                "The plan crashed or blocked its scheduler, and is set apart so that others continue. `goalmill \
                explain PLAN` has the reason; report the bug with the log (`goalmill events PLAN -o jsonl`). \
                With a fixed version `goalmill plan resume PLAN` continues it. A submission with this code \
                crashed schedulers and was never started.",
            ),
            (
                "PLANNING_FAILED",
                "No planner made a valid plan; the detail has the reason of each. `planning_trace` of a preview \
                (`goalmill plan preview`; in the log `planning_failed`) has reason, issues and `rounds` of each \
                planner in `tried`: prompt and answer of each model call, without secrets. Reword the goal, \
                submit a plan, or check `planner.order`.",
            ),
            (
                "UNROUTABLE",
                "No agent type fits an `auto` step, or no agent type that may do a step has its action \
                (`UNKNOWN_ACTION`); `errors` names the candidates. Set or register one: `goalmill \
                agent route 'TEXT'` shows the factors.",
            ),
            (
                "EVENTS_TRIMMED",
                "The requested events are no longer stored. Read the current state (`goalmill plan get`), and \
                follow from its `seq`.",
            ),
        ],
    },
    CodeSection {
        kind: CodeKind::Problem,
        title: "The installation",
        codes: &[
            (
                "STORE_UNAVAILABLE",
                "Redis, or the database of the archive, cannot be reached. Nothing that is stored is lost; the \
                scheduler retries. `goalmill doctor` checks Redis and network.",
            ),
            (
                "STORE_REFUSED",
                "Redis answers with an error: no replica (`NOREPLICAS`), a failing disk (`MISCONF`), a replica \
                (`READONLY`), still loading (`LOADING`), the password (`NOAUTH`, `WRONGPASS`), a right \
                (`NOPERM`), or a key of a wrong type. The detail says what to do; the scheduler retries. \
                [Runbook](../runbooks.md#commits-refused).",
            ),
            (
                "REDIS_MEMORY_PRESSURE",
                "More than 80 % of `maxmemory` is in use, so submissions are rejected; running plans continue. \
                Raise `maxmemory`, or wait (`Retry-After`).",
            ),
            (
                "REDIS_DATA_LOST",
                "Redis has lost its data, or is another server. Restore the data, or restart schedulers and \
                workers with an empty installation.",
            ),
            (
                "REDIS_UNSAFE",
                "The configuration of Redis can lose plans or is not supported; the detail names the setting. \
                `maxmemory-policy noeviction` is required; [durability.md](../durability.md) has the rest.",
            ),
            (
                "NOT_READY",
                "The scheduler is starting or stopping, or the shard of the plan has no owner yet. Retry in a \
                second.",
            ),
            ("INTERNAL", "An internal error. The log of the scheduler has the cause; please report it with that line."),
        ],
    },
    CodeSection {
        kind: CodeKind::Issue,
        title: "Syntax",
        codes: &[
            (
                "INVALID_JSON",
                "The text is not JSON; the detail has line and column. Usual causes: a trailing comma, single \
                quotes, comments, truncation.",
            ),
            (
                "INVALID_YAML",
                "The text is not YAML, or uses tags (`!python/object`), unknown anchors or keys that are lists. \
                Plain data only.",
            ),
            ("MULTIPLE_DOCUMENTS", "The YAML text holds several documents, separated by `---`. Keep one."),
            (
                "INVALID_ENCODING",
                "The text is not UTF-8. The detail names the likely encoding: UTF-16, UTF-32, Latin-1. Save it as \
                UTF-8; a byte order mark is tolerated.",
            ),
            ("DUPLICATE_KEY", "An object has the same key twice. Remove one."),
            ("INVALID_NUMBER", "`NaN`, infinity, or a number that does not fit into 64 bits. Use `null` or a string."),
            ("NESTING_TOO_DEEP", "Lists and objects are nested deeper than `nesting_max` (64). Flatten the data."),
            (
                "PLAN_TOO_LARGE",
                "The text, the text with its YAML aliases written out, or all inputs together exceed \
                `plan_bytes_max` (8 MiB). Pass large data by reference, or split the plan.",
            ),
        ],
    },
    CodeSection {
        kind: CodeKind::Issue,
        title: "Fields",
        codes: &[
            ("WRONG_TYPE", "The value has the wrong type; the detail names the expected and the actual type."),
            ("MISSING_FIELD", "A required field is missing. The pointer is its position."),
            (
                "FOREIGN_FORMAT",
                "The document is a workflow of another engine, not a plan. Write its tasks as steps; a trace of WfCommons \
                is converted by `goalmill import wfformat`.",
            ),
            (
                "UNKNOWN_FIELD",
                "The field does not exist; the hint names the most similar one. Put your own data under \
                `metadata`, which accepts any field.",
            ),
            (
                "CONFLICTING_FIELDS",
                "Two fields contradict each other: `needs` and `depends_on`, `timeout` and `timeout_ms`. Keep \
                one.",
            ),
            ("UNUSED_FIELD", "Warning. The field has no effect here: an agent type on a step that needs no worker."),
            (
                "FORMAT_CONVERTED",
                "Warning. The document was written for another planner and was converted, or a field of it has no \
                meaning here and was ignored. [formats.md](../formats.md) lists the forms and their fields.",
            ),
            ("INVALID_VALUE", "The value is unknown, empty, or not a valid time or duration."),
            (
                "OUT_OF_RANGE",
                "A number or duration is outside of its limits, which the detail names. Limits are settings.",
            ),
            (
                "INVALID_ID",
                "An id is a letter or digit, then up to 127 of letters, digits, `.`, `_`, `:`, `-`. The hint \
                suggests a valid id if possible. Integers are valid ids.",
            ),
            (
                "TEXT_TOO_LONG",
                "A description, action or expression has more than `text_chars_max` (16,384) characters. Put long \
                text into `inputs`.",
            ),
            (
                "INPUT_TOO_LARGE",
                "The inputs of one step exceed `payload_bytes_max` (2 MiB). Pass large data by reference.",
            ),
            (
                "INVALID_TIMEOUT",
                "The timeout is not a duration. A bare number counts seconds (`timeout`) or milliseconds \
                (`timeout_ms`); strings need a unit: `500ms`, `30s`, `5m`, `1h`.",
            ),
            (
                "INVALID_RETRY_POLICY",
                "The backoff is inconsistent: the initial wait exceeds the maximum, the factor is below 1, or a \
                value is not a duration. `max` counts retries; `max_attempts` counts the first attempt too.",
            ),
            (
                "INVALID_SCHEMA",
                "The schema is not a JSON Schema, or has a `pattern` with look-around or a back-reference: \
                patterns are matched in linear time.",
            ),
            (
                "SCHEMA_TOO_COMPLEX",
                "The schema has more than 10,000 values or 64 levels, applies more than 4,096 subschemas to one \
                value (every `$ref` followed) or over 64 nested, or applies itself to the same value. Or it \
                compiles to more than 16 MiB: a `pattern` takes 48 KiB and about 512 bytes for each character \
                that it can match (`\\w{300}`: 300, `\\p{L}`: 256); equal patterns count once. Use fewer \
                alternatives and references. While running: an older version accepted the schema.",
            ),
            (
                "SCHEMAS_TOO_LARGE",
                "The compiled schemas of a plan or card exceed `limits.schemas_bytes_max` (64 MiB); equal schemas \
                count once ([SCHEMA_TOO_COMPLEX](#schema_too_complex)). Use equal schemas, fewer patterns and \
                repetitions, or raise the setting. Input schemas of used actions count too; those above the \
                limit are not checked ([AGENT_SCHEMA_UNUSABLE](#agent_schema_unusable)).",
            ),
            (
                "SCHEMA_REMOTE_REF",
                "The schema has a reference to another document. Remote schemas are not fetched; copy the target \
                into `$defs`.",
            ),
        ],
    },
    CodeSection {
        kind: CodeKind::Issue,
        title: "The graph",
        codes: &[
            ("EMPTY_PLAN", "The plan has no steps."),
            (
                "TOO_MANY_STEPS",
                "More steps than `steps_max` (10,000). Nothing else was validated. Split the plan, or use \
                sub-plans.",
            ),
            (
                "TOO_MANY_FAMILY_STEPS",
                "A plan and the plans inside it have more than `limits.family_steps_max` (50,000) steps together. \
                Submit several plans, or raise the setting.",
            ),
            (
                "TOO_MANY_EVENTS",
                "The plan writes more events than `limits.events_max` (200,000): four a step of a worker, two a \
                step of the engine. Split it, or raise the limit.",
            ),
            (
                "EVENTS_AT_RISK",
                "Warning. With all retries used, the plan exceeds `limits.events_max` (200,000) and fails with \
                `EVENTS_EXCEEDED`. Allow fewer retries, or split it.",
            ),
            ("TOO_MANY_PHASES", "More phases than `steps_max` (10,000). Put more steps into fewer phases."),
            (
                "TOO_MANY_DEPENDENCIES",
                "One step has more dependencies than `dependencies_max`. Join some of them in an `internal` step.",
            ),
            ("PATH_TOO_LONG", "The longest path has more steps than `path_max`."),
            (
                "PLAN_TOO_DEEP",
                "Sub-plans are nested deeper than `depth_max` (3). Steps of the kind `plan` that are planned \
                later count, and so do the plans around the validated one.",
            ),
            (
                "TOO_MANY_ITEMS",
                "The list of a [map](../plan-lifecycle.md#maps) is longer than `items_max` of the step, or \
                `limits.items_max` (1,000). Group the items with `batch`, or raise the limit. At run time the step fails.",
            ),
            (
                "CLEANUP_DEPENDENCY",
                "A [clean-up step](../plan-lifecycle.md#clean-up) and another step wait for each other, or an undo step \
                waits for something. Clean-up steps read all other steps without depending on them.",
            ),
            ("DUPLICATE_STEP_ID", "Two steps have the same id. The detail has the position of the first one."),
            (
                "UNKNOWN_DEPENDENCY",
                "A dependency names a step that is not in this plan; the hint names the most similar one.",
            ),
            ("SELF_DEPENDENCY", "A step depends on itself."),
            ("DUPLICATE_DEPENDENCY", "Warning. A dependency is listed twice; it counts once."),
            (
                "PLAN_CYCLE",
                "Steps depend on each other: `cycle detected: a -> b -> c -> a`, in execution order. Remove a \
                dependency. Each strongly connected component is one issue, with its shortest cycle.",
            ),
            ("JOIN_IMPOSSIBLE", "`join: {at_least: k}` needs `k` from 1 to the number of dependencies."),
            (
                "STATUS_IMPOSSIBLE",
                "A step waits for a status that its dependency never has (`failed` of a step with `on_failure: skip`), or \
                reads outputs that this status rules out.",
            ),
            ("PHASE_UNKNOWN", "A step names a phase that is not listed under `phases`."),
            ("DUPLICATE_PHASE", "Two phases have the same id."),
            (
                "PHASE_ORDER",
                "A step depends on a step of a later phase, or a step without a phase makes a phase wait for \
                itself: it could never start.",
            ),
        ],
    },
    CodeSection {
        kind: CodeKind::Issue,
        title: "Expressions",
        codes: &[
            (
                "INVALID_EXPRESSION",
                "The text between `{{ }}`, or the condition, is malformed or uses an unsupported feature: \
                functions, methods, `set`, `include`, a loop over a computed value, a computed step reference. \
                Filters: `x | upper`; ids with a dash: `steps['a-b'].outputs`; literal braces: `{% raw %}…{% \
                endraw %}`.",
            ),
            (
                "REF_UNKNOWN_STEP",
                "The expression reads a step that is not in the plan, or a reference in another notation \
                (`<node-9>`, `#E1`, `${find.hotels}`) matches no step or several. As plain text it would let its \
                step run too early.",
            ),
            (
                "REF_NOT_DEPENDENCY",
                "The expression reads a step that may not have ended yet. Add it to the dependencies, directly or \
                indirectly. Steps of earlier phases can be read too.",
            ),
            (
                "REF_LATER_STEP",
                "The expression reads a step that is written after its own. In plans of models this is an error, \
                because the number is usually off by one. Submitted plans may have any order.",
            ),
            (
                "REF_UNRESOLVED",
                "While running: the expression has no value. Give a default, `{{ steps.a.outputs.x | \
                default('none') }}`, or test with `is defined`.",
            ),
            (
                "TEMPLATE_FUEL_EXHAUSTED",
                "While running: an expression takes more work than `limits.fuel_max` (100,000), or those of one step, or of \
                all items of a map, take more than 160 times as much together: a filter that reads a value, a value that is \
                read, and the text count too. Compute it in a step, or read less.",
            ),
            ("OUTPUT_TOO_LARGE", "While running: the rendered inputs exceed `payload_bytes_max`."),
            (
                "EXPRESSION_FAILED",
                "While running: the values do not fit the expression: text for a number, a division by zero, \
                types without an [order](../expressions.md#order-and-equality), a text such as `\"false\"` as a \
                [boolean](../expressions.md#truth).",
            ),
            (
                "PAYLOAD_TOO_LARGE",
                "While running: the expression reads a [stored field](../expressions.md#large-values), or \
                several, over `limits.expression_bytes_max`. Read a smaller field, pass the value on alone (`{{ \
                steps.a.outputs.text }}`), or raise the limit.",
            ),
            (
                "PAYLOAD_NEEDED",
                "The expression reads a stored field that is not loaded yet; the step waits. A dead letter of \
                such a step has no task: retry the step instead.",
            ),
            (
                "MIXED_TYPES",
                "Warning. The expression compares values of different types: they are never equal, and have no \
                order. Convert one of them, as in `x | int`.",
            ),
            (
                "RUNS_AFTER_SKIP",
                "Warning. The only dependency has a `when`; if it is false, the step runs all the same. If it \
                must not, write the condition that the error shows.",
            ),
            (
                "CONDITIONAL_OUTPUTS",
                "Warning. The step reads outputs of a step with a `when`, without a default: if the condition is \
                false, it fails. Write `| default(…)`, or the condition that the error shows.",
            ),
        ],
    },
    CodeSection {
        kind: CodeKind::Issue,
        title: "Agents",
        codes: &[
            (
                "UNKNOWN_AGENT",
                "The agent type is not registered and has no live worker. The hint names up to three similar \
                ones. The warning is reported once per agent type.",
            ),
            (
                "NO_LIVE_WORKER",
                "No live worker serves the agent type: the step waits. The warning is reported once per agent \
                type, by `plan validate`, in the answer to a submission, in `plan_validated`, for agent types of \
                the router, and by `goalmill explain`.",
            ),
            (
                "UNKNOWN_ACTION",
                "The agent type does not declare this action; or, for a step without an agent type or a fallback action, \
                no agent type does. Agent types without declared actions accept any, and get such a step if it names \
                them or says `agent_type: auto`. An agent that takes over a step needs the same action. A step fails \
                with it if the card of its agent type has changed. `goalmill agent list` shows the actions.",
            ),
            (
                "INPUT_MISSING",
                "An input that the schema of the action requires is missing. The pointer is its position.",
            ),
            (
                "INPUT_UNKNOWN",
                "The schema of the action does not allow this input; the hint names the most similar one.",
            ),
            (
                "INPUT_INVALID",
                "An input does not match the schema of the action, `format` included (`uuid`, `hostname`, `uri`, \
                `date-time`, `email`, …). An expression counts as any value of its output's type, so only \
                certain failures are reported. `null` is a missing optional field. The same for the `input_schema` of \
                a plan, also while running.",
            ),
            (
                "INPUT_TOO_COMPLEX",
                "A check of the inputs against the action's schema takes more than 2,000,000 steps. Reduce the \
                inputs, or simplify the schema of the agent.",
            ),
            (
                "AGENT_SCHEMA_UNUSABLE",
                "Warning. The registered input schema is not a JSON Schema, has a remote reference, or is too \
                complex. Inputs are not validated until it is corrected.",
            ),
            (
                "OUTPUT_UNKNOWN",
                "The expression reads a field that the other step does not declare as output. This is a warning \
                if its schema allows additional fields.",
            ),
            ("TYPE_MISMATCH", "The type of the output that the expression reads does not match the input."),
            (
                "KIND_MISMATCH",
                "For actions that declare kinds of data (`image`, `text`) instead of schemas: the output kind of \
                one step is not an input kind of the other.",
            ),
            (
                "REDUNDANT_STEP",
                "Warning. Agent, action and inputs are those of an earlier step. Remove the step, or give both \
                the same `cache` key. Steps without an action or inputs are not compared.",
            ),
            (
                "UNROLLED_STEPS",
                "Warning, in dry runs and plans of planners. Ten steps or more have the same agent, action and \
                dependencies, and differ in one literal input. Write one step with `for_each`, the list of these \
                values, and `{{ item }}` in the input. Its outputs are a list in the same order.",
            ),
            (
                "UNREAD_OUTPUTS",
                "Note, in dry runs and plans of planners. Steps (the pointer is the first) declare outputs that \
                no dependent reads. Pass them on in `inputs`, or leave dependency or step out; steps with side \
                effects may be meant so.",
            ),
            (
                "BUDGET_EXCEEDED",
                "The estimates of all steps (else the declared values of agent types; `validate` uses measured \
                durations like the [dry run](../validation.md#dry-run)) exceed the budget of plan or goal: cost \
                and tokens as sums, seconds on the longest path. A running plan fails with this code above its \
                budget, a step when its estimate or the next call of its [agent](../agents.md#budgets) does not \
                fit into what is left. Results are kept.",
            ),
            (
                "CONSTRAINT_BROKEN",
                "The estimates break a hard [constraint](../goals.md#constraints), or the longest path ends after \
                the deadline. Use fewer, cheaper or faster steps, or raise the limit. A running plan fails when \
                one is broken, a step when its estimate would break one; results are kept.",
            ),
            (
                "INVALID_EVENT",
                "An event from outside has no valid name, key or id, has too many data, or its data do not match the \
                `schema` of the step that waits for it. The detail has the place.",
            ),
            (
                "WAIT_TOO_LONG",
                "A [`wait`](../plan-lifecycle.md#waits) step would wait longer than a plan may last \
                (`limits.plan_ms_max`), or until after the deadline of its plan; then the step fails when the wait \
                begins. Wait for a shorter time, give the goal a later `deadline`, or raise the limit.",
            ),
            ("CONSTRAINT_AT_RISK", "Warning. The estimates break a soft constraint. The confidence is 0.1 lower."),
            (
                "ACTION_DENIED",
                "Policy denies this action of this agent type, or allows only others; also for fallbacks.",
            ),
            (
                "APPROVAL_REQUIRED",
                "Warning. Policy requires approval of this step, so it waits for a person. Set `approve` on the \
                step to choose the time limit and the default decision.",
            ),
        ],
    },
    CodeSection {
        kind: CodeKind::Issue,
        title: "Revisions and edits",
        codes: &[
            ("UNKNOWN_STEP", "A change names a step that is not in the plan, or that an earlier revision removed."),
            ("STEP_FINAL", "A change concerns a completed step, which cannot change. Add a new step instead."),
            ("PHASE_OVER", "A new phase would precede one that has started, or no step of a phase is left to skip."),
            (
                "FAILED_STEP_UNTOUCHED",
                "A revision for a failed step changes neither it nor all of its dependents. Retry, change, \
                replace, remove or skip the step, or answer `abort`.",
            ),
            ("NO_CHANGE", "The changes have no effect."),
            ("AGENT_UNROUTED", "A new or changed step has no agent type, and the router has not selected one."),
            (
                "APPROVAL_DROPPED",
                "The revision removes the approval of a step. `revision.widen` of the plan permits this.",
            ),
            (
                "BUDGET_WIDENED",
                "The estimates of the revision exceed the remaining budget. `revision.widen` of the plan permits \
                this.",
            ),
            ("UNEXPECTED_RESULT", "While running: the outputs do not match `expected_outputs` or `output_schema`."),
            (
                "LOW_CONFIDENCE",
                "The plan failed: another revision would reduce the confidence below `revision.confidence_floor`, \
                and the plan cannot continue without it.",
            ),
            (
                "MAX_REVISIONS_EXCEEDED",
                "The plan failed: it needs more revisions than `revision.max` and `limits.revisions_max` allow. \
                Results are kept.",
            ),
            ("REVISION_ABORTED", "The plan failed: a planner answered `abort`, although no step had failed."),
        ],
    },
    CodeSection {
        kind: CodeKind::Issue,
        title: "Other",
        codes: &[("MORE_ISSUES", "More issues exist than are listed; the detail has their number.")],
    },
    CodeSection {
        kind: CodeKind::Issue,
        title: "Planning options",
        codes: &[
            (
                "UNKNOWN_PLANNER",
                "`planning.planner` names a planner that is not configured. The hint lists the configured ones; \
                `llm` and `tools` need a model under `models`.",
            ),
            ("UNKNOWN_MODEL", "`planning.model` is not a name under `models`. The hint lists the names."),
        ],
    },
    CodeSection {
        kind: CodeKind::Failure,
        title: "Time and workers",
        codes: &[
            (
                "STEP_FAILED",
                "A step failed, and the steps that depend on its failure were not completed either. The log of the \
                step says why it failed.",
            ),
            ("STEP_TIMEOUT", "The attempt exceeded the `timeout` of the step. Raise it, or reduce the work."),
            (
                "QUEUE_TIMEOUT",
                "No worker pulled the task in time. `goalmill queue list` shows the workers of the agent type; \
                start workers, or raise the limit.",
            ),
            (
                "WAIT_EXCEEDED",
                "Agents of the step asked to wait (`rate_limited`) for longer than `limits.queue_ms_max` (24 h) \
                in all; the message has the last answer. Raise the quota of the service or the limit, or run \
                fewer steps concurrently (`max_parallel`).",
            ),
            (
                "PLAN_TIMEOUT",
                "The deadline of the plan, or its time budget, has passed. Results are kept: `goalmill plan \
                results PLAN`.",
            ),
            (
                "WAIT_TIME_INVALID",
                "The expression in `until` of a [`wait`](../plan-lifecycle.md#waits) step gives no time. Let it give \
                RFC 3339, as in `2027-01-31T12:00:00Z`, Unix milliseconds, or with `tz` a local time without an offset.",
            ),
            (
                "WAIT_KEY_INVALID",
                "The expression in `key` of a [`wait`](../plan-lifecycle.md#waits) step gives no key: an empty text, more \
                than 256 characters, control characters, or a value that is neither a text nor a whole number. Let it give the key of the event.",
            ),
            (
                "WAIT_TIMEOUT",
                "The event that a [`wait`](../plan-lifecycle.md#waits) step waits for did not come within its `timeout`. \
                `on_timeout` chooses another result: `skip`, or outputs as the default.",
            ),
            (
                "CALLBACK_TIMEOUT",
                "The agent accepted the task, and its [callback](../plan-lifecycle.md#callbacks) did not come within the \
                `timeout` of the step. Give the step more time, and check that the agent reaches `api.callback_url`.",
            ),
            (
                "CALLBACK_ADDRESS_MISSING",
                "The step has `callback: true`, and the scheduler does not know an address at which agents reach it: it \
                listens on all addresses (`0.0.0.0`, `[::]`), or serves no API. Set `api.callback_url`.",
            ),
            (
                "CALLBACK_FAILED",
                "The agent accepted the task, and its [callback](../plan-lifecycle.md#callbacks) reported an error \
                without a code.",
            ),
            ("NO_ANSWER", "There was no answer or approval in time, and no default."),
            ("REJECTED", "A person rejected the step. The message has the reason."),
            (
                "HOOK_REFUSED",
                "A [hook](../hooks.md) refused plan, start or outputs of the step, or did not answer with the \
                default `refuse`. The message has name and reason; `goalmill events` shows `hook_decided`, \
                `step_hook_decided`.",
            ),
            ("WORKER_LOST", "The worker gave up the attempt. A new attempt follows."),
            (
                "LEASE_EXPIRED",
                "The worker stopped extending its lease: it was killed, hung, or disconnected from Redis. A new \
                attempt follows, until `lost_max` losses whose attempts recorded no new call.",
            ),
            (
                "TASK_MISSING",
                "The task of a queued step was not on its stream: deleted, or lost with the last writes of the \
                server. A new attempt follows, without using `retry` or `lost_max`; a worker that has the old \
                task is stopped and its report refused.",
            ),
            (
                "STEP_POISONED",
                "The step lost its worker `lost_max` (3) times without a new recorded call, so it may be killing \
                them. The task is a dead letter: `goalmill dead list`, `goalmill dead retry`.",
            ),
            ("UNKNOWN", "The worker or the agent gave no reason."),
        ],
    },
    CodeSection {
        kind: CodeKind::Failure,
        title: "Plans",
        codes: &[
            (
                "SUB_PLAN_FAILED",
                "The sub-plan of the step did not complete. `goalmill explain` of that plan has the reason.",
            ),
            (
                "FOR_EACH_NOT_A_LIST",
                "`for_each` of a [map](../plan-lifecycle.md#maps) gave something else than a list; the message shows \
                what. Where a list may be missing, write `| default([])` behind the path.",
            ),
            (
                "FOR_EACH_TOO_LARGE",
                "The steps of all items of a [map](../plan-lifecycle.md#maps) have more than `limits.plan_bytes_max` \
                together, or each item reads large outputs of other steps. Each item has a copy of the fields of the \
                step, of its plan and of its `undo`: shorten them. Put what an item needs into its list, or use `batch`.",
            ),
            (
                "REPEAT_EXHAUSTED",
                "`until` of a [loop](../plan-lifecycle.md#loops) was not true after `max` iterations. \
                `on_max: continue` takes the outputs of the last one.",
            ),
            (
                "FAILURES_EXCEEDED",
                "More steps of the plan have failed than its `failures_max` allows, or more items of a \
                [map](../plan-lifecycle.md#maps) than `on_item_failure: {at_most: k}`. The message has the first failure.",
            ),
            (
                "SUB_PLAN_INVALID",
                "The sub-plan that the agent returned is invalid or not allowed. The message has its issues, each \
                with its position in that plan.",
            ),
            (
                "SUB_PLAN_NOT_ALLOWED",
                "The plan that the agent returned has steps for an agent type that `sub_plans` of [its \
                settings](../workers.md#plans-of-agents) does not name. A worker of your own sends the list with \
                its report.",
            ),
            ("DEPTH_EXCEEDED", "The step would become a sub-plan nested deeper than `depth_max`."),
            ("TOO_COMPLEX", "The agent reports that the step is too complex; if a planner can, it becomes a sub-plan."),
            ("REPLAN_FAILED", "No planner could replan the remaining steps."),
            (
                "OUTPUT_TOO_COMPLEX",
                "While running: a check of the outputs against `output_schema` takes more than 2,000,000 steps. \
                Reduce the outputs, or simplify the schema.",
            ),
            (
                "PARTIAL_SUCCESS",
                "An agent reported incomplete outputs, and the step has `on_partial: replan` or `fail`. The \
                outputs are in the log.",
            ),
            (
                "CRITERIA_UNMET",
                "The goal requires its success criteria, and none of the judged ones is met. Completed results \
                are kept. See [goals](../goals.md#success-criteria).",
            ),
            (
                "FAMILY_TOO_LARGE",
                "A plan and the plans inside it, at any depth and also ended ones, exceed \
                `limits.family_steps_max` (50,000) steps; each plan inside counts as one more. The step that \
                would start the plan fails; if revisions add the steps, the outermost plan. Or they exceed \
                `limits.plan_outputs_bytes_max` (64 MiB) with their outputs; the text of a plan that starts inside \
                counts three times, again for each iteration of a loop. Use smaller plans, \
                or raise the setting: a step takes about 1.5 KB of a scheduler's memory.",
            ),
            (
                "PLAN_OUTPUTS_TOO_LARGE",
                "The outputs of all steps and of all plans ever started inside, and these plans, exceed \
                `limits.plan_outputs_bytes_max` (64 MiB): they stay in logs and in memory. Store large data elsewhere and pass references; do not \
                copy outputs of other steps.",
            ),
            (
                "EVENTS_EXCEEDED",
                "The log of the plan has reached its limit, usually because of a step that repeats forever.",
            ),
        ],
    },
    CodeSection {
        kind: CodeKind::Failure,
        title: "Agents over HTTP",
        codes: &[
            (
                "HTTP_NNN",
                "The agent answered with this status (`HTTP_503`); the message quotes the body. 408 and most of \
                5xx are retried; 429, 529, and 503 with a time to wait are tried again then, without using a \
                retry. `HTTP_202`: the work is not done; answer with the outcome, give the step a \
                [callback](../plan-lifecycle.md#callbacks), or pull tasks from Redis ([protocol.md](../protocol.md)).",
            ),
            ("HTTP_TIMEOUT", "The agent did not answer in time."),
            (
                "HTTP_UNREACHABLE",
                "The agent cannot be reached: the message says whether DNS, the connection or TLS failed. Check \
                `url` in `worker.agents`.",
            ),
            ("HTTP_REDIRECTS", "The agent redirects too often, usually in a loop."),
            ("HTTP_REQUEST", "The request cannot be sent: a header in the settings of the agent is invalid."),
            (
                "ANSWER_INVALID",
                "The answer violates the [protocol](../protocol.md#8-agents-without-redis): not JSON or UTF-8, an \
                invalid envelope, nested too deep, an invalid number or character. The message has position and \
                beginning. Agents with bare JSON that has fields `outputs` or `error` declare `\"answer\": \
                \"raw\"`.",
            ),
            (
                "ANSWER_EMPTY",
                "The answer is empty or `null`, or the report has no `outputs`. An agent without outputs answers \
                `{}`, or 204 over HTTP; a program ends with 0 and writes nothing.",
            ),
            ("AGENT_ERROR", "The agent reported an error without a code."),
            (
                "TASK_FAILED",
                "The agent answered with a [feedback document](../formats.md#subtasks) of type `failure`. It is \
                retried as the step says.",
            ),
            (
                "CONSTRAINT_VIOLATION",
                "The agent answered with a feedback document of type `constraint_violation`: its result would \
                break a constraint of the goal.",
            ),
            (
                "DEPENDENCY_FAILURE",
                "The agent answered with a feedback document of type `dependency_failure`: it cannot use the \
                outputs of an earlier step. It is not retried; a revision may repeat that step.",
            ),
        ],
    },
    CodeSection {
        kind: CodeKind::Failure,
        title: "Tools of MCP servers",
        codes: &[
            ("MCP_TOOL_ERROR", "The tool reports an error; the message is its text."),
            (
                "MCP_REFUSED",
                "The server refuses the call, for example for invalid arguments, or the tool asks a person during \
                the call.",
            ),
            (
                "MCP_RATE_LIMITED",
                "The server asks to wait: HTTP 429, an error code 429, or `retry_after_ms`, `retry_after` \
                (seconds) or `\"class\": \"rate_limited\"` in its `data`. No retry is used.",
            ),
            (
                "MCP_UNKNOWN_TOOL",
                "The action of the step is no tool of the server, or not among `tools` in the settings. The \
                message lists the tools.",
            ),
            (
                "MCP_UNREACHABLE",
                "The server cannot be started or reached, or the connection broke during the call. The worker \
                connects again for the next task.",
            ),
            ("MCP_TIMEOUT", "The tool did not answer within `timeout_ms`; the call was cancelled at the server."),
        ],
    },
    CodeSection {
        kind: CodeKind::Failure,
        title: "Programs and expressions",
        codes: &[
            (
                "EXIT_N",
                "The program ended with this exit code: `EXIT_1`. 75 (`EX_TEMPFAIL`) is retried; others are \
                permanent. The message has the end of its standard error.",
            ),
            ("EXIT_UNKNOWN", "The program ended with an unknown status."),
            (
                "SIGNAL_N",
                "A signal ended the program: `SIGNAL_9` usually comes from the kernel when memory is exhausted.",
            ),
            (
                "COMMAND_NOT_STARTED",
                "The program cannot be started: it does not exist or is not executable on the machine of the \
                worker.",
            ),
            ("COMMAND_BROKEN", "The program closed its input or output before it had read the task or answered."),
            ("EXPRESSION_TOO_COSTLY", "The expression of `transform` exceeds its limit."),
            (
                "EXECUTOR_PANIC",
                "The executor in the worker panicked; the worker continues. The log of the worker has the \
                position.",
            ),
        ],
    },
    CodeSection {
        kind: CodeKind::Failure,
        title: "Tasks and payloads",
        codes: &[
            (
                "TASK_UNREADABLE",
                "The worker cannot parse the queue entry: another program or a newer scheduler wrote it. It is a \
                dead letter.",
            ),
            (
                "BLOB_MISSING",
                "A blob that the task references, or that an expression reads, has expired while the task or the \
                step waited.",
            ),
            ("BLOB_INVALID", "A blob that the task references has unexpected content."),
            ("BLOB_UNAVAILABLE", "A blob that the task references could not be read from Redis."),
        ],
    },
    CodeSection {
        kind: CodeKind::Failure,
        title: "Language models",
        codes: &[
            ("LLM_NONE", "No model is configured, or none fits. See [models.md](../models.md)."),
            ("LLM_OVER_BUDGET", "The call would exceed the remaining budget."),
            ("LLM_CANCELLED", "The plan was cancelled during the call."),
            ("LLM_TIMEOUT", "The model did not answer, or did not finish, in time."),
            ("LLM_UNREACHABLE", "The endpoint of the model cannot be reached. Check its `base_url` in `models`."),
            (
                "LLM_RATE_LIMITED",
                "The provider limits the rate or is overloaded; the call is retried later, or with the next \
                model. A step waits without using a retry.",
            ),
            ("LLM_REFUSED", "The provider refused the call: usually a wrong key or model name."),
            (
                "LLM_DECLINED",
                "The model, or a content filter of its provider, declines; the message has the refusal. No other \
                model is asked. Change the task or the filter.",
            ),
            ("LLM_FAILED", "The provider failed (5xx)."),
            ("LLM_BAD_RESPONSE", "The answer of the provider violates its protocol."),
            ("LLM_BROKEN_OFF", "The answer is incomplete."),
            ("LLM_TOO_LARGE", "The answer is larger than the limit."),
            (
                "LLM_RESTING",
                "The circuit breaker of the model is open after several failures in a row; the next model is \
                asked.",
            ),
        ],
    },
    CodeSection {
        kind: CodeKind::Failure,
        title: "Agents that ask a model",
        codes: &[
            (
                "AGENT_ACT_NOT_DONE",
                "In the errors of a partial success. The action has a side effect (`side_effect` of the card), and the \
                agent answered without a successful call of a tool that can change something: it was not done, \
                whatever the answer says. Check the tools of the agent and the inputs of the step. `on_partial: \
                replan` asks the planners, `on_partial: fail` lets fallback and `on_failure` act.",
            ),
            (
                "AGENT_TURNS_EXCEEDED",
                "The [agent](../agents.md) called its model `limits.turns` times without a valid answer. Raise \
                the limit, or give the step less to do.",
            ),
            ("AGENT_TIME_EXCEEDED", "The agent worked for `limits.seconds` without an answer."),
            (
                "AGENT_BUDGET_EXCEEDED",
                "The next call of the model, or the price of the next tool, could exceed `limits.tokens` or \
                `limits.cost` of the agent; nothing was sent. For the budget of the plan: \
                [`BUDGET_EXCEEDED`](#budget_exceeded).",
            ),
            (
                "AGENT_ANSWER_INVALID",
                "The model corrected its answer `limits.repairs` times, and it still does not match the schema. \
                The message has the last violation. A stronger model or a simpler `output_schema` helps.",
            ),
            (
                "AGENT_ANSWER_TRUNCATED",
                "The last answer of the model was cut at `output_tokens_max`, also after it was asked to be \
                shorter. Raise `output_tokens_max`, or ask for less in one step.",
            ),
            (
                "CALL_INVALID",
                "A call of the step cannot be recorded: its name is empty or longer than 200 characters, it is made \
                inside the function of another call, or its report has an invalid number or is larger than \
                `limits.inline_bytes_max`; or a recorded call cannot be read. The message says which.",
            ),
            (
                "CALLS_EXCEEDED",
                "The step made more calls than `limits.calls_max` (200), or their outcomes have more bytes than \
                `limits.calls_bytes_max` (8 MiB). The attempt ends, whatever its agent does next. Divide the step, or \
                raise the limit in the settings of the schedulers; workers read it from the installation.",
            ),
        ],
    },
    CodeSection {
        kind: CodeKind::Failure,
        title: "The demo agents",
        codes: &[
            ("DEMO_FAILURE", "The agent `fail` always fails."),
            ("DEMO_FLAKY", "The agent `flaky` fails its first attempts."),
            ("DEMO_RATE_LIMITED", "The demo hotel agent limits the rate once, to demonstrate a retry."),
            ("BOOKING_CANCELLED", "The demo agent `booking_agent` got an order for a reference that was cancelled."),
            ("ALREADY_BOOKED", "The reference is booked by another order. Choose another reference."),
            ("ALREADY_CANCELLED", "The reference was cancelled by another request. Nothing is to be done."),
            ("BOOK_FULL", "The book of the demo agency is full. Start the demo again."),
            ("PAYMENT_FAILED", "The payment of the demo trip has another status than `paid`."),
            ("DEMO_FAULT", "The demo agent failed because of `--demo-fault`."),
            ("DEMO_TIMEOUT", "The demo agent timed out because of `--demo-fault`: what it did is unknown."),
            ("DECLINED", "The demo agent declined the task because of `--demo-fault`."),
            ("FULLY_BOOKED", "The demo hotel is fully booked because of `--demo-fault hotel_agent=fully_booked`."),
            ("OVER_BUDGET", "The demo trip exceeds its budget."),
            ("NO_SUCH_AGENT", "The demo service has no agent of this name."),
        ],
    },
    CodeSection {
        kind: CodeKind::Note,
        title: "Remarks on a goal",
        codes: &[
            (
                "FACT_MISSING",
                "A fact that the planner needs is missing in the goal. Add it to the description or the \
                constraints.",
            ),
            (
                "FACT_ASSUMED",
                "A fact is missing in the goal, so a default was used. Add it to the description or the \
                constraints.",
            ),
            (
                "FACT_GUESSED",
                "A fact was read in the text only: no constraint states it, and the rule does not ask for it. The \
                plan has a confidence of at most 0.3, and waits for approval if it may change something \
                (`planner.approve_guesses`). State the fact in the constraints if it is meant.",
            ),
            (
                "GOAL_FIELD_DROPPED",
                "What a model read in the text of the goal (`planning.read_goal`) was not used: the words do not \
                stand in the text, the day is not certain, or the goal states the field itself. The detail says \
                which. State the field in the goal if it is meant.",
            ),
            (
                "GOAL_NOT_READ",
                "No model could read the text of the goal (`planning.read_goal`); the goal was planned as it was \
                submitted. The detail has the reason.",
            ),
            (
                "FACT_UNREAD",
                "A number of the goal belongs to no fact that the planner reads (`3 reports`, `by 6 May`). Steps get \
                the text of the goal as it is. State the number as a constraint if a rule is to use it.",
            ),
            (
                "GOAL_NOT_ADDRESSED",
                "The plan of a model is valid, but no step has a word of the goal, in its texts or in the name of its \
                action. It has a confidence of at most 0.3, and waits for approval if it may change something \
                (`planner.approve_guesses`). Read it before it runs; a larger model may plan better.",
            ),
            (
                "PROMPT_COPIED",
                "An input of a step is a sentence of the instructions that the model got. The plan has a confidence of \
                at most 0.3, and waits for approval if it may change something (`planner.approve_guesses`). Read it \
                before it runs; a larger model may plan better.",
            ),
            (
                "PLANNER_FALLBACK",
                "A model gave no plan, and another planner made it. The detail names both and the first error, \
                time limit or issue; `plan get` and `explain` show it, the provenance has every question and \
                answer. Correct the cause, or put the other planner first in `planner.order`.",
            ),
            (
                "GENERIC_PLAN",
                "No rule matched the goal, so the plan is the generic one. Configure a model for \
                better plans, or write a rule: [planners.md](../planners.md#your-own-rules).",
            ),
        ],
    },
    CodeSection {
        kind: CodeKind::Note,
        title: "Answers and edits",
        codes: &[
            ("UNREADABLE", "The answer of the model has no JSON that can be parsed."),
            ("UNSUPPORTED_VERSION", "The attribute `specversion` of a submission is not `1.0`."),
            (
                "REVIEW_ERROR",
                "The review by a model (`planner.llm.review`) found that the plan cannot reach the goal, or a \
                step cannot work. An opinion: the plan was corrected if possible, and may run. Check the \
                position before you approve it.",
            ),
            ("REVIEW_WARNING", "The review found a doubtful step that may work."),
            ("INVALID_PROPOSAL", "The answer is not a valid proposal."),
            ("UNKNOWN_CHANGE", "The kind of a change is unknown; the hint lists the known ones."),
            ("STEP_COMPLETED", "A change concerns a completed step, which cannot change."),
            ("STEP_HAS_BEGUN", "The draft changes a step that has already started."),
            (
                "EXAMPLE_REPEATED",
                "The model wrote the example of the prompt once more, or took a fact from it that the goal does not state.",
            ),
            (
                "STEP_SAYS_NOTHING",
                "The texts of the step are empty or placeholders, such as `...`, `string` or `<input>`. Such a step is refused although its form is valid.",
            ),
            (
                "NOT_EDITABLE",
                "The field cannot be edited while the plan runs. [people.md](../people.md) lists the editable \
                fields.",
            ),
            ("INVALID_ANSWER", "The answer does not match the `schema` of the question."),
        ],
    },
    CodeSection {
        kind: CodeKind::Note,
        title: "Steps and their ids",
        codes: &[
            ("ID_ADDED", "A step had no id."),
            ("ID_RENAMED", "The id was not valid or not unique; references and dependencies follow."),
            (
                "STEPS_REORDERED",
                "The links contradicted the written order and references were wrong: steps stand in the order of \
                their links.",
            ),
            (
                "INDEX_SHIFT",
                "All numbers moved by one: with the shift all refer to an earlier step and to every source that \
                the links name, the other direction does not, and two different numbers were wrong or the links \
                name one source.",
            ),
        ],
    },
    CodeSection {
        kind: CodeKind::Note,
        title: "Agents and actions",
        codes: &[
            ("AGENT_NORMAL_FORM", "The agent type had the same letters in another spelling."),
            ("AGENT_SIMILAR", "The agent type had one wrong letter."),
            ("AGENT_BY_ACTION", "Only one agent type has the action."),
            (
                "AGENT_FROM_ACTION",
                "The name of an agent type stood where actions stand, and no agent has such an action. The agent \
                type does the step, with its only action if it has one.",
            ),
            ("ACTION_NORMAL_FORM", "The action had the same letters in another spelling."),
            ("ACTION_SIMILAR", "The action had one wrong letter."),
            (
                "ACTION_FROM_AGENT",
                "The agent type field had the name of an action; the only agent type with it does the step.",
            ),
            ("ACTION_FROM_NAME", "The name of the step was the name of an action."),
            ("CALL_OPENED", "The step was written as a function call."),
            ("STEP_OPENED", "The step was wrapped in an envelope: `{\"type\": \"step\", \"step\": {…}}`."),
            ("STEP_FROM_TEXT", "The step was a text, which is its description."),
            (
                "TEXT_IS_DESCRIPTION",
                "The text of the step was in another field (`step`, `text`, or an action that no agent offers), or \
                beside a description. It is the description.",
            ),
            ("ID_FROM_NUMBER", "The number of the step (`step: 3`, `step_number`) is its id."),
            ("FIELD_RENAMED", "`dependancies` is `dependencies`: one letter was wrong, and no such field is given."),
            (
                "STORED_PLAN_RENAMED",
                "The name of a stored plan had another spelling, or one wrong letter; only one name matches.",
            ),
            ("PLAN_DROPPED", "A step with `use` had a `plan` of the model; the plan of the step is the stored plan."),
            ("ACTION_DROPPED", "The action named no action: `\"tool\": \"0\"`, `none`, or a text."),
            ("REMARK_DROPPED", "A remark of the model without any work was removed."),
        ],
    },
    CodeSection {
        kind: CodeKind::Note,
        title: "Dependencies and references",
        codes: &[
            (
                "DEPENDENCY_RENAMED",
                "A dependency had another spelling of an id, one wrong letter, or an action in place of an id; \
                only one step matches.",
            ),
            (
                "DEPENDENCY_INDEX",
                "`[0, 1]` are the ids of these steps: exactly one base (the numbers in the ids, else 0 or 1) \
                leads all indices of the draft to steps written earlier.",
            ),
            (
                "DEPENDENCY_DROPPED",
                "The value of a dependency meant that there is none: `none`, `null`, `start`, `-1`.",
            ),
            ("DEPENDENCY_LISTED", "The dependencies were one object `{step, is}`; they are a list of it."),
            (
                "DEPENDENCY_OPENED",
                "`{\"pay\": \"failed\"}` is `{\"step\": \"pay\", \"is\": [\"failed\"]}`: the key is the id of a step.",
            ),
            (
                "STATUS_RENAMED",
                "A status of a dependency had another word (`success`, `error`), one wrong letter, or was a text of \
                several. Words that are not clear, such as `done`, are left.",
            ),
            ("DEPENDENCY_ADDED", "An expression of the step reads another step that was not a dependency."),
            (
                "SEQUENCE_ADDED",
                "A whole plan of a model named no dependency at all (no such field, even empty; no edges, phases, \
                strategy or reference): each step waits for the one before it.",
            ),
            (
                "REFERENCE_RENAMED",
                "An expression had another spelling of a step id, one wrong letter, or an action in place of an \
                id; only one step matches.",
            ),
            (
                "OUTPUT_RENAMED",
                "The output had another spelling or one wrong letter; the action declares only one such output.",
            ),
            (
                "PLACEHOLDER_REFERENCE",
                "`<Meeting Room ID>` reads an output: exactly one earlier step declares one of that name, or \
                action and output have the words of the name together.",
            ),
            (
                "PLACEHOLDER_ASKED",
                "No earlier step declares an output for a placeholder: a person is asked for the value (`ask`) \
                before the step starts.",
            ),
            (
                "REFERENCE_REDIRECTED",
                "The only wrong name in a step names another step: exactly one source of its links is unused, and \
                every other step reads each step it waits for.",
            ),
            (
                "REFERENCE_NOTATION",
                "`<node-1>`, `#E1`, `${step1.output}`, `${find.hotels}` are expressions: the id of the step \
                exists; for numbers exactly one base fits all references.",
            ),
        ],
    },
    CodeSection {
        kind: CodeKind::Note,
        title: "Inputs",
        codes: &[
            ("INPUT_RENAMED", "The schema of the action has another spelling: `from_city` is `fromCity`."),
            (
                "INPUT_NAMED",
                "The inputs were one value, and the action needs one input: `\"Rome\"` is `{\"city\": \"Rome\"}`.",
            ),
            ("INPUTS_OPENED", "The inputs were the text of an object."),
            ("INPUT_TYPE", "The value was converted to the type of the schema, reversibly: `\"2\"` is `2`."),
        ],
    },
];

#[cfg(test)]
const HEAD: &str = "\
# Error codes

`goalmill explain CODE` prints the text of a code. The meaning of a code never changes.
";

#[cfg(test)]
const PROBLEMS: &str = "\
## Problems: why a request is rejected

Each error of the API, of the stream and of the command line is a problem object (RFC 9457) with one of these codes. Its
`errors` list the [issues](#issues-what-is-wrong-in-a-document), up to 50.
";

#[cfg(test)]
const ISSUES: &str = "\
## Issues: what is wrong in a document

Each issue has a `code`, a JSON Pointer into the document *as submitted*, a `detail` and a `hint`. Issues of a revision or an
edit point to `/changes/N`, or to `/steps/ID` of the changed plan. `goalmill plan validate FILE` prints the issues of a plan
without running it. The severity of issues about agents [depends on the source of the plan](../validation.md).

```json
{\"code\": \"UNKNOWN_DEPENDENCY\", \"pointer\": \"/steps/1/depends_on/0\",
 \"detail\": \"there is no step `flihgts`\", \"hint\": \"did you mean `flights`?\"}
```
";

#[cfg(test)]
const FAILURES: &str = "\
## Failures of steps and plans

A failed attempt has a class, a code and a message. The class decides what follows ([lifecycle](../plan-lifecycle.md)):
`transient`, `timeout`, `lost` are retried, `rate_limited` waits and is tried again without using a retry, `permanent` and
`constraint_violation` are not retried. Agents may send codes of their own.
";

#[cfg(test)]
const NOTES: &str = "\
## Notes and repairs of planners

Remarks of planners, issues of answers of models (besides those above), and repairs of drafts without a model. Each repair is
recorded with old value, new value and reason.
";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::problem::ErrorCode;

    #[test]
    fn the_page_of_error_codes_is_made_of_the_table() {
        const PAGE: &str = "../docs/errors/README.md";
        if std::fs::read_to_string(PAGE).unwrap_or_default() != page() {
            std::fs::write(PAGE, page()).expect("the page can be written");
            panic!("docs/errors/README.md was old, and is written again: see the difference");
        }
    }

    #[test]
    fn every_problem_has_a_text_and_every_code_one() {
        let codes: Vec<&str> = SECTIONS.iter().flat_map(|section| section.codes).map(|(code, _)| *code).collect();
        let unique: BTreeSet<&str> = codes.iter().copied().collect();
        assert_eq!(codes.len(), unique.len(), "a code has two texts");
        let missing: Vec<&str> =
            ErrorCode::ALL.iter().map(|code| code.as_str()).filter(|code| !unique.contains(code)).collect();
        assert_eq!(missing, Vec::<&str>::new());
    }

    fn page() -> String {
        let mut page = HEAD.to_owned();
        let mut kind = None;
        for section in SECTIONS {
            if kind.replace(section.kind) != Some(section.kind) {
                page += &format!("\n{}", section.kind.introduction());
            }
            page += &format!("\n### {}\n\n", section.title);
            for (code, text) in section.codes {
                page += &format!("#### {code}\n{text}\n");
            }
        }
        page
    }
}
