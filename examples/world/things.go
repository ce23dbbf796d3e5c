package world

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
)

// thingOperations returns the operations of things, below a base path.
func thingOperations(base string) []*operation {
	return []*operation{
		{service: "things", name: "create", pattern: "POST " + base, write: true, makes: things, run: createThing},
		{service: "things", name: "put", pattern: "PUT " + base + "/{id}", write: true, makes: things, run: putThing},
		{service: "things", name: "delete", pattern: "DELETE " + base + "/{id}", write: true, run: things.undo},
		{service: "things", name: "show", pattern: "GET " + base + "/{id}", run: showThing},
	}
}

// echo reads any JSON value; no body is null.
func echo(c *call) (fields, error) {
	body := bytes.TrimSpace(c.body)
	if len(body) == 0 {
		body = []byte("null")
	}
	if !json.Valid(body) {
		return nil, fmt.Errorf("%w: send one JSON value", errBody)
	}
	return fields{"echo": body}, nil
}

func createThing(s *state, c *call) answer {
	f, err := echo(c)
	if err != nil {
		return badBody(err)
	}
	s.made(c, things, "", f)
	return reply(http.StatusCreated, f)
}

// putThing creates or replaces the thing of that name: 201 or 200. Deleting it undoes all of them.
func putThing(s *state, c *call) answer {
	f, err := echo(c)
	if err != nil {
		return badBody(err)
	}
	status := http.StatusCreated
	if old := s.byID[resource{things, c.id}]; old != nil && !old.undone {
		status = http.StatusOK
	}
	s.made(c, things, c.id, f)
	return reply(status, f)
}

// showThing returns 404 after the undo, as for a deleted thing.
func showThing(s *state, c *call) answer {
	e := s.byID[resource{things, c.id}]
	if e == nil || e.undone {
		return things.missing(c.id)
	}
	return reply(http.StatusOK, e.shown)
}
