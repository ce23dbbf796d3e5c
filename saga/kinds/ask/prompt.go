package ask

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/expr"
	"recourse/saga/kinds/llm"
)

// Question is a request to a model in a journal: the input of its step. Its contents are stored
// next to the journal, by their hashes. All hashes are SHA-256, in hex.
type Question struct {
	Route string `json:"route"` // see Route.Name
	Model string `json:"model,omitempty"`
	Body  string `json:"body,omitempty"` // the hash of the request's body as the agent has sent it; "": none
	// Rest and Conversation are the contents that the body consists of: all but the conversation,
	// and its last node. "": none, or not kept.
	Rest         string `json:"rest,omitempty"`
	Conversation string `json:"conversation,omitempty"`
	// Chain is the hash of the conversation: of its items, one after the other.
	Chain string `json:"chain,omitempty"`
	// Place is the hash of the conversation up to its last answer of a model, and of the lane.
	Place string `json:"place,omitempty"`
	Lane  string `json:"lane,omitempty"` // the value of X-Recourse-Lane
	// Headers are those of the agent's request that the provider gets, too.
	Headers   map[string]string `json:"headers,omitempty"`
	MaxOutput int64             `json:"max_output,omitempty"` // the most tokens of the response; 0: not limited
	Choices   int64             `json:"choices,omitempty"`    // how many answers the response has; 0: one
	// Input is an estimate of the request's tokens, not less than they are.
	Input int64 `json:"input_tokens,omitempty"`
	// Usage says that the agent did not ask for the usage at the end of the stream. It is asked
	// for, and is not in the response that the agent gets.
	Usage bool `json:"usage_added,omitempty"`
	// Hold says that the agent gets no part of a response before all of it is in the journal.
	Hold bool `json:"hold,omitempty"`
}

// Headers of a provider that an agent's request may have.
var forwarded = []string{"anthropic-version", "anthropic-beta", "openai-beta"}

// Forwarded lists the headers of an agent's request that a provider gets, in lower case.
func Forwarded() []string { return forwarded }

// Prompt is a request that an agent has sent.
type Prompt struct {
	Question
	// Identity is the same for two requests that the same answer may serve: they differ only in
	// space, in the order of members, in members that say nothing about the answer, and in what
	// Rules.Ignore matches.
	Identity string
	Stream   bool
	Previous string // the id of the response that this one continues at the provider; "": none
	// Refers are the ids by which the request takes contents from the provider: Previous, and
	// those of items.
	Refers []string

	route Route
	raw   []byte
	doc   map[string]any // as Identity compares it
	rest  []byte
	items []json.RawMessage
	links []string // Chain of the first item, of the first two, …
}

// Rules are the parts of a session's policy that concern its requests.
type Rules struct {
	Ignore []*regexp.Regexp // what is removed from texts before requests are compared
	Hold   bool             // see Question
}

// interpreted are the members that matter to recourse. A provider that does not tell cases apart
// would read another one in place of them.
var interpreted = []string{"background", "conversation", "input", "max_completion_tokens", "max_output_tokens", "max_tokens", "mcp_servers",
	"messages", "model", "n", "previous_response_id", "prompt", "stream", "stream_options", "tools"}

// maxChoices is the highest n of OpenAI.
const maxChoices = 128

// apart are the members of a request that say nothing about its answer.
var apart = []string{"metadata", "user", "safety_identifier", "prompt_cache_key", "service_tier"}

// Errors of Parse.
var (
	ErrNotObject    = errors.New("the body is not a JSON object")
	ErrModel        = errors.New("`model` is missing: name the model")
	ErrBackground   = errors.New("`background` is not supported: the response would come outside this session's journal")
	ErrForeignTool  = errors.New("the provider would run MCP tools itself, in no journal: let the agent call tools")
	ErrConversation = errors.New("`conversation` is state at the provider that this session has not made: send the messages, or `previous_response_id`")
	ErrTemplate     = errors.New("`prompt` names texts and tools at the provider that are neither checked nor counted: send them in the request")
	ErrForeign      = errors.New("is the id of no response or item that this session has got: send the conversation instead")
	ErrTwice        = errors.New("appears twice, and the provider may read the other one: remove one")
	ErrCase         = errors.New("differs from a member only in case, and the provider may take it for that: write it in small letters, or remove it")
	ErrNumber       = errors.New("must be a whole number in digits, from 1 to")
)

