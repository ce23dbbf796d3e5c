package ui

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"recourse/api/rest"
	"recourse/api/ui/outline"
	"recourse/saga"
	"recourse/saga/expr"
	"recourse/saga/history"
	"recourse/saga/machine"
)

// check is a way to find out in the remote service whether a request took effect.
type check struct {
	Says    string // the meaning of the response
	Request string // METHOD url
	Curl    string // a line for a shell, with $NAME for each secret; "" if there is none
}

// checks returns ways to find out whether an entry's request took effect: the definition's own
// status check, or else a GET of the request's URL. None of them changes anything in the remote
// service. of is the entry's saga; if it is nil, it is read.
func (v *request) checks(e entry, of *machine.View) []check {
	if e.Request == nil || !strings.HasPrefix(e.Request.URL, "http") || e.Kind == saga.InboxApproval || e.Kind == saga.InboxBudget {
		return nil
	}
	if c := v.verification(e, of); c != nil {
		return []check{*c}
	}
	read := saga.Request{Method: http.MethodGet, URL: e.Request.URL, Headers: map[string]string{}}
	for name, value := range e.Request.Headers {
		if len(expr.SealedNames(value)) > 0 {
			read.Headers[name] = value
		}
	}
	return []check{{Says: "The definition has no status check. If the remote service lists its resources under the same address, look there for the key " + e.Key + ", or for the result of the request.",
		Request: "GET " + e.Request.URL, Curl: curl(read)}}
}

// verification returns the status check of an entry's step as it would be sent; nil if the step has
// none. If its templates read values that are unknown here, besides the input, the variables and
// the key, it returns the query as it is written.
func (v *request) verification(e entry, of *machine.View) *check {
	if of == nil {
		of = &machine.View{}
		if _, err := v.api.Get(rest.Path("v1", "sagas", e.Saga), of); err != nil {
			return nil
		}
	}
	def, err := v.cfg.Definitions.Definition(v.r.Context(), of.Definition, versionNumber(of.Version))
	if err != nil {
		return nil
	}
	step := def.Step(e.Path)
	if step == nil || step.InDoubt.Verify == nil || e.Way == "undo" {
		return nil
	}
	query := step.InDoubt.Verify
	c := check{Says: "The definition's own status check"}
	if query.Found != nil {
		c.Says += ": it happened if " + query.Found.Source()
	}
	if call, ok := query.Call.Body.(saga.Call); ok {
		if r, err := call.Request(v.known(e, def, *of)); err == nil {
			c.Request, c.Curl = r.Method+" "+r.URL, curl(r)
			return &c
		}
	}
	written := outline.Of(def.Source)
	c.Request = strings.ReplaceAll(written.Step(step.ID).Check, "${key}", e.Key)
	if c.Request == "" {
		return nil
	}
	return &c
}

// known returns the values for a step's templates that are known here.
func (v *request) known(e entry, def *saga.Definition, view machine.View) expr.Env {
	vars := map[string]any{}
	for _, d := range def.Vars {
		vars[d.Name] = d.Value
	}
	if first, err := v.records(e.Saga, 0, 1); err == nil {
		if started, err := history.Started(first); err == nil {
			for name, value := range started.Vars {
				vars[name] = expr.Raw(value)
			}
		}
	}
	return expr.MapEnv{"input": expr.Raw(view.Input), "vars": vars, "key": e.Key}
}

// curl formats a read as a shell command. Secrets become shell variables.
func curl(r saga.Request) string {
	line := "curl -sS "
	if r.Method == http.MethodHead {
		line = "curl -sSI "
	}
	line += inShell(r.URL)
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		line += " -H " + inShell(name+": "+r.Headers[name])
	}
	return line
}

// inShell quotes sealed text for a shell, with ${secrets.NAME} as "$NAME".
func inShell(sealed string) string {
	const open = "\x00" // occurs neither in URLs nor in headers
	text, err := expr.Unseal(strings.ReplaceAll(sealed, open, ""), func(name string) (string, error) { return open + name + open, nil }, func(s string) string { return s })
	if err != nil {
		return "'" + strings.ReplaceAll(sealed, "'", `'\''`) + "'"
	}
	var b strings.Builder
	for i, part := range strings.Split(text, open) {
		switch {
		case i%2 == 1:
			b.WriteString(`"$` + part + `"`)
		case part != "":
			b.WriteString("'" + strings.ReplaceAll(part, "'", `'\''`) + "'")
		}
	}
	return b.String()
}
