// Package llmstub is a language model to run sagas against: an OpenAI-compatible service that costs
// nothing, answers the same question with the same words, remembers every call, and can be told to
// misbehave. The docs and the tests of recourse use it.
//
//	POST /v1/chat/completions   streamed if asked; GET /bills lists the calls
//
// # Answers
//
// A question with a response_format of the type json_schema gets an instance of the schema: all its
// properties, lists of four distinct texts, integers that are 7. Any other gets a sentence with the
// first words of its last message. Four bytes are a token; an answer longer than max_tokens is cut
// off, with the finish_reason length.
//
// # Keys
//
// The same request again with the same Idempotency-Key gets the same answer with
// Idempotency-Replayed: true, and is billed once, whether or not the first answer arrived; another
// body under the key gets 422. A request that is refused does not use its key up.
//
// # Faults
//
// Config.Fault decides for each request what goes wrong with it. Nothing is random.
package llmstub
