-- What does not move: shown until a time, and known for a while longer, so that it is told once.
CREATE TABLE stalls (
    id      uuid NOT NULL PRIMARY KEY,
    saga_id uuid NOT NULL,
    kind    text NOT NULL,
    path    text NOT NULL, -- empty: the saga itself
    since   bigint NOT NULL,
    why     text NOT NULL,
    until   bigint NOT NULL
);
CREATE INDEX stalls_saga ON stalls (saga_id);
CREATE INDEX stalls_until ON stalls (until);
