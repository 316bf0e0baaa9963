package refserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// base is the ordinary MCP server behind the MCP handler: handshake, discovery,
// tools, resources and prompts, all by the SDK.
type base struct {
	server   *mcp.Server
	sessions *sessions
	// The SDK's handler is either stateless (modern) or keeps sessions
	// (legacy), so the same server has one of each.
	modern, legacy http.Handler
}

// postMessage is the argument of the tool post_message.
type postMessage struct {
	Channel string `json:"channel" jsonschema:"the channel to post to"`
	Text    string `json:"text" jsonschema:"the message"`
}

type posted struct {
	EventID string `json:"eventId" jsonschema:"the event that was published for it"`
}

// schemas are those of the tools, which all servers of a process have.
var schemas = mcp.NewSchemaCache()

func newBase(s *Server) *base {
	caps := &mcp.ServerCapabilities{}
	if s.rules.extension {
		caps.AddExtension(eventsExtension, map[string]any{"listChanged": true})
	}
	caps.AddExtension(smitheryExtension, map[string]any{})
	server := mcp.NewServer(&mcp.Implementation{Name: "eventmeter-target", Version: "0.1"}, &mcp.ServerOptions{
		Instructions: "A reference server for load tests of event delivery.",
		Capabilities: caps,
		Logger:       s.opts.Logger,
		SetCacheable: s.lists.cacheable(),
		SchemaCache:  schemas,
	})
	mcp.AddTool(server, &mcp.Tool{Name: "post_message", Description: "Posts a message to a channel, which publishes a chat.message event."},
		func(_ context.Context, _ *mcp.CallToolRequest, in postMessage) (*mcp.CallToolResult, posted, error) {
			data, err := json.Marshal(in)
			if err != nil {
				return nil, posted{}, err
			}
			id, err := s.Publish("chat.message", data)
			return nil, posted{EventID: id}, err
		})
	mcp.AddTool(server, &mcp.Tool{Name: "server_stats", Description: "Counters of this server."},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, Stats, error) {
			return nil, s.Stats(), nil
		})
	addWork(server)
	server.AddResource(
		&mcp.Resource{URI: "info://server", Name: "server", MIMEType: "application/json", Description: "What this server offers."},
		func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			names := make([]string, 0, len(s.broker.order))
			for _, t := range s.broker.order {
				names = append(names, t.kind.name)
			}
			text, err := json.Marshal(map[string]any{"name": "eventmeter-target", "events": names})
			if err != nil {
				return nil, fmt.Errorf("info: %w", err)
			}
			return &mcp.ReadResourceResult{
				Contents: []*mcp.ResourceContents{{URI: r.Params.URI, MIMEType: "application/json", Text: string(text)}},
			}, nil
		},
	)
	server.AddPrompt(
		&mcp.Prompt{
			Name:        "summary",
			Description: "Asks for a summary of a channel.",
			Arguments:   []*mcp.PromptArgument{{Name: "channel", Required: true}},
		},
		func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{
				Role: "user", Content: &mcp.TextContent{Text: "Summarise the channel " + r.Params.Arguments["channel"] + "."},
			}}}, nil
		},
	)
	s.resources.describe(server)
	get := func(*http.Request) *mcp.Server { return server }
	options := mcp.StreamableHTTPOptions{JSONResponse: true, Logger: s.opts.Logger, DisableLocalhostProtection: true}
	stateless := options
	stateless.Stateless = true
	return &base{
		server: server,
		sessions: &sessions{
			open:  make(map[string]session),
			limit: max(minSessions, s.opts.MaxSubscriptions),
		},
		modern: mcp.NewStreamableHTTPHandler(get, &stateless),
		legacy: mcp.NewStreamableHTTPHandler(get, &options),
	}
}

// serve passes a request to the SDK's handler of its era and records new
// sessions from the answer.
func (b *base) serve(w http.ResponseWriter, r *http.Request, principal string) {
	b.serveSession(w, r, principal, abilities{})
}

// abilities are what a client has declared that the SDK does not look at.
type abilities struct {
	resume bool // it can resume requests
	elicit bool // it answers elicitation/create
}