// Parse reads the body of a request; nil for none. Errors: those above.
func Parse(route Route, body []byte, lane string, headers map[string]string, rules Rules) (*Prompt, error) {
	p := &Prompt{route: route, raw: body, doc: make(map[string]any), Question: Question{Route: route.Name(), Lane: lane, Headers: headers, Hold: rules.Hold}}
	if body != nil {
		v, err := expr.Decode(body)
		if doc, ok := v.(map[string]any); ok && err == nil {
			p.doc = doc
		} else {
			return nil, errors.Join(ErrNotObject, err)
		}
		p.Body = digest(body)
		p.Input = llm.EstimateInput(len(body))
	}
	fields, err := members(body, interpreted)
	if err != nil {
		return nil, err
	}
	if err := p.check(fields); err != nil {
		return nil, err
	}
	if err := p.split(fields); err != nil {
		return nil, err
	}
	for _, name := range apart {
		delete(p.doc, name)
	}
	if len(rules.Ignore) > 0 {
		p.doc = without(p.doc, rules.Ignore).(map[string]any)
	}
	p.Identity = "ask:" + digest([]byte(route.Name()), expr.AppendJSON(make([]byte, 0, len(body)), p.doc))
	p.Place = p.place()
	return p, nil
}

// Continue adds the tokens that the provider adds to the request: those of the contents that Refers
// names, each once for an item, and for the items of one response together. counted is false if
// they are not known. x has the session's earlier requests. Error: ErrForeign.
func (p *Prompt) Continue(x *Index) (counted bool, err error) {
	counted = true
	before, added := make(map[string]bool), make(map[*llm.Tokens]bool)
	for _, id := range p.Refers {
		used, ok := x.made[id]
		switch {
		case !ok:
			return false, fmt.Errorf("%.100q %w", id, ErrForeign)
		case used == nil:
			counted = false
		case before[id] || !added[used]:
			p.Input = min(p.Input+used.Input+used.Output, llm.MaxUsage)
			added[used] = true
		}
		before[id] = true
	}
	return counted, nil
}

// members returns the members of an object, as parts of the valid document doc; nil if it is none.
// Errors: ErrTwice; ErrCase, for a name that differs from one of known only in case.
func members(doc []byte, known []string) (map[string]json.RawMessage, error) {
	if !begins(doc, "{") {
		return nil, nil
	}
	var wrong error
	fields := make(map[string]json.RawMessage)
	err := expr.Raw(doc).Each(func(name string, v expr.Raw) {
		switch {
		case fields[name] != nil:
			wrong = cmp.Or(wrong, fmt.Errorf("%.60q %w", name, ErrTwice))
		case !slices.Contains(known, name) && slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, name) }):
			wrong = cmp.Or(wrong, fmt.Errorf("%.60q %w", name, ErrCase))
		}
		fields[name] = json.RawMessage(v)
	})
	return fields, cmp.Or(err, wrong)
}

// items returns the items of a list, as parts of the valid document doc; nil if it is none. Errors:
// those of members, for the items.
func items(doc []byte, known []string) (list []json.RawMessage, err error) {
	if !begins(doc, "[") {
		return nil, nil
	}
	wrong := expr.Raw(doc).Each(func(_ string, v expr.Raw) {
		_, twice := members(v, known)
		list, err = append(list, json.RawMessage(v)), cmp.Or(err, twice)
	})
	return list, cmp.Or(wrong, err)
}

func begins(doc []byte, bracket string) bool {
	return bytes.HasPrefix(bytes.TrimLeft(doc, " \t\r\n"), []byte(bracket))
}

