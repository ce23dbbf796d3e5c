package config

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v4"

	"recourse/internal/cli"
	"recourse/saga/kinds/llm"
)

// LLMFlags configure the default provider of language models. The config file may name others for
// some models.
type LLMFlags struct {
	LLMBaseURL string `name:"llm-base-url" env:"RECOURSE_LLM_BASE_URL,OPENAI_BASE_URL" placeholder:"URL" help:"Base URL of the OpenAI-compatible provider for llm steps. Default: OpenAI."`
	LLMAPIKey  string `name:"llm-api-key" env:"RECOURSE_LLM_API_KEY,OPENAI_API_KEY" placeholder:"KEY" help:"The provider's API key. Prefer the environment variable."`
}

// Apply adds the flags' provider to those of the config file. It replaces the file's default
// provider if the flags name its base URL. A key without a base URL is sent only to the base URL
// that it belongs to.
func (f LLMFlags) Apply(c llm.Config) (llm.Config, error) {
	own := llm.Provider{Name: "default", BaseURL: f.LLMBaseURL, APIKey: llm.Secret(f.LLMAPIKey)}
	if own.BaseURL == "" {
		own.BaseURL = llm.OpenAI
	}
	own.MaxCompletionTokens = own.BaseURL == llm.OpenAI
	c.Providers = slices.Clone(c.Providers)
	i := slices.IndexFunc(c.Providers, func(p llm.Provider) bool { return len(p.Models) == 0 })
	switch {
	case f == LLMFlags{}:
	case i < 0:
		c.Providers = append(c.Providers, own)
	case f.LLMBaseURL != "":
		c.Providers[i] = own
	case c.Providers[i].BaseURL == own.BaseURL && c.Providers[i].APIKey == "":
		c.Providers[i].APIKey = own.APIKey
	}
	if err := c.Check(); err != nil {
		return llm.Config{}, cli.Exit(cli.Usage, fmt.Errorf("language models: %w", err))
	}
	return c, nil
}

// llmFile is the section llm of a config file.
type llmFile struct {
	Providers []struct {
		Name                string   `yaml:"name"`
		BaseURL             string   `yaml:"base_url"`
		APIKey              string   `yaml:"api_key"`
		Models              []string `yaml:"models"`
		MaxCompletionTokens bool     `yaml:"max_completion_tokens"`
	} `yaml:"providers"`
	Prices map[string]struct {
		Input  string `yaml:"input"`
		Output string `yaml:"output"`
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
		c.Providers = append(c.Providers, llm.Provider{Name: p.Name, BaseURL: p.BaseURL, APIKey: llm.Secret(p.APIKey), Models: p.Models, MaxCompletionTokens: p.MaxCompletionTokens})
	}
	for name, p := range doc.Prices {
		c.Prices[name] = llm.Price{Input: p.Input, Output: p.Output}
	}
	return c, c.Check()
}
