package main

import (
	"fmt"
	"math"
)

// delayed is the index from which on the healthy count as delayed by the slow ones: runs of the same
// load on a shared machine differ by less.
const delayed = 2

// base is the p99 of the healthy without others, of the repeats.
func (s *slowHost) base() spread {
	var p99 []float64
	for _, i := range s.Isolation {
		if i.Kind == "none" {
			p99 = append(p99, i.P99)
		}
	}
	if len(p99) == 0 {
		return spread{}
	}
	return spreadOf(p99)
}

// index is the isolation index of a run: p99 of the healthy over that without others.
func (s *slowHost) index(i *isolation) float64 { return i.P99 / s.base().Median }

// expectedIndex adds the wait of the simulation to what the healthy take without others.
func (s *slowHost) expectedIndex(i *isolation) float64 {
	b := s.base().Median
	return (b + max(i.Expected-0.001, 0)) / b
}

// isDelayed reports whether a run's healthy were delayed: its index is high, and beyond the repeats.
func (s *slowHost) isDelayed(i *isolation) bool {
	return s.index(i) >= delayed && i.P99 > s.base().High
}

// agrees counts the runs in which simulation and measurement agree on whether the healthy are delayed.
func (s *slowHost) agrees(runs []isolation) (n, of int) {
	for i := range runs {
		if r := &runs[i]; r.Kind != "none" {
			if of++; s.isDelayed(r) == (s.expectedIndex(r) >= delayed) {
				n++
			}
		}
	}
	return n, of
}

// worst returns the run of a kind with the highest index; nil without one.
func (s *slowHost) worst(kinds ...string) (w *isolation) {
	for _, kind := range kinds {
		for k := range s.Isolation {
			if i := &s.Isolation[k]; i.Kind == kind && (w == nil || s.index(i) > s.index(w)) {
				w = i
			}
		}
	}
	return w
}

// divides reports whether the healthy are delayed exactly where the slow ones outnumber the senders.
func (s *slowHost) divides() bool {
	for k := range s.Isolation {
		if i := &s.Isolation[k]; (i.Kind == "slow" || i.Kind == "hang") && s.isDelayed(i) != (i.Slow > s.Senders) {
			return false
		}
	}
	return true
}

func (s *slowHost) write(p *page) {
	w := s.worst("slow", "hang")
	switch {
	case w == nil:
		p.answer("**There was no run with slow callbacks.**")
	case s.isDelayed(w) && s.divides():
		p.answer("**Yes, once there are more slow subscriptions than senders: with %d slow ones and %d senders, the p99 of the healthy rose %s-fold, from %s to %s.** A subscription occupies one sender at most, so fewer slow ones leave senders free. %s", w.Slow, s.Senders, number(s.index(w)), ofSeconds(s.base().Median), ofSeconds(w.P99), s.boundAnswer())
	case s.isDelayed(w):
		p.answer("**Yes: with %d slow subscriptions and %d senders, the p99 of the healthy rose %s-fold, from %s to %s.** The delay did not begin at the number of senders, where the simulation has it. %s", w.Slow, s.Senders, number(s.index(w)), ofSeconds(s.base().Median), ofSeconds(w.P99), s.boundAnswer())
	default:
		p.answer("**No: with up to %d slow subscriptions and %d senders, the p99 of the healthy was at most %s times that without slow ones.** %s", w.Slow, s.Senders, number(s.index(w)), s.boundAnswer())
	}
	s.writeIsolation(p)
	s.writeHosts(p)
	s.writeDuplicates(p)
	s.writeSuspension(p)
	p.changesIt("A server with several deliveries in flight for each subscription: a slow subscription then occupies as many senders, so fewer slow ones delay the others.")
	p.changesIt("Suspension, which was off in the runs about isolation. With it, a host that fails no longer occupies senders after `suspendAfter` attempts. A host that is slow but answers is never suspended.")
	p.changesIt("The real share of slow callbacks and their times. The index follows from the two numbers and the senders; the simulation is in the study's code.")
}

