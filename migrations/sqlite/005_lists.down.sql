DROP TRIGGER sagas_unlabelled;
DROP TRIGGER sagas_relabelled;
DROP TRIGGER sagas_labelled;
DROP TABLE saga_labels;
