package crashmatrix

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"recourse/saga"
	"recourse/saga/expr"
)

// answers makes up what remote services answer. It knows the fields that the definition reads, and
// gives each answer all of them. The type of a field is guessed from its uses; [answers.improve]
// tries the others if the saga does not succeed with the guess.
type answers struct {
	stubs map[string]json.RawMessage
	root  *field // of an answer's body
	item  *field // of the items of lists
	knobs []*knob
	lists map[string]bool  // ids of steps whose answers are lists
	flags map[string]*knob // for booleans of schemas, by the name of the field
	words []any            // the texts that the definition compares with
	fixed bool             // it no longer changes, so that several runs may read it
}

// field is a field that the definition reads in answers.
type field struct {
	name   string
	fields map[string]*field
	knob   *knob // how it is made up, if it has no fields
}

// knob chooses one of several made-up values.
type knob struct {
	choice, options int
}

// The choices of a field's knob. Higher ones are words that the definition compares with.
const (
	asText = iota
	asNumber
	asTrue
	asFalse
	asList
	asWord
)

// pathText matches a path into an answer: its root, and its fields.
var pathText = regexp.MustCompile(`(steps\.[a-z]\w*\.output|\boutput|result\.(?:body|structured)|\bITEM)((?:\??\.[A-Za-z_]\w*|\[[^\]]*\])*)`)

var (
	loopName  = regexp.MustCompile(`\bas:\s*["']?([a-z]\w*)`)
	pathPart  = regexp.MustCompile(`\.([A-Za-z_]\w*)|\[([^\]]*)\]`)
	wordAfter = regexp.MustCompile(`^\s*(?:==|!=)\s*(?:"([^"]*)"|'([^']*)'|(true|false)|(-?[0-9][0-9.]*))`)
	sumAfter  = regexp.MustCompile(`^\s*[-+*/%<>]`)
	sumBefore = regexp.MustCompile(`(?:[-+*/%]|[<>]=?|==|round\(|abs\(|sum\()\s*$`)
	listUse   = regexp.MustCompile(`(?:\b(?:len|first|last|flatten|uniq|take|drop|map|filter|any|all|none|sum|count|sort|reverse|join|min|max)\(|foreach:\s*["']?\$\{|\bin)\s*$`)
	boolUse   = regexp.MustCompile(`(?:\b(?:when|that|until|if):\s*["']?|!|&&|\|\||\b(?:and|or|not))\s*$`)
)

// newAnswers reads the sources of a definition and of the actions that it uses.
func newAnswers(stubs map[string]json.RawMessage, sources ...[]byte) *answers {
	a := &answers{stubs: stubs, root: &field{}, item: &field{}, lists: make(map[string]bool), flags: make(map[string]*knob)}
	for _, src := range sources {
		text := string(src)
		loops := []string{"item"}
		for _, m := range loopName.FindAllStringSubmatch(text, -1) {
			loops = append(loops, m[1])
		}
		re := regexp.MustCompile(strings.Replace(pathText.String(), "ITEM", `(?:`+strings.Join(loops, "|")+`)`, 1))
		for _, at := range re.FindAllStringSubmatchIndex(text, -1) {
			a.use(text, at)
		}
	}
	delete(a.lists, "")
	a.root.knobs(a, len(a.words))
	a.item.knobs(a, len(a.words))
	return a
}

