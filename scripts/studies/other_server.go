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
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

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
