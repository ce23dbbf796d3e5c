package ui

import (
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode"

	"recourse/api/rest"
)

// keyCookie is the cookie with the user's API key. No script can read it, and requests of other
// sites do not carry it. It contains the key itself, so any node can read it, and revoking the key
// ends every sign-in with it at once.
const keyCookie = "recourse_key"

// keyOf returns the user's key, "" for none.
func keyOf(r *http.Request) string {
	c, err := r.Cookie(keyCookie)
	if err != nil {
		return ""
	}
	return c.Value
}

// setKey stores a key in the browser until it is closed; "" deletes it.
func (v *request) setKey(key string) {
	c := &http.Cookie{Name: keyCookie, Value: key}
	if key == "" {
		c.MaxAge = -1
	}
	v.setCookie(c)
}

// signInView is the sign-in page.
type signInView struct {
	To   string
	Why  string
	Need bool // the server requires a key
}

// showSignIn serves GET /sign-in.
func showSignIn(v *request) error {
	v.still = true
	_, err := v.api.Get("/v1/whoami", &v.who)
	return v.render("sign-in", "Sign in", signInView{To: local(v.r.URL.Query().Get("to")), Need: err != nil})
}

// signInBody is the largest sign-in form, in bytes.
const signInBody = 16 << 10

// signIn serves POST /sign-in.
func signIn(v *request) error {
	v.still = true
	// The sender is not authenticated yet, so the limits are small.
	v.r.Body = http.MaxBytesReader(v.w, v.r.Body, signInBody)
	_ = http.NewResponseController(v.w).SetReadDeadline(time.Now().Add(v.cfg.SignIn))
	if err := v.r.ParseForm(); err != nil {
		return &rest.Problem{Status: http.StatusBadRequest, Title: "The form cannot be read", Detail: "it is too large for a key, or was cut off: go back, and paste the key again"}
	}
	_ = http.NewResponseController(v.w).SetReadDeadline(time.Time{})
	key, to := strings.TrimSpace(v.r.PostFormValue("key")), local(v.r.PostFormValue("to"))
	_, err := v.api.WithKey(key).Get("/v1/whoami", &v.who)
	var p *rest.Problem
	switch {
	case key == "":
		return v.renderAs(http.StatusUnprocessableEntity, "sign-in", "Sign in", signInView{To: to, Why: "Paste an API key; it begins with rk_.", Need: true})
	case errors.As(err, &p) && p.Status == http.StatusUnauthorized:
		return v.renderAs(http.StatusUnauthorized, "sign-in", "Sign in", signInView{To: to, Why: p.Detail, Need: true})
	case err != nil:
		return err
	}
	v.setKey(key)
	http.Redirect(v.w, v.r, to, http.StatusSeeOther)
	return nil
}

// signOut serves POST /sign-out.
func signOut(v *request) error {
	v.setKey("")
	http.Redirect(v.w, v.r, "/sign-in", http.StatusSeeOther)
	return nil
}

// local returns a path of this server, or "/", so that no link redirects to another site.
func local(to string) string {
	// Browsers read \ as /, and ignore tabs and line breaks.
	elsewhere := func(r rune) bool { return r == '\\' || unicode.IsControl(r) }
	if !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.ContainsFunc(to, elsewhere) {
		return "/"
	}
	return to
}
