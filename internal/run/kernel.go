package run

import (
	"slices"
	"strings"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/streamclient"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
)

// stamped tells whether any of the lanes takes times from the kernel.
func (r *run) stamped(lanes []*lane) bool {
	for _, l := range lanes {
		if r.stampedLane(&l.Lane) {
			return true
		}
	}
	return false
}

// stampedLane tells whether the kernel times a lane's deliveries. Lanes are
// there to be compared: unless it is asked for, none has the kernel's times
// where another one cannot, since these leave out what a delivery waits for this
// program and so would make that lane look faster.
func (r *run) stampedLane(l *profiles.Lane) bool {
	switch r.profile.Generator.KernelTimestamps {
	case "off":
		return false
	case "on":
		return r.stampable(l)
	}
	for i := range r.profile.Lanes {
		if !r.stampable(&r.profile.Lanes[i]) {
			return false
		}
	}
	return r.stampable(l)
}

// stampedStreams tells whether the kernel times what comes on a lane's streams:
// its deliveries, or notifications that no other lane has.
func (r *run) stampedStreams(l *profiles.Lane) bool {
	of, err := systems.Find(l.System)
	return r.stampedLane(l) || err == nil && of.Notifies && r.profile.Generator.KernelTimestamps != "off"
}

// stampable tells whether a lane could have the kernel's times. What its
// connections could do is known by the stream client; that it has one, by the driver.
func (r *run) stampable(l *profiles.Lane) bool {
	return streamclient.Stamps(streamclient.Options{}) &&
		stamps(l) && l.HTTP != "2" &&
		r.target.plain != nil && strings.HasPrefix(r.target.plain.URL(), "http:")
}

// warnStamps names the lanes that cannot have what was asked for. A run that was
// put together of shards has no target, and those have warned.
func (r *run) warnStamps() {
	if r.profile.Generator.KernelTimestamps != "on" || r.target.plain == nil {
		return
	}
	var able []string
	for _, s := range systems.All() {
		if len(s.KernelTimestamps) > 0 {
			able = append(able, s.Name)
		}
	}
	for _, l := range r.lanes {
		if !r.stampable(&l.Lane) {
			r.Warn("kernel-timestamps", l.Name, "the times of its deliveries are not the kernel's: that takes Linux, the system %s, mode push and no TLS", strings.Join(able, " or "))
		}
	}
}

// stamps tells whether the driver of a lane can take the kernel's times.
func stamps(l *profiles.Lane) bool {
	of, err := systems.Find(l.System)
	return err == nil && slices.Contains(of.KernelTimestamps, eventmeter.Mode(l.Mode))
}
