package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"recourse/internal/cli"
)

// Fork is `recourse fork`, and `recourse sessions fork`.
type Fork struct {
	ServerFlags
	cli.OutputFlag
	Saga    string   `arg:"" completion-predictor:"saga" help:"The saga's id, or its first 8 characters or more."`
	At      int64    `placeholder:"SEQ" help:"The record after which the fork goes on: its seq, as \"recourse journal\" prints it. Default: the last one at which forward work was done."`
	Effects string   `enum:"hold,stub,real" default:"hold" help:"hold: a person approves each request that has an effect. stub: nothing is sent, and steps get recorded outcomes or those of --stub. real: it is sent, which needs an operator and the end of the saga."`
	Input   string   `short:"i" placeholder:"JSON" help:"Another input: JSON, @FILE or - for stdin."`
	Budget  string   `placeholder:"AMOUNT" help:"The fork's budget, such as \"5.00 USD\". Default: the original's."`
	Stub    []string `sep:"none" placeholder:"STEP=JSON" help:"The output of a step, which does nothing then; of a session's calls, by action. {\"error\": {\"code\": …, \"title\": …}} makes it fail. Repeatable."`
	Reason  string   `short:"r" help:"Reason, for the journal. Required to replace the output of a step that had ended by then."`
}

// Run forks a saga or a session.
func (c *Fork) Run(a *cli.App) error {
	body := map[string]any{"effects": c.Effects}
	if c.At != 0 {
		body["at"] = c.At
	}
	if c.Budget != "" {
		body["budget"] = c.Budget
	}
	if c.Reason != "" {
		body["reason"] = c.Reason
	}
	input, err := a.JSONArg("--input", c.Input)
	if err != nil {
		return err
	}
	if input != nil {
		body["input"] = input
	}
	if body["stubs"], err = c.stubs(); err != nil {
		return cli.Exit(cli.Usage, err)
	}
	return commandSaga(a, c.ServerFlags, c.OutputFlag, c.Saga, "fork", body)
}

// stubs reads the flags --stub.
func (c *Fork) stubs() (map[string]any, error) {
	stubs := make(map[string]any, len(c.Stub))
	for _, flag := range c.Stub {
		step, text, ok := strings.Cut(flag, "=")
		if !ok || step == "" || !json.Valid([]byte(text)) {
			return nil, errors.New(`--stub is a step's path and its output as JSON, such as book={"id":"b1"}`)
		}
		if stubs[step] != nil {
			return nil, fmt.Errorf("--stub names %s twice", step)
		}
		var failure struct {
			Error json.RawMessage `json:"error"`
		}
		if json.Unmarshal([]byte(text), &failure) == nil && failure.Error != nil {
			stubs[step] = json.RawMessage(text)
			continue
		}
		stubs[step] = map[string]any{"output": json.RawMessage(text)}
	}
	return stubs, nil
}
