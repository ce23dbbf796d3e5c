-- When a saga that has ended may be deleted: by the writer's clock, and compared with the database's.
ALTER TABLE sagas ADD COLUMN delete_at bigint NULL;
CREATE INDEX sagas_delete ON sagas (delete_at) WHERE delete_at IS NOT NULL AND ended_at IS NOT NULL;

-- Work for outside workers. A task that has ended stays for a day without its input, so that ending it again stays the same as once.
CREATE TABLE tasks (
    id        uuid    NOT NULL PRIMARY KEY,
    saga_id   uuid    NOT NULL,
    path      text    NOT NULL,
    way       text    NOT NULL,
    attempt   integer NOT NULL,
    key       text    NOT NULL,
    type      text    NOT NULL,
    input     bytea   NULL,
    lease     bigint  NOT NULL, -- in milliseconds, as the others
    timeout   bigint  NOT NULL,
    made_at   bigint  NOT NULL,
    withdrawn boolean NOT NULL DEFAULT false,
    token     uuid    NULL, -- of its claim; null: nobody has claimed it
    worker    text    NULL,
    held_for  bigint  NULL, -- the lease that the claim asked for, or the task's own
    until     bigint  NULL, -- when it meets its fate: the lease's end, or when it was withdrawn unclaimed
    deadline  bigint  NULL,
    ended_at  bigint  NULL,
    how       text    NULL  -- who ended it has said so; null: its fate did
);
CREATE INDEX tasks_saga ON tasks (saga_id);
CREATE INDEX tasks_waiting ON tasks (type, made_at, id) WHERE token IS NULL AND NOT withdrawn;
CREATE INDEX tasks_token ON tasks (token) WHERE token IS NOT NULL;
CREATE INDEX tasks_until ON tasks (until, id) WHERE until IS NOT NULL AND ended_at IS NULL;
CREATE INDEX tasks_ended ON tasks (ended_at) WHERE ended_at IS NOT NULL;

-- Events until they are delivered, once for each sink. They outlive their saga.
CREATE TABLE outbox (
    id        uuid    NOT NULL,
    sink      text    NOT NULL,
    saga_id   uuid    NOT NULL,
    data      bytea   NULL,
    made_at   bigint  NOT NULL,
    due_at    bigint  NOT NULL,
    attempts  integer NOT NULL DEFAULT 0, -- that failed
    failed_at bigint  NULL,               -- the last one
    why       text    NULL,
    PRIMARY KEY (id, sink)
);
CREATE INDEX outbox_due ON outbox (due_at, id, sink);

CREATE TABLE schedules (
    name     text   NOT NULL PRIMARY KEY,
    fired_at bigint NOT NULL
);
