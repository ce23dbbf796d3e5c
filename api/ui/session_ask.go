package ui

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"recourse/api/rest"
	"recourse/api/ui/diff"
	"recourse/api/ui/format"
	"recourse/api/ui/timeline"
	"recourse/api/ui/transcript"
	"recourse/saga"
)

// Bounds of a prompt and an answer on a page. The JSON of the request has the rest.
const (
	mostMessages = 200
	latest       = 4 // messages of a prompt that are not folded
	mostSaid     = 20_000
)

// askPage is what the page of a request to a model has besides that of a step.
type askPage struct {
	askRow
	Saga            string
	Prompt          []said // the last messages
	Earlier         []said // the messages before, which are folded
	Omitted         int    // messages before those, which are not shown
	Rest            json.RawMessage
	Answer          []said
	Raw             string // an answer of another form
	NoPrompt        string // why there is no prompt
	NoAnswer        string
	Previous, Later string // URLs of the pages of the neighbours; "" for none

	Difference []diff.Line // of what is at the first difference from the earlier life's request
	All        []diff.Line // of the whole prompts
	NoDiff     string      // why there is none
}

// said is a message of a conversation.
type said struct {
	Role  string
	Parts []saidPart
}

type saidPart struct {
	Kind transcript.Kind
	Name string
	Text string // cut
	Cut  bool
}

// askContents is the API's response about a request to a model.
type askContents struct {
	Route   string          `json:"route"`
	Request json.RawMessage `json:"request"`
	Answer  *struct {
		Type string `json:"content_type"`
		Text string `json:"text"`
	} `json:"answer"`
}

// readAsk reads the contents of a request to a model.
func (v *request) readAsk(id, path string) (c askContents, err error) {
	_, err = v.api.Get(rest.Path("v1", "sessions", id, "asks", path), &c)
	return c, err
}

// askPage reads the page of a request to a model; nil if the step is none.
func (v *request) askPage(d *sagaPage, path string) (*askPage, error) {
	if d.Session == nil || d.Session.Ask(path) == nil {
		return nil, nil
	}
	a := d.Session.Ask(path)
	p := &askPage{askRow: d.askRow(a), Saga: d.Saga.ID}
	p.Previous, p.Later = d.neighbours(path)
	c, err := v.readAsk(d.Saga.ID, path)
	if problem, ok := errors.AsType[*rest.Problem](err); ok {
		p.NoPrompt, p.NoAnswer = problem.Title, problem.Title
		return p, nil
	}
	if err != nil {
		return nil, err
	}
	p.read(&c, d.Session.Policy.Keep)
	return p, v.compare(p, c.Request)
}

// compare compares the request with that of the earlier life from which it differs, if it does.
func (v *request) compare(p *askPage, request json.RawMessage) error {
	if p.Diverged == nil {
		return nil
	}
	from, err := v.readAsk(p.Saga, p.Diverged.From)
	if problem, ok := errors.AsType[*rest.Problem](err); ok {
		p.NoDiff = "The earlier request cannot be read: " + problem.Title
		return nil
	}
	if err != nil {
		return err
	}
	if request == nil || from.Request == nil {
		p.NoDiff = "The prompts cannot be compared, because they are not stored."
		return nil
	}
	p.Difference = revealed(diff.Values(from.Request, request, p.Diverged.Pointer))
	p.All = revealed(diff.Texts(promptText(from.Request), promptText(request)))
	return nil
}

// revealed shows the characters that a reader cannot see: texts may differ only in them.
func revealed(lines []diff.Line) []diff.Line {
	for i := range lines {
		lines[i].Text = saga.VisibleText(lines[i].Text)
	}
	return lines
}

// promptText writes a prompt as a text, for a diff.
func promptText(request json.RawMessage) string {
	messages, others, ok := transcript.Prompt(request)
	if !ok {
		return format.JSON(request)
	}
	var b strings.Builder
	for _, m := range messages {
		b.WriteString("[" + m.Role + "]\n")
		for _, p := range m.Parts {
			switch p.Kind {
			case transcript.Text:
				b.WriteString(p.Text + "\n")
			case transcript.Call:
				b.WriteString("calls " + p.Name + " " + indented(p.Text) + "\n")
			default:
				b.WriteString(indented(p.Text) + "\n")
			}
		}
	}
	return b.String() + format.JSON(others)
}

// neighbours returns the URLs of the requests before and after one; "" for none.
func (d *sagaPage) neighbours(path string) (previous, later string) {
	number, _ := strconv.Atoi(strings.Trim(strings.TrimPrefix(path, timeline.Asks), "[]"))
	at := func(n int) string {
		other := timeline.Asks + "[" + strconv.Itoa(n) + "]"
		if d.Session.Ask(other) == nil {
			return ""
		}
		return d.stepPage(other)
	}
	return at(number - 1), at(number + 1)
}

// read takes over the contents.
func (p *askPage) read(c *askContents, keep saga.KeepContents) {
	switch {
	case c.Request != nil:
		messages, others, ok := transcript.Prompt(c.Request)
		p.Rest = others
		if !ok {
			p.Rest = c.Request
		}
		if len(messages) > mostMessages {
			p.Omitted = len(messages) - mostMessages
			messages = messages[p.Omitted:]
		}
		list := saidOf(messages)
		split := max(len(list)-latest, 0)
		p.Earlier, p.Prompt = list[:split], list[split:]
	case keep == saga.KeepAnswers:
		p.NoPrompt = "The session keeps answers only, and only the hashes of prompts."
	default:
		p.NoPrompt = "The prompt is not stored: the request had no body, or its content was erased."
	}
	switch {
	case c.Answer != nil:
		p.Answer = saidOf(transcript.Answer(c.Answer.Type, c.Answer.Text))
		if len(p.Answer) == 0 {
			p.Raw = format.Cut(mostSaid, indented(c.Answer.Text))
		}
	case p.Failed != "":
		p.NoAnswer = "There is no answer: " + p.Failed
	case p.Ended.IsZero():
		p.NoAnswer = "The answer has not come yet."
	default:
		p.NoAnswer = "The answer was erased."
	}
}

func saidOf(messages []transcript.Message) []said {
	list := make([]said, len(messages))
	for i, m := range messages {
		list[i].Role = m.Role
		for _, p := range m.Parts {
			text := p.Text
			if p.Kind != transcript.Text {
				text = indented(text)
			}
			short := format.Cut(mostSaid, text)
			list[i].Parts = append(list[i].Parts, saidPart{p.Kind, p.Name, short, short != text})
		}
	}
	return list
}

// indented indents a text if it is JSON.
func indented(text string) string {
	if !jsonText(text) {
		return text
	}
	return format.JSON(json.RawMessage(text))
}

// rawAsk serves GET /sagas/{id}/steps/{path}/ask.json.
func rawAsk(v *request) error {
	return v.pass(rest.Path("v1", "sessions", v.r.PathValue("id"), "asks", v.r.PathValue("path")), "application/json", "")
}
