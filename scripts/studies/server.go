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

	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/embedded"
	"github.com/eventmeter/eventmeter/internal/refserver"
	"github.com/eventmeter/eventmeter/results"
)

// sample is what the reference server had counted at an instant.
type sample struct {
	at    time.Time
	stats refserver.Stats
}

// sampleEvery is the pause between two samples of a server.
const sampleEvery = 200 * time.Millisecond

// runServed makes a run like run, on a reference server of its own with options as a JSON object, and
// follows what the server counts. It trusts callbacks of any certificate at private addresses.
func (l *lab) runServed(ctx context.Context, name, options string, args ...string) (r *results.Result, all []sample, err error) {
	c := exec.CommandContext(ctx, l.binary, "serve", "--options", "-")
	in, err := c.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := c.Start(); err != nil {
		return nil, nil, err
	}
	var follow sync.WaitGroup
	stop, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		follow.Wait()
		err = errors.Join(err, in.Close(), c.Wait()) // the end of its input ends it
	}()
	if _, err := fmt.Fprintln(in, options); err != nil {
		return nil, nil, err
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		return nil, nil, fmt.Errorf("%s: the server does not start with the options %s: %w", name, options, err)
	}
	var ready embedded.Ready
	if err := json.Unmarshal(line, &ready); err != nil {
		return nil, nil, err
	}
	follow.Go(func() {
		defer crash.Guard()
		all = followStats(stop, ready.Admin)
	})
	r, err = l.run(ctx, name, append([]string{"--target", ready.URL, "--upstream-url", ready.Admin, "--token", "any"}, args...)...)
	if err == nil {
		l.runs[len(l.runs)-1].Server = options
	}
	cancel()
	follow.Wait()
	return r, all, err
}

// followStats reads the counters of a server until ctx ends. A reading that fails is left out.
func followStats(ctx context.Context, admin string) (all []sample) {
	client := http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		if s, err := readStats(ctx, &client, admin); err == nil {
			all = append(all, s)
		}
		select {
		case <-ctx.Done():
			return all
		case <-tick.C:
		}
	}
}

func readStats(ctx context.Context, client *http.Client, admin string) (s sample, err error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, admin+"/stats", nil)
	if err != nil {
		return s, err
	}
	before := time.Now()
	a, err := client.Do(q)
	if err != nil {
		return s, err
	}
	defer a.Body.Close()
	err = json.NewDecoder(a.Body).Decode(&s.stats)
	s.at = before.Add(time.Since(before) / 2)
	return s, err
}

// phase returns when a phase of a run began and ended.
func phase(r *results.Result, name string) (from, to time.Time, err error) {
	for _, p := range r.Phases {
		if p.Name == name {
			return r.Started.Add(time.Duration(p.Start)), r.Started.Add(time.Duration(p.End)), nil
		}
	}
	return from, to, fmt.Errorf("the run has no phase %s", name)
}

// valueAt is what a counter was at an instant, interpolated between samples. There must be samples.
func valueAt(all []sample, at time.Time, of func(*refserver.Stats) float64) float64 {
	for i := range all {
		if all[i].at.Before(at) {
			continue
		}
		if i == 0 {
			return of(&all[0].stats)
		}
		a, b := &all[i-1], &all[i]
		share := at.Sub(a.at).Seconds() / b.at.Sub(a.at).Seconds()
		return of(&a.stats) + share*(of(&b.stats)-of(&a.stats))
	}
	return of(&all[len(all)-1].stats)
}

// Counters of a server.
func refreshesOf(s *refserver.Stats) float64  { return float64(s.Refreshes) }
func subscribedOf(s *refserver.Stats) float64 { return float64(s.Subscribed) }
func storedOf(s *refserver.Stats) float64     { return float64(s.Subscriptions.Webhook) }
func cpuOf(s *refserver.Stats) float64        { return s.CPUSeconds }
func attemptsOf(s *refserver.Stats) float64   { return float64(s.Attempts) }
func failuresOf(s *refserver.Stats) float64   { return float64(s.Failures) }

// otherServer is a server in a process of its own, which ends with its standard input.
type otherServer struct {
	URL string `json:"url"`
	cmd *exec.Cmd
	in  io.Closer
}

// startServer starts a server, whose first line says where it is.
func startServer(ctx context.Context, command []string) (*otherServer, error) {
	s := &otherServer{cmd: exec.CommandContext(ctx, command[0], command[1:]...)}
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
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, s)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: its first line %q: %w", filepath.Base(command[0]), line, err), s.end())
	}
	return s, nil
}

// end ends the server. That it fell over meanwhile is not an error here: the run says so.
func (s *otherServer) end() error {
	err := s.in.Close()
	late := time.AfterFunc(20*time.Second, func() { _ = s.cmd.Process.Kill() })
	defer late.Stop()
	var exit *exec.ExitError
	if wait := s.cmd.Wait(); wait != nil && !errors.As(wait, &exit) {
		err = errors.Join(err, wait)
	}
	return err
}

// goServerArg has this program be a server of the official Go SDK.
const goServerArg = "go-server"

// goServer serves a tool and resources with the official Go SDK, without sessions, until in ends. It
// writes its address to out.
func goServer(in io.Reader, out io.Writer) error {
	server := mcp.NewServer(&mcp.Implementation{Name: "go-sdk", Version: "1"}, &mcp.ServerOptions{
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	mcp.AddTool(server, &mcp.Tool{Name: "echo", Description: "answers"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return nil, nil, nil
	})
	server.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "list://item/{n}", Name: "item"},
		func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI}}}, nil
		})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if err := json.NewEncoder(out).Encode(otherServer{URL: "http://" + l.Addr().String()}); err != nil {
		return errors.Join(err, l.Close())
	}
	s := &http.Server{Handler: mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true})}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	_, err = io.Copy(io.Discard, in)
	err = errors.Join(err, s.Close())
	if failed := <-served; !errors.Is(failed, http.ErrServerClosed) {
		err = errors.Join(err, failed)
	}
	return err
}
