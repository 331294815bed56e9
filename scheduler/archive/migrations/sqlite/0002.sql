-- Large inputs and outputs, under the SHA-256 of their bytes: equal ones of several plans are stored once.
CREATE TABLE blobs (
    digest BLOB NOT NULL PRIMARY KEY,
    content BLOB NOT NULL
);

-- Which large payload a reference of a plan's log stands for. A payload is deleted with its last row here.
CREATE TABLE plan_blobs (
    plan_id TEXT NOT NULL,
    blob_key TEXT NOT NULL,
    digest BLOB NOT NULL,
    PRIMARY KEY (plan_id, blob_key)
) WITHOUT ROWID;
CREATE INDEX plan_blobs_by_digest ON plan_blobs (digest);

-- For the retention of each namespace.
CREATE INDEX plans_by_namespace ON plans (namespace, finished_ms, plan_id);
