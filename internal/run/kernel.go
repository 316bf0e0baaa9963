package run

import (
	"slices"
	"strings"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/streamclient"
	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
)

// stamped reports whether any of the lanes takes its receive times from the kernel.
func (r *run) stamped(lanes []*lane) bool {
	return slices.ContainsFunc(lanes, func(l *lane) bool { return r.stampedLane(&l.Lane) })
}

// stampedLane reports whether the kernel times a lane's deliveries. Kernel times
// exclude the wait for this program and so make a lane look faster. To keep lanes
// comparable, no lane uses them unless all can, or the profile asks for them.
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

// stampedStreams reports whether the kernel times the messages on a lane's streams:
// deliveries, or notifications that only this lane's system has.
func (r *run) stampedStreams(l *profiles.Lane) bool {
	of, err := systems.Find(l.System)
	return r.stampedLane(l) || err == nil && of.Notifies && r.profile.Generator.KernelTimestamps != "off"
}

// stampable reports whether a lane could use kernel times: the driver must have a
// stream client, and the stream client must be able to use them on the lane's
// connections.
func (r *run) stampable(l *profiles.Lane) bool {
	return streamclient.Stamps(streamclient.Options{}) &&
		stamps(l) && l.HTTP != "2" &&
		r.target.plain != nil && strings.HasPrefix(r.target.plain.URL(), "http:")
}

// warnStamps names the lanes that cannot use kernel times although the profile asks
// for them. A merged run has no target; its shards have warned already.
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
			r.Warn(
				"kernel-timestamps",
				l.Name,
				"its deliveries do not have the kernel's receive times, which require Linux, the system %s, mode push and no TLS",
				strings.Join(able, " or "),
			)
		}
	}
}

// stamps reports whether the driver of a lane can use kernel times.
func stamps(l *profiles.Lane) bool {
	of, err := systems.Find(l.System)
	return err == nil && slices.Contains(of.KernelTimestamps, eventmeter.Mode(l.Mode))
}
