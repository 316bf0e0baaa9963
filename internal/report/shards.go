package report

import (
	"fmt"
	"strings"

	"github.com/eventmeter/eventmeter/results"
)

// part says of the result of a shard that it is one.
func (p *printer) part(r *results.Result) {
	if r.Part != nil {
		p.printf("shard %d of %d: thresholds are judged on the merged run\n\n", r.Part.Index, r.Part.Count)
	}
}

// shards lists the processes of a run that was split.
func (p *printer) shards(r *results.Result) {
	if len(r.Shards) == 0 {
		return
	}
	p.printf("%-10s %-22s %9s %13s %9s %9s %9s %9s\n", "shard", "machine", "subs", "delivered", "foreign", "begun", "own p99", "CPUs")
	for _, s := range r.Shards {
		name := fmt.Sprintf("%d of %d", s.Index, s.Count)
		if s.Missing {
			p.printf("%-10s MISSING: nothing of it was there to merge\n", name)
			continue
		}
		p.printf("%-10s %s %9s %13s %9s %9s %9s %9.2f\n", name, padRight(shorten(Clean(s.Machine), 22), 22), count(int64(s.Subscriptions)), count(s.Delivered), count(s.Foreign),
			"+"+results.FormatNanos(s.Skew/1000*1000), results.FormatNanos(s.Generator.ReadDelay.P99), s.Generator.Process.CPUShare)
		if s.Partial {
			p.printf("%s PARTIAL: %s\n", strings.Repeat(" ", 10), Clean(s.Reason))
		}
	}
	p.printf("\n")
}
