-- Labels of sagas in the order that lists have, so that those with a label are found as fast as those with a status. A value has at most 256 characters.
-- They are written with the saga's row, by whatever writes it.
CREATE TABLE saga_labels (
    name    text NOT NULL,
    value   text NOT NULL,
    saga_id uuid NOT NULL,
    PRIMARY KEY (name, value, saga_id)
);
INSERT INTO saga_labels (name, value, saga_id)
    SELECT l.key, l.value, s.id FROM sagas s CROSS JOIN LATERAL jsonb_each_text(s.labels) l WHERE s.labels <> '{}';
DROP INDEX sagas_labels;

CREATE FUNCTION relabel() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        DELETE FROM saga_labels g USING jsonb_each_text(OLD.labels) l WHERE g.name = l.key AND g.value = l.value AND g.saga_id = OLD.id;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO saga_labels (name, value, saga_id) SELECT l.key, l.value, NEW.id FROM jsonb_each_text(NEW.labels) l;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER sagas_labelled AFTER INSERT ON sagas FOR EACH ROW WHEN (NEW.labels <> '{}') EXECUTE FUNCTION relabel();
CREATE TRIGGER sagas_relabelled AFTER UPDATE OF labels ON sagas FOR EACH ROW WHEN (OLD.labels <> NEW.labels) EXECUTE FUNCTION relabel();
CREATE TRIGGER sagas_unlabelled AFTER DELETE ON sagas FOR EACH ROW WHEN (OLD.labels <> '{}') EXECUTE FUNCTION relabel();
