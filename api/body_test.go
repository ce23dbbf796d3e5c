package api

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// A body is read whole, with or without Content-Length.
func TestBodyLengths(t *testing.T) {
	x := newFixture(t)
	x.publish(echoDef)
	head, tail := `{"definition":"echo","input":"`, `"}`
	for _, size := range []int{100, presized - 1, presized, presized + 1, 3 * presized} {
		want := strings.Repeat("x", size-len(head)-len(tail))
		for name, body := range map[string]io.Reader{
			"told":   strings.NewReader(head + want + tail),
			"untold": io.MultiReader(strings.NewReader(head + want + tail)),
		} {
			r, err := http.NewRequestWithContext(t.Context(), "POST", x.url+"/v1/sagas", body)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Prefer", "wait=20")
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			var v struct{ Output string }
			err = json.NewDecoder(resp.Body).Decode(&v)
			resp.Body.Close()
			if err != nil || resp.StatusCode != 201 || v.Output != want {
				t.Errorf("%d bytes, length %s: status %d, %v, %d bytes of output", size, name, resp.StatusCode, err, len(v.Output))
			}
		}
	}
}

// An incomplete body is refused, even if the received part is valid JSON.
func TestBodyCut(t *testing.T) {
	x := newFixture(t)
	x.publish(echoDef)
	const body = `{"definition":"echo"}`
	for _, length := range []string{fmt.Sprintf("Content-Length: %d", len(body)+1), fmt.Sprintf("Content-Length: %d", presized+1), "Transfer-Encoding: chunked"} {
		c, err := net.Dial("tcp", strings.TrimPrefix(x.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		text := body
		if strings.HasPrefix(length, "Transfer") {
			text = fmt.Sprintf("%x\r\n%s\r\n", len(body), body) // without the last chunk
		}
		fmt.Fprintf(c, "POST /v1/sagas HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n%s", length, text)
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(c)
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 400 ") || !strings.Contains(string(answer), "could not be read to its end") {
			t.Errorf("%s: %v %s", length, err, answer)
		}
	}
}
