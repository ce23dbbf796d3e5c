package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"recourse/internal/oauth"
	"recourse/journal"
	"recourse/saga"
)

// metadataPath is where clients look up the issuer of a resource: RFC 9728, section 3.
const metadataPath = "/.well-known/oauth-protected-resource"

// oauthRoutes lists the routes of the metadata. The path of the resource follows the well-known
// one; clients that do not know this ask without it.
func (s *server) oauthRoutes() []route {
	get := func(path string) route {
		return route{method: http.MethodGet, path: path, op: opOpen, handler: s.resourceMetadata}
	}
	return []route{get(metadataPath), get(metadataPath + mcpPath)}
}

// subjectName returns the name of a subject as a principal. An issuer has no fragment, so two
// subjects never have one name; keys cannot have such names.
func subjectName(issuer, subject string) string { return issuer + "#" + subject }

// isSubjectName reports whether a name may be that of a subject.
func isSubjectName(name string) bool {
	return strings.HasPrefix(name, "https://") || strings.HasPrefix(name, "http://")
}

// isSubject reports whether an access token names the caller.
func (w caller) isSubject() bool { return w.role == "agent" && isSubjectName(w.name) }

// identifySubject finds the caller by the access token of a request to the MCP server.
func (s *server) identifySubject(ctx context.Context, text string) (caller, error) {
	token, err := s.cfg.OAuth.Verify(ctx, text)
	switch {
	case errors.Is(err, oauth.ErrUnavailable):
		p := fail("issuer_unavailable", "try again later. For the operator: check `jwks_url` of `mcp_oauth`, and that this server reaches it (`recourse doctor`). API keys go on working")
		return caller{}, fmt.Errorf("%w: %w", p.after(10), err)
	case err != nil:
		return caller{}, fail("token_invalid", "%s: get another one from %s", err, s.cfg.OAuth.Issuer())
	}
	// An empty list of actions would allow all of them.
	actions := token.Actions()
	if len(actions) == 0 {
		return caller{}, s.insufficient("the access token has no scope of an action, such as "+oauth.Scope("refund"), s.supported(ctx))
	}
	return caller{name: subjectName(s.cfg.OAuth.Issuer(), token.Subject), role: "agent", binding: journal.KeyBinding{Agent: &journal.AgentGrant{Actions: actions}}}, nil
}

// maxScopes bounds the scopes in a header.
const maxScopes = 30

// insufficient returns the problem of a token whose scopes do not suffice.
func (s *server) insufficient(detail string, scopes []string) *problem {
	p := fail("insufficient_scope", "%s: get one with the scopes that are needed", detail)
	p.scopes = scopes[:min(len(scopes), maxScopes)]
	return p
}

// mayUse returns a problem if the scopes of an access token do not allow all actions of a session.
// Otherwise a token could undo, or read the outputs of, actions that it may not call.
func (w caller) mayUse(d *saga.SessionData) error {
	if !w.isSubject() {
		return nil
	}
	var missing []string
	for _, ref := range d.Actions {
		name, version, _ := strings.Cut(ref, "@")
		if !w.binding.Agent.Calls(name, parseVersion(version)) {
			missing = append(missing, oauth.Scope(name))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fail("insufficient_scope", "the session has actions that the access token does not allow: get one with the scopes %s, too", strings.Join(missing, ", "))
}

// mayCallTool returns a problem if the scopes of an access token do not allow a tool.
func (s *server) mayCallTool(ctx context.Context, who caller, tool string) error {
	if !who.isSubject() || who.binding.Agent.Calls(tool, 0) {
		return nil
	}
	if scope := oauth.Scope(tool); slices.Contains(s.supported(ctx), scope) {
		return s.insufficient("the access token does not have the scope "+scope, []string{scope})
	}
	return nil
}

// supportedScopes are the scopes of all actions that agents may call. Everyone may ask for them, so
// they are kept for a while.
type supportedScopes struct {
	mu   sync.Mutex
	list []string  // guarded by mu
	read time.Time // guarded by mu
}

// keepScopes is how long supportedScopes are kept.
const keepScopes = 5 * time.Second

// supported lists the scopes of all actions that agents may call. While the store does not respond,
// the last list counts.
func (s *server) supported(ctx context.Context) []string {
	c := &s.scopes
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.read) >= keepScopes {
		c.read = now
		ctx, stop := context.WithTimeout(ctx, s.cfg.Limits.Key)
		defer stop()
		if actions, err := s.callable(ctx, anonymous); err == nil {
			c.list = make([]string, 0, len(actions))
			for i := range actions {
				c.list = append(c.list, oauth.Scope(actions[i].Name))
			}
		}
	}
	return c.list
}

// metadataView is the metadata of the MCP server as a resource of an issuer: RFC 9728, section 2.
type metadataView struct {
	Resource string   `json:"resource"`
	Name     string   `json:"resource_name"`
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"`
	Methods  []string `json:"bearer_methods_supported"`
}

// resourceMetadata serves /.well-known/oauth-protected-resource/mcp.
func (s *server) resourceMetadata(c echo.Context) error {
	if s.cfg.OAuth == nil {
		return fail("route_not_found", "this server accepts no tokens of an issuer: send an API key, or have the operator set `mcp_oauth`")
	}
	scopes := s.supported(c.Request().Context())
	if scopes == nil {
		scopes = []string{}
	}
	return reply(c, http.StatusOK, metadataView{Resource: s.publicURL(c) + mcpPath, Name: "recourse", Servers: []string{s.cfg.OAuth.Issuer()}, Scopes: scopes, Methods: []string{"header"}})
}

// publicURL returns the address of this server for clients, without a slash at the end.
func (s *server) publicURL(c echo.Context) string {
	if s.cfg.PublicURL != "" {
		return s.cfg.PublicURL
	}
	return origin(c)
}

// metadataURL returns the address of the metadata: the well-known path stands between the host and
// the path of the resource (RFC 9728, section 3.1).
func (s *server) metadataURL(c echo.Context) string {
	u, err := url.Parse(s.publicURL(c) + mcpPath)
	if err != nil {
		return s.publicURL(c) + metadataPath + mcpPath
	}
	u.Path, u.RawPath = metadataPath+u.Path, ""
	return u.String()
}

// challenge sets what clients of the MCP server have to know to get a token: RFC 9728, section 5.1,
// and RFC 6750, section 3.
func (s *server) challenge(c echo.Context, p *problem) {
	if s.cfg.OAuth == nil || c.Path() != mcpPath {
		return
	}
	parts := []string{`resource_metadata="` + s.metadataURL(c) + `"`}
	switch p.Type {
	case problemType + "insufficient_scope":
		parts = append(parts, `error="insufficient_scope"`)
		if len(p.scopes) > 0 {
			parts = append(parts, `scope="`+strings.Join(p.scopes, " ")+`"`)
		}
	case problemType + "token_invalid":
		parts = append(parts, `error="invalid_token"`, `error_description="The access token is not valid"`)
	default:
		if p.Status != http.StatusUnauthorized {
			return
		}
	}
	p.challenge = "Bearer " + strings.Join(parts, ", ")
}
