package main

import (
	"fmt"
	"math"
	"time"
)

func (s *reconnect) write(p *page) {
	worst := s.herdError()
	narrow, wide := s.Jitter[0], s.Jitter[len(s.Jitter)-1]
	least, most := s.Backlog[0], s.Backlog[len(s.Backlog)-1]
	held := "as the closed form says, within " + number(100*worst) + " %"
	switch {
	case worst <= herdHolds:
	case s.herdHeld():
		held = "up to " + number(100*worst) + " % beside the closed form, which chance explains"
	default:
		held = "not as the closed form says: up to " + number(100*worst) + " % beside it, and more than chance explains"
	}
	p.answer("**Of %s streams that are lost together, %s come back within one tenth of a second without jitter, and %s with a window of %s.** With windows of %s and more, the peaks are %s. %s %s %s",
		count(s.Streams), whole(narrow.Peak.Median), whole(wide.Peak.Median), duration(inMillis(wide.WindowMs)), duration(inMillis(s.judged()[0].WindowMs)), held, s.catchUpAnswer(), s.memoryAnswer(&least, &most), s.lossAnswer())

	p.heading("The herd")
	p.text("All streams are cut at the same instant, as when a load balancer is replaced. Each stays away for %s and a random wait, the first step of a backoff with full jitter. Of *N* streams in a window *w*, *N* · 0.1 s / *w* begin to return in a tenth of a second on average. The peak is the largest of all tenths; its expected value and the interval of 95 %% follow from the binomial distribution. The herd factor compares the peak with the same streams returning evenly over a minute. The hypothesis was: each peak is within 10 %% of the expected one, or within its interval.",
		duration(inMillis(narrow.AwayMs)))
	var rows [][]string
	measured, expected := series{name: "measured: most streams that began to return"}, series{name: "expected: largest of w / 0.1 s binomial counts", expected: true, hue: 1}
	for i := range s.Jitter {
		r := &s.Jitter[i]
		mean, low, high := herdPeak(s.Streams, inMillis(r.WindowMs))
		even := float64(s.Streams) * float64(herdTenth) / float64(herdMinute)
		rows = append(rows, []string{window(r), r.Peak.String(), fmt.Sprintf("%s (%s–%s)", number(mean), number(low), number(high)), number(r.Peak.Median / even), r.seconds(), r.MemoryMiB.String()})
		x := max(r.WindowMs/1e3, 0.05)
		measured.points = append(measured.points, point{x, r.Peak.Median, r.Peak.Low, r.Peak.High})
		expected.points = append(expected.points, point{x: x, y: mean})
	}
	p.table([]string{"jitter window", "peak in 0.1 s", "expected", "herd factor", "caught up after, s", "memory, MiB"}, rows)
	p.chart("herd", "The peak of returning streams against the jitter window, measured and expected", chart{title: "Streams that return within a tenth of a second", x: axis{title: "jitter window, s (the first point: none)", log: true}, y: axis{title: "streams", log: true}, series: []series{measured, expected}})
	p.text("Without a window the streams still do not begin in the same tenth if the generator needs longer than that to close and to open %s connections, so the hypothesis is judged where the window is at least half a second.", count(s.Streams))

	s.writeCatchUp(p)
	s.writeLoss(p)
	p.changesIt("The backlog is given in events of each stream: %s of them are ten minutes of one event a second. They were published within %s, so the age of a backlog that the server keeps for a time is not part of this; the section on maxAge has it, at small times.", count(most.Events), duration(inMillis(most.AwayMs)))
	p.changesIt("Every stream misses the same events. A server that copies a backlog for each stream needs memory in proportion to streams and events; the reference server keeps one log, of at most 10,000 events and 10 minutes.")
	p.changesIt("Connections without TLS on one machine: handshakes make a herd dearer.")
}

// window names the jitter window of a row.
func window(r *reconnection) string {
	if r.WindowMs == 0 {
		return "none"
	}
	return duration(inMillis(r.WindowMs))
}

func (r *reconnection) seconds() string { return r.CatchUpMs.inSeconds().String() }

func (s spread) inSeconds() spread {
	return spread{Median: s.Median / 1e3, Low: s.Low / 1e3, High: s.High / 1e3, N: s.N}
}

