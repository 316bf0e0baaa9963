package shard

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/eventmeter/eventmeter/internal/embedded"
	"github.com/eventmeter/eventmeter/internal/health"
	"github.com/eventmeter/eventmeter/internal/run"
)

// share starts the shared target if the profile names none, and sends every shard its
// address and the siblings on this machine.
func (c *parent) share(ctx context.Context) error {
	var shared run.Shared
	if c.Profile.Target.URL == "" {
		if err := c.startTarget(ctx); err != nil {
			return err
		}
		shared.Ready = c.target.Ready()
	}
	pids := []int{os.Getpid()}
	for _, s := range c.children {
		pids = append(pids, s.cmd.Process.Pid)
	}
	for i, s := range c.children {
		mine := shared
		mine.Siblings = slices.DeleteFunc(slices.Clone(pids), func(pid int) bool { return pid == s.cmd.Process.Pid })
		mine.Source = c.source(i, cmp.Or(c.Profile.Target.URL, shared.Ready.URL))
		s.send(order{Target: &mine})
	}
	return nil
}

// startTarget starts the embedded target, which trusts the callbacks of every shard.
func (c *parent) startTarget(ctx context.Context) error {
	var err error
	if c.dir, err = embedded.NewTempDir(); err != nil {
		return fmt.Errorf("start the embedded target: %w", err)
	}
	var pem []byte
	for _, s := range c.children {
		pem = append(pem, s.callers...)
	}
	o, err := run.TargetOptions(c.Profile, c.dir.Path, pem)
	if err != nil {
		return err
	}
	if c.Embedded == nil {
		return fmt.Errorf("%w: it names no target.url, and no embedded target can be started here", run.ErrProfile)
	}
	if c.target, err = c.Embedded(ctx, o); err != nil {
		return fmt.Errorf("%w: %w", run.ErrTarget, err)
	}
	return nil
}

// source returns the address that a shard's connections come from: an address of its
// own if the ports of one could run out and this machine has several, towards a target at url.
func (c *parent) source(index int, url string) netip.Addr {
	ports := health.EphemeralPorts()
	if ports == 0 {
		return netip.Addr{}
	}
	if url != "" && !strings.Contains(url, "//127.") && !strings.Contains(url, "//localhost") {
		return netip.Addr{}
	}
	var need int64
	for _, l := range c.Profile.Lanes {
		need += run.FilesOf(l)
	}
	if need < int64(ports)/2 {
		return netip.Addr{}
	}
	return netip.AddrFrom4([4]byte{127, 0, byte(1 + index/250), byte(2 + index%250)})
}
