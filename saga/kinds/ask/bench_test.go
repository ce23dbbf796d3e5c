package ask_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"recourse/saga/kinds/ask"
	"recourse/saga/kinds/llm"
)

// conversation returns a request with a conversation of about size bytes.
func conversation(size int) []byte {
	random := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	b.WriteString(`{"model": "m", "max_tokens": 128, "tools": [{"type": "function", "function": {"name": "book", "parameters": {"type": "object"}}}], "messages": [`)
	for i := 0; b.Len() < size; i++ {
		if i > 0 {
			b.WriteString(", ")
		}
		role := "user"
		if i%2 == 1 {
			role = "assistant"
		}
		fmt.Fprintf(&b, `{"role": %q, "content": "`, role)
		for n := b.Len() + 2000; b.Len() < n; {
			word := random.Uint64() % 4096
			fmt.Fprintf(&b, "%x ", word*2654435761)
			if word%50 == 0 {
				b.WriteString(`it \"says\" so.\n`)
			}
		}
		b.WriteString(`"}`)
	}
	b.WriteString("]}")
	return []byte(b.String())
}

// Benchmarks of a new request: what it is, and what is stored of it.
func BenchmarkParse(b *testing.B) {
	route, _ := ask.Find(llm.OpenAIAPI, "/chat/completions")
	for _, size := range []int{4 << 10, 100 << 10} {
		body := conversation(size)
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ask.Parse(route, body, "", nil, ask.Rules{}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("keep %dKiB", size>>10), func(b *testing.B) {
			b.ReportAllocs()
			p, err := ask.Parse(route, body, "", nil, ask.Rules{})
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if n := len(p.Keep(ask.NewIndex())); n != 2 {
					b.Fatal(n)
				}
			}
		})
	}
}
