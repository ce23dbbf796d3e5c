package api

import "net/http"

// code is a stable name of a problem, in the last part of its type. Each is
// explained in docs/errors.md.
type code string

// entry is what a code means in HTTP.
type entry struct {
	status int
	title  string
}

// codes is the one table from problems to statuses.
var codes = map[code]entry{
	"invalid_json":           {http.StatusBadRequest, "The body is not strict JSON"},
	"invalid_request":        {http.StatusBadRequest, "The request is not one that this route takes"},
	"rate_limited":           {http.StatusTooManyRequests, "Too many requests"},
	"key_required":           {http.StatusUnauthorized, "An API key is required"},
	"key_invalid":            {http.StatusUnauthorized, "The API key is not valid"},
	"forbidden":              {http.StatusForbidden, "The API key's role does not allow this"},
	"not_approver":           {http.StatusForbidden, "This approval is for others"},
	"four_eyes":              {http.StatusForbidden, "This approval is for another than who has started the saga"},
	"forbidden_host":         {http.StatusForbidden, "The server is not addressed by a name of its own"},
	"forbidden_origin":       {http.StatusForbidden, "The request comes from another site's page"},
	"route_not_found":        {http.StatusNotFound, "There is nothing at this path"},
	"not_found":              {http.StatusNotFound, "There is no such thing"},
	"definition_not_found":   {http.StatusNotFound, "There is no such definition"},
	"action_not_found":       {http.StatusNotFound, "There is no such action"},
	"saga_not_found":         {http.StatusNotFound, "There is no such saga"},
	"step_not_found":         {http.StatusNotFound, "The saga has no such step"},
	"method_not_allowed":     {http.StatusMethodNotAllowed, "This path does not take this method"},
	"not_acceptable":         {http.StatusNotAcceptable, "There is no such representation"},
	"ambiguous_id":           {http.StatusConflict, "Several sagas' ids begin like this"},
	"archived":               {http.StatusConflict, "The definition is archived"},
	"unique_taken":           {http.StatusConflict, "A live saga has the same unique value"},
	"saga_live":              {http.StatusConflict, "The saga has not ended"},
	"parent_live":            {http.StatusConflict, "The saga's parent has not ended"},
	"saga_succeeded":         {http.StatusConflict, "The saga has succeeded"},
	"key_in_flight":          {http.StatusConflict, "A request with this Idempotency-Key is under way"},
	"terminal":               {http.StatusConflict, "The saga has ended"},
	"paused":                 {http.StatusConflict, "The saga is paused already"},
	"not_paused":             {http.StatusConflict, "The saga is not paused"},
	"compensating":           {http.StatusConflict, "The saga is on its way to its end already"},
	"ending":                 {http.StatusConflict, "Every step of the saga has succeeded"},
	"past_pivot":             {http.StatusConflict, "The saga has reached its point of no return"},
	"nothing_to_retry":       {http.StatusConflict, "No step of the saga waits for a person"},
	"which_step":             {http.StatusConflict, "Several steps wait for a person"},
	"not_waiting":            {http.StatusConflict, "The step does not wait for a person"},
	"in_doubt":               {http.StatusConflict, "The step is in doubt"},
	"bad_outcome":            {http.StatusConflict, "The step cannot be resolved this way"},
	"bad_budget":             {http.StatusConflict, "The budget does not suit the saga"},
	"lease_lost":             {http.StatusConflict, "The task's lease is lost"},
	"decided":                {http.StatusConflict, "The approval is decided"},
	"expired":                {http.StatusConflict, "The approval has expired"},
	"stale":                  {http.StatusConflict, "What was shown is not what is to be decided"},
	"too_many_signals":       {http.StatusConflict, "The saga has too many signals that nobody waits for"},
	"order_refused":          {http.StatusConflict, "The saga does not take this order now"},
	"precondition_failed":    {http.StatusPreconditionFailed, "The definition has changed since it was read"},
	"changed":                {http.StatusPreconditionFailed, "The saga has changed since it was read"},
	"body_too_large":         {http.StatusRequestEntityTooLarge, "The body is too large"},
	"unsupported_media_type": {http.StatusUnsupportedMediaType, "The body is of a type that this route does not take"},
	"invalid_definition":     {http.StatusUnprocessableEntity, "The definition has errors"},
	"invalid_action":         {http.StatusUnprocessableEntity, "The action has errors"},
	"invalid_start":          {http.StatusUnprocessableEntity, "The start does not suit the definition"},
	"invalid_order":          {http.StatusUnprocessableEntity, "The order is not complete"},
	"shown_missing":          {http.StatusUnprocessableEntity, "An approval names what it approves"},
	"bad_data":               {http.StatusUnprocessableEntity, "The data breaks the approval's form"},
	"unknown_signal":         {http.StatusUnprocessableEntity, "No step of the saga waits for this signal"},
	"invalid_plan":           {http.StatusUnprocessableEntity, "No plan can be made"},
	"idempotency_key_reused": {http.StatusUnprocessableEntity, "The Idempotency-Key was used for another request"},
	"not_available":          {http.StatusUnprocessableEntity, "This comes with a later release"},
	"precondition_required":  {http.StatusPreconditionRequired, "The request needs an If-Match header"},
	"busy":                   {http.StatusTooManyRequests, "The server runs as many sagas as it may"},
	"too_many_polls":         {http.StatusTooManyRequests, "As many claims wait for tasks as may"},
	"internal":               {http.StatusInternalServerError, "The server has made a mistake"},
	"journal_unreadable":     {http.StatusInternalServerError, "The saga's journal cannot be read by this program"},
	"definition_unusable":    {http.StatusServiceUnavailable, "This program cannot use the definition"},
	"unavailable":            {http.StatusServiceUnavailable, "The server cannot do this now"},
	"not_ready":              {http.StatusServiceUnavailable, "The server is not ready"},
}
