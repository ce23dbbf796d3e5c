package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"

	"github.com/labstack/echo/v4"

	"recourse/catalog"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/dsl"
)

// documentView is the response for one version of a definition or action.
type documentView struct {
	Name      string         `json:"name"`
	Version   string         `json:"version"`
	SHA256    string         `json:"sha256"`
	CreatedAt saga.Time      `json:"created_at"`
	Archived  bool           `json:"archived,omitempty"`
	Revived   bool           `json:"revived,omitempty"` // only in the response to PUT
	Warnings  []saga.Finding `json:"warnings"`
	// Actions are the versions that a definition pins of actions it uses without a version. Lists
	// do not have them.
	Actions map[string]string `json:"actions,omitempty"`
	Source  string            `json:"source,omitempty"` // not in lists
}

const typeYAML = "application/yaml"

func view(d journal.Document) documentView {
	return documentView{Name: d.Name, Version: versionName(d.Version), SHA256: d.SHA256, CreatedAt: saga.Time{Time: d.CreatedAt}, Archived: d.Archived, Revived: d.Revived, Warnings: []saga.Finding{}}
}

// add adds the results of compiling.
func (v *documentView) add(f compiled) {
	v.Warnings = append(v.Warnings, f.warnings...)
	for name, version := range f.pins { // any order
		if v.Actions == nil {
			v.Actions = make(map[string]string, len(f.pins))
		}
		v.Actions[name] = versionName(version)
	}
}

// compiled holds the results of compiling a document.
type compiled struct {
	warnings []saga.Finding
	pins     map[string]int
}

// documents serves published documents with names and versions: definitions, or actions.
type documents struct {
	*server
	kind    string // the kind in the catalog
	path    string // "definitions" or "actions"
	missing code
	invalid code
	publish func(ctx context.Context, name string, src []byte, match string) (journal.Document, compiled, bool, error)
	compile func(ctx context.Context, name string, version int) (compiled, error)
}

func (s *server) definitions() *documents {
	of := func(ctx context.Context, def *saga.Definition, err error) (compiled, error) {
		if def == nil || err != nil {
			return compiled{}, err
		}
		warnings, err := s.warnings(ctx, def)
		return compiled{warnings, def.Pins}, err
	}
	return &documents{server: s, kind: catalog.Kind, path: "definitions", missing: "definition_not_found", invalid: "invalid_definition",
		publish: func(ctx context.Context, name string, src []byte, match string) (journal.Document, compiled, bool, error) {
			d, def, created, err := s.cfg.Catalog.Publish(ctx, name, src, match)
			c, err := of(ctx, def, err)
			return d, c, created, err
		},
		compile: func(ctx context.Context, name string, version int) (compiled, error) {
			def, err := s.cfg.Catalog.Definition(ctx, name, version)
			return of(ctx, def, err)
		},
	}
}

// warnings returns a definition's own warnings, and those about secrets and definitions that this
// server lacks.
func (s *server) warnings(ctx context.Context, def *saga.Definition) ([]saga.Finding, error) {
	absent, err := s.cfg.Catalog.MissingDefinitions(ctx, def)
	return slices.Concat(def.Warnings, s.cfg.Catalog.MissingSecrets(def), absent), err
}

// actionWarnings returns an action's own warnings, and those about secrets that this server lacks.
func (s *server) actionWarnings(a *saga.Action) []saga.Finding {
	return slices.Concat(a.Warnings, s.cfg.Catalog.MissingSecretsOfAction(a))
}

func (s *server) actions() *documents {
	of := func(a *saga.Action) compiled {
		if a == nil {
			return compiled{}
		}
		return compiled{warnings: s.actionWarnings(a)}
	}
	return &documents{server: s, kind: catalog.ActionKind, path: "actions", missing: "action_not_found", invalid: "invalid_action",
		publish: func(ctx context.Context, name string, src []byte, match string) (journal.Document, compiled, bool, error) {
			d, a, created, err := s.cfg.Catalog.PublishAction(ctx, name, src, match)
			return d, of(a), created, err
		},
		compile: func(ctx context.Context, name string, version int) (compiled, error) {
			a, err := s.cfg.Catalog.Action(ctx, name, version)
			return of(a), err
		},
	}
}

// put serves PUT /v1/definitions/{name}.
func (d *documents) put(c echo.Context) error {
	match, err := publishMatch(c)
	if err != nil {
		return err
	}
	src, err := d.source(c)
	if err != nil {
		return err
	}
	doc, found, created, err := d.publish(c.Request().Context(), param(c, "name"), src, match)
	var errs *dsl.Errors
	switch {
	case errors.As(err, &errs) && !errors.Is(err, saga.ErrUnusable):
		return badDocument(d.invalid, errs)
	case err != nil:
		return err
	}
	v := view(doc)
	v.add(found)
	c.Response().Header().Set("ETag", strconv.Quote(doc.SHA256))
	if !created {
		return reply(c, http.StatusOK, v)
	}
	c.Response().Header().Set(echo.HeaderLocation, "/v1/"+d.path+"/"+doc.Name+"/versions/"+v.Version)
	return reply(c, http.StatusCreated, v)
}

