-- Labels of sagas in the order that lists have, so that those with a label are found as fast as those with a status. A value has at most 256 characters.
-- They are written with the saga's row, by whatever writes it.
CREATE TABLE saga_labels (
    name    TEXT NOT NULL,
    value   TEXT NOT NULL,
    saga_id BLOB NOT NULL,
    PRIMARY KEY (name, value, saga_id)
) WITHOUT ROWID;
INSERT INTO saga_labels (name, value, saga_id)
    SELECT l.key, l.value, s.id FROM sagas s CROSS JOIN json_each(s.labels) l WHERE s.labels <> '{}';

CREATE TRIGGER sagas_labelled AFTER INSERT ON sagas WHEN new.labels <> '{}' BEGIN
    INSERT INTO saga_labels (name, value, saga_id) SELECT key, value, new.id FROM json_each(new.labels);
END;
CREATE TRIGGER sagas_relabelled AFTER UPDATE OF labels ON sagas WHEN old.labels <> new.labels BEGIN
    DELETE FROM saga_labels WHERE (name, value, saga_id) IN (SELECT key, value, old.id FROM json_each(old.labels));
    INSERT INTO saga_labels (name, value, saga_id) SELECT key, value, new.id FROM json_each(new.labels);
END;
CREATE TRIGGER sagas_unlabelled AFTER DELETE ON sagas WHEN old.labels <> '{}' BEGIN
    DELETE FROM saga_labels WHERE (name, value, saga_id) IN (SELECT key, value, old.id FROM json_each(old.labels));
END;
