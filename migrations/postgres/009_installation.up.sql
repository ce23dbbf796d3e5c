-- The cluster that the database lives on, and the latest timeline that it was seen on. Nodes refuse
-- a server on an earlier timeline.
CREATE TABLE installation (
    one      boolean NOT NULL DEFAULT true PRIMARY KEY CHECK (one),
    id       uuid    NOT NULL,
    system   bigint  NOT NULL,
    timeline bigint  NOT NULL
);