// check reads the members that matter to recourse.
func (p *Prompt) check(fields map[string]json.RawMessage) error {
	p.Model, _ = p.doc["model"].(string)
	if p.Model == "" && p.route.Method != "GET" {
		return ErrModel
	}
	p.Stream = p.doc["stream"] == true
	if p.Previous, _ = p.doc["previous_response_id"].(string); p.Previous != "" {
		p.Refers = append(p.Refers, p.Previous)
	}
	list, _ := p.doc[p.route.list()].([]any)
	for _, v := range list {
		item, _ := v.(map[string]any)
		if id := p.route.refers(item); id != "" {
			p.Refers = append(p.Refers, id)
		}
	}
	switch {
	case p.doc["background"] == true:
		return ErrBackground
	case p.doc["conversation"] != nil:
		return ErrConversation
	case p.doc["prompt"] != nil:
		return ErrTemplate
	case p.doc["mcp_servers"] != nil:
		return ErrForeignTool
	}
	tools, _ := p.doc["tools"].([]any)
	for _, tool := range tools {
		if t, ok := tool.(map[string]any); ok && t["type"] == "mcp" {
			return ErrForeignTool
		}
	}
	if _, err := items(fields["tools"], []string{"type"}); err != nil {
		return err
	}
	if p.route.Generates() {
		if err := p.limit(); err != nil {
			return err
		}
	}
	if _, err := members(fields["stream_options"], nil); err != nil {
		return err
	}
	if p.Stream && p.route.form == completions {
		options, _ := p.doc["stream_options"].(map[string]any)
		p.Usage = options["include_usage"] != true
	}
	return nil
}

// limit reads how long the response may be. Of several limits, the provider may follow the highest
// one.
func (p *Prompt) limit() (err error) {
	if p.Choices, err = p.number("n", maxChoices); err != nil {
		return err
	}
	for _, name := range p.route.limits() {
		n, err := p.number(name, llm.MaxUsage)
		if err != nil {
			return err
		}
		p.MaxOutput = max(p.MaxOutput, min(n*p.choices(), llm.MaxUsage))
	}
	return nil
}

// number returns a member that is a number of at least 1; 0: there is none. Error: ErrNumber.
func (p *Prompt) number(name string, most int64) (int64, error) {
	v := p.doc[name]
	if v == nil {
		return 0, nil
	}
	text, _ := v.(json.Number)
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("`%s` %w %d", name, ErrNumber, most)
	}
	return n, nil
}

// choices returns how many answers the response has.
func (q *Question) choices() int64 { return max(q.Choices, 1) }

// split separates the conversation from the rest of the body.
func (p *Prompt) split(fields map[string]json.RawMessage) error {
	if p.raw == nil {
		return nil
	}
	var err error
	if p.items, err = items(fields[p.route.list()], []string{"id", "type"}); err != nil {
		return err
	}
	if len(p.items) > 0 { // an empty list stays in the rest
		delete(fields, p.route.list())
	}
	if p.rest, err = journal.Encode(fields); err != nil {
		return errors.Join(ErrNotObject, err)
	}
	link := ""
	for _, item := range p.items {
		link = digest([]byte(link), item)
		p.links = append(p.links, link)
	}
	p.Chain = link
	return nil
}

// place returns Question.Place. The items are compared as in Identity.
func (p *Prompt) place() string {
	items, _ := p.doc[p.route.list()].([]any)
	last := 0
	for i, item := range items {
		if fields, ok := item.(map[string]any); ok && p.route.fromModel(fields) {
			last = i + 1
		}
	}
	return digest([]byte(p.Lane), []byte(p.Previous), expr.AppendJSON(make([]byte, 0, len(p.raw)), items[:last:last]))
}

// Keep names the contents of the request, and returns those to store: what the session's requests
// have in common is stored once, not with each of them. x has the earlier ones.
func (p *Prompt) Keep(x *Index) (blobs []journal.Blob) {
	if p.raw == nil {
		return nil
	}
	if p.Rest = digest(p.rest); !x.rests[p.Rest] {
		blobs = append(blobs, Pack(p.rest))
	}
	var n conversation
	for i := len(p.links); i > 0 && n.Base == ""; i-- {
		n.Base = x.nodes[p.links[i-1]]
		n.Items = p.items[i:]
	}
	if n.Base == "" {
		n.Items = p.items
	}
	if p.Conversation = n.Base; len(n.Items) > 0 {
		node := Pack(n.encode())
		blobs, p.Conversation = append(blobs, node), hexed(node)
	}
	return blobs
}

