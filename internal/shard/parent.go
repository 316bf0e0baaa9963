package shard

import (
	"encoding/json"
	"io"
	"os/exec"
	"sync"

	"github.com/eventmeter/eventmeter/internal/embedded"
	"github.com/eventmeter/eventmeter/internal/run"
	"github.com/eventmeter/eventmeter/internal/stderrtail"
)

// parent starts the shards, makes them begin together, and waits for them.
type parent struct {
	Processes
	run      uint32
	children []*shardProcess
	target   embedded.Server
	dir      *embedded.TempDir
	news     chan news
	readers  sync.WaitGroup

	live   []*run.Progress // the latest of each shard
	shown  *shownTogether
	begun  int   // passes that have begun
	failed error // the first failure
}

// shardProcess is one child.
type shardProcess struct {
	index int
	cmd   *exec.Cmd
	in    io.WriteCloser
	log   *stderrtail.Writer

	hello   bool
	ready   int // number of passes that it was ready for
	done    bool
	callers []byte // PEM that its callbacks are trusted by
}

// send sends an order. An error is ignored: a child that is gone also ends its
// standard output.
func (s *shardProcess) send(o order) { _ = json.NewEncoder(s.in).Encode(o) }

// news is a message of a child, or the end of the child.
type news struct {
	from  *shardProcess
	line  reply
	ended bool
	err   error
}
