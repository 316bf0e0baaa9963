package selfbench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"sync"
)

// profile takes a CPU profile of this process into a file until stop is called,
// which may be called again. Without a file it does nothing.
func profile(file string) (stop func(), err error) {
	if file == "" {
		return func() {}, nil
	}
	f, err := os.Create(file)
	if err != nil {
		return nil, fmt.Errorf("CPU profile: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, fmt.Errorf("CPU profile: %w", errors.Join(err, f.Close()))
	}
	return sync.OnceFunc(func() {
		pprof.StopCPUProfile()
		f.Close()
	}), nil
}

// profilesOf is what the names of a measurement's profiles begin with: the row,
// the client, its streams and rate, and the round.
func (r *runner) profilesOf(p plan, round int) string {
	if r.opts.Profiles == "" {
		return ""
	}
	name := fmt.Sprintf("%s-%s-%d-%g-%d", r.row.Name, p.Name, p.Client.Streams, p.Client.Rate, round)
	return filepath.Join(r.opts.Profiles, strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' {
			return c
		}
		return '_'
	}, name))
}
