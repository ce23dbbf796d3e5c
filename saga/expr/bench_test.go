package expr

import "testing"

func BenchmarkPath(b *testing.B) {
	p := mustCompile(b, `steps.charge.output.id`)
	env := sample()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Eval(env); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTemplate(b *testing.B) {
	t := Map([]Field{
		{"amount", mustText(b, `${input.amount * 2 + 0.10}`)},
		{"note", mustText(b, `Refund of ${input.amount} for ${input.name}`)},
		{"order", mustText(b, `${input.order}`)},
		{"lines", mustText(b, `${map(input.lines, .qty * .price)}`)},
		{"text", mustText(b, `${steps.skipped.output?.text ?? "none"}`)},
	})
	env := sample()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := t.SealedJSON(env); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	chk := sampleCheck()
	b.ReportAllocs()
	for b.Loop() {
		if _, errs := Compile(`input.amount > 10 && steps.charge.output.id != null`, chk); errs != nil {
			b.Fatal(errs[0])
		}
	}
}
