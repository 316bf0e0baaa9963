package bench

import (
	"context"
	"os"

	"github.com/shirou/gopsutil/v4/process"

	"github.com/mcpload/mcpload/internal/prom"
	"github.com/mcpload/mcpload/loadgen/dialect"
	"github.com/mcpload/mcpload/sinks"
)

// follow shows the run's metrics, where somebody wants them.
func (r *run) follow() {
	r.followed = r.opts.Collector.Begin(prom.Run{
		ID: r.result.Run, Profile: r.profile.Name, Version: r.opts.Version, Upstream: r.profile.Upstream.Kind,
	})
}

// follow shows the pass's metrics.
func (p *pass) follow(ctx context.Context) *prom.Pass {
	if p.followed == nil {
		return nil
	}
	w := prom.Watch{Source: p.ledger, Generator: processUsage(os.Getpid()), Phase: func() string {
		name, _, _ := p.current()
		return name
	}}
	if pid := p.targetPID(ctx); pid != 0 {
		w.Target = processUsage(pid)
	}
	return p.followed.Pass(w)
}

// settleMetrics gives the account to the metrics.
func settleMetrics(shown *prom.Pass, a *sinks.Account, own []dialect.Figures) {
	figures := make([]map[string]float64, len(a.Lanes))
	for i := range own {
		figures[i] = own[i].Values
	}
	shown.Settle(a, figures)
}

// processUsage reads a process, or returns nil where it cannot be.
func processUsage(pid int) func() prom.Usage {
	proc, err := process.NewProcess(int32(pid))
	if err != nil {
		return nil
	}
	return func() prom.Usage {
		t, err := proc.Times()
		if err != nil {
			return prom.Usage{}
		}
		m, err := proc.MemoryInfo()
		if err != nil {
			return prom.Usage{}
		}
		return prom.Usage{CPU: t.User + t.System, Memory: int64(m.RSS), OK: true}
	}
}
