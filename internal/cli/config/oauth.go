package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"

	"recourse/internal/cli"
	"recourse/internal/egress"
	"recourse/internal/oauth"
)

// OAuthFlags name the issuer whose access tokens the MCP server takes. They take precedence over
// `mcp_oauth` in the config file.
type OAuthFlags struct {
	MCPOAuthIssuer   string `name:"mcp-oauth-issuer" env:"RECOURSE_MCP_OAUTH_ISSUER" placeholder:"URL" help:"OAuth issuer whose access tokens /mcp accepts besides API keys, as tokens have it in iss. Default: none."`
	MCPOAuthAudience string `name:"mcp-oauth-audience" env:"RECOURSE_MCP_OAUTH_AUDIENCE" placeholder:"TEXT" help:"What those tokens have in aud: usually this server's URL with /mcp."`
	MCPOAuthJWKS     string `name:"mcp-oauth-jwks-url" env:"RECOURSE_MCP_OAUTH_JWKS_URL" placeholder:"URL" help:"URL of the issuer's keys, its jwks_uri."`
}

// oauthFile is the YAML form of `mcp_oauth`.
type oauthFile struct {
	Issuer   string `json:"issuer"`
	Audience string `json:"audience"`
	JWKS     string `json:"jwks_url"`
}

// Verifier returns the verifier of access tokens; nil if neither the flags nor the config file name
// an issuer.
func (f OAuthFlags) Verifier(path string, out egress.Config) (*oauth.Verifier, error) {
	raw, err := section(path, "mcp_oauth")
	if err != nil {
		return nil, cli.Exit(cli.Usage, err)
	}
	var file oauthFile
	if raw != nil {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		if err := d.Decode(&file); err != nil {
			return nil, cli.Exit(cli.Usage, fmt.Errorf("%w %s: mcp_oauth: write such as {issuer: \"https://id.example\", audience: \"https://recourse.example/mcp\", jwks_url: \"https://id.example/jwks\"}: %w", ErrFile, path, err))
		}
	}
	// The operator chose the address, so the guard of steps does not apply.
	out.Guard = egress.AllowAll()
	c := oauth.Config{Issuer: cmp.Or(f.MCPOAuthIssuer, file.Issuer), Audience: cmp.Or(f.MCPOAuthAudience, file.Audience), JWKS: cmp.Or(f.MCPOAuthJWKS, file.JWKS), Egress: out}
	if raw == nil && c.Issuer == "" && c.Audience == "" && c.JWKS == "" {
		return nil, nil
	}
	if err := c.Check(); err != nil {
		return nil, cli.Exit(cli.Usage, fmt.Errorf("mcp_oauth (--mcp-oauth-issuer, --mcp-oauth-audience, --mcp-oauth-jwks-url): %w", err))
	}
	return oauth.New(c), nil
}
