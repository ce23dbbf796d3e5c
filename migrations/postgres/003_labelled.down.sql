DROP INDEX sagas_labels;
CREATE INDEX sagas_labels ON sagas USING gin (labels jsonb_path_ops);