// conversation is one node of a conversation: the items after those of the node Base.
type conversation struct {
	Base  string            `json:"base,omitempty"`
	Items []json.RawMessage `json:"items"`
}

// encode returns the node's JSON, with compact items. They are parts of a document that was
// decoded, so they are not validated again.
func (n *conversation) encode() []byte {
	size := 0
	for _, item := range n.Items {
		size += len(item) + 1
	}
	b := make([]byte, 0, size+len(n.Base)+32)
	b = append(b, '{')
	if n.Base != "" {
		b = append(append(append(b, `"base":"`...), n.Base...), `",`...)
	}
	b = append(b, `"items":[`...)
	for i, item := range n.Items {
		if i > 0 {
			b = append(b, ',')
		}
		b = expr.Raw(item).AppendCompact(b)
	}
	return append(b, "]}"...)
}

// ErrErased means that a content of a request is not kept, or was erased.
var ErrErased = errors.New("the contents of the request are not stored")

// Assemble returns the body of a request with its contents, which get finds by their hashes.
// Errors: ErrErased, those of get.
func (q *Question) Assemble(get func(hash string) ([]byte, error)) ([]byte, error) {
	if q.Body == "" {
		return nil, nil
	}
	if q.Rest == "" {
		return nil, ErrErased
	}
	rest, err := get(q.Rest)
	if err != nil || q.Conversation == "" {
		return rest, err
	}
	var nodes []conversation
	for hash := q.Conversation; hash != ""; {
		doc, err := get(hash)
		if err != nil {
			return nil, err
		}
		var n conversation
		if err := json.Unmarshal(doc, &n); err != nil {
			return nil, fmt.Errorf("content %s: %w", hash, err)
		}
		nodes = append(nodes, n)
		hash = n.Base
	}
	var items []json.RawMessage
	for _, n := range slices.Backward(nodes) {
		items = append(items, n.Items...)
	}
	route, ok := named(q.Route)
	if !ok {
		return nil, fmt.Errorf("%w: route %q", saga.ErrUnreadable, q.Route)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(rest, &fields); err != nil {
		return nil, err
	}
	if fields[route.list()], err = journal.Encode(items); err != nil {
		return nil, err
	}
	return journal.Encode(fields)
}

// Outgoing returns the body to send for an agent's body.
func (q *Question) Outgoing(body []byte) ([]byte, error) {
	if !q.Usage {
		return body, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, err
	}
	options := make(map[string]json.RawMessage)
	_ = json.Unmarshal(fields["stream_options"], &options) // anything else is replaced
	options["include_usage"] = json.RawMessage("true")
	var err error
	if fields["stream_options"], err = journal.Encode(options); err != nil {
		return nil, err
	}
	return journal.Encode(fields)
}

// Pointer returns a JSON pointer (RFC 6901) to the first difference between this request and
// another one, given by its body. Members come in the order of their names.
func (p *Prompt) Pointer(body []byte, rules Rules) string {
	was, now, err := p.Compared(body, rules)
	if err != nil {
		return ""
	}
	at, _ := saga.Difference(was, now)
	return at
}

// Compared returns another request, given by its body, and this one as decoded values, without
// what does not matter when they are compared. Errors are those of Parse.
func (p *Prompt) Compared(body []byte, rules Rules) (other, this map[string]any, err error) {
	o, err := Parse(p.route, body, p.Lane, nil, rules)
	if err != nil {
		return nil, nil, err
	}
	return o.doc, p.doc, nil
}

// digest returns the SHA-256 of parts, each after its length, in hex. One part is hashed as it is.
func digest(parts ...[]byte) string {
	if len(parts) == 1 {
		sum := sha256.Sum256(parts[0])
		return hex.EncodeToString(sum[:])
	}
	h := sha256.New()
	for _, part := range parts {
		h.Write(strconv.AppendInt(nil, int64(len(part)), 10))
		h.Write([]byte(":"))
		h.Write(part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// without returns a value without what the patterns match in its texts.
func without(v any, patterns []*regexp.Regexp) any {
	return expr.MapTexts(v, func(text string) string {
		for _, re := range patterns {
			text = re.ReplaceAllLiteralString(text, "")
		}
		return text
	})
}