// judged are the rows whose herd is held against the closed form.
func (s *reconnect) judged() (rows []reconnection) {
	for _, r := range s.Jitter {
		if bins := r.WindowMs / 1e3 / herdTenth.Seconds(); bins >= 5 || bins >= 2 && r.WindowMs < 500 { // the second in a small trial
			rows = append(rows, r)
		}
	}
	return rows
}

// herdError is the largest deviation of a peak from the closed form, as a share of it.
func (s *reconnect) herdError() (worst float64) {
	for _, r := range s.judged() {
		mean, _, _ := herdPeak(s.Streams, inMillis(r.WindowMs))
		worst = max(worst, math.Abs(r.Peak.Median/mean-1))
	}
	return worst
}

// herdHeld reports whether each peak is within 10 % of the closed form, or within its interval.
func (s *reconnect) herdHeld() bool {
	for _, r := range s.judged() {
		mean, low, high := herdPeak(s.Streams, inMillis(r.WindowMs))
		if m := r.Peak.Median; math.Abs(m/mean-1) > herdHolds && (m < low || m > high) {
			return false
		}
	}
	return true
}

// rate is how many missed deliveries a second the largest backlog was made up with.
func (s *reconnect) rate() float64 {
	most := &s.Backlog[len(s.Backlog)-1]
	if most.CatchUpMs.Median == 0 {
		return 0
	}
	return most.missed() / (most.CatchUpMs.Median / 1e3)
}

// expectedCatchUp is in seconds: the window, or the time for what was missed.
func (s *reconnect) expectedCatchUp(r *reconnection) float64 {
	if s.rate() == 0 {
		return r.WindowMs / 1e3
	}
	return max(r.WindowMs/1e3, r.missed()/s.rate())
}

func (s *reconnect) catchUpAnswer() string {
	most := &s.Backlog[len(s.Backlog)-1]
	return fmt.Sprintf("With %s missed events each, the last stream has caught up %s s after the streams may return (%s deliveries a second).", count(most.Events), most.seconds(), number(s.rate()))
}

func (s *reconnect) memoryAnswer(least, most *reconnection) string {
	switch {
	case least.MemoryMiB.N == 0:
		return "The server's memory was not measured."
	case !apart(least.MemoryMiB, most.MemoryMiB):
		return fmt.Sprintf("Its peak memory does not depend on the backlog: %s MiB with %s missed and %s MiB with %s.", least.MemoryMiB, count(least.Events), most.MemoryMiB, count(most.Events))
	}
	grown := (most.MemoryMiB.Median - least.MemoryMiB.Median) * 1024 / float64(s.Streams)
	return fmt.Sprintf("Its peak memory changes with the backlog, from %s MiB with %s missed to %s MiB with %s: %s KiB a stream.", least.MemoryMiB, count(least.Events), most.MemoryMiB, count(most.Events), number(grown))
}

func (s *reconnect) writeCatchUp(p *page) {
	p.heading("Catching up")
	rate := s.rate()
	p.text("The time from the moment when the streams may return until the last missed event of the last stream was received. The expectation is the larger of the jitter window and the time for all missed deliveries at %s a second, the rate of the largest backlog; so the last point is on the line by construction.", number(rate))
	var rows [][]string
	measured, expected, memory := series{name: "measured"}, series{name: "expected: window, or missed deliveries / rate", expected: true, hue: 1}, series{name: "peak memory of the server"}
	for i := range s.Backlog {
		r := &s.Backlog[i]
		want := s.expectedCatchUp(r)
		rows = append(rows, []string{count(r.Events), number(r.missed()), r.seconds(), number(want), r.MemoryMiB.String()})
		x, c := float64(r.Events), r.CatchUpMs.inSeconds()
		measured.points = append(measured.points, point{x, c.Median, c.Low, c.High})
		expected.points = append(expected.points, point{x: x, y: want})
		memory.points = append(memory.points, point{x, r.MemoryMiB.Median, r.MemoryMiB.Low, r.MemoryMiB.High})
	}
	first := memory.points[0]
	flat := series{name: "expected: as with one event", expected: true, hue: 1, points: []point{{x: first.x, y: first.y}, {x: memory.points[len(memory.points)-1].x, y: first.y}}}
	p.table([]string{"events missed by each stream", "deliveries made up", "caught up after, s", "expected, s", "memory, MiB"}, rows)
	p.chart("catch-up", "The time until the last stream has caught up, against the backlog", chart{title: "The last stream has caught up", x: axis{title: "events missed by each stream"}, y: axis{title: "seconds since the streams may return"}, series: []series{measured, expected}})
	p.chart("memory", "The peak memory of the server against the backlog", chart{title: "Peak memory of the server", x: axis{title: "events missed by each stream"}, y: axis{title: "MiB"}, series: []series{memory, flat}})
	p.text("A window costs time: with 60 events missed, the last stream has caught up after %s s with a window of %s and after %s s without one.", s.Jitter[len(s.Jitter)-1].seconds(), window(&s.Jitter[len(s.Jitter)-1]), s.Jitter[0].seconds())
}

