package refserver

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// startServer opens a server and closes it at the end of the test.
func startServer(t testing.TB, opts Options) *Server {
	t.Helper()
	s, err := New(opts)
	must(t, err)
	must(t, s.Start(t.Context()))
	t.Cleanup(func() { closeServer(t, s) })
	return s
}

func closeServer(t testing.TB, s *Server) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// received is one post that reached a receiver.
type received struct {
	header http.Header
	body   []byte
}

// receiver is a webhook endpoint: it answers challenges and passes everything
// else to the test.
type receiver struct {
	*httptest.Server
	posts chan received
	roots *x509.CertPool

	mu      sync.Mutex
	answers []int // statuses of the next answers; then 200
	silent  bool  // challenges are answered with an empty object
}

func newReceiver(t testing.TB) *receiver {
	r := &receiver{posts: make(chan received, 1024)}
	r.Server = httptest.NewTLSServer(r)
	r.roots = x509.NewCertPool()
	r.roots.AddCert(r.Certificate())
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) answer(statuses ...int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers = append(r.answers, statuses...)
}

// ServeHTTP implements [http.Handler].
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	r.mu.Lock()
	status, silent := http.StatusOK, r.silent
	if len(r.answers) > 0 {
		status, r.answers = r.answers[0], r.answers[1:]
	}
	r.mu.Unlock()
	var in struct{ Type, Challenge string }
	if err := json.Unmarshal(body, &in); err != nil {
		status = http.StatusBadRequest
	}
	if status/100 == 3 {
		w.Header().Set("Location", r.URL+"/elsewhere")
	}
	w.WriteHeader(status)
	if in.Type == "verification" && !silent {
		_ = json.NewEncoder(w).Encode(map[string]string{"challenge": in.Challenge})
	} else {
		_, _ = io.WriteString(w, "{}")
	}
	r.posts <- received{req.Header, body}
}

// next waits for a post.
func (r *receiver) next(t testing.TB) received {
	t.Helper()
	select {
	case p := <-r.posts:
		return p
	case <-time.After(10 * time.Second):
		t.Fatal("nothing was delivered")
		return received{}
	}
}

// publish publishes an event or fails the test.
func publish(t testing.TB, s *Server, name, data string) string {
	t.Helper()
	id, err := s.Publish(name, []byte(data))
	must(t, err)
	return id
}

// rpc posts a body as a legacy request without a session.
func rpc(t testing.TB, s *Server, token, body string) (status int, answer string) {
	t.Helper()
	req := httptest.NewRequest(http.MethodPost, "/mcp", bytes.NewReader([]byte(body)))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, req)
	return w.Code, w.Body.String()
}

// result posts an events call and decodes its result.
func result(t testing.TB, s *Server, token, method, params string) map[string]any {
	t.Helper()
	_, text := rpc(t, s, token, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`)
	var answer struct{ Result, Error map[string]any }
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatalf("%s: %v: %s", method, err, text)
	}
	if answer.Error != nil {
		t.Fatalf("%s: %s", method, text)
	}
	return answer.Result
}
