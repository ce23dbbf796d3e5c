package tracing

import (
	"encoding/json"
	"strconv"

	"go.opentelemetry.io/otel/attribute"

	"recourse/saga"
	"recourse/saga/history"
)

// completion is the part of a request for a completion that is exported: nothing of the prompt.
type completion struct {
	Model               string          `json:"model"`
	MaxTokens           int64           `json:"max_tokens"`
	MaxCompletionTokens int64           `json:"max_completion_tokens"`
	Temperature         json.Number     `json:"temperature"`
	ResponseFormat      json.RawMessage `json:"response_format"`
}

// result is the part of an attempt's result that is exported: nothing of the completion.
type result struct {
	Body struct {
		ID      string `json:"id"`
		Model   string `json:"model"`
		Choices []struct {
			FinishReason string `json:"finish_reason"`
		} `json:"choices"`
	} `json:"body"`
}

// chat describes an attempt of an llm step, according to OpenTelemetry's conventions for generative
// AI.
func (a *attempt) chat(out *span, r saga.Request) {
	var asked completion
	_ = json.Unmarshal(r.Body, &asked) // fields that cannot be read are left out
	var said result
	if d, ok := history.DataOf[saga.OutcomeData](a.outcome); ok {
		_ = json.Unmarshal(d.Result, &said)
	}
	got := said.Body
	provider := a.st.s.t.cfg.Provider(r.URL)
	if provider == "" {
		provider = "openai"
	}
	out.name = "chat " + asked.Model
	out.attrs = append(out.attrs, address(r.URL)...)
	out.attrs = append(out.attrs,
		attribute.String("gen_ai.operation.name", "chat"),
		attribute.String("gen_ai.provider.name", provider),
		attribute.String("gen_ai.request.model", asked.Model),
		attribute.Bool("gen_ai.request.stream", true),
		attribute.String("gen_ai.output.type", asked.output()))
	if most := asked.MaxTokens + asked.MaxCompletionTokens; most > 0 {
		out.attrs = append(out.attrs, attribute.Int64("gen_ai.request.max_tokens", most))
	}
	if t, err := strconv.ParseFloat(string(asked.Temperature), 64); err == nil {
		out.attrs = append(out.attrs, attribute.Float64("gen_ai.request.temperature", t))
	}
	out.attrs = text(text(out.attrs, "gen_ai.response.id", got.ID), "gen_ai.response.model", got.Model)
	var ends []string
	for _, c := range got.Choices {
		if c.FinishReason != "" && len(ends) < maxList {
			ends = append(ends, c.FinishReason)
		}
	}
	if len(ends) > 0 {
		out.attrs = append(out.attrs, attribute.StringSlice("gen_ai.response.finish_reasons", ends))
	}
	if used := a.data.Tokens; used != nil {
		out.attrs = append(out.attrs, attribute.Int64("gen_ai.usage.input_tokens", used.Input), attribute.Int64("gen_ai.usage.output_tokens", used.Output))
	}
	if a.data.StatusCode > 0 {
		out.attrs = append(out.attrs, attribute.Int("http.response.status_code", a.data.StatusCode))
	}
}

func (c *completion) output() string {
	if len(c.ResponseFormat) > 0 {
		return "json"
	}
	return "text"
}