// use notes one use of a path.
func (a *answers) use(text string, at []int) {
	root, path := text[at[2]:at[3]], text[at[4]:at[5]]
	before, after := text[max(0, at[0]-40):at[0]], text[at[1]:min(len(text), at[1]+60)]
	f := a.root
	if !strings.HasSuffix(root, "output") && root != "result.body" && root != "result.structured" {
		f = a.item
	}
	indexed := false
	for _, part := range pathPart.FindAllStringSubmatch(path, -1) {
		if part[1] == "" { // an index: the fields after it are those of an item
			indexed = true
			if f == a.root {
				a.lists[stepOf(root)] = true
			} else {
				f.hint(asList)
			}
			f = a.item
			continue
		}
		if f.fields == nil {
			f.fields = make(map[string]*field)
		}
		if f.fields[part[1]] == nil {
			f.fields[part[1]] = &field{name: part[1]}
		}
		f = f.fields[part[1]]
	}
	switch {
	case indexed && f == a.item:
		return
	case f == a.root:
		a.lists[stepOf(root)] = a.lists[stepOf(root)] || listUse.MatchString(before)
		return
	}
	switch m := wordAfter.FindStringSubmatch(after); {
	case listUse.MatchString(before):
		f.hint(asList)
	case m != nil && m[3] != "":
		f.hint(map[string]int{"true": asTrue, "false": asFalse}[m[3]])
	case m != nil && m[4] != "":
		f.hint(asNumber)
		a.words = append(a.words, json.Number(m[4]))
	case m != nil:
		f.hint(asWord + len(a.words))
		a.words = append(a.words, m[1]+m[2])
	case sumAfter.MatchString(after) || sumBefore.MatchString(before):
		f.hint(asNumber)
	case boolUse.MatchString(before):
		f.hint(asTrue)
	}
}

// stepOf returns the id of the step that steps.ID.output reads, "" for other roots.
func stepOf(root string) string {
	id, _ := strings.CutPrefix(root, "steps.")
	id, _, ok := strings.Cut(id, ".")
	if !ok || !strings.HasPrefix(root, "steps.") {
		return ""
	}
	return id
}

// hint notes a guess. The first one stays.
func (f *field) hint(choice int) {
	if f.knob == nil {
		f.knob = &knob{choice: choice}
	}
}

// knobs gives each field without fields a knob.
func (f *field) knobs(a *answers, words int) {
	for _, name := range slices.Sorted(maps.Keys(f.fields)) {
		f.fields[name].knobs(a, words)
	}
	if f == a.root || len(f.fields) > 0 && (f.knob == nil || f.knob.choice != asList) {
		f.knob = nil
		return
	}
	f.hint(asText)
	f.knob.options = asWord + words
	a.knobs = append(a.knobs, f.knob)
}

// maxNesting limits lists in lists.
const maxNesting = 2

// make makes up a field.
func (a *answers) make(f *field, m *maker) any {
	if f.knob == nil {
		out := make(map[string]any, len(f.fields))
		for name, inner := range f.fields { // into a map: any order
			out[name] = a.make(inner, m)
		}
		return out
	}
	switch f.knob.choice {
	case asText:
		return m.text(f.name)
	case asNumber:
		return json.Number("1")
	case asTrue:
		return true
	case asFalse:
		return false
	case asList:
		return a.list(f.name, m)
	}
	return a.words[f.knob.choice-asWord]
}

// list makes up a list.
func (a *answers) list(name string, m *maker) []any {
	list := make([]any, items)
	for i := range list {
		one := *m
		one.id, one.turn, one.depth = m.id+"-"+strconv.Itoa(i+1), m.turn+i, m.depth+1
		if one.depth > maxNesting { // an item may have a list of items
			list[i] = one.text(name)
			continue
		}
		list[i] = a.make(a.item, &one)
	}
	return list
}

// maker returns a maker of values whose texts begin with id.
func (a *answers) maker(id string, turn int) *maker {
	return &maker{id: id, turn: turn, flags: func(name string) bool {
		k := a.flags[name]
		switch {
		case k != nil:
			return k.choice != asFalse
		case !a.fixed:
			a.flags[name] = &knob{choice: asTrue, options: asFalse + 1}
		}
		return true
	}}
}

// stub returns the answer that the user has given for a step: by its path, or by its id for all
// iterations.
func (a *answers) stub(path string) json.RawMessage {
	for _, name := range []string{path, saga.StepID(path)} {
		if stub := a.stubs[name]; len(stub) > 0 {
			return stub
		}
	}
	return nil
}

