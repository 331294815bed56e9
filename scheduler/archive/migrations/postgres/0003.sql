-- Events of one type, the newest first.
CREATE INDEX log_entries_by_type ON log_entries (event_type, "timestamp", plan_id, seq);

-- The log is append-only, whoever writes. Pruning deletes whole plans.
CREATE FUNCTION refuse_log_update() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'log_entries is append-only' USING ERRCODE = 'insufficient_privilege';
END $$;
CREATE TRIGGER log_entries_append_only BEFORE UPDATE ON log_entries
    FOR EACH ROW EXECUTE FUNCTION refuse_log_update();

-- Creates the partition of a month such as `2026-11`, for roles that do not own the log.
CREATE FUNCTION create_log_partition(month TEXT) RETURNS VOID LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    begins TIMESTAMPTZ := (month || '-01T00:00:00Z')::TIMESTAMPTZ;
    ends TIMESTAMPTZ := (begins AT TIME ZONE 'UTC' + INTERVAL '1 month') AT TIME ZONE 'UTC';
BEGIN
    IF month !~ '^[0-9]{4}-[0-9]{2}$' THEN
        RAISE EXCEPTION '% is no month', month;
    END IF;
    EXECUTE format('CREATE TABLE IF NOT EXISTS %I PARTITION OF log_entries FOR VALUES FROM (%L) TO (%L)',
        'log_entries_' || replace(month, '-', '_'), begins, ends);
END $$;
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION create_log_partition(TEXT) SET search_path = %I, pg_temp', current_schema());
END $$;
REVOKE ALL ON FUNCTION create_log_partition(TEXT) FROM PUBLIC;
