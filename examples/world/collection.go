package world

import (
	"net/http"
	"strings"
)

// collection is a kind of resource that a service creates, shows and undoes.
type collection struct {
	service string
	path    string   // path below the service, such as bookings
	prefix  string   // prefix of ids
	create  string   // the operation's name in the ledger
	cancel  string   // the undo's name in the ledger
	undoAt  string   // method and path of the undo: "DELETE", or "POST cancel"
	made    string   // status of a resource
	undone  string   // status after the undo
	keyName string   // query parameter for searching by key; empty for none
	list    string   // name of the list in that response
	inBody  string   // field of the body that may contain the key
	needs   []string // required fields
	fill    func(fields) error
}

// operation is one method and path of a service.
type operation struct {
	service     string
	name        string
	pattern     string // pattern of http.ServeMux
	write       bool   // accepts keys, unless it
	ignoresKeys bool
	keyField    string      // field of the body that may contain the key
	makes       *collection // the collection of a create
	run         func(*state, *call) answer
}

// hosted returns the pattern under a host with the service's name, if it has a path there.
func (o *operation) hosted() (pattern string, ok bool) {
	method, at, _ := strings.Cut(o.pattern, " ")
	path, ok := strings.CutPrefix(at, "/"+o.service+"/")
	return method + " " + o.service + ".example/" + path, ok
}

// operations returns the operations that every collection has.
func (k *collection) operations() []*operation {
	base := "/" + k.service + "/" + k.path
	method, verb, _ := strings.Cut(k.undoAt, " ")
	undo := strings.TrimSuffix(base+"/{id}/"+verb, "/")
	ops := []*operation{
		{service: k.service, name: k.create, pattern: "POST " + base, write: true, keyField: k.inBody, makes: k, run: k.post},
		{service: k.service, name: k.cancel, pattern: method + " " + undo, write: true, keyField: k.inBody, run: k.undo},
		{service: k.service, name: "show", pattern: "GET " + base + "/{id}", run: k.get},
	}
	if k.keyName != "" {
		ops = append(ops, &operation{service: k.service, name: "find", pattern: "GET " + base, run: k.find})
	}
	return ops
}

// post creates a resource.
func (k *collection) post(s *state, c *call) answer {
	f, err := c.object()
	if err == nil {
		err = f.needs(k.needs...)
	}
	if err == nil && k.fill != nil {
		err = k.fill(f)
	}
	if err != nil {
		return badBody(err)
	}
	if k.inBody != "" {
		delete(f, k.inBody)
	}
	s.made(c, k, "", f)
	return reply(http.StatusCreated, f)
}

// undo undoes a resource; a second undo is refused.
func (k *collection) undo(s *state, c *call) answer {
	e := s.byID[resource{k, c.id}]
	if e == nil || e.undone {
		return k.missing(c.id)
	}
	s.undo(c, e)
	return reply(http.StatusOK, e.shown)
}

// get shows a resource, also after its undo.
func (k *collection) get(s *state, c *call) answer {
	e := s.byID[resource{k, c.id}]
	if e == nil {
		return k.missing(c.id)
	}
	return reply(http.StatusOK, e.shown)
}

// find lists the resources of a key, including undone ones, because their requests took effect.
func (k *collection) find(s *state, c *call) answer {
	key := c.query.Get(k.keyName)
	if key == "" {
		return problem(http.StatusBadRequest, "no key to look for", "say which: ?"+k.keyName+"=KEY")
	}
	found := make([]fields, 0, 1)
	for _, e := range s.byKey[resource{k, key}] {
		found = append(found, e.shown)
	}
	return reply(http.StatusOK, map[string]any{"count": len(found), k.list: found})
}

// undoByKey undoes the resource of a key, and bars the key, so that a request that arrives later
// has no effect. It returns 200 in both cases.
func (k *collection) undoByKey(s *state, c *call) answer {
	key := c.query.Get(k.keyName)
	if key == "" {
		return problem(http.StatusBadRequest, "no key to undo", "say which: ?"+k.keyName+"=KEY")
	}
	undone := make([]fields, 0, 1)
	at := resource{k, key}
	s.barred[at] = true
	for _, e := range s.byKey[at] {
		if !e.undone {
			s.undo(c, e)
			undone = append(undone, e.shown)
		}
	}
	return reply(http.StatusOK, map[string]any{"count": len(undone), "undone": undone})
}

func (k *collection) missing(id string) answer {
	return problem(http.StatusNotFound, "not there",
		"/"+strings.TrimSuffix(k.service+"/"+k.path, "/")+" has no "+id+", or it is undone already: there is nothing to do")
}

func badBody(err error) answer {
	return problem(http.StatusBadRequest, "bad request body", err.Error())
}
