package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"sync"
	"time"

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
