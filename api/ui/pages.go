package ui

// page is one address of the page.
type page struct {
	pattern string // of net/http's ServeMux
	show    func(*visit) error
}

// home is where the API's index is, too.
const home = "GET /{$}"

// pages is the one list of what is served beside the API.
var pages = []page{
	{home, showSagas},
	{"GET /costs", showCosts},
	{"GET /system", showSystem},
	{"GET /sign-in", showSignIn},
	{"POST /sign-in", signIn},
	{"POST /sign-out", signOut},
}