// body returns the body of an answer: what the user has given, or what fits the schema, with the
// fields that the definition reads.
func (a *answers) body(path string, schema saga.Schema, id string, turn int) json.RawMessage {
	if stub := a.stub(path); stub != nil {
		return stub
	}
	if id == "" {
		id = saga.StepID(path) + strconv.Itoa(turn+1)
	}
	m := a.maker(id, turn)
	if a.lists[saga.StepID(path)] && schema == nil {
		return expr.AppendJSON(nil, a.list("", m))
	}
	out := a.make(a.root, m)
	if schema != nil {
		out = merge(m.sample(schema.Document(), ""), out, schema.Document())
	} else if o, ok := out.(map[string]any); ok && o["id"] == nil {
		o["id"] = id
	}
	return expr.AppendJSON(nil, out)
}

// merge adds the fields of more to a value of a schema, unless the schema forbids it.
func merge(v, more, schema any) any {
	to, ok := v.(map[string]any)
	from, also := more.(map[string]any)
	if doc, is := schema.(map[string]any); !ok || !also || is && doc["additionalProperties"] == false {
		return v
	}
	for name, value := range from { // into a map: any order
		if _, has := to[name]; !has {
			to[name] = value
		}
	}
	return to
}

// completion returns the answer of a model to a request.
func (a *answers) completion(path string, body json.RawMessage, turn int) json.RawMessage {
	var request struct {
		Model  string
		Format struct {
			Schema struct{ Schema json.RawMessage } `json:"json_schema"`
		} `json:"response_format"`
	}
	_ = json.Unmarshal([]byte(strings.ReplaceAll(string(body), "$${", "${")), &request) // missing fields stay empty
	text := "text of " + saga.StepID(path)
	if stub := a.stub(path); stub != nil {
		text = reply(stub)
	} else if schema, err := expr.Decode(request.Format.Schema.Schema); err == nil {
		text = string(expr.AppendJSON(nil, a.maker(saga.StepID(path), turn).sample(schema, "")))
	}
	return saga.Encode(map[string]any{
		"id": "made-up", "object": "chat.completion", "model": request.Model,
		"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": text}}},
		"usage":   map[string]any{"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20},
	})
}

// reply returns what a model writes by a stub: a text, the JSON of an answer with a schema, or the
// whole output of the step, as plans take it.
func reply(stub json.RawMessage) (text string) {
	if json.Unmarshal(stub, &text) == nil {
		return text
	}
	var output struct {
		Text  *string
		JSON  json.RawMessage
		Usage json.RawMessage
	}
	if json.Unmarshal(stub, &output) == nil {
		switch {
		case len(output.JSON) > 0 && string(output.JSON) != "null":
			return string(output.JSON)
		case output.Text != nil && (len(output.Usage) > 0 || len(output.JSON) > 0):
			return *output.Text
		}
	}
	return string(stub)
}

