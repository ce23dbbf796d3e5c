package browser

import (
	"strings"
	"testing"

	"recourse/internal/test/chrome"
)

// deposit is an action that the agent of a session calls.
const deposit = `action: deposit
agents: auto
input: {order: string}
http: POST ${vars.pay}/charges
body: {order: "${input.order}", amount: 5}
output: {id: "${result.body.id}"}
compensate: {http: "POST ${vars.pay}/charges/${output.id}/refund"}
`

// secrets are those of two processes of an agent, which make them themselves.
const firstSecret, secondSecret = "0123456789012345678901234567890123456789abc", "0123456789012345678901234567890123456789xyz"

// An open page of a session shows what its agent does, and an operator aborts the session there. It
// fits on a phone.
func watchSession(t *testing.T, d *demo) {
	d.send("PUT", "/v1/actions/deposit", "application/yaml", deposit, nil)
	var s one
	d.rest("POST", "/v1/sessions", `{"name": "watched", "actions": ["deposit"]}`, &s)
	at := "/v1/sessions/" + s.ID
	d.rest("POST", at+"/attach", `{"holder": "first-process", "secret": "`+firstSecret+`"}`, nil)
	token := func(secret string) string { return "rst_" + strings.ReplaceAll(s.ID, "-", "") + "_" + secret }
	w := chrome.Open(t, chrome.Look{})
	w.Go(d.url + "/sagas/" + s.ID)
	w.Sees("watched", "first-process")
	same := stays(w)
	agent := &demo{t: t, url: d.url, key: token(firstSecret)}
	ask := func(text string) {
		agent.rest("POST", "/llm/openai/v1/chat/completions", `{"model": "gpt-5-mini", "max_tokens": 50, "messages": [{"role": "user", "content": "`+text+`"}]}`, nil)
	}
	ask("It is noon.")
	agent.rest("POST", at+"/calls", `{"action": "deposit", "input": {"order": "o-77"}, "wait": "10s"}`, nil)
	w.Sees("1 request to gpt-5-mini", "deposit[0]")
	d.rest("POST", at+"/attach", `{"holder": "second-process", "secret": "`+secondSecret+`", "previous": "`+firstSecret+`"}`, nil)
	agent.key = token(secondSecret)
	ask("It is one o'clock.")
	w.Sees("Life 2", "second-process", "1 diverged", "Compare the prompts")
	w.Until("nothing was loaded again", same)

	phone := chrome.Open(t, chrome.Look{Width: 375, Height: 700, Dark: true, Phone: true})
	for path, shows := range map[string]string{"": "Activity", "/steps/llm%5B1%5D": "It is one o'clock.", "/steps/deposit%5B0%5D": "o-77"} {
		phone.Go(d.url + "/sagas/" + s.ID + path)
		phone.Sees(shows)
		phone.Fits()
	}

	w.Click("Abort…")
	w.Sees("deposit[0]")
	w.Fill("Reason", "the wrong order")
	w.Click("Abort the session")
	w.Sees("The session is aborted", "The session was aborted", "the wrong order", "compensated")
}
