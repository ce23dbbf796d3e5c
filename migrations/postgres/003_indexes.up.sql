-- An index on sagas costs every start and every end, so there are as few as will do.
-- Most sagas have no labels, and each would have an entry that says so.
DROP INDEX sagas_labels;
CREATE INDEX sagas_labels ON sagas USING gin (labels jsonb_path_ops) WHERE labels <> '{}';
-- What is counted of live sagas is in one index, without the sagas; those in quarantine are among the stuck ones.
DROP INDEX sagas_quarantined;
DROP INDEX sagas_live;
CREATE INDEX sagas_live ON sagas (status, definition, updated_at) WHERE ended_at IS NULL;
