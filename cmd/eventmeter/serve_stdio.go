package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"

	"github.com/eventmeter/eventmeter/internal/bench"
	"github.com/eventmeter/eventmeter/internal/crash"
	"github.com/eventmeter/eventmeter/internal/refserver"
)

// serveStdio serves the program that started this one, until standard input
// ends or an interrupt comes. Standard output is the protocol's, so everything
// else goes to standard error.
func serveStdio(ctx context.Context, s *refserver.Server, io streams) error {
	err := json.NewEncoder(io.err).Encode(bench.Ready{Admin: s.AdminURL(), PID: os.Getpid()})
	ended := make(chan error, 1)
	if err == nil {
		go func() {
			defer crash.Guard()
			ended <- s.ServeStdio(ctx, io.in, io.out)
		}()
		select {
		case err = <-ended:
		case <-io.interrupts:
		case <-ctx.Done():
		}
	}
	// It ends what is still served, too.
	return errors.Join(err, s.Close(context.WithoutCancel(ctx)))
}