func (s *slowHost) boundAnswer() string {
	var bounded, open *isolation
	for k := range s.Hosts {
		switch i := &s.Hosts[k]; {
		case i.PerHost > 0 && i.Hosts == 1:
			bounded = i
		case i.PerHost == 0:
			open = i
		}
	}
	switch {
	case bounded == nil || open == nil:
		return ""
	case s.isDelayed(open) && !s.isDelayed(bounded):
		return fmt.Sprintf("A bound of %d senders per host restores isolation from one slow host.", bounded.PerHost)
	case s.isDelayed(bounded) && s.index(bounded) < s.index(open)/delayed:
		return fmt.Sprintf("A bound of %d senders per host lowered the index for one slow host from %s to %s.", bounded.PerHost, number(s.index(open)), number(s.index(bounded)))
	case s.isDelayed(bounded):
		return fmt.Sprintf("A bound of %d senders per host did not restore isolation from one slow host.", bounded.PerHost)
	}
	return "Without a bound per host, nothing was delayed here."
}

func verdict(n, of int, what string) string {
	if n == of {
		return fmt.Sprintf("That held in all %d %s.", of, what)
	}
	return fmt.Sprintf("**That held in %d of %d %s only.**", n, of, what)
}

func (s *slowHost) writeIsolation(p *page) {
	p.heading("One host, and the share of its subscriptions")
	p.text("200 subscriptions, two events a second each, %d senders. A delivery to a slow callback takes %s until its answer (`slow`) or until the target gives up (`hang`); `refuse` answers 503 at once. The isolation index is the p99 of the healthy subscriptions divided by their p99 without slow ones. Expected, by simulation of senders that serve subscriptions in turn, one delivery of each at a time: no delay while slow subscriptions are fewer than senders, and none by refusals.", s.Senders, ofSeconds(s.Hold))
	n, of := s.agrees(s.Isolation)
	p.text("Expected, too: the simulation says of each point whether the healthy are delayed (an index of %d or more, and beyond the repeats). %s", delayed, verdict(n, of, "runs"))
	c := chart{title: "Isolation index against the share of slow callbacks", x: axis{title: "subscriptions with slow callbacks, %"}, y: axis{title: "p99 of the healthy, over that without", log: true}}
	var rows [][]string
	for _, kind := range []string{"slow", "hang", "refuse"} {
		line, dashed := series{name: kind}, series{name: "simulated: " + kind, expected: true}
		for k := range s.Isolation {
			if i := &s.Isolation[k]; i.Kind == kind {
				x := 100 * float64(i.Slow) / float64(i.Slow+i.Healthy)
				line.points = append(line.points, point{x: x, y: s.index(i)})
				dashed.points = append(dashed.points, point{x: x, y: s.expectedIndex(i)})
			}
		}
		c.series = append(c.series, line)
		if kind != "hang" { // it is the line of slow
			c.series = append(c.series, dashed)
		}
	}
	for k := range s.Isolation {
		i := &s.Isolation[k]
		rows = append(rows, []string{i.Kind, count(i.Slow), ofSeconds(i.P50), ofSeconds(i.P99), count(i.Lost), number(s.index(i)), number(s.expectedIndex(i))})
	}
	p.chart("isolation", "isolation index over the share of slow callbacks, for slow, hanging and refusing ones, measured and simulated", c)
	p.table([]string{"callbacks", "of 200", "p50 of the healthy", "p99", "lost", "index", "simulated"}, rows)
}

func (s *slowHost) writeHosts(p *page) {
	p.heading("One slow host or many, and a bound per host")
	p.text("100 healthy subscriptions and 96 that hang, behind one host or many (`target.embedded.sendersPerHost`). Expected: without a bound the number of hosts does not matter; with one, the healthy are isolated while slow hosts × bound are fewer than the senders.")
	n, of := s.agrees(s.Hosts)
	p.text("%s", verdict(n, of, "runs"))
	line, dashed := series{name: "measured, with the bound"}, series{name: "simulated, with the bound", expected: true}
	limit := series{name: "no bound, as measured"}
	var rows [][]string
	for k := range s.Hosts {
		i := &s.Hosts[k]
		x := float64(i.Hosts)
		bound := "none"
		if i.PerHost > 0 {
			bound = count(i.PerHost)
			line.points = append(line.points, point{x: x, y: s.index(i)})
			dashed.points = append(dashed.points, point{x: x, y: s.expectedIndex(i)})
		} else {
			limit.points = append(limit.points, point{x: x, y: s.index(i)})
		}
		rows = append(rows, []string{count(i.Hosts), bound, ofSeconds(i.P99), number(s.index(i)), number(s.expectedIndex(i))})
	}
	p.chart("hosts", "isolation index over the number of slow hosts, with a bound per host and without", chart{
		title: "Isolation index against the number of slow hosts", x: axis{title: "slow hosts"}, y: axis{title: "p99 of the healthy, over that without", log: true}, series: []series{line, dashed, limit},
	})
	p.table([]string{"slow hosts", "bound per host", "p99 of the healthy", "index", "simulated"}, rows)
}

