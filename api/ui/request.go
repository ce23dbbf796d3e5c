package ui

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/api/rest"
	"recourse/saga/machine"
)

// request is one request of a user.
type request struct {
	*server
	w   http.ResponseWriter
	r   *http.Request
	api *rest.Client
	who who

	saga  *followed // the saga that the page has taken from the cache, or nil
	title string
	wake  func(context.Context) // for the live stream: returns when the page may have changed; nil: after Config.Tick
	still bool                  // the page does not change on its own
}

// who is the user, as GET /v1/whoami describes the key.
type who struct {
	Name         string   `json:"name"`
	Role         string   `json:"role"`
	May          []string `json:"may"`
	KeysRequired bool     `json:"keys_required"`
}

// Can reports whether the user may perform an operation: read, start, cancel, signal, decide,
// operate, publish.
func (w who) Can(what string) bool { return slices.Contains(w.May, what) }

// newRequest returns a request whose user is not known yet.
func (s *server) newRequest(w http.ResponseWriter, r *http.Request) *request {
	return &request{server: s, w: w, r: r, api: rest.New(s.cfg.API, r, keyOf(r))}
}

// serve returns the handler of a page: it identifies the user first, and renders errors as pages.
func (s *server) serve(show func(*request) error) http.Handler {
	return headers(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := s.newRequest(w, r)
		if p := pictureOf(r); p != nil {
			p.request = v
		}
		defer func() {
			if v.saga != nil { // the panic may come from the saga's data
				v.saga.forget()
				v.release()
			}
		}()
		if err := v.run(show); err != nil {
			v.sorry(err)
		}
	}))
}

func (v *request) run(show func(*request) error) error {
	if strings.HasPrefix(v.r.URL.Path, "/sign-") {
		return show(v)
	}
	if _, err := v.api.Get("/v1/whoami", &v.who); err != nil {
		return err
	}
	if id := v.r.PathValue("id"); id != "" && len(id) < len(uuid.Nil.String()) && v.r.Method == http.MethodGet {
		return v.whole(id)
	}
	return show(v)
}

// whole redirects from a URL with an abbreviated saga id to the one with the whole id.
func (v *request) whole(id string) error {
	var s machine.View
	if _, err := v.api.Get("/v1/sagas/"+url.PathEscape(id), &s); err != nil {
		return err
	}
	to := *v.r.URL
	to.Path, to.RawPath = strings.Replace(to.Path, id, s.ID, 1), ""
	http.Redirect(v.w, v.r, to.RequestURI(), http.StatusFound)
	return nil
}

//go:embed templates
var templates embed.FS

// shared are the templates that pages have in common.
var shared = []string{"templates/layout.html", "templates/parts.html", "templates/forms.html", "templates/step.html", "templates/session.html", "templates/documents.html", "templates/controls.html"}

// sheets are the pages' templates by name, each with the layout and the shared parts.
var sheets = func() map[string]*template.Template {
	base := template.Must(template.New("layout.html").Funcs(funcs).ParseFS(templates, shared...))
	list, err := templates.ReadDir("templates")
	if err != nil {
		panic(err)
	}
	m := make(map[string]*template.Template)
	for _, f := range list {
		name := strings.TrimSuffix(f.Name(), filepath.Ext(f.Name()))
		if slices.Contains(shared, "templates/"+f.Name()) {
			continue
		}
		m[name] = template.Must(template.Must(base.Clone()).ParseFS(templates, "templates/"+f.Name()))
	}
	return m
}()

// frame is the data of the layout.
type frame struct {
	Title   string
	Page    string // the template's name
	Path    string // the request's path with its query
	Who     who
	Version string
	Live    bool
	Now     time.Time
	Notice  string // the result of the last command
	Inbox   string // number of inbox entries, "" for none
	Data    any
}

// render responds with a page: the whole page, or only <main> for the live stream.
func (v *request) render(name, title string, data any) error {
	return v.renderAs(http.StatusOK, name, title, data)
}

