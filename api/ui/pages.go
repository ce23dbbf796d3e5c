package ui

// page is one route of the UI.
type page struct {
	pattern string // of http.ServeMux
	show    func(*request) error
}

// home is also the route of the API's index.
const home = "GET /{$}"

// pages lists every route of the UI.
var pages = []page{
	{home, showSagas},
	{"GET /costs", showCosts},
	{"GET /system", showSystem},
	{"GET /sagas/{id}", showSaga},
	{"GET /sagas/{id}/saga.json", rawSaga},
	{"GET /sagas/{id}/summary.txt", rawSummary},
	{"GET /sagas/{id}/journal", showJournal},
	{"GET /sagas/{id}/journal.ndjson", downloadJournal},
	{"GET /sagas/{id}/compare/{other}", showCompare},
	{"GET /sagas/{id}/steps/{path}", showStep},
	{"GET /sagas/{id}/steps/{path}/step.json", rawStep},
	{"GET /sagas/{id}/steps/{path}/ask.json", rawAsk},
	{"POST /sagas/{id}/command/{name}", sendCommand},
	{"POST /sagas/{id}/steps/{path}/resolve", resolveStep},
	{"POST /sagas/{id}/steps/{path}/approve", approveStep},
	{"POST /sagas/{id}/steps/{path}/reject", rejectStep},
	{"GET /sign-in", showSignIn},
	{"POST /sign-in", signIn},
	{"POST /sign-out", signOut},
	{"GET /inbox", showInbox},
	{"POST /inbox/budget", raiseBudget},
	{"POST /inbox/session", decideSession},
	{"POST /inbox/together", confirmBulk},
	{"POST /inbox/together/run", runBulk},
	{"GET /definitions", showDefinitions},
	{"GET /definitions/{name}", showDefinition},
	{"GET /definitions/{name}/diff", showDiff},
	{"GET /definitions/{name}/start", showStart},
	{"POST /definitions/{name}/start", startSaga},
	{"POST /definitions/{name}/archive", archive},
	{"GET /actions/{name}", showAction},
	{"POST /actions/{name}/archive", archiveAction},
	{"GET /publish", showPublish},
	{"POST /publish", publish},
}
