package dsl

import "strings"

// items counts the marks that separate items: the commas of flow collections, the - and ? and :
// that begin items of block collections; and anchors, aliases and tags. The count is approximate:
// it knows quotes, comments and block scalars well enough that only a document with that many items
// reaches the limit. It is needed because the parser builds the whole tree before its nodes can be
// counted.
func items(text string, limit int) (count, at int) {
	p := prescan{text: text}
	for p.at < len(text) {
		if p.step(); p.items > limit {
			return p.items, p.at
		}
	}
	return p.items, 0
}

type prescan struct {
	text  string
	at    int
	items int
	depth int  // the nesting of flow collections
	start bool // a token may begin here
	plain bool // inside a plain scalar
}

func (p *prescan) step() {
	c := p.text[p.at]
	start := p.at == 0 || p.start
	p.start = false
	switch {
	case c == '\n':
		p.plain, p.start = false, true
	case c == ' ' || c == '\t':
		p.start = start || !p.plain
		if strings.HasPrefix(p.text[p.at+1:], "#") {
			p.line()
			return
		}
	case c == '#' && start:
		p.line()
		return
	case (c == '"' || c == '\'') && start:
		p.quote(c)
		return
	case (c == '[' || c == '{') && start:
		p.depth++
		p.start, p.plain = true, false
	case p.depth > 0 && (c == ']' || c == '}'):
		p.depth--
		p.plain = false
	case p.depth > 0 && c == ',':
		p.items++
		p.start, p.plain = true, false
	case p.ends(c, start):
		if p.spaced() { // the : in http://host does not count
			p.items++
		}
		p.start, p.plain = true, false
	case (c == '&' || c == '*' || c == '!') && start: // they are refused later, but parsing them takes time
		p.items++
		p.start, p.plain = true, false
		for p.at < len(p.text) && strings.IndexByte(" \t\n,]}", p.text[p.at]) < 0 {
			p.at++
		}
		return
	case (c == '|' || c == '>') && start && p.depth == 0:
		p.block()
		return
	default:
		p.plain = true
	}
	p.at++
}

// ends reports whether c is an indicator after which a new token begins.
func (p *prescan) ends(c byte, start bool) bool {
	return c == ':' && (p.spaced() || p.depth > 0) || (c == '-' || c == '?') && start && p.spaced()
}

// spaced reports whether space or the end follows.
func (p *prescan) spaced() bool {
	return p.at+1 >= len(p.text) || strings.IndexByte(" \t\n", p.text[p.at+1]) >= 0
}

func (p *prescan) line() {
	if nl := strings.IndexByte(p.text[p.at:], '\n'); nl >= 0 {
		p.at += nl
	} else {
		p.at = len(p.text)
	}
}

func (p *prescan) quote(q byte) {
	for p.at++; p.at < len(p.text) && p.text[p.at] != q; p.at++ {
		if q == '"' && p.text[p.at] == '\\' {
			p.at++
		}
	}
	p.at++
}

// block skips a block scalar: the following lines that are blank or indented deeper than the line
// that opens it.
func (p *prescan) block() {
	begin := strings.LastIndexByte(p.text[:p.at], '\n') + 1
	indent := leading(p.text[begin:])
	p.line()
	for p.at < len(p.text) {
		rest := p.text[p.at+1:]
		line, _, _ := strings.Cut(rest, "\n")
		if strings.TrimSpace(line) != "" && leading(line) <= indent {
			return
		}
		p.at += 1 + len(line)
	}
}

func leading(s string) int { return len(s) - len(strings.TrimLeft(s, " ")) }
