package dsl

import (
	"recourse/retry"
	"recourse/saga"
	"recourse/saga/expr"
)

// budget reads `2.00 USD` or {amount, tokens, on_exceed}.
func (p *parser) budget(n *Node) *saga.Budget {
	return p.budgetOf(n, "amount", "tokens", "on_exceed")
}

// Endowment reads the part of a budget that a child saga gets: `2.00 USD` or {amount, tokens}.
func (d *Decoder) Endowment(n *Node) *saga.Budget { return d.p.budgetOf(n, "amount", "tokens") }

func (p *parser) budgetOf(n *Node, keys ...string) *saga.Budget {
	if n.Form != Map {
		return &saga.Budget{Amount: p.money(n)}
	}
	b := &saga.Budget{}
	p.known(n, "budget", keys)
	if v := n.Get("amount"); v != nil {
		b.Amount = p.money(v)
	}
	if v := n.Get("tokens"); v != nil {
		b.Tokens, _ = p.whole(v, 1, saga.MostTokens)
	}
	if v := n.Get("on_exceed"); v != nil {
		word, _ := p.oneOf(v, "fail", "ask")
		b.Ask = word == "ask"
	}
	if n.Get("amount") == nil && n.Get("tokens") == nil {
		p.fail(n, "missing_key", "a budget needs amount or tokens")
	}
	return b
}

// wantCost is the cost in an answer. Null is an unknown cost.
var wantCost = want{expr.KindNumber | expr.KindNull, expr.CodeWrongType, "a cost must be a number"}

// cost reads the cost of an attempt: money, or {from, reserve}.
func (p *parser) cost(n *Node, s *scope) saga.Cost {
	if n.Form != Map {
		return saga.Cost{Fixed: p.money(n)}
	}
	c := saga.Cost{}
	p.known(n, "cost", []string{"from", "reserve"})
	if v := n.Get("from"); v != nil {
		c.From = p.expression(v, s, OnResult, wantCost)
	} else {
		p.fail(n, "missing_key", "cost needs from, an expression over result that gives the amount; or write the money itself")
	}
	var reserve *retry.Money
	if v := n.Get("reserve"); v != nil {
		reserve = p.money(v)
	} else {
		p.fail(n, "missing_key", `cost needs reserve, the most that an attempt may cost, such as "0.10 USD": it is reserved before the request is sent`)
	}
	c.Reserve = reserve
	return c
}