// source reads a body that is a document in YAML or JSON.
func (s *server) source(c echo.Context) ([]byte, error) {
	switch t := mediaType(c); {
	case t == "", t == typeYAML, t == "application/x-yaml", t == "text/yaml", t == "text/x-yaml", t == "text/plain", t == "application/octet-stream":
	case isJSON(t):
		b, err := s.body(c)
		if err != nil {
			return nil, err
		}
		if p := strictJSON(b); p != nil {
			return nil, p
		}
	default:
		return nil, fail("unsupported_media_type", "send the document with Content-Type: %s or application/json, not %.60s; with curl: --data-binary @file -H 'Content-Type: %s'", typeYAML, t, typeYAML)
	}
	return s.body(c)
}

// publishMatch reads the condition on the newest version; "-" means that none may exist.
func publishMatch(c echo.Context) (string, error) {
	match, none := c.Request().Header.Get("If-Match"), c.Request().Header.Get("If-None-Match")
	switch {
	case match != "" && none != "":
		return "", fail("invalid_request", "send If-Match or If-None-Match, not both")
	case none == "*":
		return "-", nil
	case none != "":
		return "", fail("invalid_request", "If-None-Match is * here: publish only if the name is new")
	case match == "":
		return "", nil
	}
	list := tags(match)
	if len(list) != 1 {
		return "", fail("invalid_request", "If-Match is the ETag of the definition, or *")
	}
	return list[0], nil
}

// archive serves DELETE /v1/definitions/{name}. Sagas in flight continue, and definitions that use
// an archived action keep using it.
func (d *documents) archive(c echo.Context) error {
	name, err := d.name(c)
	if err != nil {
		return err
	}
	if err := d.cfg.Catalog.Archive(c.Request().Context(), d.kind, name); err != nil {
		return d.translate(err)
	}
	return c.NoContent(http.StatusNoContent)
}

var nameForm = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)

// name returns the name in the path. A text that cannot be a name is not found.
func (d *documents) name(c echo.Context) (string, error) {
	name := param(c, "name")
	if !nameForm.MatchString(name) {
		return "", d.translate(journal.ErrNotFound)
	}
	return name, nil
}

func (d *documents) translate(err error) error {
	if errors.Is(err, journal.ErrNotFound) {
		return fail(d.missing, "check the name and version; GET /v1/%s lists the names", d.path)
	}
	return err
}

// list serves GET /v1/definitions: the newest version of each that is not archived.
func (d *documents) list(c echo.Context) error {
	q, err := readQuery(c, "limit", "cursor")
	if err != nil {
		return err
	}
	limit, after := q.limit(), ""
	if parts := q.cursor(d.path, 1); parts != nil {
		after = parts[0]
	}
	if err := q.err(); err != nil {
		return err
	}
	list, err := d.cfg.Store.Documents(c.Request().Context(), d.kind, after, limit+1)
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, cut(views(list), limit, func(last documentView) string { return pack(d.path, last.Name) }))
}

func views(list []journal.Document) []documentView {
	out := make([]documentView, len(list))
	for i, d := range list {
		out[i] = view(d)
	}
	return out
}

// versions serves GET /v1/definitions/{name}/versions, the newest first.
func (d *documents) versions(c echo.Context) error {
	q, err := readQuery(c, "limit", "cursor")
	if err != nil {
		return err
	}
	limit, before := q.limit(), 0
	if parts := q.cursor("versions", 1); parts != nil {
		if before = parseVersion(parts[0]); before == 0 {
			q.bad("cursor", "bad_cursor", "send next_cursor unchanged")
		}
	}
	if err := q.err(); err != nil {
		return err
	}
	name, err := d.name(c)
	if err != nil {
		return err
	}
	list, err := d.cfg.Store.Versions(c.Request().Context(), d.kind, name, before, limit+1)
	if err != nil {
		return d.translate(err)
	}
	return reply(c, http.StatusOK, cut(views(list), limit, func(last documentView) string { return pack("versions", last.Version) }))
}

// newest serves GET /v1/definitions/{name}: the newest version, archived or not.
func (d *documents) newest(c echo.Context) error { return d.answer(c, 0) }

// version serves GET /v1/definitions/{name}/versions/{v}.
func (d *documents) version(c echo.Context) error {
	v := parseVersion(param(c, "version"))
	if v == 0 {
		return fail(d.missing, "a version is v1, v2 and so on; GET …/versions lists them")
	}
	return d.answer(c, v)
}

func (d *documents) answer(c echo.Context, version int) error {
	name, err := d.name(c)
	if err != nil {
		return err
	}
	doc, err := d.cfg.Store.Document(c.Request().Context(), d.kind, name, version)
	if err != nil {
		return d.translate(err)
	}
	h := c.Response().Header()
	h.Set("ETag", strconv.Quote(doc.SHA256))
	h.Set("Vary", "Accept")
	if known := c.Request().Header.Get("If-None-Match"); known != "" && matches(known, doc.SHA256) {
		return c.NoContent(http.StatusNotModified)
	}
	switch accepts(c, echo.MIMEApplicationJSON, typeYAML) {
	case typeYAML:
		return c.Blob(http.StatusOK, typeYAML, doc.Source)
	case "":
		return fail("not_acceptable", "accept application/json or %s", typeYAML)
	}
	v := view(doc)
	v.Source = string(doc.Source)
	// Another release may have published a document that does not compile here; it can be read
	// nevertheless.
	if found, err := d.compile(c.Request().Context(), doc.Name, doc.Version); err == nil {
		v.add(found)
	} else if !errors.Is(err, saga.ErrUnusable) {
		return fmt.Errorf("warnings: %w", err)
	}
	return reply(c, http.StatusOK, v)
}
