DROP TRIGGER sagas_unlabelled ON sagas;
DROP TRIGGER sagas_relabelled ON sagas;
DROP TRIGGER sagas_labelled ON sagas;
DROP FUNCTION relabel();
DROP TABLE saga_labels;
CREATE INDEX sagas_labels ON sagas USING gin (labels jsonb_path_ops) WHERE labels <> '{}';
