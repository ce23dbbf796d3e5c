package main

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	kongcompletion "github.com/jotaen/kong-completion"
	"github.com/posener/complete"

	"recourse/saga"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// scripts make a shell ask the program, with the line so far in COMP_LINE, for what may come next.
var scripts = map[string]string{
	"bash": `# recourse completion bash: source this in ~/.bashrc
_recourse() {
	local IFS=$'\n'
	COMPREPLY=($(COMP_LINE="${COMP_LINE:0:COMP_POINT}" COMP_POINT="$COMP_POINT" "${COMP_WORDS[0]}" 2>/dev/null))
}
complete -o default -F _recourse recourse
`,
	"zsh": `#compdef recourse
# recourse completion zsh: source this in ~/.zshrc, behind compinit
_recourse() {
	local -a answers
	answers=("${(@f)$(COMP_LINE="${BUFFER[1,CURSOR]}" COMP_POINT="$CURSOR" "${words[1]}" 2>/dev/null)}")
	answers=("${(@)answers:#}")
	if (( ${#answers} )); then
		compadd -- "${answers[@]}"
	else
		_files
	fi
}
compdef _recourse recourse
`,
	"fish": `# recourse completion fish: save this as ~/.config/fish/completions/recourse.fish
function __recourse_complete
	set -lx COMP_LINE (commandline -cp)
	set -lx COMP_POINT (string length -- "$COMP_LINE")
	set -l words (commandline -opc)
	$words[1] 2>/dev/null
end
complete -c recourse -a '(__recourse_complete)'
`,
}

// Run prints the script.
func (c *completionCmd) Run(a *app) error {
	a.printf("%s", scripts[c.Shell])
	return nil
}

// completionTime is how long a server may take to name what it has: somebody has pressed a key and waits.
const completionTime = 700 * time.Millisecond

// completing answers a shell that asks what may come next; ok is false if none asks. It says nothing about what goes wrong.
func (a *app) completing(k *kong.Kong) (ok bool) {
	line := a.env["COMP_LINE"]
	if line == "" {
		return false
	}
	if at, err := strconv.Atoi(a.env["COMP_POINT"]); err == nil && at >= 0 && at < len(line) {
		line = line[:at]
	}
	ctx, stop := context.WithTimeout(a.ctx, completionTime)
	defer stop()
	p := &predictor{app: a, ctx: ctx}
	tree, err := kongcompletion.Command(k, kongcompletion.WithPredictors(map[string]complete.Predictor{
		"saga": complete.PredictFunc(p.sagas), "live": complete.PredictFunc(p.live), "definition": complete.PredictFunc(p.definitions), "step": complete.PredictFunc(p.steps),
		"file": complete.PredictFiles("*"), "status": complete.PredictFunc(statusList),
	}))
	if err != nil {
		return true
	}
	args := argsOf(line)
	answers := slices.DeleteFunc(tree.Predict(args), func(s string) bool { return !strings.HasPrefix(s, args.Last) })
	slices.Sort(answers)
	for _, s := range slices.Compact(answers) {
		a.printf("%s\n", s)
	}
	return true
}

// argsOf takes a line apart as the library wants it: the words behind the program's name, the last one begun.
func argsOf(line string) complete.Args {
	words := strings.Fields(line)
	if strings.HasSuffix(line, " ") || len(words) < 2 {
		words = append(words, "")
	}
	words = words[1:]
	if flag, value, ok := strings.Cut(words[len(words)-1], "="); ok && strings.HasPrefix(flag, "--") {
		words = append(words[:len(words)-1], flag, value)
	}
	done := words[:len(words)-1]
	args := complete.Args{All: words, Completed: done, Last: words[len(words)-1]}
	if len(done) > 0 {
		args.LastCompleted = done[len(done)-1]
	}
	return args
}

// predictor asks the server that the line, or the environment, names.
type predictor struct {
	app *app
	ctx context.Context
}

func (p *predictor) client(args complete.Args) *client {
	f := serverFlags{Server: "http://127.0.0.1:8080", APIKey: p.app.env["RECOURSE_API_KEY"]}
	if s := p.app.env["RECOURSE_SERVER"]; s != "" {
		f.Server = s
	}
	for i, word := range args.Completed {
		if i+1 < len(args.Completed) && word == "--server" {
			f.Server = args.Completed[i+1]
		}
	}
	c, err := f.client(p.ctx)
	if err != nil {
		return nil
	}
	return c
}

// completedSagas is how many sagas are offered, the newest ones.
const completedSagas = 100

func (p *predictor) sagas(args complete.Args) []string { return p.ids(args, url.Values{}) }

// live are sagas that have not ended.
func (p *predictor) live(args complete.Args) []string {
	return p.ids(args, url.Values{"status": slices.Concat(urgent, usual)})
}

func (p *predictor) ids(args complete.Args, q url.Values) []string {
	if args.Last != "" {
		q.Set("q", args.Last)
	}
	c := p.client(args)
	if c == nil {
		return nil
	}
	list, err := pages[saga.View](c, "/v1/sagas", q, completedSagas)
	if err != nil {
		return nil
	}
	ids := make([]string, len(list))
	for i, v := range list {
		ids[i] = v.ID
	}
	return ids
}

func (p *predictor) definitions(args complete.Args) []string {
	c := p.client(args)
	if c == nil {
		return nil
	}
	list, err := pages[document](c, "/v1/definitions", url.Values{}, 0)
	if err != nil {
		return nil
	}
	names := make([]string, len(list))
	for i, d := range list {
		names[i] = d.Name
	}
	return names
}

// steps are those of the saga before it that wait for a person.
func (p *predictor) steps(args complete.Args) []string {
	c := p.client(args)
	if c == nil || args.LastCompleted == "" {
		return nil
	}
	list, err := pages[inboxEntry](c, "/v1/inbox", url.Values{"saga": {args.LastCompleted}}, 0)
	if err != nil {
		return nil
	}
	var paths []string
	for _, e := range list {
		paths = append(paths, e.Path)
	}
	return paths
}

// statusList goes on with a list of statuses.
func statusList(args complete.Args) []string {
	before := args.Last[:strings.LastIndexByte(args.Last, ',')+1]
	var list []string
	for _, s := range slices.Concat(urgent, usual, over) {
		list = append(list, fmt.Sprint(before, s))
	}
	return list
}
