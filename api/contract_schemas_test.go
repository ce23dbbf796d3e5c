package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schemas check bodies against the schemas of the contract. Each schema is compiled once:
// openapi3filter compiles it for every body, which took half the time of this package's tests.
type schemas struct {
	mu       sync.Mutex
	compiler *jsonschema.Compiler
	compiled map[*openapi3.Schema]*jsonschema.Schema
}

const contractURL = "https://contract.invalid/openapi.json"

func newSchemas(doc []byte) (*schemas, error) {
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
	if err != nil {
		return nil, err
	}
	s := &schemas{compiler: jsonschema.NewCompiler(), compiled: make(map[*openapi3.Schema]*jsonschema.Schema)}
	s.compiler.DefaultDraft(jsonschema.Draft2020)
	s.compiler.AssertFormat()
	return s, s.compiler.AddResource(contractURL, parsed)
}

// of returns the compiled schema.
func (s *schemas) of(ref *openapi3.SchemaRef) (*jsonschema.Schema, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if have := s.compiled[ref.Value]; have != nil {
		return have, nil
	}
	b, err := json.Marshal(ref)
	if err != nil {
		return nil, err
	}
	b = bytes.ReplaceAll(b, []byte(`"$ref":"#/`), []byte(`"$ref":"`+contractURL+`#/`))
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	url := fmt.Sprintf("https://contract.invalid/%d.json", len(s.compiled))
	if err := s.compiler.AddResource(url, parsed); err != nil {
		return nil, err
	}
	compiled, err := s.compiler.Compile(url)
	s.compiled[ref.Value] = compiled
	return compiled, err
}

// check validates a body of a request or response against the schema for its media type.
func (s *schemas) check(content openapi3.Content, contentType string, body []byte) error {
	if len(content) == 0 {
		return nil
	}
	media := content.Get(contentType)
	if media == nil {
		return fmt.Errorf("the contract has no Content-Type %q here", contentType)
	}
	if media.Schema == nil {
		return nil
	}
	schema, err := s.of(media.Schema)
	if err != nil {
		return err
	}
	if item := media.Extensions["x-itemSchema"]; item != nil {
		if err := s.checkItems(item, body); err != nil {
			return err
		}
	}
	var value any = string(body)
	if base, _, _ := strings.Cut(contentType, ";"); strings.HasSuffix(base, "json") && base != typeNDJSON {
		if value, err = jsonschema.UnmarshalJSON(bytes.NewReader(body)); err != nil {
			return err
		}
	}
	return schema.Validate(value)
}

// checkItems validates each line of a body. item refers to the schema of a line.
func (s *schemas) checkItems(item any, body []byte) error {
	ref, _ := item.(map[string]any)["$ref"].(string)
	s.mu.Lock()
	schema, err := s.compiler.Compile(contractURL + ref)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	for line := range bytes.Lines(body) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(line))
		if err != nil {
			return fmt.Errorf("line %s: %w", line, err)
		}
		if err := schema.Validate(value); err != nil {
			return fmt.Errorf("line %s: %w", line, err)
		}
	}
	return nil
}

// request validates a request with this body against the contract.
func (c *contractRouter) request(in *openapi3filter.RequestValidationInput, body string) error {
	in.Options.ExcludeRequestBody = true
	if err := openapi3filter.ValidateRequest(in.Request.Context(), in); err != nil {
		return err
	}
	want := in.Route.Operation.RequestBody
	if want == nil || body == "" && !want.Value.Required {
		return nil
	}
	return c.schemas.check(want.Value.Content, in.Request.Header.Get("Content-Type"), []byte(body))
}

// response validates a response with this body against the contract.
func (c *contractRouter) response(in *openapi3filter.RequestValidationInput, status int, header http.Header, body []byte) error {
	in.Options.ExcludeResponseBody = true
	out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: status, Header: header, Options: in.Options}
	if err := openapi3filter.ValidateResponse(in.Request.Context(), out); err != nil {
		return err
	}
	want := in.Route.Operation.Responses.Status(status)
	if want == nil {
		want = in.Route.Operation.Responses.Default()
	}
	if want == nil || status == http.StatusNoContent || status == http.StatusNotModified {
		return nil
	}
	return c.schemas.check(want.Value.Content, header.Get("Content-Type"), body)
}
