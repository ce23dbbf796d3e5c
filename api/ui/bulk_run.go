package ui

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"recourse/api/rest"
	"recourse/saga"
)

// runBulk serves POST /inbox/together/run. It decides one entry after another, and reports each.
func runBulk(v *request) error {
	v.still = true
	f := v.posted()
	page := bulkView{Kind: f.Get("kind"), Definition: f.Get("definition"), Back: "/inbox?" + queryOf(f.Get("back")), Outcome: f.Get("outcome"), Reason: f.Get("reason")}
	page.Title, page.Approval = kindTitles[page.Kind], page.Kind == saga.InboxApproval
	if page.Outcome == "" || strings.TrimSpace(page.Reason) == "" {
		return &rest.Problem{Status: http.StatusUnprocessableEntity, Title: "Choose a decision and give a reason", Detail: "go back and enter both; the reason goes into each saga's journal. Nothing was decided."}
	}
	v.api = v.api.WithContext(context.WithoutCancel(v.r.Context())) // all of them, even if the user leaves the page
	for n, text := range f["item"] {
		i, ok := parseItem(text)
		if !ok || n >= mostTogether {
			continue
		}
		r := v.decideOne(i, page, f.Get("key")+":"+i.id)
		if r.Problem == nil {
			page.Good++
		} else {
			page.Bad++
		}
		page.Results = append(page.Results, r)
	}
	if page.Group = f.Get("group"); page.Group != "" { // shows whether the group has further entries
		others := bulkView{Group: page.Group, From: f.Get("to")}
		list, err := v.part(&others)
		if err != nil {
			return err
		}
		page.To, page.After, page.Further = others.From, others.After+len(list), others.Further
	}
	return v.render("inbox-decided", "Decided together", page)
}

// decideOne decides one entry. The decision is refused if the entry has changed since it was shown.
func (v *request) decideOne(i item, page bulkView, key string) result {
	r := result{Saga: i.saga, Path: i.path, Title: i.title}
	do, header := "resolve", http.Header{"Idempotency-Key": {key}}
	body := map[string]any{"outcome": page.Outcome, "reason": page.Reason}
	if page.Approval {
		do, body = page.Outcome, map[string]any{"comment": page.Reason, "shown": i.shown}
		if do != "approve" && do != "reject" {
			r.Problem = &rest.Problem{Title: "An approval is approved or rejected"}
			return r
		}
	} else {
		header.Set("If-Match", `"`+i.etag+`"`)
	}
	answer, err := v.api.Send(http.MethodPost, rest.Path("v1", "sagas", i.saga, "steps", i.path, do), body, header, nil)
	switch {
	case err != nil && !errors.As(err, &r.Problem):
		r.Problem = &rest.Problem{Title: "Unknown whether it was done", Detail: err.Error()}
	case err == nil && answer.Unread():
		r.Note = "sent; no node has read the command yet"
	}
	if p := r.Problem; p != nil && p.Status == http.StatusPreconditionFailed {
		p.Title, p.Detail = "It has changed since you opened the page", "nothing was done: check the saga"
	}
	return r
}
