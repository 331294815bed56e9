-- Finished plans, one row each. It is written last, in the transaction of the plan's last events.
CREATE TABLE plans (
    plan_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    shard INTEGER NOT NULL,
    namespace TEXT NOT NULL,
    status TEXT NOT NULL,
    name TEXT NOT NULL,
    revision BIGINT NOT NULL,
    events BIGINT NOT NULL,
    created_ms BIGINT NOT NULL,
    finished_ms BIGINT NOT NULL,
    changed_ms BIGINT NOT NULL,
    summary TEXT NOT NULL
);
CREATE INDEX plans_by_change ON plans (shard, changed_ms, plan_id);
CREATE INDEX plans_by_end ON plans (finished_ms, plan_id);

CREATE TABLE steps (
    plan_id TEXT COLLATE "C" NOT NULL,
    step_id TEXT NOT NULL,
    agent_type TEXT NOT NULL,
    action TEXT NOT NULL,
    status TEXT NOT NULL,
    attempts BIGINT NOT NULL,
    phase_id TEXT,
    started_ms BIGINT,
    finished_ms BIGINT,
    PRIMARY KEY (plan_id, step_id)
);
CREATE INDEX steps_by_agent_type ON steps (agent_type, plan_id, step_id);

CREATE TABLE revisions (
    plan_id TEXT COLLATE "C" NOT NULL,
    revision BIGINT NOT NULL,
    "timestamp" TIMESTAMPTZ NOT NULL,
    "trigger" TEXT NOT NULL,
    data JSONB NOT NULL,
    PRIMARY KEY (plan_id, revision)
);

-- One row for each event, in a partition for each month. `entry` is the number of the last event of the same commit, `line` is
-- the event as `goalmill events -o jsonl` prints it, byte for byte, and `words` are its words.
CREATE TABLE log_entries (
    id TEXT GENERATED ALWAYS AS (plan_id || '-' || seq::text) STORED,
    log_id TEXT GENERATED ALWAYS AS (plan_id) STORED,
    "timestamp" TIMESTAMPTZ NOT NULL,
    event_type TEXT NOT NULL,
    plan_id TEXT COLLATE "C" NOT NULL,
    phase_id TEXT,
    step_id TEXT,
    data JSONB,
    entry BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    line TEXT NOT NULL,
    words TEXT[] NOT NULL,
    PRIMARY KEY (plan_id, entry, seq, "timestamp")
) PARTITION BY RANGE ("timestamp");
CREATE INDEX log_entries_by_time ON log_entries ("timestamp", plan_id, seq);
CREATE INDEX log_entries_by_data ON log_entries USING gin (data jsonb_path_ops);
CREATE INDEX log_entries_by_words ON log_entries USING gin (words);

-- How far the index of each shard was read.
CREATE TABLE positions (
    shard INTEGER NOT NULL PRIMARY KEY,
    changed_ms BIGINT NOT NULL
);
