package llmstub

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"net/http"
)

// embeddings is OpenAI's API for embeddings.
type embeddings struct{}

const defaultDimensions = 8

// The values of embeddings: as numbers, and as the bits of an IEEE 754 number with 32 bits.
var (
	embeddedNumbers = []json.Number{"0.5", "0.25", "-0.5", "-0.25"}
	embeddedBits    = []uint32{0x3f000000, 0x3e800000, 0xbf000000, 0xbe800000}
)

func (embeddings) parse(_ http.Header, body []byte, _ *memory) (*question, *refusal) {
	var r struct {
		Model          string
		Input          json.RawMessage
		EncodingFormat string `json:"encoding_format"`
		Dimensions     int
	}
	if json.Unmarshal(body, &r) != nil {
		return nil, invalid("send a request for embeddings: {model, input}")
	}
	q := &question{Model: r.Model, Floats: r.EncodingFormat != "base64", Dimensions: r.Dimensions, Uncounted: true}
	if q.Dimensions < 1 {
		q.Dimensions = defaultDimensions
	}
	var only string
	if json.Unmarshal(r.Input, &only) == nil {
		q.Input = []string{only}
	} else if json.Unmarshal(r.Input, &q.Input) != nil || len(q.Input) == 0 {
		return nil, invalid("input must be a text or a list of texts")
	}
	return q, nil
}

// document returns embeddings that depend on nothing but the texts.
func (embeddings) document(q *question, a reply) any {
	data := []any{}
	for i, s := range q.Input {
		sum := sha256.Sum256([]byte(s))
		var numbers []json.Number
		var bits []byte
		for n := range q.Dimensions {
			at := sum[n%len(sum)] % byte(len(embeddedNumbers))
			numbers, bits = append(numbers, embeddedNumbers[at]), binary.LittleEndian.AppendUint32(bits, embeddedBits[at])
		}
		one := map[string]any{"object": "embedding", "index": i, "embedding": numbers}
		if !q.Floats {
			one["embedding"] = base64.StdEncoding.EncodeToString(bits)
		}
		data = append(data, one)
	}
	return map[string]any{"object": "list", "data": data, "model": q.Model,
		"usage": map[string]any{"prompt_tokens": a.Usage.Input, "total_tokens": a.Usage.Total}}
}

// events returns none: embeddings are not streamed.
func (embeddings) events(*question, reply, Fault) []event { return nil }

func (embeddings) problem(r refusal, used *usage) any { return openAIProblem(r, used) }