func (v *request) renderAs(status int, name, title string, data any) error {
	sheet := sheets[name]
	if sheet == nil {
		return fmt.Errorf("there is no template %s", name)
	}
	f := frame{Title: title, Page: name, Path: v.r.URL.RequestURI(), Who: v.who, Version: v.cfg.Version, Live: !v.still && status == http.StatusOK, Now: v.cfg.Now(),
		Data: data}
	v.title = title
	part := "layout.html"
	if pictureOf(v.r) != nil {
		part = "fragment"
	} else {
		f.Notice = v.notice()
		if v.who.Can("read") {
			f.Inbox = v.waiting()
		}
	}
	var b bytes.Buffer
	if err := sheet.ExecuteTemplate(&b, part, f); err != nil {
		return fmt.Errorf("template %s: %w", name, err)
	}
	v.release() // a slow reader must not block others
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.WriteHeader(status)
	_, _ = v.w.Write(b.Bytes())
	return nil
}

// waiting returns the number of inbox entries for the navigation.
func (v *request) waiting() string {
	var list struct {
		Data []struct{} `json:"data"`
		Next string     `json:"next_cursor"`
	}
	if _, err := v.api.Get("/v1/inbox?limit=100", &list); err != nil || len(list.Data) == 0 {
		return ""
	}
	if list.Next != "" {
		return "99+"
	}
	return fmt.Sprint(len(list.Data))
}

// doneCookie carries the notice of a finished command to the next page. As a query parameter
// anybody could forge the notice, and it would appear each time the URL is opened.
const doneCookie = "recourse_done"

// done redirects to a page after a command was applied, and sets the notice that it shows.
func (v *request) done(to, notice string) error {
	v.setCookie(&http.Cookie{Name: doneCookie, Value: url.QueryEscape(notice), MaxAge: 60})
	http.Redirect(v.w, v.r, to, http.StatusSeeOther)
	return nil
}

// notice returns the notice of the last command and deletes it; "" for none.
func (v *request) notice() string {
	c, err := v.r.Cookie(doneCookie)
	if err != nil {
		return ""
	}
	v.setCookie(&http.Cookie{Name: doneCookie, MaxAge: -1})
	text, err := url.QueryUnescape(c.Value)
	if err != nil {
		return ""
	}
	return text
}

// setCookie sets a cookie that no script can read and that requests of other sites do not carry.
func (v *request) setCookie(c *http.Cookie) {
	c.Path, c.HttpOnly, c.SameSite = "/", true, http.SameSiteStrictMode
	c.Secure = v.r.TLS != nil || v.r.Header.Get("X-Forwarded-Proto") == "https"
	http.SetCookie(v.w, c)
}

// sorry responds with the page of an error.
func (v *request) sorry(err error) {
	var p *rest.Problem
	if !errors.As(err, &p) {
		v.cfg.Log.Error("a page failed", "page", v.r.URL.Path, "error", err)
		p = &rest.Problem{Status: http.StatusInternalServerError, Title: "The page failed", Detail: "the server's log has the reason; please report it"}
	}
	if p.Status == http.StatusUnauthorized {
		if pictureOf(v.r) != nil {
			v.w.WriteHeader(p.Status)
			return
		}
		http.Redirect(v.w, v.r, "/sign-in?to="+url.QueryEscape(v.back()), http.StatusSeeOther)
		return
	}
	v.still = true
	if err := v.renderAs(p.Status, "problem", p.Title, p); err != nil {
		v.cfg.Log.Error("the page of an error failed", "error", err)
		http.Error(v.w, "internal error", http.StatusInternalServerError)
	}
}

// back returns the URL to return to after signing in: a page's, never a form's.
func (v *request) back() string {
	if v.r.Method == http.MethodGet {
		return v.r.URL.RequestURI()
	}
	return "/"
}
