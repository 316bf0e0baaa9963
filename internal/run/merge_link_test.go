package run_test

import (
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/internal/shard"
)

func init() { run.Merge = shard.Merge }
