package doctor

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"recourse/internal/cli"
	"recourse/internal/cli/config"
	"recourse/internal/cli/remote"
	"recourse/internal/egress"
	"recourse/internal/httptext"
	"recourse/saga/kinds/llm"
	mcpclient "recourse/saga/kinds/mcp/client"
)

// parseURL parses an http or https URL.
func parseURL(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%.100q is no http or https address", address)
	}
	return u, nil
}

// models requests the list of models from each provider, with its key.
func (d *doctor) models(ctx context.Context) {
	if d.file.Err != nil || d.calls.Guard == nil {
		return
	}
	c, err := d.cmd.LLMFlags.Apply(d.file.LLM)
	if err != nil {
		d.failed("models", err)
		return
	}
	for _, p := range c.Providers {
		d.provider(ctx, p)
	}
}

func (d *doctor) provider(ctx context.Context, p llm.Provider) {
	check := "models " + p.Name
	ctx, stop := context.WithTimeout(ctx, answerTime)
	defer stop()
	address, header, base := listOfModels(p)
	u, err := url.Parse(address)
	if err != nil {
		d.failed(check, err)
		return
	}
	sender := egress.New(d.calls)
	defer sender.Close()
	resp, f := sender.Send(ctx, egress.Request{Method: http.MethodGet, URL: u, Header: header})
	if f != nil {
		advice := "check its address, and that it runs"
		if f.Code == egress.CodeDenied {
			advice = "" // the error says so itself
		}
		d.wrong(check, "cannot be reached: "+httptext.NewRedactor([]string{string(p.APIKey)}).Detail(f.Why), advice)
		return
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
	switch {
	case resp.StatusCode/100 == 2 && p.APIKey == "":
		d.ok(check, "is reachable, and requires no key")
	case resp.StatusCode/100 == 2:
		d.ok(check, "is reachable, and accepts the key")
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		d.wrong(check, fmt.Sprintf("refuses the key (HTTP %d)", resp.StatusCode), "give it another: --llm-api-key, or api_key in the config file")
	case resp.StatusCode == http.StatusNotFound:
		d.warn(check, "is there, but "+address+" is not", "check that the base URL "+base)
	default:
		d.warn(check, fmt.Sprintf("responds to GET %s with HTTP %d", address, resp.StatusCode), "check its status page")
	}
}

// listOfModels returns the request for a provider's list of models, as its API wants it, and how
// its base URL must be.
func listOfModels(p llm.Provider) (address string, header http.Header, base string) {
	address, header = strings.TrimRight(p.BaseURL, "/"), make(http.Header)
	if name, value := p.KeyHeader(); name != "" {
		header.Set(name, value)
	}
	if p.API == llm.AnthropicAPI {
		header.Set("Anthropic-Version", "2023-06-01")
		return address + "/v1/models", header, "has no version, as in " + llm.Anthropic
	}
	return address + "/models", header, "has its version, as in " + llm.OpenAI
}

// tools greets each MCP server and asks for its tools. It starts the programs of servers that have
// a command.
func (d *doctor) tools(ctx context.Context) {
	if d.file.Err != nil || d.calls.Guard == nil || d.secrets == nil {
		return // already reported
	}
	servers, err := config.ReadMCP(d.cmd.Config)
	if err != nil {
		d.failed("mcp", err)
		return
	}
	hosts, _, err := config.ReadSecretHosts(d.cmd.Config, d.secrets)
	if err != nil {
		return // already reported
	}
	client := mcpclient.New(mcpclient.Config{MCP: servers, Egress: d.calls, Secret: d.secrets.Get, SecretHosts: hosts, Known: d.secrets.Known, Environ: d.app.Env, Version: d.app.Version})
	defer client.Close()
	for _, s := range servers {
		check := "mcp " + s.Name
		ctx, stop := context.WithTimeout(ctx, answerTime)
		tools, revision, err := client.Probe(ctx, s.Name)
		stop()
		if err != nil {
			d.wrong(check, err.Error(), "check its address or its command, its headers and its secrets")
			continue
		}
		d.ok(check, "has %s, revision %s", cli.Count(tools, "tool"), revision)
	}
}

// issuer fetches the keys of the OAuth issuer, if there is one.
func (d *doctor) issuer(ctx context.Context) {
	if d.file.Err != nil || d.calls.Guard == nil {
		return // already reported
	}
	const check = "mcp_oauth"
	v, err := d.cmd.OAuthFlags.Verifier(d.cmd.Config, d.calls)
	if err != nil {
		d.failed(check, err)
		return
	}
	if v == nil {
		return
	}
	defer v.Close()
	n, err := v.Fetch(ctx)
	if err != nil {
		d.wrong(check, err.Error(), "check jwks_url, and that this machine reaches it")
		return
	}
	d.ok(check, "%s has %s for signatures", v.Issuer(), cli.Count(n, "key"))
}

// server checks a running server, if one is named.
func (d *doctor) server(ctx context.Context) {
	if d.cmd.Server == "" {
		return
	}
	ctx, stop := context.WithTimeout(ctx, answerTime)
	defer stop()
	cl, err := remote.ServerFlags{Server: d.cmd.Server, APIKey: d.cmd.APIKey}.Client(ctx)
	if err != nil {
		d.failed("server", err)
		return
	}
	var about struct {
		Version string `json:"version"`
	}
	if _, err := cl.Get("/", &about); err != nil {
		d.failed("server", err)
		return
	}
	if _, err := cl.Do(remote.Call{Method: http.MethodGet, Path: "/readyz"}); err != nil {
		d.failed("server", err)
		return
	}
	d.ok("server", "%s is ready, version %s", cl.URL, about.Version)
	if about.Version != d.app.Version {
		d.warn("server", "it is version "+about.Version+", and this program is "+d.app.Version, "commands are best of the server's release")
	}
	var st remote.Stats
	if _, err := cl.Get("/v1/stats", &st); err != nil {
		d.failed("server", err)
		return
	}
	if len(st.Nodes) == 0 {
		d.wrong("nodes", "no node runs sagas", "check the server's log")
		return
	}
	d.ok("nodes", "%s", cli.Count(len(st.Nodes), "node"))
	if st.Quarantined > 0 {
		d.warn("nodes", "sagas make no progress and are no longer retried: "+strconv.FormatInt(st.Quarantined, 10), "see "+remote.ServerFlags{Server: d.cmd.Server}.Command(d.app, "inbox --kind stuck"))
	}
}

// tracesAt returns the collector of traces and the setting that names it: the flag, or
// OpenTelemetry's own variables.
func (d *doctor) tracesAt() (from, address string) {
	if d.cmd.OTLPEndpoint != "" {
		return "--otlp-endpoint", d.cmd.OTLPEndpoint
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"} {
		if address := d.app.Variables[name]; address != "" {
			return name, address
		}
	}
	return "", ""
}

// traces checks whether the collector of traces is reachable. Egress rules do not apply to it,
// since the operator chose it.
func (d *doctor) traces(ctx context.Context) {
	from, address := d.tracesAt()
	if address == "" {
		return
	}
	host, err := hostPort(address)
	if err != nil {
		d.wrong("traces", from+": "+err.Error(), "write a URL such as http://127.0.0.1:4318")
		return
	}
	ctx, stop := context.WithTimeout(ctx, answerTime)
	defer stop()
	conn, err := egress.NewDialer(egress.Config{Guard: egress.AllowAll()}).Dial(ctx, "tcp", host)
	if err != nil {
		d.wrong("traces", from+": cannot be reached: "+err.Error(), "check its address, and that it runs")
		return
	}
	conn.Close()
	d.ok("traces", "%s is there", host)
}
