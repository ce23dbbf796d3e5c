-- docs/format.md describes the tables. Times are milliseconds since 1970 by the database's clock,
-- except where a column says otherwise. Payloads are bytea: jsonb refuses \u0000, drops duplicate
-- keys and rewrites numbers.

-- The cluster that the database lives on, and the latest timeline that it was seen on. Nodes refuse
-- a server on an earlier timeline.
CREATE TABLE installation (
    one      boolean NOT NULL DEFAULT true PRIMARY KEY CHECK (one),
    id       uuid    NOT NULL,
    system   bigint  NOT NULL,
    timeline bigint  NOT NULL
);

CREATE TABLE nodes (
    id         text   NOT NULL PRIMARY KEY,
    expires_at bigint NOT NULL
);
-- The key of the lock that keeps a node from being taken over while it writes.
CREATE FUNCTION node_lock(node text) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT hashtextextended(node, 0) $$;
-- Returns whether a node has its lease, which nobody ends before this transaction has ended. A lock
-- of the row would do the same, but it would be written to the WAL for each commit. The function is
-- volatile, so that its query sees everything that was committed before it got the lock.
CREATE FUNCTION has_lease(node text) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(node_lock(node));
    RETURN EXISTS (SELECT 1 FROM nodes WHERE id = node);
END $$;

CREATE TABLE sagas (
    id               uuid    NOT NULL PRIMARY KEY,
    definition       text    NOT NULL,
    version          integer NOT NULL,
    sha256           bytea   NOT NULL,
    start_key        text    NULL,
    start_hash       text    NOT NULL,
    unique_value     text    NULL,
    opener           text    NULL, -- the key that has opened a session
    local            boolean NULL, -- true or null: a command runs the saga in its own process
    parent           uuid    NULL,
    retry_of         uuid    NULL,
    forked_from      uuid    NULL,
    created_at       bigint  NULL, -- by the starter's clock
    status           text    NOT NULL DEFAULT '',
    reason           text    NOT NULL DEFAULT '',
    labels           jsonb   NOT NULL DEFAULT '{}',
    wake_at          bigint  NULL, -- null: only a message wakes the saga
    summary          bytea   NULL,
    seq              bigint  NOT NULL DEFAULT 0,
    updated_at       bigint  NULL, -- by the writer's clock
    ended_at         bigint  NULL, -- by the writer's clock
    owner            text    NULL,
    pending_messages integer NOT NULL DEFAULT 0, -- messages that are not applied yet
    claims           integer NOT NULL DEFAULT 0, -- claims since the saga last made progress
    delete_at        bigint  NULL, -- when an ended saga may be deleted: by the writer's clock, compared with the database's
    -- The text that searches read, in lower case. It is the last column, because lists read only
    -- the columns before it.
    search_text      text    NOT NULL DEFAULT ''
)
-- Inserts leave room in each page for the ends of its sagas, which need less WAL there.
WITH (fillfactor = 70);
-- Every start and every end updates the indexes of sagas, so there are as few as possible.
CREATE UNIQUE INDEX sagas_start_key ON sagas (start_key) WHERE start_key IS NOT NULL;
CREATE UNIQUE INDEX sagas_unique_value ON sagas (definition, unique_value) WHERE unique_value IS NOT NULL AND ended_at IS NULL;
-- Only sessions have an opener.
CREATE INDEX sagas_opener ON sagas (opener) WHERE opener IS NOT NULL AND ended_at IS NULL;
-- A saga with two or more claims without progress is claimed apart from the others.
CREATE INDEX sagas_due ON sagas (wake_at, id) WHERE owner IS NULL AND wake_at IS NOT NULL AND claims < 2;
CREATE INDEX sagas_suspect ON sagas (wake_at, id) WHERE owner IS NULL AND wake_at IS NOT NULL AND claims >= 2;
CREATE INDEX sagas_local ON sagas (wake_at, id) WHERE owner IS NULL AND wake_at IS NOT NULL AND local IS NOT NULL;
-- The last letters of a node's id are random, and enough to find its sagas.
CREATE INDEX sagas_owner ON sagas (right(owner, 7)) WHERE owner IS NOT NULL;
CREATE INDEX sagas_pending_messages ON sagas (owner) WHERE owner IS NOT NULL AND pending_messages > 0;
-- The indexes of lists and counts leave out the sagas that a node runs, because a saga would be
-- written to them at its start and again at its end. These are few, and sagas_owner has them.
CREATE INDEX sagas_definition ON sagas (definition, id) WHERE owner IS NULL;
CREATE INDEX sagas_status ON sagas (status, id) WHERE owner IS NULL;
CREATE INDEX sagas_live ON sagas (status, definition, updated_at) WHERE ended_at IS NULL AND owner IS NULL;
CREATE INDEX sagas_delete ON sagas (delete_at) WHERE delete_at IS NOT NULL AND ended_at IS NOT NULL;

