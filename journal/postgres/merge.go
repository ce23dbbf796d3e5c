package postgres

import (
	"maps"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// merged combines independent statements into one: the first is the query, and the others are its
// CTEs. All see the same snapshot. Those that write are executed whatever the first one reads,
// unless it fails.
func merged(stmts []stmt) stmt {
	out := stmt{fails: map[string]error{}}
	var key strings.Builder
	for i := range stmts {
		key.WriteString(stmts[i].query)
		out.args = append(out.args, stmts[i].args...)
		maps.Copy(out.fails, stmts[i].fails)
	}
	text, known := mergedTexts.Load(key.String())
	if !known {
		text, _ = mergedTexts.LoadOrStore(key.String(), mergedText(stmts))
	}
	out.query = text.(string)
	return out
}

// mergedTexts caches the merged texts by their parts. There are few.
var mergedTexts sync.Map

var argument = regexp.MustCompile(`\$[0-9]+`)

func mergedText(stmts []stmt) string {
	var with []string
	before := 0 // number of arguments of the earlier statements
	shifted := func(text string) string {
		return argument.ReplaceAllStringFunc(text, func(arg string) string {
			n, err := strconv.Atoi(arg[1:])
			if err != nil {
				panic("postgres: argument " + arg)
			}
			return "$" + strconv.Itoa(before+n)
		})
	}
	for i, st := range stmts {
		for _, w := range st.with {
			with = append(with, shifted(w))
		}
		if i > 0 {
			with = append(with, "part"+strconv.Itoa(i)+" AS ("+shifted(st.query)+")")
		}
		before += len(st.args)
	}
	out := stmt{with: with, query: stmts[0].query}
	return out.text()
}
