package llm

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"

	"recourse/retry"
)

// OpenAI is the base URL of the default provider.
const OpenAI = "https://api.openai.com/v1"

// Config lists the providers of completions and their prices. The zero Config is OpenAI, without a
// key and without prices.
type Config struct {
	Providers []Provider       // none: OpenAI
	Prices    map[string]Price // by the name of the model, as steps write it
	Currency  string           // of the prices; default USD
	PricesAt  string           // the date of the prices, such as 2026-01-31; outputs repeat it
	Elsewhere bool             // another program has the configuration: models without a price are not reported
}

// Provider is an OpenAI-compatible service.
type Provider struct {
	Name    string
	BaseURL string // with its version, without /chat/completions: https://api.openai.com/v1
	APIKey  Secret // sent as Authorization: Bearer; empty: none
	// Models are the beginnings of the names of the models that it serves. None: all models that no
	// other provider names.
	Models []string
	// MaxCompletionTokens says that the limit of the answer is called max_completion_tokens, as
	// newer models of OpenAI require, and not max_tokens, as for all others.
	MaxCompletionTokens bool
}

// Price is the price of a million tokens, as decimals: "0.25".
type Price struct{ Input, Output string }

// Secret is text that is masked when it is printed or encoded.
type Secret string

const masked = "***"

// Format implements fmt.Formatter.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, masked) }

// MarshalText implements encoding.TextMarshaler.
func (Secret) MarshalText() ([]byte, error) { return []byte(masked), nil }

// Check returns all errors of the configuration. They contain no key.
func (c Config) Check() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	var bases []string
	defaults := 0
	for i, p := range c.Providers {
		who := fmt.Sprintf("provider %q", p.Name)
		if p.Name == "" {
			who = fmt.Sprintf("provider %d", i+1)
		}
		if u, err := url.Parse(p.BaseURL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			fail("%s: the base URL is http or https with a host and a path, such as %s", who, OpenAI)
		}
		if slices.Contains(bases, p.base()) {
			fail("%s: another provider has the same base URL", who)
		}
		bases = append(bases, p.base())
		if strings.ContainsFunc(string(p.APIKey), func(r rune) bool { return r <= ' ' || r > '~' }) {
			fail("%s: the API key has a space, a line break or another character that no header takes", who)
		}
		if len(p.Models) == 0 {
			defaults++
		}
	}
	if defaults > 1 {
		fail("%d providers have no models: one at most serves all that the others do not name", defaults)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Prices)) {
		if _, err := newRate(c.Prices[name], c.currency()); err != nil {
			fail("price of %s: write what a million tokens cost, as in {input: 0.25, output: 2.00}: %w", name, err)
		}
	}
	return errors.Join(errs...)
}

func (c Config) currency() string {
	if c.Currency == "" {
		return "USD"
	}
	return c.Currency
}

func (p *Provider) base() string { return strings.TrimRight(p.BaseURL, "/") }

// providers returns the configured providers, or the default.
func (c Config) providers() []Provider {
	if len(c.Providers) == 0 {
		return []Provider{{Name: "openai", BaseURL: OpenAI, MaxCompletionTokens: true}}
	}
	return c.Providers
}

// provider returns the provider of a model: the one that names the longest prefix of it.
func (c Config) provider(model string) *Provider {
	var found *Provider
	best := -1
	for _, p := range c.providers() {
		if len(p.Models) == 0 && best < 0 {
			found, best = &p, 0
		}
		for _, prefix := range p.Models {
			if strings.HasPrefix(model, prefix) && len(prefix) > best {
				found, best = &p, len(prefix)
			}
		}
	}
	return found
}

// Owner returns the provider that a request is sent to, nil if the configuration does not have it.
func (c Config) Owner(address string) *Provider {
	for _, p := range c.providers() {
		if address == p.base()+path {
			return &p
		}
	}
	return nil
}

// ProviderAt returns the name of the provider that a request is sent to; "" if it has no name, or
// there is no such provider.
func (c Config) ProviderAt(address string) string {
	if p := c.Owner(address); p != nil {
		return p.Name
	}
	return ""
}

// maxPrice ensures that the cost of a request can be represented as money.
const maxPrice = "1000000"

// rate is a checked price.
type rate struct{ input, output retry.Money }

func newRate(p Price, currency string) (r rate, err error) {
	if r.input, err = retry.ParseMoney(p.Input + " " + currency); err != nil {
		return rate{}, err
	}
	if r.output, err = retry.ParseMoney(p.Output + " " + currency); err != nil {
		return rate{}, err
	}
	if most, _ := retry.Amount(maxPrice, currency); r.input.Cmp(most) > 0 || r.output.Cmp(most) > 0 {
		return rate{}, errors.New("no more than " + maxPrice)
	}
	return r, nil
}