// serveSession is serve for a client that has declared abilities.
func (b *base) serveSession(w http.ResponseWriter, r *http.Request, principal string, can abilities) {
	if r.Header.Get(headerVersion) >= modernVersion {
		b.modern.ServeHTTP(w, r)
		return
	}
	id := r.Header.Get(headerSession)
	if id == "" && r.Method == http.MethodPost {
		if !b.sessions.reserve() {
			w.Header().Set("Retry-After", "1")
			http.Error(
				w,
				fmt.Sprintf("%d sessions are open, which is the limit; end some with DELETE", b.sessions.limit),
				http.StatusServiceUnavailable,
			)
			return
		}
		defer b.sessions.unreserve()
	}
	// The client may use a new session as soon as it sees the header.
	b.legacy.ServeHTTP(&response{ResponseWriter: w, begin: func(int) bool {
		if made := w.Header().Get(headerSession); made != "" {
			b.sessions.add(made, session{principal, can})
		}
		return false
	}}, r)
	if r.Method == http.MethodDelete && id != "" {
		b.sessions.drop(id)
	}
}

// close ends every session, and with it the streams that wait on one.
func (b *base) close() {
	for session := range b.server.Sessions() {
		_ = session.Close() // a session that is already gone is fine
	}
}

// sessions are the open legacy sessions and their principals: the SDK's handler
// cannot be asked for them.
type sessions struct {
	mu   sync.RWMutex
	open map[string]session
	// most bounds the sessions; opening counts those that the SDK is about to
	// make.
	limit, opening int
}

type session struct {
	principal string
	can       abilities
}

// minSessions is the lowest limit of sessions, however few subscriptions are
// allowed.
const minSessions = 1000

// reserve reserves a session. unreserve must follow when the session exists, or
// failed to open.
func (s *sessions) reserve() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open)+s.opening >= s.limit {
		return false
	}
	s.opening++
	return true
}

func (s *sessions) unreserve() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opening--
}

func (s *sessions) find(id string) (of session, known bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	of, known = s.open[id]
	return of, known
}

func (s *sessions) add(id string, of session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[id] = of
}

func (s *sessions) drop(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, id)
}

// requests counts the running handlers, so that Close can wait for them. A
// plain WaitGroup does not work: requests may begin during the wait.
type requests struct {
	mu     sync.Mutex
	count  int
	closed bool
	none   chan struct{} // made by wait, closed when the last handler returns
}

// counted wraps a handler. After wait was called it answers 503.
func (q *requests) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q.mu.Lock()
		if q.closed {
			q.mu.Unlock()
			http.Error(w, "closing", http.StatusServiceUnavailable)
			return
		}
		q.count++
		q.mu.Unlock()
		defer q.leave()
		next.ServeHTTP(w, r)
	})
}

func (q *requests) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.count--
	if q.count == 0 && q.none != nil {
		close(q.none)
		q.none = nil
	}
}

// wait returns when no handler runs and none will, or when ctx ends.
func (q *requests) wait(ctx context.Context) error {
	q.mu.Lock()
	q.closed = true
	if q.count == 0 {
		q.mu.Unlock()
		return nil
	}
	if q.none == nil {
		q.none = make(chan struct{})
	}
	none := q.none
	q.mu.Unlock()
	select {
	case <-none:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

const reasonRevoked = "access revoked"

// everybody stands for all principals; no token is spelled so.
const everybody = "\x00"

// principals holds the principals whose access was revoked.
type principals struct {
	mu      sync.RWMutex
	revoked map[string]bool
	changed chan struct{} // closed when a principal is revoked
}

func newPrincipals() *principals {
	return &principals{revoked: make(map[string]bool), changed: make(chan struct{})}
}

// watch reports whether a principal is revoked, and returns a channel that is
// closed at the next revocation of any principal.
func (p *principals) watch(principal string) (changed <-chan struct{}, revoked bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.changed, p.revoked[principal] || p.revoked[everybody]
}

func (p *principals) revoke(principal string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.revoked[principal] = true
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *principals) restore(principal string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.revoked, principal)
}
