-- Most sagas have no labels, and each would have an entry that says so.
DROP INDEX sagas_labels;
CREATE INDEX sagas_labels ON sagas USING gin (labels jsonb_path_ops) WHERE labels <> '{}';
