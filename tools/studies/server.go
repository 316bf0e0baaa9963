package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/eventmeter/eventmeter/tools/proc"
	"github.com/eventmeter/eventmeter/tools/sdkserver"
)

// server is a server of one run. It ends with its standard input.
type server struct {
	URL     string `json:"url"`
	Admin   string `json:"admin"` // of the reference server: where its counters are
	process *proc.Process
}

// startServer starts a server, writes a line to it where there is one, and reads where it is.
func startServer(ctx context.Context, command []string, line string) (*server, error) {
	p, err := proc.Start(ctx, filepath.Base(command[0]), command, line)
	if err != nil {
		return nil, err
	}
	s := &server{process: p}
	if err := p.Next(s); err != nil {
		return nil, errors.Join(err, s.end())
	}
	return s, nil
}

// end ends the server. That it fell over meanwhile is not an error here: the run says so.
func (s *server) end() error {
	if s.process == nil {
		return nil
	}
	err := s.process.End()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return nil
	}
	return err
}

// sampleEvery is the pause between two readings of a server's counters.
const sampleEvery = 200 * time.Millisecond

// follower reads the counters of a reference server.
type follower struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
	at     []time.Time
	all    []map[string]any
}

func follow(ctx context.Context, admin string) *follower {
	ctx, cancel := context.WithCancel(ctx)
	f := &follower{cancel: cancel}
	f.done.Go(func() {
		client := http.Client{Timeout: 5 * time.Second}
		defer client.CloseIdleConnections()
		tick := time.NewTicker(sampleEvery)
		defer tick.Stop()
		for {
			f.read(ctx, &client, admin+"/stats")
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	return f
}

// read adds a sample. A reading that fails is left out.
func (f *follower) read(ctx context.Context, client *http.Client, url string) {
	before := time.Now()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return
	}
	a, err := client.Do(q)
	if err != nil {
		return
	}
	defer a.Body.Close()
	var counters map[string]any
	if json.NewDecoder(a.Body).Decode(&counters) == nil {
		f.at, f.all = append(f.at, before.Add(time.Since(before)/2)), append(f.all, counters)
	}
}

// stop ends the readings.
func (f *follower) stop() {
	f.cancel()
	f.done.Wait()
}

// samples stops, and returns what was read. The t of a sample is in seconds since the run started.
func (f *follower) samples(started time.Time) []any {
	f.stop()
	samples := make([]any, len(f.all))
	for i, s := range f.all {
		s["t"] = f.at[i].Sub(started).Seconds()
		samples[i] = s
	}
	return samples
}

// serveGoSDK is a server of the official Go SDK with a tool and resources, without sessions, until in
// ends. It writes its address to out.
func serveGoSDK(in io.Reader, out io.Writer) error {
	s := sdkserver.New("go-sdk")
	mcp.AddTool(s, &mcp.Tool{Name: "echo", Description: "answers"},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return nil, nil, nil
		})
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "list://item/{n}", Name: "item"},
		func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI}}}, nil
		})
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // ends with the process: a read of a pipe cannot be interrupted
		defer cancel()
		_, _ = io.Copy(io.Discard, in)
	}()
	return sdkserver.Serve(ctx, s, http.NewServeMux(), true, func(base string) error {
		return json.NewEncoder(out).Encode(map[string]string{"url": base + "/mcp"})
	})
}
