-- Large inputs and outputs, under the SHA-256 of their bytes: equal ones of several plans are stored once.
CREATE TABLE blobs (
    digest BYTEA NOT NULL PRIMARY KEY,
    content BYTEA NOT NULL
);

-- Which large payload a reference of a plan's log stands for. A payload is deleted with its last row here.
CREATE TABLE plan_blobs (
    plan_id TEXT COLLATE "C" NOT NULL,
    blob_key TEXT COLLATE "C" NOT NULL,
    digest BYTEA NOT NULL REFERENCES blobs (digest),
    PRIMARY KEY (plan_id, blob_key)
);
CREATE INDEX plan_blobs_by_digest ON plan_blobs (digest);

-- For the retention of each namespace.
CREATE INDEX plans_by_namespace ON plans (namespace, finished_ms, plan_id);
