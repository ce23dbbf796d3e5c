package verify

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"time"

	"recourse/internal/cli"
	"recourse/internal/evidence"
	"recourse/internal/invariant"
	"recourse/internal/story"
)

// readAnchors reads the anchors; nil if none are given.
func (c *Command) readAnchors(a *cli.App) (*evidence.Set, error) {
	if len(c.Anchors) == 0 && len(c.AnchorsKey) == 0 {
		return nil, nil
	}
	if len(c.Anchors) == 0 || len(c.AnchorsKey) == 0 {
		return nil, cli.Exit(cli.Usage, errors.New("--anchors and --anchors-key belong together: without the public key, anybody could have made the anchors"))
	}
	var keys []ed25519.PublicKey
	for _, name := range c.AnchorsKey {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, cli.Exit(cli.Usage, fmt.Errorf("--anchors-key: %w", err))
		}
		key, err := evidence.ParsePublic(text)
		if err != nil {
			return nil, cli.Exit(cli.Usage, fmt.Errorf("--anchors-key %s: %w", name, err))
		}
		keys = append(keys, key)
	}
	set := evidence.NewSet(keys)
	for _, name := range c.Anchors {
		file, err := a.Open(name)
		if err != nil {
			return nil, cli.Exit(cli.Usage, fmt.Errorf("--anchors: %w", err))
		}
		err = set.Read(name, file)
		file.Close()
		if err != nil {
			return nil, cli.Exit(cli.Usage, fmt.Errorf("--anchors: %w", err))
		}
	}
	if set.Count().Anchors == 0 && len(set.Problems()) == 0 {
		return nil, cli.Exit(cli.Usage, errors.New("--anchors: there is no anchor in the files: name what a sink with `notify: [anchor]`, or the file of `evidence`, got"))
	}
	return set, nil
}

// compare compares a journal with its anchors.
func (v *check) compare(s *invariant.Saga) {
	if v.anchors != nil {
		v.evident(v.anchors.Check(s.ID, s.Records))
	}
}

// slack is how much slower this machine's clock may be than the database's, by which nodes delete.
const slack = 5 * time.Minute

// anchored reports what is wrong with the anchors themselves and, if all sagas were checked, which
// anchored sagas are missing.
func (v *check) anchored() {
	if v.anchors == nil {
		return
	}
	v.evident(v.anchors.Problems())
	if v.cmd.Database != "" && v.cmd.Saga == "" && v.cmd.Since == "" {
		v.evident(v.anchors.Missing(time.Now().Add(slack)))
	}
}

func (v *check) evident(list []evidence.Problem) {
	for _, p := range list {
		v.checker.Report(invariant.Violation{N: 30, Saga: p.Saga, Seq: p.Seq, Text: p.Text})
	}
}

// anchorNotes says how much the anchors cover.
func (v *check) anchorNotes() {
	if v.anchors == nil {
		return
	}
	a, n := v.app, v.anchors.Count()
	a.Printf("%s: %s anchored to the last record, %d in part, %d not at all.\n", cli.Count(n.Anchors, "anchor"), cli.Count(n.Whole, "saga"), n.Partly, n.Unsigned)
	if n.Expired > 0 {
		a.Printf("Anchored and gone, as their retention has ended: %s.\n", cli.Count(n.Expired, "saga"))
	}
	if n.Damaged > 0 {
		a.Printf("Not anchors, and ignored: %s of the files.\n", cli.Count(n.Damaged, "line"))
	}
	for _, end := range v.anchors.Ends() {
		if !end.Last {
			a.Printf("The last anchor of node %s is number %d, at %s. Later records of it are not evident, unless another node has anchored them.\n", story.Harmless(end.Node), end.Number, end.At)
		}
	}
}
