package api

import (
	_ "embed"
	"net/http"
	"sync"

	"github.com/labstack/echo/v4"
	"go.yaml.in/yaml/v4"

	"recourse/catalog"
	"recourse/journal"
	"recourse/saga/dsl"
)

//go:embed openapi.yaml
var openapiYAML []byte

// openapiJSON returns the contract as JSON.
var openapiJSON = sync.OnceValues(func() ([]byte, error) {
	var doc any
	if err := yaml.Unmarshal(openapiYAML, &doc); err != nil {
		return nil, err
	}
	return journal.Encode(doc)
})

// openapi serves GET /openapi.json.
func (s *server) openapi(c echo.Context) error {
	b, err := openapiJSON()
	if err != nil {
		return err
	}
	return c.Blob(http.StatusOK, echo.MIMEApplicationJSON, b)
}

func definitionSchema(c *catalog.Catalog) []byte { return dsl.Schema(c.Kinds()) }

// sagaSchema serves GET /v1/schemas/saga.json: the JSON Schema of definitions, for editors.
func (s *server) sagaSchema(c echo.Context) error {
	return c.Blob(http.StatusOK, "application/schema+json", s.schema)
}
