// Package completion completes command lines in a shell: commands and flags from the grammar, and
// ids and names from the server.
package completion

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"recourse/internal/cli"
)

// Command is `recourse completion`.
type Command struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Scripts make a shell call the program for completions, with the present line in COMP_LINE.
var Scripts = map[string]string{
	"bash": `# recourse completion bash: source this in ~/.bashrc
_recourse() {
	local IFS=$'\n'
	COMPREPLY=($(COMP_LINE="${COMP_LINE:0:COMP_POINT}" COMP_POINT="$COMP_POINT" "${COMP_WORDS[0]}" 2>/dev/null))
}
complete -o default -F _recourse recourse
`,
	"zsh": `#compdef recourse
# recourse completion zsh: source this in ~/.zshrc, after compinit
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
func (c *Command) Run(a *cli.App) error {
	a.Printf("%s", Scripts[c.Shell])
	return nil
}

// Timeout is the timeout of a server's response: a person is waiting for the completion.
const Timeout = 700 * time.Millisecond

// Complete prints completions if a shell requests them; ok is false otherwise. It prints no
// errors.
func Complete(a *cli.App, k *kong.Kong) (ok bool) {
	line := a.Variables["COMP_LINE"]
	if line == "" {
		return false
	}
	if at, err := strconv.Atoi(a.Variables["COMP_POINT"]); err == nil && at >= 0 && at < len(line) {
		line = line[:at]
	}
	ctx, stop := context.WithTimeout(a.Ctx, Timeout)
	defer stop()
	words := typed(line)
	p := &predictor{app: a, ctx: ctx, done: words[:len(words)-1], last: words[len(words)-1]}
	answers := slices.DeleteFunc(p.predict(k.Model.Node), func(s string) bool { return !strings.HasPrefix(s, p.last) })
	slices.Sort(answers)
	for _, s := range slices.Compact(answers) {
		a.Printf("%s\n", s)
	}
	return true
}

// typed returns the words after the program's name. The last one is incomplete and may be empty.
func typed(line string) []string {
	words := strings.Fields(line)
	if strings.HasSuffix(line, " ") || len(words) < 2 {
		words = append(words, "")
	}
	words = words[1:]
	if flag, value, ok := strings.Cut(words[len(words)-1], "="); ok && strings.HasPrefix(flag, "--") {
		words = append(words[:len(words)-1], flag, value)
	}
	return words
}

// predict returns what the last word may be, and possibly more.
func (p *predictor) predict(root *kong.Node) []string {
	node, flag, arguments := root, (*kong.Flag)(nil), 0
	for _, word := range p.done {
		child := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == word })
		switch {
		case flag != nil:
			flag = nil // the word is its value
		case strings.HasPrefix(word, "-"):
			flag = awaitsValue(node, word)
		case child >= 0:
			node = node.Children[child]
		default:
			arguments++
		}
	}
	switch {
	case flag != nil:
		return p.values(flag.Value)
	case strings.HasPrefix(p.last, "-"):
		var names []string
		for _, f := range flagsOf(node) {
			names = append(names, "--"+f.Name)
		}
		return names
	case arguments < len(node.Positional):
		return p.values(node.Positional[arguments])
	}
	var names []string
	for _, n := range node.Children {
		if !n.Hidden {
			names = append(names, n.Name)
		}
	}
	return names
}

// flagsOf returns the flags of a command and of those above it, without hidden ones.
func flagsOf(node *kong.Node) []*kong.Flag { return slices.Concat(node.AllFlags(true)...) }

// awaitsValue returns the flag that a word names, if its value is the next word.
func awaitsValue(node *kong.Node, word string) *kong.Flag {
	for _, f := range flagsOf(node) {
		if (word == "--"+f.Name || f.Short != 0 && word == "-"+string(f.Short)) && !f.IsBool() && !f.IsCounter() {
			return f
		}
	}
	return nil
}

// values returns what a flag or an argument may be, if that is known.
func (p *predictor) values(v *kong.Value) []string {
	switch v.Tag.Get("completion-predictor") {
	case "saga":
		return p.sagas()
	case "live":
		return p.live()
	case "definition":
		return p.definitions()
	case "step":
		return p.steps()
	case "status":
		return p.statusList()
	}
	if v.Enum != "" {
		return v.EnumSlice()
	}
	return nil
}
