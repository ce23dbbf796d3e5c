package main

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	kongcompletion "github.com/jotaen/kong-completion"
	"github.com/posener/complete"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// scripts make a shell call the program for completions, with the present line in COMP_LINE.
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

// completionTime is the timeout of a server's response: a person is waiting for the completion.
const completionTime = 700 * time.Millisecond

// completing prints completions if a shell requests them; ok is false otherwise. It prints no
// errors.
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

// argsOf splits a line for the library: the words after the program's name, and the incomplete last
// one.
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
