package api

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"

	"github.com/labstack/echo/v4"

	"recourse/catalog"
	"recourse/journal"
	"recourse/saga"
)

// documentView is a version of a definition as users see it.
type documentView struct {
	Name      string         `json:"name"`
	Version   string         `json:"version"`
	SHA256    string         `json:"sha256"`
	CreatedAt saga.Time      `json:"created_at"`
	Archived  bool           `json:"archived,omitempty"`
	Warnings  []saga.Finding `json:"warnings"`
	Source    string         `json:"source,omitempty"` // of a single one
}

const typeYAML = "application/yaml"

func view(d journal.Document) documentView {
	return documentView{Name: d.Name, Version: versionName(d.Version), SHA256: d.SHA256, CreatedAt: saga.Time{Time: d.CreatedAt}, Archived: d.Archived, Warnings: []saga.Finding{}}
}

// putDefinition serves PUT /v1/definitions/{name}.
func (s *server) putDefinition(c echo.Context) error {
	match, err := publishMatch(c)
	if err != nil {
		return err
	}
	src, err := s.source(c)
	if err != nil {
		return err
	}
	d, def, created, err := s.cfg.Catalog.Publish(c.Request().Context(), param(c, "name"), src, match)
	if err != nil {
		return err
	}
	v := view(d)
	v.Warnings = append(v.Warnings, def.Warnings...)
	c.Response().Header().Set("ETag", strconv.Quote(d.SHA256))
	if !created {
		return reply(c, http.StatusOK, v)
	}
	c.Response().Header().Set(echo.HeaderLocation, "/v1/definitions/"+d.Name+"/versions/"+v.Version)
	return reply(c, http.StatusCreated, v)
}

// source reads a body that is a definition: YAML, or JSON.
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
		return nil, fail("unsupported_media_type", "send the definition with Content-Type: %s or application/json, not %.60s; with curl: --data-binary @file -H 'Content-Type: %s'", typeYAML, t, typeYAML)
	}
	return s.body(c)
}

// publishMatch reads what the newest version must be.
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
		return "", fail("invalid_request", "If-Match is one ETag, as the definition was answered with, or *")
	}
	return list[0], nil
}

// archiveDefinition serves DELETE /v1/definitions/{name}. Sagas under way go on.
func (s *server) archiveDefinition(c echo.Context) error {
	name, err := definitionName(c)
	if err != nil {
		return err
	}
	if err := s.cfg.Catalog.Archive(c.Request().Context(), name); err != nil {
		return definitionError(err)
	}
	return c.NoContent(http.StatusNoContent)
}

var nameForm = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)

// definitionName is the path's definition. What can be no name names nothing.
func definitionName(c echo.Context) (string, error) {
	name := param(c, "name")
	if !nameForm.MatchString(name) {
		return "", definitionError(journal.ErrNotFound)
	}
	return name, nil
}

func definitionError(err error) error {
	if errors.Is(err, journal.ErrNotFound) {
		return fail("definition_not_found", "check the name and version; GET /v1/definitions lists the names")
	}
	return err
}

// listDefinitions serves GET /v1/definitions: the newest version of each that is not archived.
func (s *server) listDefinitions(c echo.Context) error {
	q, err := readQuery(c, "limit", "cursor")
	if err != nil {
		return err
	}
	limit, after := q.limit(), ""
	if parts := q.cursor("definitions", 1); parts != nil {
		after = parts[0]
	}
	if err := q.err(); err != nil {
		return err
	}
	list, err := s.cfg.Store.Documents(c.Request().Context(), catalog.Kind, after, limit+1)
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, cut(views(list), limit, func(last documentView) string { return pack("definitions", last.Name) }))
}

func views(list []journal.Document) []documentView {
	out := make([]documentView, len(list))
	for i, d := range list {
		out[i] = view(d)
	}
	return out
}

// listVersions serves GET /v1/definitions/{name}/versions, the newest first.
func (s *server) listVersions(c echo.Context) error {
	q, err := readQuery(c, "limit", "cursor")
	if err != nil {
		return err
	}
	limit, before := q.limit(), 0
	if parts := q.cursor("versions", 1); parts != nil {
		if before = parseVersion(parts[0]); before == 0 {
			q.bad("cursor", "bad_cursor", "use next_cursor as it came")
		}
	}
	if err := q.err(); err != nil {
		return err
	}
	name, err := definitionName(c)
	if err != nil {
		return err
	}
	list, err := s.cfg.Store.Versions(c.Request().Context(), catalog.Kind, name, before, limit+1)
	if err != nil {
		return definitionError(err)
	}
	return reply(c, http.StatusOK, cut(views(list), limit, func(last documentView) string { return pack("versions", last.Version) }))
}

// getDefinition serves GET /v1/definitions/{name}: the newest version, archived or not.
func (s *server) getDefinition(c echo.Context) error { return s.answerDocument(c, 0) }

// getVersion serves GET /v1/definitions/{name}/versions/{v}.
func (s *server) getVersion(c echo.Context) error {
	v := parseVersion(param(c, "version"))
	if v == 0 {
		return fail("definition_not_found", "a version is v1, v2 and so on; GET …/versions lists them")
	}
	return s.answerDocument(c, v)
}

func (s *server) answerDocument(c echo.Context, version int) error {
	name, err := definitionName(c)
	if err != nil {
		return err
	}
	d, err := s.cfg.Store.Document(c.Request().Context(), catalog.Kind, name, version)
	if err != nil {
		return definitionError(err)
	}
	h := c.Response().Header()
	h.Set("ETag", strconv.Quote(d.SHA256))
	h.Set("Vary", "Accept")
	if known := c.Request().Header.Get("If-None-Match"); known != "" && matches(known, d.SHA256) {
		return c.NoContent(http.StatusNotModified)
	}
	switch accepts(c, echo.MIMEApplicationJSON, typeYAML) {
	case typeYAML:
		return c.Blob(http.StatusOK, typeYAML, d.Source)
	case "":
		return fail("not_acceptable", "accept application/json or %s", typeYAML)
	}
	v := view(d)
	v.Source = string(d.Source)
	// What another program has published may not compile here; it can be read all the same.
	if def, err := s.cfg.Catalog.Definition(c.Request().Context(), d.Name, d.Version); err == nil {
		v.Warnings = append(v.Warnings, def.Warnings...)
	} else if !errors.Is(err, saga.ErrUnusable) {
		return fmt.Errorf("warnings: %w", err)
	}
	return reply(c, http.StatusOK, v)
}
