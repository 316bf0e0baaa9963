package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// server is a server of one run. It ends with its standard input.
type server struct {
	URL   string `json:"url"`
	Admin string `json:"admin"` // of the reference server: where its counters are
	cmd   *exec.Cmd
	in    io.Closer
}

// startServer starts a server, writes a line to it where there is one, and reads where it is.
func startServer(ctx context.Context, command []string, line string) (*server, error) {
	s := &server{cmd: exec.CommandContext(ctx, command[0], command[1:]...)}
	s.cmd.WaitDelay = 10 * time.Second
	in, err := s.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	s.in = in
	if line != "" {
		_, err = fmt.Fprintln(in, line)
	}
	first, read := bufio.NewReader(out).ReadBytes('\n')
	if err = errors.Join(err, read); err == nil {
		err = json.Unmarshal(first, s)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: its first line is %q: %w", filepath.Base(command[0]), first, err), s.end())
	}
	return s, nil
}

// end ends the server. That it fell over meanwhile is not an error here: the run says so.
func (s *server) end() error {
	if s.cmd == nil {
		return nil
	}
	err := s.in.Close()
	late := time.AfterFunc(20*time.Second, func() { _ = s.cmd.Process.Kill() })
	defer late.Stop()
	var exit *exec.ExitError
	if wait := s.cmd.Wait(); wait != nil && !errors.As(wait, &exit) {
		err = errors.Join(err, wait)
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
	s := mcp.NewServer(&mcp.Implementation{Name: "go-sdk", Version: "1"}, &mcp.ServerOptions{
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	mcp.AddTool(s, &mcp.Tool{Name: "echo", Description: "answers"},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return nil, nil, nil
		})
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "list://item/{n}", Name: "item"},
		func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI}}}, nil
		})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if err := json.NewEncoder(out).Encode(map[string]string{"url": "http://" + l.Addr().String()}); err != nil {
		return errors.Join(err, l.Close())
	}
	of := func(*http.Request) *mcp.Server { return s }
	h := &http.Server{Handler: mcp.NewStreamableHTTPHandler(of, &mcp.StreamableHTTPOptions{Stateless: true})}
	served := make(chan error, 1)
	go func() { served <- h.Serve(l) }()
	_, err = io.Copy(io.Discard, in)
	err = errors.Join(err, h.Close())
	if failed := <-served; !errors.Is(failed, http.ErrServerClosed) {
		err = errors.Join(err, failed)
	}
	return err
}
