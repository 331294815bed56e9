-- Events of one type, the newest first.
CREATE INDEX log_entries_by_type ON log_entries (event_type, "timestamp", plan_id, seq);

-- The log is append-only, whoever writes. Pruning deletes whole plans.
CREATE TRIGGER log_entries_append_only BEFORE UPDATE ON log_entries
BEGIN
    SELECT RAISE(ABORT, 'log_entries is append-only');
END;
