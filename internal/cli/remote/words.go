package remote

import (
	"regexp"
	"strings"
)

// spoken replaces terms of the API by those of the command line. Longer ones come before their
// parts.
var spoken = strings.NewReplacer(
	"GET /v1/sagas/{id} shows its state", "`recourse show` shows its state",
	"POST /v1/sagas/{id}/compensate", "`recourse undo`",
	"GET …/steps lists them", "`recourse show --steps` lists them",
	"GET /v1/definitions lists them", "`recourse definitions list` lists them",
	"Raise the budget of the saga (PATCH), or cancel it.", "Raise its budget, or cancel it.",
	"Approve or reject it, with the hash of what is shown here.", "Approve or reject it.",
	"start a new one with `retry`", "start a new one with `recourse retry`",
	"fix the fields in `errors`", "fix the fields named below",
	"leave `from` out", "leave --from out",
	"new_key", "--new-key",
	"send the same request again, with the same Idempotency-Key", "give the same command again, with the same --key",
	"sending the same request again, with the same Idempotency-Key", "giving the same command again, with the same --key",
	"the Idempotency-Key", "the --key",
	"The Idempotency-Key", "The --key",
	"this Idempotency-Key", "this --key",
	"Idempotency-Key", "--key",
	"The request is invalid", "The command is invalid",
)

// flagOf names the flags and arguments that become fields and parameters of requests.
var flagOf = map[string]string{
	"input": "--input", "version": "--version", "budget": "the budget", "name": "--name", "actions": "--actions", "lease": "--lease", "labels": "--label", "output": "--set-output", "data": "--data", "reason": "--reason",
	"models": "--models", "ignore": "--ignore", "max_calls": "--max-calls", "max_parallel": "--max-parallel", "max_asks": "--max-asks", "max_steps": "--max-steps", "timeout": "--timeout", "on_lost": "--on-lost", "key": "--key",
	"comment": "--comment", "new_key": "--new-key", "outcome": "--outcome", "from": "--from", "mode": "--mode", "definition": "the definition",
	"status": "--status", "saga": "--saga", "kind": "--kind", "q": "--query", "label": "--label", "started_after": "--after", "started_before": "--before",
}

// place matches the place of a finding: a JSON pointer into the body (/input/city), or a parameter
// (?status).
var place = regexp.MustCompile(`(^|\s)([/?])([a-z_]+)([./][^:\s]*)?:`)

// versions matches the hint of the API for a version that does not exist.
var versions = regexp.MustCompile(`GET /v1/definitions/\S+/versions lists them`)

// InCommands replaces terms of the API in a text by those of the command line.
func InCommands(text string) string {
	text = versions.ReplaceAllString(text, "`recourse definitions list` shows the newest")
	text = place.ReplaceAllStringFunc(text, func(at string) string {
		m := place.FindStringSubmatch(at)
		flag, ok := flagOf[m[3]]
		if !ok {
			return at
		}
		below := strings.ReplaceAll(strings.TrimLeft(m[4], "./"), "/", ".")
		return m[1] + strings.TrimSpace(flag+" "+below) + ":"
	})
	return spoken.Replace(text)
}
