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

	"recourse/saga"
)

// request is one request of a reader.
type request struct {
	*server
	w   http.ResponseWriter
	r   *http.Request
	api *client
	who who

	saga  *followed // of the saga that the page is about; nil: none is held
	title string
	wake  func(context.Context) // returns when the page may have changed; nil: after Config.Tick. For the live stream
	still bool                  // the page does not change by itself
}

// who is who reads.
type who struct {
	Name         string   `json:"name"`
	Role         string   `json:"role"`
	May          []string `json:"may"`
	KeysRequired bool     `json:"keys_required"`
}

// Can reports whether the reader may do this: read, start, cancel, signal, decide, operate,
// publish.
func (w who) Can(what string) bool { return slices.Contains(w.May, what) }

// visit makes a visit of a request, not knowing yet who it is.
func (s *server) visit(w http.ResponseWriter, r *http.Request) *request {
	return &request{server: s, w: w, r: r, api: &client{api: s.cfg.API, ctx: r.Context(), host: r.Host, addr: r.RemoteAddr, key: keyOf(r)}}
}

// serve is a page's function as a handler: the reader is known before it, and its errors become
// pages.
func (s *server) serve(show func(*request) error) http.Handler {
	return headers(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := s.visit(w, r)
		if p := pictureOf(r); p != nil {
			p.visit = v
		}
		defer func() {
			if v.saga != nil { // the program has failed over it
				v.saga.forget()
				v.let()
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
	if _, err := v.api.get("/v1/whoami", &v.who); err != nil {
		return err
	}
	if id := v.r.PathValue("id"); id != "" && len(id) < len(uuid.Nil.String()) && v.r.Method == http.MethodGet {
		return v.whole(id)
	}
	return show(v)
}

// whole leads from a page that is named by the beginning of its saga's id to its own address.
func (v *request) whole(id string) error {
	var s saga.View
	if _, err := v.api.get("/v1/sagas/"+url.PathEscape(id), &s); err != nil {
		return err
	}
	to := *v.r.URL
	to.Path, to.RawPath = strings.Replace(to.Path, id, s.ID, 1), ""
	http.Redirect(v.w, v.r, to.RequestURI(), http.StatusFound)
	return nil
}

//go:embed templates
var templates embed.FS

// shared are the templates that are no pages: what pages are made of.
var shared = []string{"templates/layout.html", "templates/parts.html", "templates/forms.html", "templates/step.html", "templates/documents.html", "templates/controls.html"}

// sheets are the pages' templates by name, each with the layout and the shared parts around it.
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

// frame is what the layout gets.
type frame struct {
	Title   string
	Page    string // the template's name
	Path    string // of the request, with its query
	Who     who
	Version string
	Live    bool
	Now     time.Time
	Notice  string // what has just been done
	Inbox   string // how many entries wait, "" for none
	Data    any
}

// render answers with a page: all of it, or only <main> for the live stream.
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
	v.let() // who reads slowly keeps nobody waiting
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.WriteHeader(status)
	_, _ = v.w.Write(b.Bytes())
	return nil
}

// waiting counts what waits for people, as the navigation shows it.
func (v *request) waiting() string {
	var list struct {
		Data []struct{} `json:"data"`
		Next string     `json:"next_cursor"`
	}
	if _, err := v.api.get("/v1/inbox?limit=100", &list); err != nil || len(list.Data) == 0 {
		return ""
	}
	if list.Next != "" {
		return "99+"
	}
	return fmt.Sprint(len(list.Data))
}

// doneCookie carries the notice of a finished command to the next page. In that page's address
// anybody could forge the notice, and it would appear each time the address is opened.
const doneCookie = "recourse_done"

// done goes to a page after an order was carried out, and has it say so.
func (v *request) done(to, notice string) error {
	v.setCookie(&http.Cookie{Name: doneCookie, Value: url.QueryEscape(notice), MaxAge: 60})
	http.Redirect(v.w, v.r, to, http.StatusSeeOther)
	return nil
}

// notice takes what the page before has left to say, "" for nothing.
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

// setCookie sets one that no script can read and that other sites' requests do not bring along.
func (v *request) setCookie(c *http.Cookie) {
	c.Path, c.HttpOnly, c.SameSite = "/", true, http.SameSiteStrictMode
	c.Secure = v.r.TLS != nil || v.r.Header.Get("X-Forwarded-Proto") == "https"
	http.SetCookie(v.w, c)
}

// sorry is the page of an error.
func (v *request) sorry(err error) {
	var p *problem
	if !errors.As(err, &p) {
		v.cfg.Log.Error("a page failed", "page", v.r.URL.Path, "error", err)
		p = &problem{Status: http.StatusInternalServerError, Title: "The page failed", Detail: "the server's log has the reason; please report it"}
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

// back is the address to come back to after signing in: a page's, never a form's.
func (v *request) back() string {
	if v.r.Method == http.MethodGet {
		return v.r.URL.RequestURI()
	}
	return "/"
}
