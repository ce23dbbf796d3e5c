package remote

import "recourse/internal/cli"

// plan is what a command would do to a saga that has ended.
type plan interface {
	possible() bool
	print(*cli.App)
}

// showPlan reads a plan from a path of the API into p, and prints it. The exit code is Conflict if
// the command would be refused.
func showPlan(a *cli.App, cl *Client, o cli.OutputFlag, path string, p plan) error {
	r, err := cl.Get(path, p)
	if err != nil {
		return err
	}
	if o.Machine() {
		if err := a.Raw(r.Body); err != nil {
			return err
		}
	} else {
		p.print(a)
	}
	if !p.possible() {
		return cli.Exit(cli.Conflict, nil)
	}
	return nil
}

// obstacles are what prevents a command.
type obstacles []struct {
	Path   string `json:"path"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// print says for each of them that the saga cannot be what the command would make it.
func (list obstacles) print(a *cli.App, what string) {
	for _, why := range list {
		if why.Path != "" {
			why.Detail = "step " + why.Path + ": " + why.Detail
		}
		a.Printf("It cannot be %s: %s (%s)\n", what, why.Detail, why.Code)
	}
}
