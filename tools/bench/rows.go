//go:build linux

package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/shirou/gopsutil/v4/mem"
)

// row is a part of the table: clients that do the same job, and what is shown of them.
type row struct {
	name, what string
	spec       spec // at scale 1, for all clients
	clients    []rowClient
	figures    string // names of figures; those of a client's own are shown where it has them
	once       bool   // measured once, however often others are
	often      bool   // measured five times as often: the difference is smaller than the noise of a run
	fixed      bool   // events come at the same rate at every scale
	bytes      int    // of memory that a stream needs in all processes, an upper estimate
}

// rowClient is a client of a row. The first is compared with the others.
type rowClient struct {
	name, role string
	change     func(*spec)
}

func roles() map[string]role {
	return map[string]role{
		"baseline": serveBaseline, "reference": serveReference, "sdkserver": serveSDK,
		"run": generate, "lane": inside(newLane),
		"reader": inside(newReaders), "epoll": inside(newEpoll), "framer": inside(newFramers), "sdk": inside(newSessions),
		"poll": inside(newPollers), "hook": inside(newHooks),
	}
}

var (
	eventmeterRun = rowClient{name: "eventmeter run", role: "run"}
	reader        = rowClient{name: "goroutine and 4 KiB reader", role: "reader"}
	rawEpoll      = rowClient{name: "epoll", role: "epoll"}
	framer        = rowClient{name: "raw framer", role: "framer"}
	sdk           = rowClient{name: "official Go SDK's client", role: "sdk", change: func(s *spec) { s.Target = "sdkserver" }}
)

// Figures of push rows.
const pushFigures = "deliveries lost memory cpu idle opening openingCPU"

var rows = []row{
	{
		name: "push1", what: "19,000 streams over HTTP/1.1", spec: push("1.1", 19_000),
		clients: []rowClient{eventmeterRun, reader, rawEpoll}, figures: pushFigures,
	},
	{
		name: "push2", what: "100,000 streams over HTTP/2",
		// A write for each stream, as of a server with a writer for each.
		spec:    with(push("h2c", 100_000), func(s *spec) { s.Batch = 1 }),
		clients: []rowClient{eventmeterRun, framer}, figures: pushFigures,
	},
	{
		name: "push2-reference", what: "10,000 streams over HTTP/2, the reference server",
		spec:    with(push("h2c", 10_000), func(s *spec) { s.Target = "reference" }),
		clients: []rowClient{eventmeterRun, framer}, figures: "deliveries lost cpu",
	},
	{
		name: "million", what: "1,000,000 streams over HTTP/2, 64 KiB of frames to a write",
		spec: with(push("h2c", 1_000_000), func(s *spec) {
			s.Rate, s.Paced, s.Timeout, s.Collect = 0.2, 50*time.Second, 5*time.Minute, true
		}),
		clients: []rowClient{{name: "driver and ledger", role: "lane"}}, once: true, bytes: 4 << 10,
		figures: "deliveries lost memory settled heap stack cpu opening openingCPU targetMemory targetCPU",
	},
	{
		name: "error-spread", fixed: true, what: "measuring error, 10,000 streams, 500 events/s to 100 groups",
		spec:    with(timed(8*time.Second), func(s *spec) { s.Portable, s.Groups = true, 100 }),
		clients: []rowClient{{name: "driver and ledger, portable times", role: "lane"}, reader},
		figures: "deliveries lost errorP50 errorP99",
	},
	{
		name: "error-burst", fixed: true, what: "measuring error, 10,000 streams, 5 events/s to all",
		spec:    with(timed(8*time.Second), func(s *spec) { s.Portable = true }),
		clients: []rowClient{{name: "driver and ledger, portable times", role: "lane"}, reader},
		figures: "deliveries lost errorP50 errorP99",
	},
	{
		name:    "error-kernel",
		fixed:   true,
		what:    "measuring error, the same, kernel's times",
		spec:    timed(8 * time.Second),
		clients: []rowClient{{name: "driver and ledger", role: "lane"}},
		figures: "deliveries lost errorP50 errorP99 kernel shared",
	},
	{
		name: "poll", what: "10,000 pollers, a poll each in 5 s, 1 event/s",
		spec: spec{
			Target: "reference", Mode: "poll", HTTP: "1.1", Streams: 10_000, PollEvery: 5 * time.Second, Rate: 1,
			Settle: 12 * time.Second, Idle: 10 * time.Second, Paced: 20 * time.Second, Timeout: time.Minute,
		},
		clients: []rowClient{eventmeterRun, {name: "epoll", role: "poll"}},
		figures: "deliveries lost memory calls callCPU cpu targetCallCPU connections failed",
	},
	{
		name: "webhook", what: "10,000 webhook subscriptions that live for 30 s, 0.2 events/s",
		spec: spec{
			Target: "reference", Mode: "webhook", HTTP: "1.1", Streams: 10_000, TTL: 30 * time.Second, Rate: 0.2,
			Settle: 12 * time.Second, Idle: 15 * time.Second, Paced: 20 * time.Second, Timeout: time.Minute,
		},
		clients: []rowClient{eventmeterRun, {name: "epoll, plain handler", role: "hook"}},
		figures: "deliveries lost memory calls callCPU cpu targetCallCPU connections failed",
	},
	{
		name: "webhook-deliveries", what: "100 webhook subscriptions, 40 events/s",
		spec: spec{
			Target: "reference", Mode: "webhook", HTTP: "1.1", Streams: 100, TTL: time.Hour, Rate: 40,
			Settle: 2 * time.Second, Idle: 3 * time.Second, Paced: 10 * time.Second, Timeout: time.Minute,
		},
		clients: []rowClient{eventmeterRun, {name: "plain handler", role: "hook"}}, figures: "deliveries lost cpu",
	},
	{
		name:  "judging",
		what:  "10,000 streams over HTTP/1.1, judged and not",
		spec:  push("1.1", 10_000),
		often: true,
		clients: []rowClient{
			{name: "driver and ledger", role: "lane"},
			{name: "nothing judged", role: "lane", change: func(s *spec) { s.Unjudged = true }},
		},
		figures: "deliveries lost cpu allocations judged broken",
	},
	{
		name: "sdk", what: "1,000 streams over HTTP/1.1, 5 events/s",
		spec:    with(push("1.1", 1000), func(s *spec) { s.Rate = 5 }),
		clients: []rowClient{eventmeterRun, sdk}, figures: "deliveries lost memory cpu", bytes: 900 << 10,
	},
}

