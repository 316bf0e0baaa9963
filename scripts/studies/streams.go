package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/eventmeter/eventmeter/results"
)

// streams asks what it costs that every subscription has a stream of its own, by how many streams
// share a connection.
//
// Hypotheses, stated before anything was measured:
//   - connections, and so files, are streams / streams per connection;
//   - the server's memory for a stream is a + b / streams per connection: a for the stream and b for
//     its connection;
//   - a burst to all streams is no later when they share connections: the frames are the same, and
//     there are fewer writes;
//   - opening is no slower.
type streams struct {
	Ways []streamsWay `json:"ways"` // HTTP/1.1 first, then HTTP/2 by rising streams per connection
}

// streamsWay is one way of carrying streams.
type streamsWay struct {
	HTTP          string        `json:"http"` // 1.1 or h2c
	PerConnection int           `json:"perConnection"`
	Sizes         []streamsSize `json:"sizes"` // rising
}

// streamsSize is the outcome of runs with a number of streams.
type streamsSize struct {
	Streams     int    `json:"streams"`
	P99Ms       spread `json:"p99Ms"`  // of the burst, published → received
	OpenMs      spread `json:"openMs"` // until all streams stood
	MemoryMiB   spread `json:"memoryMiB"`
	Connections int64  `json:"connections"` // that the streams needed, in the last run
	Files       int64  `json:"files"`       // of the server while the streams were open, in the last run; 0 = not known
}

const (
	streamsRepeats = 2
	streamsProfile = `name: streams
lanes:
  - name: push
    mode: push
    subscriptions: 1000
    event: chat.message
upstream: {payload: {channel: general, text: "message {{.Seq}} {{.Probe}}"}}
# Each event is a burst: it goes to all streams.
schedule: {kind: constant, rate: 1/s}
phases: {ready: 3m, warmup: 1s, measure: 8s, drain: 20s, late: 0}
`
)

// profile writes a profile into the directory of the study, and returns its path.
func (l *lab) profile(text string) (string, error) {
	file := filepath.Join(l.dir, "profile.yaml")
	return file, os.WriteFile(file, []byte(text), 0o644)
}

func (s *streams) measure(ctx context.Context, l *lab) error {
	file, err := l.profile(streamsProfile)
	if err != nil {
		return err
	}
	sizes := []int{l.subscriptions(2000, 100), l.subscriptions(10_000, 500)}
	s.Ways = []streamsWay{{HTTP: "1.1", PerConnection: 1}}
	for _, per := range []int{1, 10, 100, 1000, 2000} {
		s.Ways = append(s.Ways, streamsWay{HTTP: "h2c", PerConnection: per})
	}
	for i := range s.Ways {
		w := &s.Ways[i]
		for _, n := range sizes {
			size, err := w.open(ctx, l, file, n)
			if err != nil {
				return err
			}
			w.Sizes = append(w.Sizes, size)
		}
	}
	return nil
}

// open makes the runs of one size.
func (w *streamsWay) open(ctx context.Context, l *lab, file string, n int) (streamsSize, error) {
	out := streamsSize{Streams: n}
	var p99, open, memory []float64
	for i := range streamsRepeats {
		args := []string{"--profile", file, "--set", fmt.Sprintf("lanes.push.subscriptions=%d", n), "--set", "lanes.push.http=" + w.HTTP,
			"--set", fmt.Sprintf("phases.measure=%v", l.duration(8*time.Second, 3*time.Second))}
		if w.HTTP != "1.1" {
			args = append(args, "--set", fmt.Sprintf("lanes.push.push.streamsPerConnection=%d", w.PerConnection))
		}
		r, err := l.run(ctx, fmt.Sprintf("http%s-%d-of-%d-%d", strings.TrimSuffix(strings.ReplaceAll(w.HTTP, ".", ""), "c"), w.PerConnection, n, i+1), args...)
		if err != nil {
			return out, err
		}
		lane := r.Lanes[0]
		p99 = append(p99, lane.Latency.FromSent.P99.Duration().Seconds()*1e3)
		open = append(open, attached(r).Seconds()*1e3)
		if r.Target.Process != nil {
			memory = append(memory, float64(r.Target.Process.Memory)/(1<<20))
		}
		out.Connections, out.Files = lane.Overhead.Connections, int64(r.Target.Leak["files"].Start)
	}
	out.P99Ms, out.OpenMs = spreadOf(p99), spreadOf(open)
	if len(memory) > 0 {
		out.MemoryMiB = spreadOf(memory)
	}
	return out, nil
}

// attached is how long the subscriptions of a run took to open.
func attached(r *results.Result) time.Duration {
	for _, p := range r.Phases {
		if p.Name == "attach" {
			return (p.End - p.Start).Duration()
		}
	}
	return 0
}

// small and large are the sizes of a way.
func (w *streamsWay) small() *streamsSize { return &w.Sizes[0] }
func (w *streamsWay) large() *streamsSize { return &w.Sizes[len(w.Sizes)-1] }

// perStream is the memory that one stream more takes, in KiB, from the two sizes.
func (w *streamsWay) perStream() spread {
	a, b := w.small(), w.large()
	n := float64(b.Streams-a.Streams) / 1024
	return spread{
		Median: (b.MemoryMiB.Median - a.MemoryMiB.Median) / n, N: min(a.MemoryMiB.N, b.MemoryMiB.N),
		Low: (b.MemoryMiB.Low - a.MemoryMiB.High) / n, High: (b.MemoryMiB.High - a.MemoryMiB.Low) / n,
	}
}

// h2 are the ways over HTTP/2.
func (s *streams) h2() []streamsWay { return s.Ways[1:] }

// memoryModel returns a and b of a + b / streams per connection, in KiB, from the fewest and the most
// streams per connection.
func (s *streams) memoryModel() (a, b float64) {
	h2 := s.h2()
	few, many := &h2[0], &h2[len(h2)-1]
	x0, x1 := 1/float64(few.PerConnection), 1/float64(many.PerConnection)
	b = (few.perStream().Median - many.perStream().Median) / (x0 - x1)
	return many.perStream().Median - b*x1, b
}

// expectedConnections is for n streams.
func (w *streamsWay) expectedConnections(n int) int {
	return int(math.Ceil(float64(n) / float64(w.PerConnection)))
}