// lossHeld reports whether each loss is that of the closed form, all of it announced.
func (s *reconnect) lossHeld() bool {
	for i := range s.Age {
		r := &s.Age[i]
		if r.Silent > 0 || math.Abs(r.lostShare()-s.expectedLoss(r)) > lossHolds {
			return false
		}
	}
	return true
}

func (s *reconnect) expectedLoss(r *reconnection) float64 {
	return ageLoss(inMillis(r.missedMs()), inMillis(r.WindowMs), inMillis(r.MaxAgeMs))
}

// missedMs is the time over which the missed events were published. It exceeds the time away by what
// was on its way when the streams were cut.
func (r *reconnection) missedMs() float64 {
	return r.missed() / float64(r.Streams*r.Events) * r.AwayMs
}

// sums returns what was lost silently and came twice in all runs.
func (s *reconnect) sums() (silent, duplicates int64) {
	for _, rows := range [][]reconnection{s.Jitter, s.Backlog, s.Age} {
		for _, r := range rows {
			silent, duplicates = silent+r.Silent, duplicates+r.Duplicates
		}
	}
	return silent, duplicates
}

func (s *reconnect) lossAnswer() string {
	silent, duplicates := s.sums()
	text := "Nothing was lost silently"
	if silent > 0 {
		text = fmt.Sprintf("%s deliveries were lost silently", count(silent))
	}
	if duplicates > 0 {
		text += fmt.Sprintf(", and %s came twice", count(duplicates))
	} else {
		text += ", and nothing came twice"
	}
	if s.lossHeld() {
		return text + "; with `maxAge` below the time away, the share 1 − maxAge / away is lost, and announced."
	}
	return text + "; with `maxAge` below the time away, the loss is not the share 1 − maxAge / away, or was not announced: see below."
}

func (s *reconnect) writeLoss(p *page) {
	p.heading("maxAge")
	p.text("A client may ask for no events older than `maxAgeMs`. Of the events that were published evenly during the time away, those are lost that are older when the stream returns. A stream that returns at once loses the share 1 − maxAge / away; the expectation takes the random wait into account, and as the time away that over which the missed events were published. There are %s streams, so that they do not queue at the server, where the events would grow older. The hypothesis was: each share is within %s of the expected one, and all of it is announced (`truncated`).", count(s.Age[0].Streams), number(lossHolds))
	var rows [][]string
	measured, expected := series{name: "measured"}, series{name: "expected", expected: true, hue: 1}
	for i := range s.Age {
		r := &s.Age[i]
		x, want := r.MaxAgeMs/r.missedMs(), s.expectedLoss(r)
		rows = append(rows, []string{number(x), number(r.lostShare()), number(want), count(r.Announced), count(r.Silent), count(r.Duplicates)})
		measured.points = append(measured.points, point{x: x, y: r.lostShare()})
	}
	first := s.Age[0]
	for x := 0.05; x < 1.6; x += 0.05 {
		expected.points = append(expected.points, point{x: x, y: ageLoss(inMillis(first.AwayMs), inMillis(first.WindowMs), time.Duration(x*float64(inMillis(first.AwayMs))))})
	}
	p.table([]string{"maxAge / time away", "share lost", "expected", "lost, announced", "lost silently", "came twice"}, rows)
	p.chart("loss", "The share of missed events that was lost, against maxAge", chart{title: "Share of the missed events that is lost", x: axis{title: "maxAge / time away"}, y: axis{title: "share lost", to: 1}, series: []series{measured, expected}})
}