func (s *slowHost) writeDuplicates(p *page) {
	if len(s.Duplicates) == 0 {
		return
	}
	d := s.Duplicates[0]
	p.heading("Duplicates of late answers")
	p.text("Callbacks accept each event after a wait between 0 and a longest one, the same for each copy; the target gives up after %s and tries again %d times. Expected, for a longest wait D: (1 − %s/D) × %d duplicates an event.", ofSeconds(d.Timeout), d.Retries, ofSeconds(d.Timeout), d.Retries)
	line, dashed := series{name: "measured, with two standard deviations"}, series{name: "expected", expected: true}
	n := 0
	var rows [][]string
	for _, d := range s.Duplicates {
		want := duplicatesExpected(d.Longest, d.Timeout, d.Retries)
		chance := 2 * float64(d.Retries) * math.Sqrt(want/float64(d.Retries)*(1-want/float64(d.Retries))/max(float64(d.Delivered), 1))
		// An answer takes a little longer than the wait.
		if math.Abs(d.Rate-want) <= chance+0.02*float64(d.Retries) {
			n++
		}
		line.points = append(line.points, point{x: d.Longest, y: d.Rate, low: d.Rate - chance, high: d.Rate + chance})
		dashed.points = append(dashed.points, point{x: d.Longest, y: want})
		rows = append(rows, []string{ofSeconds(d.Longest), count(d.Delivered), number(d.Rate), number(want)})
	}
	p.text("Expected: within two standard deviations and 0.02 for each retry. %s", verdict(n, len(s.Duplicates), "runs"))
	p.chart("duplicates", "duplicates for each event over the longest wait for an answer, measured and expected", chart{
		title: "Duplicates against the ack delay", x: axis{title: "longest wait for an answer, seconds"}, y: axis{title: "duplicates for each event"}, series: []series{line, dashed},
	})
	p.table([]string{"longest wait", "events delivered", "duplicates for each", "expected"}, rows)
}

func (s *slowHost) writeSuspension(p *page) {
	p.heading("Time to suspension, and to recovery")
	p.text("Callbacks refuse everything; the target suspends a subscription after %d attempts of which more than 95 %% failed, and resumes it at the next refresh, %s after the grant. Expected, by simulation: retries make suspension come sooner, and recovery is the rest of the refresh interval, which no retry policy shortens.", s.SuspendAfter, ofSeconds(s.Refresh))
	n, recovered, seen := 0, 0, 0
	line, dashed := series{name: "until all are suspended, as measured"}, series{name: "simulated", expected: true}
	var names []string
	var rows [][]string
	for k, v := range s.Suspensions {
		// Samples are a fifth of a second apart.
		if math.Abs(v.Took-v.Expected) <= 0.25*v.Expected+0.4 {
			n++
		}
		paused := "not seen"
		if v.Paused > 0 {
			seen++
			paused = ofSeconds(v.Paused)
			// The grant was given up to the ready time before the first event.
			if v.Took+v.Paused <= s.Refresh+2 {
				recovered++
			}
		}
		name := fmt.Sprintf("%d × %s", max(v.Retries, 0), ofSeconds(v.Base))
		if v.Retries < 0 {
			name = "none"
		}
		names = append(names, name)
		line.points = append(line.points, point{x: float64(k), y: v.Took})
		dashed.points = append(dashed.points, point{x: float64(k), y: v.Expected})
		rows = append(rows, []string{name, number(v.Attempts), ofSeconds(v.Took), ofSeconds(v.Expected), paused})
	}
	p.text("Expected: the time to suspension is right within a quarter and 0.4 s. %s Recovery, which was seen in %d of %d runs, came with the refresh in %d of them.", verdict(n, len(s.Suspensions), "runs"), seen, len(s.Suspensions), recovered)
	p.chart("suspension", "seconds until all subscriptions are suspended, by retry policy, measured and simulated", chart{
		title: "Time to suspension, by retry policy", x: axis{title: "retries × first wait", names: names}, y: axis{title: "seconds"}, series: []series{line, dashed},
	})
	p.table([]string{"retries", "attempts per subscription", "until suspension", "simulated", "suspended for"}, rows)
}
