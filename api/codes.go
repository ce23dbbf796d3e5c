package api

import "net/http"

// code identifies a kind of problem; it is the last part of the problem's type. Codes are stable,
// and docs/errors.md explains each of them.
type code string

// entry is the HTTP status and the title of a code.
type entry struct {
	status int
	title  string
}

// codes is the only table of problems and their statuses.
var codes = map[code]entry{
	"invalid_json":           {http.StatusBadRequest, "The body is not strict JSON"},
	"invalid_request":        {http.StatusBadRequest, "The request is invalid"},
	"rate_limited":           {http.StatusTooManyRequests, "Too many requests"},
	"key_required":           {http.StatusUnauthorized, "An API key is required"},
	"key_invalid":            {http.StatusUnauthorized, "The API key is not valid"},
	"forbidden":              {http.StatusForbidden, "The API key's role does not allow this"},
	"not_approver":           {http.StatusForbidden, "Your role or key may not decide this approval"},
	"four_eyes":              {http.StatusForbidden, "Somebody other than the saga's starter must decide this approval"},
	"forbidden_host":         {http.StatusForbidden, "The Host header is not allowed"},
	"forbidden_origin":       {http.StatusForbidden, "The Origin header is not allowed"},
	"route_not_found":        {http.StatusNotFound, "No such route"},
	"not_found":              {http.StatusNotFound, "There is no such thing"},
	"definition_not_found":   {http.StatusNotFound, "There is no such definition"},
	"action_not_found":       {http.StatusNotFound, "There is no such action"},
	"saga_not_found":         {http.StatusNotFound, "There is no such saga"},
	"unknown_cell":           {http.StatusNotFound, "The saga is in another cell"},
	"step_not_found":         {http.StatusNotFound, "The saga has no such step"},
	"method_not_allowed":     {http.StatusMethodNotAllowed, "This path does not take this method"},
	"not_acceptable":         {http.StatusNotAcceptable, "No such representation"},
	"ambiguous_id":           {http.StatusConflict, "Several sagas have ids with this prefix"},
	"archived":               {http.StatusConflict, "The definition is archived"},
	"unique_taken":           {http.StatusConflict, "A live saga has the same unique value"},
	"saga_live":              {http.StatusConflict, "The saga has not ended"},
	"parent_live":            {http.StatusConflict, "The saga's parent has not ended"},
	"saga_succeeded":         {http.StatusConflict, "The saga has succeeded"},
	"key_in_flight":          {http.StatusConflict, "A request with this Idempotency-Key is in flight"},
	"terminal":               {http.StatusConflict, "The saga has ended"},
	"paused":                 {http.StatusConflict, "The saga is already paused"},
	"not_paused":             {http.StatusConflict, "The saga is not paused"},
	"compensating":           {http.StatusConflict, "The saga is already being undone or ending"},
	"ending":                 {http.StatusConflict, "Every step of the saga has succeeded"},
	"past_pivot":             {http.StatusConflict, "The saga has reached its pivot"},
	"nothing_to_retry":       {http.StatusConflict, "No step of the saga needs a person"},
	"which_step":             {http.StatusConflict, "Several steps need a person"},
	"not_waiting":            {http.StatusConflict, "The step does not need a person"},
	"in_doubt":               {http.StatusConflict, "The step is in doubt"},
	"bad_outcome":            {http.StatusConflict, "The step cannot be resolved this way"},
	"bad_budget":             {http.StatusConflict, "The budget does not fit the saga"},
	"lease_lost":             {http.StatusConflict, "The task's lease is lost"},
	"decided":                {http.StatusConflict, "The approval is decided"},
	"expired":                {http.StatusConflict, "The approval has expired"},
	"stale":                  {http.StatusConflict, "The approval has changed since it was shown"},
	"too_many_signals":       {http.StatusConflict, "The saga has too many signals that no step waits for"},
	"order_refused":          {http.StatusConflict, "The saga cannot do this now"},
	"precondition_failed":    {http.StatusPreconditionFailed, "The definition has changed since it was read"},
	"changed":                {http.StatusPreconditionFailed, "The saga has changed since it was read"},
	"body_too_large":         {http.StatusRequestEntityTooLarge, "The body is too large"},
	"unsupported_media_type": {http.StatusUnsupportedMediaType, "The route does not accept this media type"},
	"invalid_definition":     {http.StatusUnprocessableEntity, "The definition has errors"},
	"invalid_action":         {http.StatusUnprocessableEntity, "The action has errors"},
	"invalid_start":          {http.StatusUnprocessableEntity, "The start does not match the definition"},
	"invalid_order":          {http.StatusUnprocessableEntity, "The command is incomplete"},
	"shown_missing":          {http.StatusUnprocessableEntity, "The approval must name what it approves"},
	"bad_data":               {http.StatusUnprocessableEntity, "The data does not match the approval's form"},
	"unknown_signal":         {http.StatusUnprocessableEntity, "No step of the saga waits for this signal"},
	"invalid_plan":           {http.StatusUnprocessableEntity, "The plan cannot be made"},
	"idempotency_key_reused": {http.StatusUnprocessableEntity, "The Idempotency-Key was used for another request"},
	"not_available":          {http.StatusUnprocessableEntity, "This is not supported"},
	"precondition_required":  {http.StatusPreconditionRequired, "The request needs an If-Match header"},
	"busy":                   {http.StatusTooManyRequests, "The server is at its limit of sagas"},
	"too_many_polls":         {http.StatusTooManyRequests, "The server is at its limit of waiting claims"},
	"internal":               {http.StatusInternalServerError, "Internal server error"},
	"journal_unreadable":     {http.StatusInternalServerError, "The saga's journal cannot be read by this program"},
	"definition_unusable":    {http.StatusServiceUnavailable, "This server cannot run the definition"},
	"unavailable":            {http.StatusServiceUnavailable, "The server cannot do this now"},
	"not_ready":              {http.StatusServiceUnavailable, "The server is not ready"},
}
