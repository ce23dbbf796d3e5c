package llm

import (
	"encoding/json"
	"math/big"
	"strings"

	"recourse/retry"
	"recourse/saga"
)

// Tariff is the configuration with parsed prices.
type Tariff struct {
	cfg   Config
	rates map[string]rate
}

// NewTariff panics if [Config.Check] does not accept the configuration.
func NewTariff(cfg Config) *Tariff {
	if err := cfg.Check(); err != nil {
		panic("llm: " + err.Error())
	}
	t := &Tariff{cfg: cfg, rates: make(map[string]rate, len(cfg.Prices))}
	for name, p := range cfg.Prices { // any order
		t.rates[name], _ = newRate(p, cfg.currency()) // checked
	}
	return t
}

func (t *Tariff) hasPrice(model string) bool {
	_, ok := t.rates[model]
	return ok
}

// Currency returns the currency of the prices; "" if there are none.
func (t *Tariff) Currency() string {
	if len(t.rates) == 0 {
		return ""
	}
	return t.cfg.currency()
}

// Tokens are the tokens of one request.
type Tokens struct {
	Input  int64 `json:"input"`            // all of them, also those of the cache
	Output int64 `json:"output"`           // with those of reasoning
	Cached int64 `json:"cached,omitempty"` // the part of Input that was read from the provider's cache
	Stored int64 `json:"stored,omitempty"` // the part of Input that was written to it
}

// Cost returns the cost of tokens; zero for a model without a price. ok is false if the price of
// one of their parts is unknown.
func (t *Tariff) Cost(model string, n Tokens) (_ retry.Money, ok bool) {
	r, known := t.rates[model]
	if !known {
		return retry.Money{}, true
	}
	cost := millionth(r.input, n.Input-n.Cached-n.Stored).Add(millionth(r.cached, n.Cached)).Add(millionth(r.output, n.Output))
	switch {
	case n.Stored == 0:
		return cost, true
	case r.write == nil:
		return retry.Money{}, false
	}
	return cost.Add(millionth(*r.write, n.Stored)), true
}

// MaxOutput returns the most tokens of a response of the model; 0 if that is unknown.
func (t *Tariff) MaxOutput(model string) int64 { return t.rates[model].maxOutput }

// MaxInput returns the highest cost of input tokens: all of them may be written to the cache.
func (t *Tariff) MaxInput(model string, tokens int64) retry.Money {
	r := t.rates[model]
	most := r.input
	if r.write != nil && r.write.Cmp(most) > 0 {
		most = *r.write
	}
	if most == (retry.Money{}) {
		return most
	}
	return millionth(most, tokens)
}

// cost returns the cost of tokens; zero for a model without a price.
func (t *Tariff) cost(model string, input, output int64) retry.Money {
	r, ok := t.rates[model]
	if !ok {
		return retry.Money{}
	}
	return millionth(r.input, input).Add(millionth(r.output, output))
}

// millionth returns the exact cost of n tokens if a million costs m.
func millionth(m retry.Money, n int64) retry.Money {
	whole, places, _ := strings.Cut(m.Decimal(), ".")
	product, _ := new(big.Int).SetString(whole+places, 10)
	digits := product.Mul(product, big.NewInt(n)).String()
	point := len(places) + 6
	digits = strings.Repeat("0", max(point+1-len(digits), 0)) + digits
	text := strings.TrimRight(digits[:len(digits)-point]+"."+digits[len(digits)-point:], "0")
	money, err := retry.Amount(strings.TrimSuffix(text, "."), m.Currency)
	if err != nil {
		panic("llm: a cost out of range: " + err.Error()) // prices and tokens are limited
	}
	return money
}

// The highest cost of a request in addition to the text of its messages, in tokens.
const (
	perMessage    = 8
	perRequest    = 16
	bytesPerToken = 3
)

// Reserve implements saga.Priced: the estimated tokens of the prompt, plus max_tokens. It counts a
// token for every three bytes of UTF-8, which is more than models count for prose, code and tables
// in any script. Meaningless text, such as base64, can have more.
func (b *Body) Reserve(r saga.Request) saga.Usage {
	c, _, err := opened(r)
	if err != nil {
		return saga.Usage{}
	}
	u := saga.Usage{Input: perRequest + estimate(len(c.ResponseFormat)), Output: c.limit()}
	for _, t := range c.Tools {
		u.Input += perMessage + estimate(len(t))
	}
	for _, m := range c.Messages {
		u.Input += perMessage + estimate(length(m))
	}
	u.Cost = b.cost(c.Model, u.Input, u.Output)
	return u
}

func estimate(bytes int) int64 { return int64(bytes+bytesPerToken-1) / bytesPerToken }

// EstimateInput returns the estimated tokens of a request with a body of so many bytes. It is not
// less than they are, as in Reserve.
func EstimateInput(bytes int) int64 { return perRequest + estimate(bytes) }

// length returns the length of a message's text or, if it has other parts, of all its JSON.
func length(m json.RawMessage) int {
	var doc struct {
		Content string
		Calls   json.RawMessage `json:"tool_calls"`
	}
	if json.Unmarshal(m, &doc) != nil || doc.Calls != nil {
		return len(m)
	}
	return len(doc.Content)
}

// Used implements saga.Priced. It uses every reported usage, including that of errors and of
// answers that were cut.
func (b *Body) Used(r saga.Request, a saga.Answer) (saga.Usage, bool) {
	if !a.Sent {
		return saga.Usage{}, true
	}
	c, _, err := opened(r)
	used := usageOf(a.Body)
	if err != nil || used == nil {
		return saga.Usage{}, false
	}
	return saga.Usage{Cost: b.cost(c.Model, used.Input, used.Output), Input: used.Input, Output: used.Output}, true
}

// Model implements saga.Modelled: the model's name in the step, which determines its price. The
// name in the answer may be that of a dated version.
func (b *Body) Model(r saga.Request) string {
	var doc struct{ Model string }
	if json.Unmarshal(r.Body, &doc) != nil {
		return ""
	}
	return doc.Model
}

// usage is the use that an answer reports.
type usage struct {
	Input  int64 `json:"prompt_tokens"`
	Output int64 `json:"completion_tokens"`
	Total  int64 `json:"total_tokens"`
}

// MaxUsage is more tokens than any request uses, and small enough for exact arithmetic.
const MaxUsage = 1_000_000_000

// usageOf returns the usage in an answer's body, or in its error; nil if none can be read.
func usageOf(body json.RawMessage) *usage {
	var doc struct {
		Usage json.RawMessage
		Error json.RawMessage
	}
	if json.Unmarshal(body, &doc) != nil {
		return nil
	}
	var inner struct{ Usage json.RawMessage }
	if len(doc.Usage) == 0 && json.Unmarshal(doc.Error, &inner) == nil {
		doc.Usage = inner.Usage
	}
	var said struct {
		Input  *int64 `json:"prompt_tokens"`
		Output *int64 `json:"completion_tokens"`
	}
	if json.Unmarshal(doc.Usage, &said) != nil || said.Input == nil || *said.Input < 0 || *said.Input > MaxUsage {
		return nil
	}
	u := &usage{Input: *said.Input}
	if said.Output != nil { // an error before the first token has none
		u.Output = *said.Output
	}
	if u.Output < 0 || u.Output > MaxUsage {
		return nil
	}
	u.Total = u.Input + u.Output
	return u
}
