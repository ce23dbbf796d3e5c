// Command commentwidth reports the comments of Go files that are wider than 100 columns, and those
// after code whose lines are wider than 120, and fails if there are any. With -w it wraps the
// former instead; the latter need a sentence of their own above the code.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"strings"
	"unicode/utf8"
)

// Width is the most columns that a comment on a line of its own may have, lineWidth that a line of
// code with a comment after it may have. A tab counts as four.
const (
	width     = 100
	lineWidth = 120
	tabWidth  = 4
)

func main() {
	write := flag.Bool("w", false, "wrap the comments")
	flag.Parse()
	bad := false
	for _, file := range flag.Args() {
		src, err := os.ReadFile(file)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if *write {
			if wrapped := wrap(src); !bytes.Equal(wrapped, src) {
				err = os.WriteFile(file, wrapped, 0o644)
			}
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			continue
		}
		for _, n := range wide(src) {
			fmt.Printf("%s:%d: a comment is wider than %d columns: wrap it (go run ./internal/commentwidth -w %s)\n", file, n+1, width, file)
			bad = true
		}
		for _, n := range trailing(src) {
			fmt.Printf("%s:%d: a comment makes this line wider than %d columns: write it as a sentence above the code\n", file, n+1, lineWidth)
			bad = true
		}
	}
	if bad {
		os.Exit(1)
	}
}

// wide returns the indexes of the lines that are too wide.
func wide(src []byte) (list []int) {
	lines := strings.Split(string(src), "\n")
	prose := comments(src)
	for n, line := range lines {
		if prose[n] && tooWide(line) {
			list = append(list, n)
		}
	}
	return list
}

// trailing returns the indexes of the lines that are too wide and end with a comment after code.
func trailing(src []byte) (list []int) {
	lines := strings.Split(string(src), "\n")
	eachComment(src, func(n int, text string) {
		line := lines[n]
		code, found := strings.CutSuffix(strings.TrimRight(line, " \t\r"), strings.TrimRight(text, " \t\r"))
		if found && strings.HasPrefix(text, "//") && strings.TrimSpace(code) != "" && columns(line) > lineWidth {
			list = append(list, n)
		}
	})
	return list
}

// tooWide reports whether a line is too wide and could be wrapped.
func tooWide(line string) bool {
	return columns(line) > width && strings.Contains(strings.TrimSpace(line)[len("// "):], " ") && !strings.Contains(line, "://")
}

func columns(line string) int {
	return utf8.RuneCountInString(line) + (tabWidth-1)*strings.Count(line, "\t")
}

// eachComment calls f with each comment and the index of the line that it begins on.
func eachComment(src []byte, f func(n int, text string)) {
	fset := token.NewFileSet()
	file := fset.AddFile("", fset.Base(), len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, scanner.ScanComments)
	for {
		switch pos, tok, text := s.Scan(); tok {
		case token.EOF:
			return
		case token.COMMENT:
			f(file.Line(pos)-1, text)
		}
	}
}

// comments returns the lines that are prose in a comment: no directives, preformatted text or
// output of examples.
func comments(src []byte) map[int]bool {
	lines := strings.Split(string(src), "\n")
	prose := make(map[int]bool)
	output := -1 // the last line of an example's output
	eachComment(src, func(n int, text string) {
		rest, ok := strings.CutPrefix(text, "// ")
		switch {
		case strings.HasPrefix(strings.ToLower(rest), "output:"), strings.HasPrefix(strings.ToLower(rest), "unordered output:"), output == n-1 && output >= 0:
			output = n
		case ok && rest != "" && rest[0] != ' ' && rest[0] != '\t' && strings.TrimSpace(lines[n]) == strings.TrimRight(text, " \t\r"):
			prose[n] = true
		}
	})
	return prose
}

// wrap wraps each paragraph of comments that has a line which is too wide.
func wrap(src []byte) []byte {
	lines := strings.Split(string(src), "\n")
	prose := comments(src)
	var out []string
	for n := 0; n < len(lines); n++ {
		if !prose[n] {
			out = append(out, lines[n])
			continue
		}
		indent, _, _ := strings.Cut(lines[n], "//")
		end := n + 1
		for end < len(lines) && prose[end] && strings.HasPrefix(lines[end], indent+"// ") && !item(lines[end]) {
			end++
		}
		paragraph := lines[n:end]
		broad := false
		for _, line := range paragraph {
			broad = broad || tooWide(line)
		}
		if broad {
			paragraph = filled(indent, paragraph)
		}
		out = append(out, paragraph...)
		n = end - 1
	}
	return []byte(strings.Join(out, "\n"))
}

// item reports whether a comment begins an item of a list.
func item(line string) bool {
	text := strings.TrimPrefix(strings.TrimSpace(line), "// ")
	return strings.HasPrefix(text, "- ") || strings.HasPrefix(text, "* ") || text != "" && text[0] >= '1' && text[0] <= '9' && strings.HasPrefix(strings.TrimLeft(text, "0123456789"), ". ")
}

// filled breaks a paragraph into lines that use the whole width.
func filled(indent string, paragraph []string) (out []string) {
	line := ""
	for _, l := range paragraph {
		for word := range strings.FieldsSeq(strings.TrimPrefix(strings.TrimSpace(l), "//")) {
			switch longer := line + " " + word; {
			case line == "":
				line = indent + "// " + word
			case columns(longer) > width:
				out = append(out, line)
				line = indent + "// " + word
			default:
				line = longer
			}
		}
	}
	return append(out, line)
}
