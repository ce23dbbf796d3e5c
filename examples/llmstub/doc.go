// Package llmstub mocks a language model: a service with the APIs of OpenAI and Anthropic that
// costs nothing, records every call, and can inject faults. The docs and the tests of recourse use
// it.
//
//	POST /v1/chat/completions        OpenAI, streamed on request
//	POST /v1/responses               OpenAI, streamed on request
//	POST /v1/embeddings              OpenAI
//	GET  /v1/models                  OpenAI: Config.Models
//	POST /v1/messages                Anthropic, streamed on request
//	POST /v1/messages/count_tokens   Anthropic; not billed
//	GET  /bills                      the calls; Bill.Hash tells which requests are the same
//
// # Answers
//
// A question whose response must match a JSON Schema gets an instance of it: all its properties,
// lists of four distinct texts, integers that are 7. Any other question gets a sentence with the
// first words of its last message. Four bytes are a token; a response longer than the request's
// maximum of tokens is cut, and says so.
//
// The same question gets the same response, unless Config.Seed is set.
//
// # Agents
//
// The stub plays the model of an agent if the request has tools, and a message of the user has a
// ticket: JSON, within any text, with a list that the stub knows. For each item of the list it
// calls the tools of a script, as far as the request has them, and then says that it is done:
//
//	{"orders": [{…}]}   look; then refund; then mail
//	{"trips": [{…}]}    book_flight and book_hotel; then send_mail
//
// Arguments have the value of the item's field with the same name. Other texts are phrases, and the
// rest fits the tool's schema. What was called before, the stub finds in the conversation; it does
// not read the results. Calls that do not depend on each other come in one response, unless the
// request or Config.OneByOne forbids it. With Config.Seed, each response is another one, though the
// request is the same, as it is with a real model: other ids, other phrases, another order of the
// calls and of their arguments. So a test notices when an agent asks again instead of getting the
// recorded response.
//
// A request whose tool_choice demands a call gets one with arguments that fit the schema, also
// without a ticket.
//
// # Keys
//
// The same request again with the same Idempotency-Key gets the same response with
// Idempotency-Replayed: true, and is billed once, whether or not the first response arrived;
// another body with the key gets 422. A refused request does not use its key.
//
// # Faults
//
// Config.Fault selects the fault of each request, of any API.
package llmstub
