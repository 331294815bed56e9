-- Finished plans, one row each. It is written last, in the transaction of the plan's last events.
CREATE TABLE plans (
    plan_id TEXT NOT NULL PRIMARY KEY,
    shard INTEGER NOT NULL,
    namespace TEXT NOT NULL,
    status TEXT NOT NULL,
    name TEXT NOT NULL,
    revision INTEGER NOT NULL,
    events INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    finished_ms INTEGER NOT NULL,
    changed_ms INTEGER NOT NULL,
    summary TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX plans_by_change ON plans (shard, changed_ms, plan_id);
CREATE INDEX plans_by_end ON plans (finished_ms, plan_id);

CREATE TABLE steps (
    plan_id TEXT NOT NULL,
    step_id TEXT NOT NULL,
    agent_type TEXT NOT NULL,
    action TEXT NOT NULL,
    status TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    phase_id TEXT,
    started_ms INTEGER,
    finished_ms INTEGER,
    PRIMARY KEY (plan_id, step_id)
) WITHOUT ROWID;
CREATE INDEX steps_by_agent_type ON steps (agent_type, plan_id, step_id);

CREATE TABLE revisions (
    plan_id TEXT NOT NULL,
    revision INTEGER NOT NULL,
    "timestamp" INTEGER NOT NULL,
    "trigger" TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (plan_id, revision)
) WITHOUT ROWID;

-- One row for each event. `entry` is the number of the last event of the same commit, `timestamp` is in Unix milliseconds,
-- `line` is the event as `goalmill events -o jsonl` prints it.
CREATE TABLE log_entries (
    number INTEGER PRIMARY KEY,
    plan_id TEXT NOT NULL,
    entry INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    "timestamp" INTEGER NOT NULL,
    event_type TEXT NOT NULL,
    phase_id TEXT,
    step_id TEXT,
    line TEXT NOT NULL,
    id TEXT GENERATED ALWAYS AS (plan_id || '-' || seq) VIRTUAL,
    log_id TEXT GENERATED ALWAYS AS (plan_id) VIRTUAL,
    data TEXT GENERATED ALWAYS AS (line -> '$.data') VIRTUAL,
    UNIQUE (plan_id, entry, seq)
);
CREATE INDEX log_entries_by_time ON log_entries ("timestamp", plan_id, seq);

-- The words of each event, under its `number`. The program splits texts into words; here they are separated by spaces.
CREATE VIRTUAL TABLE log_words USING fts5 (
    words, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii'
);

-- How far the index of each shard was read.
CREATE TABLE positions (
    shard INTEGER NOT NULL PRIMARY KEY,
    changed_ms INTEGER NOT NULL
);
