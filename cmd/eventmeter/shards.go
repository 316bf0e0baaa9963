package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/internal/shard"
	"github.com/eventmeter/eventmeter/results"
)

// shardFlags are the flags of the run command that split a run.
type shardFlags struct {
	processes int
	shard     string
	startAt   string

	index, count int       // of shard
	start        time.Time // of startAt
}

func (s *shardFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.IntVar(&s.processes, "processes", 1, "split the run among this number of processes, and merge their results")
	fl.StringVar(&s.shard, "shard", "", "run one of several parts of a run, INDEX/COUNT with indices from 0, or /COUNT with the index in JOB_COMPLETION_INDEX; needs --start-at")
	fl.StringVar(&s.startAt, "start-at", "", "with --shard: wall-clock time at which all shards begin to publish (RFC 3339, 2026-11-20T10:00:00Z); the same for all")
}

// completionIndex is the variable in which Kubernetes gives each pod of an Indexed
// Job its index.
const completionIndex = "JOB_COMPLETION_INDEX"

// check reads the flags, and refuses combinations that do not work.
func (s *shardFlags) check(f runFlags) error {
	switch {
	case s.processes < 1:
		return usageError{fmt.Errorf("--processes %d: want 1 or more", s.processes)}
	case s.processes > results.MaxShards:
		return usageError{fmt.Errorf("--processes %d: want %d at most", s.processes, results.MaxShards)}
	case f.ofTarget != "" && (s.processes > 1 || s.shard != ""):
		return usageError{errors.New("--target-metrics and shards: each shard would count the target once more; run without --processes and --shard")}
	case s.shard == "" && s.startAt != "":
		return usageError{errors.New("--start-at needs --shard, which says which part of the run this is")}
	case s.shard == "":
		return nil
	case s.processes > 1:
		return usageError{errors.New("--processes and --shard: a shard is one process; use more shards")}
	case f.trials > 1 || len(f.profiles) > 1:
		return usageError{errors.New("--shard takes one run: one profile, and no --trials")}
	case f.output.format.has(formatJUnit):
		return usageError{errors.New("--format junit and --shard: thresholds are judged on the merged run; give it to eventmeter merge")}
	case s.startAt == "":
		return usageError{errors.New("--shard needs --start-at, the same time for all shards, after all their subscriptions are open")}
	}
	index, count, ok := strings.Cut(s.shard, "/")
	if ok && index == "" {
		index = os.Getenv(completionIndex)
		if index == "" {
			return usageError{fmt.Errorf("--shard %s: %s is not set; run it in an Indexed Job, or give INDEX/COUNT", s.shard, completionIndex)}
		}
	}
	var err, err2 error
	s.index, err = strconv.Atoi(index)
	s.count, err2 = strconv.Atoi(count)
	if err != nil || err2 != nil || !ok || s.count < 2 || s.index < 0 || s.index >= s.count {
		return usageError{fmt.Errorf("--shard %s: want INDEX/COUNT, such as 0/4 to 3/4", s.shard)}
	}
	if s.count > results.MaxShards {
		return usageError{fmt.Errorf("--shard %s: want a COUNT of %d at most", s.shard, results.MaxShards)}
	}
	if s.start, err = time.Parse(time.RFC3339, s.startAt); err != nil {
		return usageError{fmt.Errorf("--start-at %s: want a time like 2026-11-20T10:00:00Z", s.startAt)}
	}
	return nil
}

// run runs the profile in the requested number of processes.
func (s *shardFlags) run(ctx context.Context, o run.Options, dir string) (*run.Outcome, error) {
	switch {
	case s.processes > 1:
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find this program to start it as shards: %w", err)
		}
		return shard.Processes{Options: o, Count: s.processes, Dir: dir, Command: func(index int) *exec.Cmd {
			return exec.Command(self, "shard", fmt.Sprintf("%d/%d", index, s.processes))
		}}.Run(ctx)
	case s.shard != "":
		base, err := run.SharedRun(o.Profile, s.count, s.start)
		if err != nil {
			return nil, err
		}
		if o.Profile.Phases.Order == "turns" {
			return nil, usageError{errors.New("--shard: lanes that take turns have to begin each turn together; use --processes, or --set phases.order=together")}
		}
		o.Shard = &run.Shard{Index: s.index, Count: s.count, Run: base, Barrier: run.StartAt(s.start)}
	}
	return run.Run(ctx, o)
}

// newShardCommand returns the hidden command that run --processes starts. Its
// argument identifies the shard in a list of processes.
func newShardCommand(io streams) *cobra.Command {
	return &cobra.Command{
		Use:    "shard INDEX/COUNT",
		Short:  "Run as one process of run --processes, which starts it",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE:   func(*cobra.Command, []string) error { return shard.Serve(io.in, io.out, archive, checkpoint) },
	}
}
