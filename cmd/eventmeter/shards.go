package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	s.processes = 1
	addFlags(c, []flagSpec{
		{&s.processes, "processes", "split the run among this number of processes, and merge their results"},
		{
			&s.shard, "shard",
			"run one of several parts of a run, INDEX/COUNT with indices from 0, or /COUNT with the index in " + completionIndex +
				"; needs --start-at",
		},
		{
			&s.startAt, "start-at",
			"with --shard: wall-clock time at which all shards begin to publish (RFC 3339, 2026-11-20T10:00:00Z); the same for all",
		},
	})
}

// completionIndex is the variable in which Kubernetes gives each pod of an Indexed
// Job its index.
const completionIndex = "JOB_COMPLETION_INDEX"

// check reads the flags, and refuses combinations that do not work.
func (s *shardFlags) check(f *runFlags) error {
	switch {
	case s.processes < 1:
		return usagef("--processes %d: want 1 or more", s.processes)
	case s.processes > results.MaxShards:
		return usagef("--processes %d: want %d at most", s.processes, results.MaxShards)
	case f.ofTarget != "" && (s.processes > 1 || s.shard != ""):
		return usagef("--target-metrics and shards: each shard would count the target once more; run without --processes and --shard")
	case s.shard == "" && s.startAt != "":
		return usagef("--start-at needs --shard, which says which part of the run this is")
	case s.shard == "":
		return nil
	case s.processes > 1:
		return usagef("--processes and --shard: a shard is one process; use more shards")
	case f.trials > 1 || len(f.profiles) > 1:
		return usagef("--shard takes one run: one profile, and no --trials")
	case f.output.format.has(formatJUnit):
		return usagef("--format junit and --shard: thresholds are judged on the merged run; give it to eventmeter merge")
	case s.startAt == "":
		return usagef("--shard needs --start-at, the same time for all shards, after all their subscriptions are open")
	}
	index, count, ok := strings.Cut(s.shard, "/")
	if ok && index == "" {
		index = os.Getenv(completionIndex)
		if index == "" {
			return usagef("--shard %s: %s is not set; run it in an Indexed Job, or give INDEX/COUNT", s.shard, completionIndex)
		}
	}
	var err, err2 error
	s.index, err = strconv.Atoi(index)
	s.count, err2 = strconv.Atoi(count)
	if err != nil || err2 != nil || !ok || s.count < 2 || s.index < 0 || s.index >= s.count {
		return usagef("--shard %s: want INDEX/COUNT, such as 0/4 to 3/4", s.shard)
	}
	if s.count > results.MaxShards {
		return usagef("--shard %s: want a COUNT of %d at most", s.shard, results.MaxShards)
	}
	if s.start, err = time.Parse(time.RFC3339, s.startAt); err != nil {
		return usagef("--start-at %s: want a time like 2026-11-20T10:00:00Z", s.startAt)
	}
	return nil
}

// run runs the profile in the requested number of processes.
func (s *shardFlags) run(ctx context.Context, o run.Options, dir string) (*run.Outcome, error) {
	switch {
	case s.processes > 1:
		self, err := thisProgram("shards")
		if err != nil {
			return nil, err
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
			return nil, usagef("--shard: lanes that take turns have to begin each turn together; use --processes, or --set phases.order=together")
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

// mergeFlags are the flags of the merge command.
type mergeFlags struct {
	out    string
	output outputFlags
}

func newMergeCommand(io streams) *cobra.Command {
	f := mergeFlags{out: "merged"}
	c := &cobra.Command{
		Use:   "merge DIR...",
		Short: "Merge the results of the shards of a run",
		Long: `Merge reads the archives that run --shard wrote, one DIR for each or one DIR that
holds them all, and adds them up exactly: counts are summed, histograms are added
bucket by bucket, and the thresholds of the profile are judged on the sum. It
writes an archive that report and compare read like any other.

Merge refuses shards of different runs, profiles or versions, a shard that is given
twice, and a shard whose files disagree. If shards are missing or ended early, the result
says so and the exit code is 1.

` + exitCodesHelp,
		Example: "  eventmeter merge part-0 part-1 part-2 part-3 --out merged\n  eventmeter merge /results --out /results/merged",
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { return merge(f, args, io) },
	}
	addFlags(c, []flagSpec{{&f.out, "out,o", "directory for the merged result"}})
	f.output.add(c)
	return c
}

// merge is the merge command.
func merge(f mergeFlags, args []string, io streams) error {
	if err := f.output.check(); err != nil {
		return err
	}
	dirs, err := shardDirs(args)
	if err != nil {
		return usageError{err}
	}
	// A merged result can be rebuilt from its shards; a measured one cannot.
	if r, err := results.Load(f.out); err == nil && len(r.Shards) == 0 {
		return usagef("--out %s: it holds a result that eventmeter merge did not write; choose another directory", f.out)
	}
	taken, err := takeOut(f.out)
	if err != nil {
		return err
	}
	defer taken.release()
	outcome, err := shard.Merge(dirs)
	if err != nil {
		return usageError{err}
	}
	err = f.output.all(outcome, f.out, io)
	if err == nil && outcome.Result.Partial {
		return fmt.Errorf("the result is partial: %s", outcome.Result.Reason)
	}
	return verdict(outcome.Result, nil, err)
}

// shardDirs returns the directories of shards: those in args, or the directories
// inside it if args names a single directory.
func shardDirs(args []string) ([]string, error) {
	var out []string
	for _, dir := range args {
		if _, err := os.Stat(filepath.Join(dir, results.PartFile)); err == nil {
			out = append(out, dir)
			continue
		}
		inside, err := filepath.Glob(filepath.Join(dir, "*", results.PartFile))
		if err != nil || len(inside) == 0 {
			return nil, errors.Join(
				fmt.Errorf(
					"%s has no %s, and no directory in it has one; name the directories that run --shard wrote",
					dir,
					results.PartFile,
				),
				err,
			)
		}
		for _, name := range inside {
			// A shard killed at its first checkpoint may have left one of its two
			// files; the merge then reports the shard as missing.
			if _, err := os.Stat(filepath.Join(filepath.Dir(name), results.File)); err == nil || len(inside) == 1 {
				out = append(out, filepath.Dir(name))
			}
		}
	}
	return out, nil
}