-- Labels of sagas in the order of lists, so that a list by label is as fast as one by status. A
-- value has at most 256 characters. Triggers write them with the saga's row.
CREATE TABLE saga_labels (
    name    text NOT NULL,
    value   text NOT NULL,
    saga_id uuid NOT NULL,
    PRIMARY KEY (name, value, saga_id)
);
CREATE FUNCTION relabel() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        DELETE FROM saga_labels g USING jsonb_each_text(OLD.labels) l WHERE g.name = l.key AND g.value = l.value AND g.saga_id = OLD.id;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO saga_labels (name, value, saga_id) SELECT l.key, l.value, NEW.id FROM jsonb_each_text(NEW.labels) l;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER sagas_labelled AFTER INSERT ON sagas FOR EACH ROW WHEN (NEW.labels <> '{}') EXECUTE FUNCTION relabel();
CREATE TRIGGER sagas_relabelled AFTER UPDATE OF labels ON sagas FOR EACH ROW WHEN (OLD.labels <> NEW.labels) EXECUTE FUNCTION relabel();
CREATE TRIGGER sagas_unlabelled AFTER DELETE ON sagas FOR EACH ROW WHEN (OLD.labels <> '{}') EXECUTE FUNCTION relabel();

-- The journal is insert-only. A row has the records of one append, packed. Its primary key is the
-- compare-and-swap against a second writer. Nodes create a partition for each day (UTC), by the time
-- in the sagas' ids, before the day begins, and drop it when none of its sagas is left.
CREATE TABLE journal (
    saga_id uuid    NOT NULL,
    at      bigint  NOT NULL, -- of the last record, by the writer's clock
    seq     integer NOT NULL, -- of the first record
    last    integer NOT NULL, -- seq of the last record
    data    bytea   NOT NULL,
    PRIMARY KEY (saga_id, seq)
) PARTITION BY RANGE (saga_id);
-- The data is compressed already.
ALTER TABLE journal ALTER COLUMN data SET STORAGE EXTERNAL;
-- The rows of sagas whose day has no partition, so that a start never fails because of that.
CREATE TABLE journal_default PARTITION OF journal DEFAULT;
-- Returns the last row of a saga's journal. The query is planned for each call, because a plan for
-- all sagas would lock and open all partitions.
CREATE FUNCTION journal_end(saga uuid, OUT last integer, OUT at bigint) LANGUAGE plpgsql STABLE AS $$
BEGIN
    EXECUTE 'SELECT j.last, j.at FROM journal j WHERE j.saga_id = $1 ORDER BY j.seq DESC LIMIT 1' INTO last, at USING saga;
END $$;

-- Deleted sagas whose journals are still there, to be dropped with their partition: one row for
-- each transaction that deleted sagas of a partition.
CREATE TABLE deferred_deletes (
    id         uuid   NOT NULL DEFAULT gen_random_uuid() PRIMARY KEY,
    first      uuid   NOT NULL, -- the least id of the partition
    sagas      uuid[] NOT NULL,
    deleted_at bigint NOT NULL
);
CREATE INDEX deferred_deletes_first ON deferred_deletes (first);
CREATE INDEX deferred_deletes_deleted_at ON deferred_deletes (deleted_at);

-- Text that records are like, by which rows of the journal are compressed. Rows of the journal
-- cannot be read without the text that they name, so none is deleted.
CREATE TABLE dictionaries (
    id   bigint NOT NULL PRIMARY KEY, -- the first 32 bits of the text's SHA-256
    data bytea  NOT NULL
);

-- Content that records refer to by its hash, which is the SHA-256 of the content before it was
-- compressed. Erasing the content of a saga leaves its journal as it is.
CREATE TABLE blobs (
    saga_id uuid  NOT NULL,
    hash    bytea NOT NULL,
    data    bytea NOT NULL,
    PRIMARY KEY (saga_id, hash)
);

-- An applied message keeps its id and loses its data, so that sending it again changes nothing.
CREATE TABLE messages (
    saga_id uuid    NOT NULL,
    id      uuid    NOT NULL,
    kind    text    NOT NULL,
    data    bytea   NULL,
    applied boolean NOT NULL DEFAULT false,
    PRIMARY KEY (saga_id, id)
);

CREATE TABLE inbox (
    saga_id uuid   NOT NULL,
    id      uuid   NOT NULL,
    kind    text   NOT NULL,
    path    text   NOT NULL,
    since   bigint NOT NULL, -- by the writer's clock
    data    bytea  NULL,
    PRIMARY KEY (saga_id, id)
);
CREATE INDEX inbox_since ON inbox (since, id);

