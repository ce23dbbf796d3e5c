package mcp

import (
	"context"
	"errors"
	"net/http"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"recourse/api/rest"
)

// The resources of a session. With an API key, the id of the session stands before the name.
const (
	resources   = "recourse://session/"
	typeJSON    = "application/json"
	typeText    = "text/plain"
	journalName = "journal"
	summaryName = "summary"
)

// kindsOfResources are the names, types and descriptions of the resources.
var kindsOfResources = []struct{ name, title, mime, description string }{
	{journalName, "Journal", typeJSON, "The last 1,000 records of the session's journal."},
	{summaryName, "Summary", typeText, "What the session has done, as a text of at most 16 KiB. Texts of others are quoted and cut."},
}

// addResources adds the resources of a client to its server.
func (a *agent) addResources(s *sdk.Server) {
	for _, k := range kindsOfResources {
		if a.byKey() {
			s.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: resources + "{session}/" + k.name, Name: k.name, Title: k.title, MIMEType: k.mime, Description: k.description}, a.read)
			continue
		}
		s.AddResource(&sdk.Resource{URI: resources + k.name, Name: k.name, Title: k.title, MIMEType: k.mime, Description: k.description}, a.read)
	}
}

// read reads a resource.
func (a *agent) read(ctx context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	ctx, cancel := a.until(ctx)
	defer cancel()
	uri := req.Params.URI
	id, name := "", strings.TrimPrefix(uri, resources)
	if a.byKey() {
		id, name, _ = strings.Cut(name, "/")
	}
	s, err := a.enter(ctx, id)
	if err != nil {
		return nil, unread(uri, err)
	}
	c := &sdk.ResourceContents{URI: uri, MIMEType: typeText}
	switch name {
	case journalName:
		c.MIMEType = typeJSON
		c.Text, err = s.text(ctx, journalName)
	case summaryName:
		c.Text, err = s.text(ctx, summaryName)
	default:
		return nil, sdk.ResourceNotFoundError(uri)
	}
	if err != nil {
		return nil, unread(uri, err)
	}
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{c}}, nil
}

// unread returns the error of a resource that could not be read.
func unread(uri string, err error) error {
	if p, ok := errors.AsType[*rest.Problem](err); ok && p.Status == http.StatusNotFound {
		return sdk.ResourceNotFoundError(uri)
	}
	return err
}
