// Package llmstub mocks a language model: an OpenAI-compatible service that costs nothing, gives
// the same response to the same question, records every call, and can inject faults. The docs and
// the tests of recourse use it.
//
//	POST /v1/chat/completions   streamed on request; GET /bills lists the calls
//
// # Answers
//
// A question with a response_format of the type json_schema gets an instance of the schema: all its
// properties, lists of four distinct texts, integers that are 7. Any other question gets a sentence
// with the first words of its last message. Four bytes are a token; a response longer than
// max_tokens is cut, with the finish_reason length.
//
// # Keys
//
// The same request again with the same Idempotency-Key gets the same response with
// Idempotency-Replayed: true, and is billed once, whether or not the first response arrived;
// another body with the key gets 422. A refused request does not use its key.
//
// # Faults
//
// Config.Fault selects the fault of each request. Nothing is random.
package llmstub