// push is a spec of streams that together receive about 40,000 events a second.
func push(http string, streams int) spec {
	return spec{
		Target: "baseline", Mode: "push", HTTP: http, Streams: streams, Rate: min(5, max(0.25, 40_000/float64(streams))),
		Settle: 2 * time.Second, Idle: 3 * time.Second, Paced: 12 * time.Second, Timeout: 90 * time.Second,
	}
}

// timed is a spec of streams whose receive times are checked.
func timed(paced time.Duration) spec {
	return with(push("1.1", 10_000), func(s *spec) { s.Error, s.Rate, s.Paced = true, 5, paced })
}

func with(s spec, change func(*spec)) spec {
	change(&s)
	return s
}

func rowNames() (names []string) {
	for _, r := range rows {
		names = append(names, r.name)
	}
	return names
}

// named reports whether a name stands for the row: its own, or the beginning of it.
func (r row) named(name string) bool { return r.name == name || strings.HasPrefix(r.name, name+"-") }

// rounds is how often each client is measured.
func (r row) rounds(repeats int) int {
	switch {
	case r.once:
		return 1
	case r.often:
		return min(5*repeats, 15)
	}
	return repeats
}

const (
	// spareFiles is how many files a process needs besides those of its streams.
	spareFiles = 300
	// fewest is the smallest number of streams.
	fewest = 20
)

// specs are what the clients are told, at a scale. Files limit a process; 0 = they do not.
func (r row) specs(scale float64, files int64) ([]spec, error) {
	s := r.spec
	s.Streams = max(fewest, int(math.Round(float64(s.Streams)*scale)))
	if need := s.Streams + spareFiles; s.HTTP == "1.1" && files > 0 && int64(need) > files {
		return nil, fmt.Errorf(
			"%s streams need %s open files in a process, which may have %s: raise the limit or use a smaller --scale",
			grouped(s.Streams),
			grouped(need),
			grouped(int(files)),
		)
	}
	if m, err := mem.VirtualMemory(); err == nil && float64(s.Streams)*float64(r.bytes) > 0.75*float64(m.Available) {
		return nil, fmt.Errorf("%s streams need %d MiB of memory, and %d are available: use a smaller --scale",
			grouped(s.Streams), s.Streams*r.bytes>>20, m.Available>>20)
	}
	scaled := func(d *time.Duration, factor float64, least time.Duration) {
		if *d > 0 {
			*d = max(least, time.Duration(float64(*d)*factor))
		}
	}
	// Fewer calls come at the same rate, and CPU needs some time to be measured.
	scaled(&s.PollEvery, scale, 300*time.Millisecond)
	scaled(&s.TTL, scale, 6*time.Second)
	scaled(&s.Timeout, scale, 30*time.Second)
	for _, d := range []*time.Duration{&s.Settle, &s.Idle, &s.Paced} {
		scaled(d, max(scale, math.Sqrt(scale)), 300*time.Millisecond)
	}
	if scale < 1 && !r.fixed { // CPU needs some deliveries to be measured
		s.Rate = max(s.Rate, min(20, s.Rate/scale))
	}
	var all []spec
	for _, c := range r.clients {
		one := s
		one.Name, one.Role = c.name, c.role
		if c.change != nil {
			c.change(&one)
		}
		all = append(all, one)
	}
	return all, nil
}
