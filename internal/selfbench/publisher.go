package selfbench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/loadgen"
)

// publisher posts events to a target and records them, as a run does.
type publisher struct {
	clock   *eventmeter.Clock
	rec     eventmeter.Recorder
	stamper *loadgen.Stamper
	spec    spec
	http    *http.Client
	reached atomic.Int64 // deliveries that the accepted measured events cause
}

func newPublisher(clock *eventmeter.Clock, rec eventmeter.Recorder, s spec) *publisher {
	return &publisher{
		clock: clock, rec: rec, spec: s, stamper: loadgen.NewStamper(clock, rec, runID, s.groups()),
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: 30 * time.Second},
	}
}

func (p *publisher) close() { p.http.CloseIdleConnections() }

// publish publishes event n: to the group of its source if it is measured, else
// to all streams.
func (p *publisher) publish(ctx context.Context, n uint64, measured bool) eventmeter.Outcome {
	emission := p.stamper.Stamp(n, p.clock.Now(), measured)
	outcome := p.fire(ctx, emission)
	p.rec.Resolved(emission.Stamp, outcome, p.clock.Now())
	return outcome
}

// once publishes one event that is not measured to all streams.
func (p *publisher) once(ctx context.Context) error {
	if p.publish(ctx, 0, false) != eventmeter.Accepted {
		return fmt.Errorf("the target did not accept an event at %s", p.spec.Inject)
	}
	return nil
}

var errNoneAccepted = errors.New("the target accepted no event")

// loop publishes at the rate of the spec.
func (p *publisher) loop(ctx context.Context) (loadgen.Stats, error) {
	firing, err := loadgen.NewFiring(loadgen.FiringOptions{
		Clock: p.clock, Recorder: p.rec, Stamper: p.stamper, Schedule: loadgen.Constant{Rate: p.spec.Rate}, Duration: p.spec.Paced,
		// A busy machine must not reduce the load.
		Tolerance: time.Second,
	})
	if err != nil {
		return loadgen.Stats{}, err
	}
	stats := loadgen.Loop(ctx, firing, loadgen.LoopOptions{Fire: p.fire, Workers: 16})
	if stats.Accepted == 0 {
		return stats, errNoneAccepted
	}
	return stats, nil
}

// flood publishes as fast as the target answers.
func (p *publisher) flood(ctx context.Context) (loadgen.Stats, error) {
	var n, accepted atomic.Uint64
	var work sync.WaitGroup
	end := time.Now().Add(p.spec.Paced)
	for range 4 {
		work.Go(func() {
			for time.Now().Before(end) && ctx.Err() == nil {
				if p.publish(ctx, n.Add(1), true) == eventmeter.Accepted {
					accepted.Add(1)
				}
			}
		})
	}
	work.Wait()
	s := loadgen.Stats{Counts: loadgen.Counts{Accepted: accepted.Load(), Refused: n.Load() - accepted.Load()}}
	if s.Accepted == 0 {
		return s, errNoneAccepted
	}
	return s, nil
}

// fire posts one event. A measured event goes to the group of its source.
func (p *publisher) fire(ctx context.Context, emission loadgen.Emission) eventmeter.Outcome {
	body := append([]byte(`{"name":"tick","data":{"note":"`), emission.Stamp.String()...)
	body = append(body, `"}`...)
	if p.spec.Groups > 0 && emission.Measured {
		body = append(body, `,"group":`...)
		body = strconv.AppendInt(body, int64(emission.Source), 10)
	}
	body = append(body, '}')
	resp, err := post(ctx, p.http, p.spec.Inject, body)
	switch {
	case err != nil:
		return eventmeter.Uncertain
	case resp.StatusCode != http.StatusAccepted:
		return eventmeter.Refused
	}
	if emission.Measured {
		p.reached.Add(int64(p.spec.groupSize(int(emission.Source))))
	}
	return eventmeter.Accepted
}

// post posts a JSON body and discards the body of the response, so that the
// connection is used again.
func post(ctx context.Context, c *http.Client, url string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body) // the status is all that counts
	return resp, nil
}
