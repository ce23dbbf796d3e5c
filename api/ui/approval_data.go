package ui

import (
	"bytes"
	"encoding/json"
	"net/http"

	"recourse/api/rest"
	"recourse/api/ui/controls"
	"recourse/saga"
)

// dataAt is the JSON pointer of an approval's data in the command's body.
const dataAt = "/data"

// data reads the data in an approval's form. It returns nil if the approval has no form, or is no
// longer open, which the API reports.
func (v *request) data(id, step string) (json.RawMessage, error) {
	for cursor, more := "", true; more; more = cursor != "" {
		list, next, err := v.entries(inboxFilter{Kind: saga.InboxApproval, Saga: id}, cursor)
		if err != nil {
			return nil, err
		}
		for _, e := range list {
			if e.Path != step {
				continue
			}
			if len(e.Form) == 0 {
				return nil, nil
			}
			fields := controls.Of(e.Form, dataAt, nil)
			controls.Fill(fields, v.posted())
			doc, ok := controls.Document(fields)
			if !ok {
				return nil, &rest.Problem{Status: http.StatusUnprocessableEntity, Title: "This is not JSON", Detail: "fix the marked fields; nothing was decided"}
			}
			return doc, nil
		}
		cursor = next
	}
	return nil, nil
}

// namesOf lists a schema's properties in the order of the text.
func namesOf(schema json.RawMessage) (names []string) {
	var doc struct {
		Properties json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(schema, &doc) != nil {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(doc.Properties))
	if _, err := d.Token(); err != nil {
		return nil
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return names
		}
		var skip json.RawMessage
		if d.Decode(&skip) != nil {
			return names
		}
		if s, ok := name.(string); ok {
			names = append(names, s)
		}
	}
	return names
}

// jsonOf returns a text as JSON, or a problem.
func jsonOf(name, text string) (json.RawMessage, error) {
	if !json.Valid([]byte(text)) {
		return nil, &rest.Problem{Status: 422, Title: "This is not JSON", Detail: name + " is written as JSON: text in double quotes, such as \"paid\", or an object, such as {\"id\": \"ch_1\"}"}
	}
	return json.RawMessage(text), nil
}
