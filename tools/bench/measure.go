//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/process"

	"github.com/eventmeter/eventmeter/internal/cputime"
)

// measurement is one client, measured once.
type measurement struct {
	Row     string             `json:"row"`
	Client  string             `json:"client"`
	Round   int                `json:"round"`
	Streams int                `json:"streams"`
	Rate    float64            `json:"eventsPerSecond"`
	Seconds float64            `json:"seconds"`
	Figures map[string]float64 `json:"figures"` // by the names in figures
}

// measure runs a target and a client. It samples both until the client has ended.
func measure(ctx context.Context, self []string, s spec) (m *measurement, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*s.Timeout+s.Settle+s.Idle+s.Paced+time.Minute)
	defer cancel()
	about := s
	about.Role = s.Target
	server, err := start(ctx, self, about)
	if err != nil {
		return nil, err
	}
	defer func() { _ = server.End() }() // its last line said how it went
	r, err := server.next()
	if err != nil {
		return nil, err
	}
	s.URL, s.Admin = r.Target.HTTP1, r.Target.Admin
	if s.HTTP == "h2c" {
		s.URL = r.Target.HTTP2
	}
	c, err := start(ctx, self, s)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.End() }() // the same
	if r, err = c.next(); err != nil {
		return nil, err
	}
	w, err := watch(s, r.PID, server.PID())
	if err != nil {
		return nil, err
	}
	r, err = c.next()
	points := w.end()
	if err != nil {
		return nil, err
	}
	if err := server.Stop(); err != nil {
		return nil, err
	}
	last, err := server.next()
	if err != nil {
		return nil, err
	}
	o := r.Outcome
	o.Lost += last.Outcome.Lost
	if o.Delivered == 0 {
		return nil, fmt.Errorf("nothing was delivered")
	}
	return &measurement{
		Streams: s.Streams,
		Rate:    s.Rate * float64(s.groups()),
		Seconds: o.Ended.Sub(o.Paced).Seconds(),
		Figures: evaluate(s, o, points),
	}, nil
}

// point is what processes have used until a time.
type point struct {
	at             time.Time
	client, target usage
	busy           float64 // CPU seconds of the whole machine and of its hypervisor
	calls          float64 // polls and refreshes
}

type usage struct{ cpu, memory float64 } // seconds, bytes

// watcher samples a client and its target.
type watcher struct {
	spec           spec
	client, target *process.Process
	points         []point
	stop           func()
}

// sampled is the time between two samples.
const sampled = 50 * time.Millisecond

// watch samples until end.
func watch(s spec, client, target int) (*watcher, error) {
	w := &watcher{spec: s}
	var err error
	if w.client, err = process.NewProcess(int32(client)); err != nil {
		return nil, err
	}
	if w.target, err = process.NewProcess(int32(target)); err != nil {
		return nil, err
	}
	w.sample()
	w.stop = repeat(sampled, w.sample)
	return w, nil
}

func (w *watcher) end() []point {
	w.stop()
	return w.points
}

func (w *watcher) sample() {
	p := point{at: time.Now(), target: used(w.target), client: used(w.client)}
	if all, err := cpu.Times(false); err == nil && len(all) > 0 {
		t := all[0]
		p.busy = t.User + t.System + t.Nice + t.Irq + t.Softirq + t.Steal
	}
	if w.spec.Mode != "push" {
		p.calls = calls(w.spec.Admin)
	}
	w.points = append(w.points, p)
}

// used is what a process has used; zero once it has ended.
func used(p *process.Process) (u usage) {
	if d, err := cputime.Of(int(p.Pid)); err == nil {
		u.cpu = d.Seconds()
	}
	if m, err := p.MemoryInfo(); err == nil {
		u.memory = float64(m.RSS)
	}
	return u
}

// calls asks the reference server how many polls and refreshes it has answered.
func calls(admin string) float64 {
	resp, err := http.Get(admin + "/stats")
	if err != nil {
		return 0 // it has ended
	}
	defer resp.Body.Close()
	var stats struct{ Polls, Refreshes float64 }
	if json.NewDecoder(resp.Body).Decode(&stats) != nil {
		return 0
	}
	return stats.Polls + stats.Refreshes
}

type series []point // in the order of time

// at is a total at a time, interpolated.
func (p series) at(t time.Time, of func(*point) float64) float64 {
	for i := 1; i < len(p); i++ {
		if a, b := &p[i-1], &p[i]; !b.at.Before(t) {
			share := max(0, t.Sub(a.at).Seconds()/b.at.Sub(a.at).Seconds())
			return of(a) + share*(of(b)-of(a))
		}
	}
	return of(&p[len(p)-1])
}

// before is the last sample before a time.
func (p series) before(t time.Time) (last *point) {
	last = &p[0]
	for i := range p {
		if p[i].at.Before(t) {
			last = &p[i]
		}
	}
	return last
}

// evaluate computes the figures of a measurement.
func evaluate(s spec, o *outcome, p series) map[string]float64 {
	client := func(x *point) float64 { return x.client.cpu }
	target := func(x *point) float64 { return x.target.cpu }
	during := func(from, to time.Time, of func(*point) float64) float64 { return p.at(to, of) - p.at(from, of) }
	idle := func(of func(*point) float64) float64 { // a second, while nothing happens
		return during(o.Paced.Add(-s.Idle), o.Paced, of) / s.Idle.Seconds()
	}
	calls := func(x *point) float64 { return x.calls }
	// What the paced phase would have used without events: as much in a second, or for a call, as the idle phase.
	paced := o.Ended.Sub(o.Paced).Seconds()
	alike := paced
	if n := idle(calls); n > 0 {
		alike = during(o.Paced, o.Ended, calls) / n
	}
	perDelivery := func(of func(*point) float64) float64 {
		return 1e6 * (during(o.Paced, o.Ended, of) - alike*idle(of)) / float64(o.Delivered)
	}
	n := float64(s.Streams)
	opening := o.Opened.Sub(o.Began).Seconds()
	began := p.before(o.Began)
	f := map[string]float64{
		"deliveries":   float64(o.Delivered),
		"lost":         float64(o.Lost),
		"memory":       (p.before(o.Full).client.memory - began.client.memory) / 1024 / n,
		"settled":      (p.before(o.Paced).client.memory - began.client.memory) / 1024 / n,
		"targetMemory": (p.before(o.Full).target.memory - began.target.memory) / 1024 / n,
		"cpu":          perDelivery(client),
		"targetCPU":    perDelivery(target),
		"idle":         1e3 * idle(client),
		"opening":      n / opening,
		"openingCPU":   1e6 * during(o.Began, o.Opened, client) / n,
		"others": max(0, during(o.Began, o.Ended, func(x *point) float64 { return x.busy - x.client.cpu - x.target.cpu })) /
			o.Ended.Sub(o.Began).Seconds(),
	}
	if n := idle(calls); n > 0 {
		f["calls"], f["callCPU"], f["targetCallCPU"] = n, 1e6*idle(client)/n, 1e6*idle(target)/n
	}
	for name, v := range o.Values {
		f[name] = v
	}
	return f
}
