-- Which cluster the database lives on, and on which of its timelines it was seen: a server that is behind is not worked with.
CREATE TABLE installation (
    one      boolean NOT NULL DEFAULT true PRIMARY KEY CHECK (one),
    id       uuid    NOT NULL,
    system   bigint  NOT NULL,
    timeline bigint  NOT NULL
);
