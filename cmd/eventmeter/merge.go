package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/eventmeter/eventmeter/internal/shard"
	"github.com/eventmeter/eventmeter/results"
)

// mergeFlags are the flags of the merge command.
type mergeFlags struct {
	out    string
	output outputFlags
}

func newMergeCommand(io streams) *cobra.Command {
	var f mergeFlags
	c := &cobra.Command{
		Use:   "merge DIR...",
		Short: "Merge the results of the shards of a run",
		Long: `Merge reads the archives that run --shard wrote, one DIR for each or one DIR that
holds them all, and adds them up exactly: counts are summed, histograms are added
bucket by bucket, and the thresholds of the profile are judged on the sum. It
writes an archive that report and compare read like any other.

Merge refuses shards of different runs, profiles or versions, a shard that is given
twice, and a shard whose files disagree. If shards are missing or ended early, the result says so and the
exit code is 1.

` + exitCodesHelp,
		Example: "  eventmeter merge part-0 part-1 part-2 part-3 --out merged\n  eventmeter merge /results --out /results/merged",
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { return merge(f, args, io) },
	}
	fl := c.Flags()
	fl.StringVarP(&f.out, "out", "o", "merged", "directory for the merged result")
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
		return usageError{fmt.Errorf("--out %s: it holds a result that eventmeter merge did not write; choose another directory", f.out)}
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
	saved := archive(f.out, outcome)
	page := filepath.Join(f.out, reportPage)
	if saved != nil {
		page = ""
	}
	forms := f.output.forms(outcome.Result, f.out, page)
	err = f.output.format.print(io, forms)
	saved = unsaved(f.out, saved, err == nil)
	err = errors.Join(err, saved, f.output.finish(outcome.Result, forms, io))
	if saved == nil && f.output.format.isText() && f.output.full {
		fmt.Fprintf(io.out, "\nresult in %s\n", f.out)
	}
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
			return nil, errors.Join(fmt.Errorf("%s has no %s, and no directory in it has one; name the directories that run --shard wrote", dir, results.PartFile), err)
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