// status returns the body that a status check gets: one for which its condition `found` is true, or
// false. ok is false if none was found.
func (a *answers) status(path string, v *saga.Verify, roots map[string]any, e *effect) (_ json.RawMessage, ok bool) {
	if stub := a.stub(saga.QueryPath(path)); stub != nil {
		var given struct{ Found, Missing json.RawMessage }
		if json.Unmarshal(stub, &given) == nil && len(given.Found) > 0 && len(given.Missing) > 0 {
			if e != nil {
				return given.Found, true
			}
			return given.Missing, true
		}
	}
	refs := slices.Clone(v.Found.Refs())
	if v.Output != nil {
		refs = append(refs, v.Output.Refs()...)
	}
	var paths [][]string
	for _, r := range refs {
		if r.Root == "result" && len(r.Path) > 1 && r.Path[0] == "body" {
			paths = append(paths, r.Path[1:])
		}
	}
	paths = slices.CompactFunc(paths, slices.Equal)
	var values []any
	if e != nil {
		record, err := expr.Decode(e.answer.Body)
		if err != nil {
			record = map[string]any{"id": e.id}
		}
		values = []any{[]any{record}, json.Number("1"), true, record, e.id, "succeeded", "completed", "found"}
	} else {
		values = []any{[]any{}, json.Number("0"), false, nil, ""}
	}
	values = append(values, a.words...)
	return search(paths, values, func(doc any) bool {
		raw := expr.AppendJSON(nil, doc)
		env := maps.Clone(expr.MapEnv(roots))
		env["result"] = map[string]any{"status": json.Number("200"), "headers": map[string]any{}, "body": expr.Raw(raw)}
		found, err := v.Found.Bool(env)
		if err != nil || found != (e != nil) {
			return false
		}
		if e != nil && v.Output != nil {
			_, err = v.Output.JSON(env)
		}
		return err == nil
	})
}

// maxTries limits the bodies that search tries.
const maxTries = 5000

// search tries all combinations of values at the paths of a document, and returns the first one
// that fits.
func search(paths [][]string, values []any, fits func(doc any) bool) (json.RawMessage, bool) {
	if len(paths) == 0 { // the condition reads the body as a whole
		for _, v := range values {
			if fits(v) {
				return expr.AppendJSON(nil, v), true
			}
		}
		return json.RawMessage(`{}`), fits(map[string]any{})
	}
	digits := make([]int, len(paths))
	for range maxTries {
		doc := make(map[string]any)
		for i, path := range paths {
			put(doc, path, values[digits[i]])
		}
		if fits(doc) {
			return expr.AppendJSON(nil, doc), true
		}
		at := 0
		for ; at < len(digits); at++ {
			if digits[at]++; digits[at] < len(values) {
				break
			}
			digits[at] = 0
		}
		if at == len(digits) {
			break
		}
	}
	return json.RawMessage(`{}`), false
}

// put sets the value at a path.
func put(doc map[string]any, path []string, v any) {
	for _, name := range path[:len(path)-1] {
		inner, ok := doc[name].(map[string]any)
		if !ok {
			inner = make(map[string]any)
			doc[name] = inner
		}
		doc = inner
	}
	doc[path[len(path)-1]] = v
}

// maxScores limits the runs that improve makes.
const maxScores = 200

// improve changes the made-up values as long as that makes more of the saga run. score runs the
// saga without faults; most is the score at which nothing can be better.
func (a *answers) improve(score func() int, most int) {
	defer func() { a.fixed = true }()
	best, tries := score(), 0
	for range 2 {
		var knobs []*knob
		for _, name := range slices.Sorted(maps.Keys(a.flags)) {
			knobs = append(knobs, a.flags[name])
		}
		knobs = append(knobs, a.knobs...)
		for _, k := range knobs {
			if best >= most {
				return
			}
			kept := k.choice
			for choice := range k.options {
				if choice == kept || k.options == asFalse+1 && choice < asTrue {
					continue
				}
				if tries++; tries > maxScores {
					return
				}
				before := k.choice
				k.choice = choice
				if s := score(); s > best {
					best = s
				} else {
					k.choice = before
				}
			}
		}
	}
}

// form makes up the data of an approval.
func (a *answers) form(path string, form json.RawMessage) json.RawMessage {
	if stub := a.stub(path); stub != nil {
		var output struct{ Decision, Data json.RawMessage }
		if json.Unmarshal(stub, &output) == nil && len(output.Decision) > 0 { // the whole output, as plans take it
			return output.Data
		}
		return stub
	}
	schema, err := expr.Decode(form)
	if err != nil {
		return nil
	}
	return expr.AppendJSON(nil, a.maker(saga.StepID(path), 0).sample(schema, ""))
}
