package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"recourse/api/rest"
)

// schema decodes a JSON Schema with the digits of its numbers.
func schema(t *testing.T, text string) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// The arguments of a tool are the input of its action, and those of recourse.
func TestArguments(t *testing.T) {
	for _, tt := range []struct {
		name, input  string
		effect       Effect
		once, byKey  bool
		want         []string // the names of the arguments
		wantRequired []string
	}{
		{"a write", `{"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]}`, Undoable, false, false, []string{"order", "recourse_again"}, []string{"order"}},
		{"with once", `{"type": "object", "properties": {"order": {}}}`, Stays, true, false, []string{"order"}, nil},
		{"a read", `{"type": "object", "properties": {"order": {}}}`, Reads, false, false, []string{"order"}, nil},
		{"by key", `{"type": "object", "properties": {"order": {}}, "required": ["order"]}`, Reads, false, true, []string{"order", "session"}, []string{"order", "session"}},
		{"an argument of this name", `{"type": "object", "properties": {"session": {}}}`, Reads, false, true, []string{"recourse_session", "session"}, []string{"recourse_session"}},
		{"any input", `null`, Undoable, false, false, []string{"recourse_again"}, nil},
		{"no type", `{"properties": {"a": {}}}`, Reads, false, false, []string{"a"}, nil},
		{"no object", `{"type": "array", "items": {}}`, Undoable, false, true, []string{"input", "recourse_again", "session"}, []string{"input", "session"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := &agent{Handler: New(Config{})}
			if !tt.byKey {
				a.who.Token = "rst_x"
			}
			act := &Action{Name: "x", Input: schema(t, tt.input), Effect: tt.effect, Once: tt.once}
			before, _ := json.Marshal(act.Input)
			tool := a.actionTool(act)
			b, err := json.Marshal(tool.InputSchema)
			if err != nil {
				t.Fatal(err)
			}
			var got struct {
				Type       string
				Properties map[string]any
				Required   []string
			}
			if err := json.Unmarshal(b, &got); err != nil {
				t.Fatal(err)
			}
			if names := slices.Sorted(maps.Keys(got.Properties)); got.Type != "object" || cmp.Diff(tt.want, names) != "" || cmp.Diff(tt.wantRequired, got.Required) != "" {
				t.Errorf("%s", b)
			}
			if after, _ := json.Marshal(act.Input); string(after) != string(before) {
				t.Errorf("the schema of the action was changed: %s", after)
			}
		})
	}
}

// Every tool has valid schemas (JSON Schema 2020-12, as the protocol demands), whatever the client
// has authenticated with: a client that checks them refuses the whole list for one that is not.
func TestToolSchemas(t *testing.T) {
	actions := []Action{{Name: "any"}, {Name: "none", Input: schema(t, `{"type": "object", "properties": {}}`)}, {Name: "list", Input: schema(t, `{"type": "array"}`), Effect: Reads}}
	for name, who := range map[string]Caller{"session": {Token: "rst_x", Actions: actions}, "key": {Actions: actions}} {
		for _, tool := range listed(t, &agent{Handler: New(Config{}), who: who}) {
			for _, s := range []any{tool.InputSchema, tool.OutputSchema} {
				if s == nil {
					continue
				}
				c := jsonschema.NewCompiler()
				if err := c.AddResource("tool.json", s); err != nil {
					t.Fatal(err)
				}
				if _, err := c.Compile("tool.json"); err != nil {
					t.Errorf("%s: %s: %v", name, tool.Name, err)
				}
			}
		}
	}
}

// listed returns the tools that a client sees.
func listed(t *testing.T, a *agent) []*sdk.Tool {
	t.Helper()
	s := sdk.NewServer(&sdk.Implementation{Name: "x", Version: "1"}, nil)
	a.addTools(s, all)
	client, server := sdk.NewInMemoryTransports()
	if _, err := s.Connect(t.Context(), server, nil); err != nil {
		t.Fatal(err)
	}
	cs, err := sdk.NewClient(&sdk.Implementation{Name: "x", Version: "1"}, nil).Connect(t.Context(), client, nil)
	if err != nil {
		t.Fatal(err)
	}
	list, err := cs.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return list.Tools
}

// An action whose schema the SDK refuses is left out, and the others stay. Arguments are not copied
// into headers.
func TestOddSchemas(t *testing.T) {
	a := &agent{Handler: New(Config{}), who: Caller{Token: "rst_x", Actions: []Action{
		{Name: "huge", Input: schema(t, `{"type": "object", "properties": {"n": {"maximum": 1e999}}}`)},
		{Name: "header", Input: schema(t, `{"type": "object", "properties": {"n": {"type": "number", "x-mcp-header": "N", "properties": {"m": {"x-mcp-header": ""}}}}}`)},
	}}}
	list := listed(t, a)
	names := make([]string, len(list))
	for i, tool := range list {
		names[i] = tool.Name
		if b, err := json.Marshal(tool.InputSchema); err != nil || strings.Contains(string(b), "x-mcp-header") {
			t.Errorf("%s %v", b, err)
		}
	}
	if len(names) != 6 || !slices.Contains(names, "header") {
		t.Errorf("tools %v", names)
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		``: "", `null`: "", `{}`: "", `{"a": 1.50, "b": {"c": 1, "c": 2}}`: "", // the API refuses the second c
		`[]`: "invalid_request", `{"a": 1, "a": 2}`: "invalid_json", `{"a": 1, "\u0061": 2}`: "invalid_json", `{"a": 1`: "invalid_json",
	} {
		m, err := parse(json.RawMessage(text))
		f, _ := errors.AsType[*failure](err)
		if (want == "") != (err == nil) || want != "" && f.code != want {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		if err == nil && strings.Contains(text, "1.50") && string(m["a"]) != "1.50" {
			t.Errorf("%s: %s", text, m["a"])
		}
	}
}

// A tool whose code panics answers that it has failed, and the program goes on.
func TestPanic(t *testing.T) {
	a := &agent{Handler: New(Config{}), ctx: t.Context()}
	h := a.tool(func(context.Context, *sdk.CallToolRequest, members) (*sdk.CallToolResult, error) { panic("oops") })
	r, err := h(t.Context(), &sdk.CallToolRequest{Params: &sdk.CallToolParamsRaw{Name: "x"}})
	if err != nil || !r.IsError || !strings.HasPrefix(r.Content[0].(*sdk.TextContent).Text, "internal: ") {
		t.Errorf("%+v %v", r, err)
	}
}

// A response that is not the API's, such as that of a proxy, tells the agent to call again.
func TestUnreadableResponse(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"a proxy": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "down", http.StatusBadGateway) },
		"cut off": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"id": `)) },
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		a := &agent{Handler: New(Config{}), ctx: t.Context(), api: rest.New(h, r, ""), who: Caller{Token: "rst_x", Session: "s"}}
		act := &Action{Name: "x", Effect: Undoable}
		_, err = a.callAction(t.Context(), &sdk.CallToolRequest{Params: &sdk.CallToolParamsRaw{Name: "x"}}, act, members{})
		if err == nil {
			t.Fatalf("%s: no error", name)
		}
		if text := refusal(err).Content[0].(*sdk.TextContent).Text; !strings.HasPrefix(text, "unavailable: ") || !strings.Contains(text, "again with the same arguments") {
			t.Errorf("%s: %s", name, text)
		}
	}
}
