package ask

import (
	"cmp"
	"net/http"
	"strings"

	"recourse/saga/kinds/llm"
)

// Route is an endpoint of a provider that a session's agent may call.
type Route struct {
	API    llm.API
	Method string
	Path   string // below the provider's base URL: /chat/completions
	form   form
}

// form is the form of a route's requests and responses.
type form int

const (
	completions form = iota // OpenAI's chat completions
	responses               // OpenAI's responses
	messages                // Anthropic's messages
	embeddings
	free // the provider bills nothing: lists of models, counts of tokens
)

var routes = []Route{
	{llm.OpenAIAPI, http.MethodPost, "/chat/completions", completions},
	{llm.OpenAIAPI, http.MethodPost, "/responses", responses},
	{llm.OpenAIAPI, http.MethodPost, "/embeddings", embeddings},
	{llm.OpenAIAPI, http.MethodGet, "/models", free},
	{llm.AnthropicAPI, http.MethodPost, "/v1/messages", messages},
	{llm.AnthropicAPI, http.MethodPost, "/v1/messages/count_tokens", free},
}

// Routes lists all routes.
func Routes() []Route { return routes }

// Find returns the route of an API with this path; ok is false if there is none.
func Find(api llm.API, path string) (_ Route, ok bool) {
	for _, r := range routes {
		if r.API == api && r.Path == path {
			return r, true
		}
	}
	return Route{}, false
}

// Name returns the route's name in journals, such as openai/chat/completions.
func (r Route) Name() string { return string(r.API) + r.Path }

// named returns the route with this name; ok is false if there is none.
func named(name string) (_ Route, ok bool) {
	api, path, _ := strings.Cut(name, "/")
	return Find(llm.API(api), "/"+path)
}

// list returns the name of the field with the conversation; "" if requests have none.
func (r Route) list() string {
	switch r.form {
	case completions, messages:
		return "messages"
	case responses:
		return "input"
	}
	return ""
}

// limits are the fields that limit the tokens of a response.
func (r Route) limits() []string {
	switch r.form {
	case completions:
		return []string{"max_completion_tokens", "max_tokens"}
	case responses:
		return []string{"max_output_tokens"}
	case messages:
		return []string{"max_tokens"}
	}
	return nil
}

// Generates reports whether the provider bills the tokens of a response.
func (r Route) Generates() bool { return r.limits() != nil }

// fromModel reports whether an item of a conversation is a part of a model's answer.
func (r Route) fromModel(item map[string]any) bool {
	if item["role"] == "assistant" || r.refers(item) != "" {
		return true
	}
	kind, _ := item["type"].(string)
	return r.form == responses && (strings.HasSuffix(kind, "_call") || kind == "reasoning")
}

// contents are the members of the items of the responses API that have all that the model has
// written, by the item's type. Items without it, and those of the provider's tools, are at the
// provider.
var contents = map[string]string{"message": "content", "reasoning": "encrypted_content", "function_call": "arguments", "custom_tool_call": "input",
	"computer_call": "action", "local_shell_call": "action", "shell_call": "action", "apply_patch_call": "operation"}

// refers returns the id of an item whose content the provider adds to a request; "": the request
// has it.
func (r Route) refers(item map[string]any) string {
	id, _ := item["id"].(string)
	kind, _ := item["type"].(string)
	content, known := contents[cmp.Or(kind, "message")]
	switch {
	case r.form != responses:
	case kind == "item_reference", known && (item[content] == nil || item[content] == ""), !known && strings.HasSuffix(kind, "_call"):
		return id
	}
	return ""
}
