package config

import (
	"cmp"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v4"

	"recourse/internal/cli"
	"recourse/saga/kinds/llm"
)

// LLMFlags configure the default providers of language models. The config file may name others for
// some models.
type LLMFlags struct {
	LLMBaseURL       string `name:"llm-base-url" env:"RECOURSE_LLM_BASE_URL,OPENAI_BASE_URL" placeholder:"URL" help:"Base URL of the OpenAI-compatible provider for llm steps and agents. Default: OpenAI."`
	LLMAPIKey        string `name:"llm-api-key" env:"RECOURSE_LLM_API_KEY,OPENAI_API_KEY" placeholder:"KEY" help:"The provider's API key. Prefer the environment variable."`
	AnthropicBaseURL string `name:"anthropic-base-url" env:"ANTHROPIC_BASE_URL" placeholder:"URL" help:"Base URL of the provider with Anthropic's API, for agents. Default: Anthropic."`
	AnthropicAPIKey  string `name:"anthropic-api-key" env:"ANTHROPIC_API_KEY" placeholder:"KEY" help:"That provider's API key. Prefer the environment variable."`
}

// Apply adds the flags' providers to those of the config file. A provider replaces the file's
// default provider of its API if the flags name its base URL. A key without a base URL is sent only
// to the base URL that it belongs to.
func (f LLMFlags) Apply(c llm.Config) (llm.Config, error) {
	c.Providers = slices.Clone(c.Providers)
	add(&c, llm.OpenAIAPI, llm.OpenAI, f.LLMBaseURL, f.LLMAPIKey)
	add(&c, llm.AnthropicAPI, llm.Anthropic, f.AnthropicBaseURL, f.AnthropicAPIKey)
	if err := c.Check(); err != nil {
		return llm.Config{}, cli.Exit(cli.Usage, fmt.Errorf("language models: %w", err))
	}
	return c, nil
}

// add adds the provider of an API that flags configure; "": they do not.
func add(c *llm.Config, api llm.API, usual, base, key string) {
	own := llm.Provider{Name: "default", API: api, BaseURL: cmp.Or(base, usual), APIKey: llm.Secret(key)}
	if api == llm.OpenAIAPI {
		own.API, own.MaxCompletionTokens = "", own.BaseURL == usual
	}
	i := slices.IndexFunc(c.Providers, func(p llm.Provider) bool { return len(p.Models) == 0 && p.API == own.API })
	switch {
	case base == "" && key == "":
	case i < 0:
		c.Providers = append(c.Providers, own)
	case base != "":
		c.Providers[i] = own
	case c.Providers[i].BaseURL == own.BaseURL && c.Providers[i].APIKey == "":
		c.Providers[i].APIKey = own.APIKey
	}
}

// llmFile is the section llm of a config file.
type llmFile struct {
	Providers []struct {
		Name                string   `yaml:"name"`
		API                 llm.API  `yaml:"api"`
		BaseURL             string   `yaml:"base_url"`
		APIKey              string   `yaml:"api_key"`
		Models              []string `yaml:"models"`
		MaxCompletionTokens bool     `yaml:"max_completion_tokens"`
	} `yaml:"providers"`
	Prices map[string]struct {
		Input       string `yaml:"input"`
		Output      string `yaml:"output"`
		CachedInput string `yaml:"cached_input"`
		CacheWrite  string `yaml:"cache_write"`
		MaxOutput   int64  `yaml:"max_output"`
	} `yaml:"prices"`
	Currency string `yaml:"currency"`
	PricesAt string `yaml:"prices_at"`
}

// readLLM reads the section llm, which has no flag. Amounts stay text.
func readLLM(src []byte) (llm.Config, error) {
	var part struct {
		LLM yaml.Node `yaml:"llm"`
	}
	var doc llmFile
	if err := yaml.Load(src, &part); err != nil {
		return llm.Config{}, err
	}
	if part.LLM.Kind == 0 {
		return llm.Config{}, nil
	}
	if err := part.LLM.Load(&doc, yaml.WithKnownFields()); err != nil {
		return llm.Config{}, err
	}
	c := llm.Config{Currency: doc.Currency, PricesAt: doc.PricesAt, Prices: make(map[string]llm.Price, len(doc.Prices))}
	for _, p := range doc.Providers {
		if p.API == llm.OpenAIAPI {
			p.API = ""
		}
		c.Providers = append(c.Providers, llm.Provider{Name: p.Name, API: p.API, BaseURL: p.BaseURL, APIKey: llm.Secret(p.APIKey), Models: p.Models, MaxCompletionTokens: p.MaxCompletionTokens})
	}
	for name, p := range doc.Prices {
		c.Prices[name] = llm.Price(p)
	}
	return c, c.Check()
}