-- Tasks for workers. An ended task stays for a day without its input, so that ending it again
-- changes nothing.
CREATE TABLE tasks (
    id          uuid    NOT NULL PRIMARY KEY,
    saga_id     uuid    NOT NULL,
    path        text    NOT NULL,
    way         text    NOT NULL,
    attempt     integer NOT NULL,
    key         text    NOT NULL,
    type        text    NOT NULL,
    input       bytea   NULL,
    lease       bigint  NOT NULL, -- in milliseconds, as the other durations
    timeout     bigint  NOT NULL,
    created_at  bigint  NOT NULL,
    withdrawn   boolean NOT NULL DEFAULT false,
    token       uuid    NULL, -- of the claim; null: not claimed
    worker      text    NULL,
    claim_lease bigint  NULL, -- the lease that the claim asked for, or else the task's own
    ends_at     bigint  NULL, -- when the store ends it: at the end of its lease, or when it was withdrawn unclaimed
    deadline    bigint  NULL,
    ended_at    bigint  NULL,
    result      text    NULL, -- fingerprint of the worker's report; null: the store has ended the task
    traceparent text    NULL  -- the trace that its worker continues
);
CREATE INDEX tasks_saga ON tasks (saga_id);
CREATE INDEX tasks_waiting ON tasks (type, created_at, id) WHERE token IS NULL AND NOT withdrawn;
CREATE INDEX tasks_token ON tasks (token) WHERE token IS NOT NULL;
CREATE INDEX tasks_ends_at ON tasks (ends_at, id) WHERE ends_at IS NOT NULL AND ended_at IS NULL;
CREATE INDEX tasks_ended ON tasks (ended_at) WHERE ended_at IS NOT NULL;

-- Events until they are delivered, one row for each sink. They outlive their saga.
CREATE TABLE outbox (
    id         uuid    NOT NULL,
    sink       text    NOT NULL,
    saga_id    uuid    NOT NULL,
    data       bytea   NULL,
    created_at bigint  NOT NULL,
    due_at     bigint  NOT NULL,
    attempts   integer NOT NULL DEFAULT 0, -- failed attempts
    failed_at  bigint  NULL,               -- time of the last failed attempt
    error      text    NULL,               -- of the last failed attempt
    PRIMARY KEY (id, sink)
);
CREATE INDEX outbox_due ON outbox (sink, due_at, id);
CREATE INDEX outbox_created ON outbox (sink, created_at);
CREATE INDEX outbox_failed ON outbox (sink, failed_at, id) WHERE failed_at IS NOT NULL;

-- Sagas and steps that make no progress. A row is shown until shown_until and kept for a while
-- longer, so that each is reported once.
CREATE TABLE stalls (
    id          uuid   NOT NULL PRIMARY KEY,
    saga_id     uuid   NOT NULL,
    kind        text   NOT NULL,
    path        text   NOT NULL, -- empty: the saga itself
    since       bigint NOT NULL,
    detail      text   NOT NULL,
    shown_until bigint NOT NULL
);
CREATE INDEX stalls_saga ON stalls (saga_id);
CREATE INDEX stalls_shown_until ON stalls (shown_until);

CREATE TABLE schedules (
    name     text   NOT NULL PRIMARY KEY,
    fired_at bigint NOT NULL
);

-- Definitions and actions: one row for each published name, which publishing locks.
CREATE TABLE document_names (
    kind     text    NOT NULL,
    name     text    NOT NULL,
    newest   integer NOT NULL,
    archived boolean NOT NULL,
    PRIMARY KEY (kind, name)
);

CREATE TABLE documents (
    kind       text    NOT NULL,
    name       text    NOT NULL,
    version    integer NOT NULL,
    sha256     text    NOT NULL,
    source     bytea   NOT NULL,
    created_at bigint  NOT NULL,
    PRIMARY KEY (kind, name, version)
);

-- Responses that are kept for clients' Idempotency-Keys.
CREATE TABLE requests (
    key         text    NOT NULL PRIMARY KEY,
    fingerprint text    NOT NULL,
    done        boolean NOT NULL,
    status      integer NOT NULL,
    header      bytea   NULL,
    body        bytea   NULL,
    expires_at  bigint  NOT NULL
);
CREATE INDEX requests_expires_at ON requests (expires_at);

CREATE TABLE api_keys (
    id         uuid   NOT NULL PRIMARY KEY,
    name       text   NOT NULL,
    role       text   NOT NULL,
    hash       text   NOT NULL UNIQUE,
    created_at bigint NOT NULL,
    expires_at bigint NULL,
    binding    text   NOT NULL DEFAULT '{}'
);
