package llm

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"

	"recourse/retry"
)

// Base URLs of the default providers. That of OpenAI ends with its version; that of Anthropic does
// not, because its client packages add it.
const (
	OpenAI    = "https://api.openai.com/v1"
	Anthropic = "https://api.anthropic.com"
)

// API is the form of a provider's requests and responses.
type API string

// The forms of requests.
const (
	OpenAIAPI    API = "openai"    // chat completions, responses, embeddings
	AnthropicAPI API = "anthropic" // messages
)

// Config lists the providers of completions and their prices. The zero Config is OpenAI and
// Anthropic, without keys and without prices.
type Config struct {
	Providers []Provider       // an API that no provider has: its default one
	Prices    map[string]Price // by the name of the model, as steps write it
	Currency  string           // of the prices; default USD
	PricesAt  string           // the date of the prices, such as 2026-01-31; outputs repeat it
	Elsewhere bool             // another program has the configuration: models without a price are not reported
}

// Provider is a service with the API of OpenAI or Anthropic.
type Provider struct {
	Name    string
	API     API    // "": OpenAI's. llm steps use this one only
	BaseURL string // as in [OpenAI] and [Anthropic]
	APIKey  Secret // sent as Authorization: Bearer, or as x-api-key to Anthropic; empty: none
	// Models are the beginnings of the names of the models that it serves. None: all models that no
	// other provider of this API names.
	Models []string
	// MaxCompletionTokens says that the limit of the answer is called max_completion_tokens, as
	// newer models of OpenAI require, and not max_tokens, as for all others.
	MaxCompletionTokens bool
}

// KeyHeader returns the header in which the provider's API has its key: the name, and the value,
// which must not be shown or stored. name is "" if there is no key.
func (p *Provider) KeyHeader() (name, value string) {
	switch {
	case p.APIKey == "":
		return "", ""
	case p.API == AnthropicAPI:
		return "X-Api-Key", string(p.APIKey)
	}
	return "Authorization", "Bearer " + string(p.APIKey)
}

// Price is the price of a million tokens, as decimals: "0.25".
type Price struct {
	Input, Output string
	CachedInput   string // of input tokens that the provider has read from its cache; "": as Input
	CacheWrite    string // of input tokens that the provider has written to its cache; "": unknown
	MaxOutput     int64  // the most tokens of one response; 0: unknown
}

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
	bases := make(map[API][]string)
	defaults := make(map[API]int)
	for i, p := range c.Providers {
		who := fmt.Sprintf("provider %q", p.Name)
		if p.Name == "" {
			who = fmt.Sprintf("provider %d", i+1)
		}
		if u, err := url.Parse(p.BaseURL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			fail("%s: the base URL is http or https with a host and a path, such as %s", who, OpenAI)
		}
		if p.API != "" && p.API != OpenAIAPI && p.API != AnthropicAPI {
			fail("%s: api is openai or anthropic, not %q", who, p.API)
		}
		if slices.Contains(bases[p.api()], p.base()) {
			fail("%s: another provider has the same base URL", who)
		}
		bases[p.api()] = append(bases[p.api()], p.base())
		if strings.ContainsFunc(string(p.APIKey), func(r rune) bool { return r <= ' ' || r > '~' }) {
			fail("%s: the API key has a space, a line break or another character that no header takes", who)
		}
		if len(p.Models) == 0 {
			defaults[p.api()]++
		}
	}
	for _, api := range []API{OpenAIAPI, AnthropicAPI} {
		if n := defaults[api]; n > 1 {
			fail("%d providers have no models: one at most serves all that the others do not name", n)
		}
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

func (p *Provider) api() API { return cmp.Or(p.API, OpenAIAPI) }

// providers returns the providers of an API, or its default.
func (c Config) providers(api API) (list []Provider) {
	for _, p := range c.Providers {
		if p.api() == api {
			list = append(list, p)
		}
	}
	switch {
	case len(list) > 0:
		return list
	case api == AnthropicAPI:
		return []Provider{{Name: "anthropic", API: AnthropicAPI, BaseURL: Anthropic}}
	}
	return []Provider{{Name: "openai", BaseURL: OpenAI, MaxCompletionTokens: true}}
}

// Provider returns the provider of a model: the one that names the longest prefix of it; nil if
// there is none.
func (c Config) Provider(api API, model string) *Provider {
	var found *Provider
	best := -1
	for _, p := range c.providers(api) {
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

// At returns the address of a path of the provider's API, such as /chat/completions.
func (p *Provider) At(path string) string { return p.base() + path }

// Owner returns the provider that a request of an llm step is sent to, nil if the configuration
// does not have it.
func (c Config) Owner(address string) *Provider { return c.OwnerOf(OpenAIAPI, address, path) }

// OwnerOf returns the provider of an API with this address of a path, nil if there is none.
func (c Config) OwnerOf(api API, address, path string) *Provider {
	for _, p := range c.providers(api) {
		if address == p.At(path) {
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
type rate struct {
	input, output, cached retry.Money
	write                 *retry.Money // nil: unknown
	maxOutput             int64
}

func newRate(p Price, currency string) (r rate, err error) {
	most, _ := retry.Amount(maxPrice, currency)
	read := func(text string) retry.Money {
		m, wrong := retry.ParseMoney(text + " " + currency)
		if wrong == nil && m.Cmp(most) > 0 {
			wrong = errors.New("no more than " + maxPrice)
		}
		err = cmp.Or(err, wrong)
		return m
	}
	r = rate{input: read(p.Input), output: read(p.Output), cached: read(cmp.Or(p.CachedInput, p.Input)), maxOutput: p.MaxOutput}
	if p.CacheWrite != "" {
		write := read(p.CacheWrite)
		r.write = &write
	}
	if p.MaxOutput < 0 || p.MaxOutput > MaxUsage {
		err = cmp.Or(err, fmt.Errorf("max_output is from 0 to %d tokens", MaxUsage))
	}
	return r, err
}
