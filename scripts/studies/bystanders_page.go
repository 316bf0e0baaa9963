package main

import (
	"fmt"
	"math"
	"strings"
)

func (s *bystanders) write(p *page) {
	var parts []string
	for i := range s.Servers {
		parts = append(parts, s.Servers[i].sentence())
	}
	p.answer("**%s** %s", s.lead(), strings.Join(parts, " "))

	p.heading("The servers")
	p.text("Streams are open and idle: each waits for the change of a resource, and none changes. Beside them one client calls `tools/list` a hundred times a second. Each run has a server process of its own. A difference of p95 is called one only if the ranges of the repeats are apart.")
	if s.Missing != "" {
		p.text("The servers of the npm packages were left out: %s.", s.Missing)
	}
	var rows [][]string
	for i := range s.Servers {
		v := &s.Servers[i]
		for _, z := range v.Sizes {
			rows = append(rows, []string{v.Name, count(z.Streams), count(z.Active), orDash(z.P95Ms), orDash(z.MemoryMiB), orDash(v.expectedMemory(&z)), orDash(z.OpenMs.inSeconds()), fmt.Sprintf("%s of %s", count(z.Failed), count(z.Requests))})
		}
	}
	p.table([]string{"server", "streams", "open", "`tools/list` p95, ms", "memory, MiB", "expected", "time to open, s", "failed requests"}, rows)

	p.heading("Held against expectations")
	p.text("**Bystander.** Expected was the p95 beside one stream. %s", s.p95Text())
	p.text("**Memory.** Expected is a straight line through the ends; the sizes between them are the test. %s", s.memoryText())
	s.charts(p)

	p.heading("Where each refuses, and how")
	for i := range s.Servers {
		p.text("%s", s.Servers[i].refusal())
	}
	p.changesIt("A bystander that calls a tool which computes: this one asks for a short list, so that nearly all of its time is the server's own.")
	p.changesIt("Streams that carry events: their cost is in the other studies.")
	p.changesIt("The limit of open files: a server needs one for each stream over HTTP/1.1, and refuses or fails where the system's limit is below.")
	p.changesIt("The package `@modelcontextprotocol/sdk` has only the era of sessions, so a stream is a session there; the other servers were measured without sessions.")
}

// first and last are the ends of the sizes that were measured.
func (v *bystanderServer) first() *bystanderSize { return &v.Sizes[0] }

func (v *bystanderServer) last() *bystanderSize {
	for i := len(v.Sizes) - 1; i > 0; i-- {
		if v.Sizes[i].P95Ms.N > 0 {
			return &v.Sizes[i]
		}
	}
	return &v.Sizes[0]
}

// slows reports whether the bystander is slower beside the most streams than beside one.
func (v *bystanderServer) slows() bool {
	a, b := v.first().P95Ms, v.last().P95Ms
	return a.N > 0 && b.N > 0 && apart(a, b) && b.Median > a.Median
}

// perStream is the memory of one stream more, in KiB, from the ends.
func (v *bystanderServer) perStream() float64 {
	a, b := v.first(), v.last()
	if b.Active == a.Active || a.MemoryMiB.N == 0 || b.MemoryMiB.N == 0 {
		return math.NaN()
	}
	return (b.MemoryMiB.Median - a.MemoryMiB.Median) * 1024 / float64(b.Active-a.Active)
}

func (s *bystanders) lead() string {
	var slower []string
	most := 0
	for i := range s.Servers {
		v := &s.Servers[i]
		most = max(most, v.last().Streams)
		if v.slows() {
			slower = append(slower, v.Name)
		}
	}
	switch len(slower) {
	case 0:
		return fmt.Sprintf("Up to %s idle streams slow a bystander on none of the %s servers by more than the repeats differ.", count(most), count(len(s.Servers)))
	case len(s.Servers):
		return fmt.Sprintf("Idle streams, up to %s, slow a bystander on all of the %s servers.", count(most), count(len(s.Servers)))
	}
	return fmt.Sprintf("Up to %s idle streams slow a bystander on %s of the %s servers: %s.", count(most), count(len(slower)), count(len(s.Servers)), strings.Join(slower, ", "))
}

// sentence is the answer about one server.
func (v *bystanderServer) sentence() string {
	a, b := v.first(), v.last()
	if a.P95Ms.N == 0 || b == a {
		return v.Name + ": no run with streams has a result."
	}
	return fmt.Sprintf("%s: `tools/list` p95 %s ms beside one stream and %s ms beside %s, and %s KiB a stream.", v.Name, a.P95Ms, b.P95Ms, count(b.Active), number(v.perStream()))
}

func orDash(v spread) string {
	if v.N == 0 {
		return "–"
	}
	return v.String()
}

// expectedMemory is on the line through the ends.
func (v *bystanderServer) expectedMemory(z *bystanderSize) spread {
	a, b := v.first(), v.last()
	if z.MemoryMiB.N == 0 || a.MemoryMiB.N == 0 || b.MemoryMiB.N == 0 || b.Active == a.Active {
		return spread{}
	}
	share := float64(z.Active-a.Active) / float64(b.Active-a.Active)
	return spread{Median: a.MemoryMiB.Median + (b.MemoryMiB.Median-a.MemoryMiB.Median)*share, N: 1}
}

func (s *bystanders) p95Text() string {
	var held, not []string
	for i := range s.Servers {
		switch v := &s.Servers[i]; {
		case v.first().P95Ms.N == 0 || v.last() == v.first():
		case v.slows():
			not = append(not, fmt.Sprintf("%s (%s times)", v.Name, number(v.last().P95Ms.Median/v.first().P95Ms.Median)))
		default:
			held = append(held, v.Name)
		}
	}
	return heldText(held, not)
}

// heldText says for which servers an expectation held.
func heldText(held, not []string) string {
	switch {
	case len(held)+len(not) == 0:
		return "Nothing was measured."
	case len(not) == 0:
		return "It held for all: " + strings.Join(held, ", ") + "."
	case len(held) == 0:
		return "It held for none: " + strings.Join(not, ", ") + "."
	}
	return "It held for " + strings.Join(held, ", ") + ". It did not hold for " + strings.Join(not, ", ") + "."
}

func (s *bystanders) memoryText() string {
	var held, not []string
	for i := range s.Servers {
		v := &s.Servers[i]
		worst, judged := "", false
		for j := 1; j < len(v.Sizes); j++ {
			z := &v.Sizes[j]
			want := v.expectedMemory(z)
			if z == v.last() || want.N == 0 {
				continue
			}
			judged = true
			ratio := z.MemoryMiB.Median / want.Median
			if math.Abs(ratio-1) > 0.2 && (want.Median < z.MemoryMiB.Low || want.Median > z.MemoryMiB.High) {
				worst = fmt.Sprintf("%s (%s times the expected memory with %s)", v.Name, number(ratio), count(z.Streams))
			}
		}
		switch {
		case worst != "":
			not = append(not, worst)
		case judged:
			held = append(held, v.Name)
		}
	}
	return heldText(held, not) + " A fifth is allowed, or the range of the repeats."
}

// refusal says where a server refuses, and how.
func (v *bystanderServer) refusal() string {
	text := "**" + v.Name + "**"
	refused := false
	for _, z := range v.Sizes {
		switch {
		case z.Broke != "":
			text += fmt.Sprintf(" broke with %s streams: %s.", count(z.Streams), z.Broke)
			refused = true
		case z.Refused > 0:
			text += fmt.Sprintf(" opened %s of %s streams: %s.", count(z.Active), count(z.Streams), z.Why)
			refused = true
		}
	}
	if !refused {
		text += fmt.Sprintf(" opened all of %s streams.", count(v.last().Streams))
	}
	if l := v.Limited; l != nil {
		switch {
		case l.Broke != "":
			text += " With the limit that its SDK has by default it broke: " + l.Broke + "."
		case l.Refused > 0:
			text += fmt.Sprintf(" With the limit that its SDK has by default it opened %s of %s: %s.", count(l.Active), count(l.Streams), l.Why)
		default:
			text += fmt.Sprintf(" With the limit that its SDK has by default it opened all of %s, too.", count(l.Streams))
		}
	}
	return text
}

func (s *bystanders) charts(p *page) {
	latency := chart{title: "tools/list beside idle streams, p95", x: axis{title: "idle streams"}, y: axis{title: "ms", log: true}}
	memory := chart{title: "Memory of the server", x: axis{title: "idle streams"}, y: axis{title: "MiB", log: true}}
	var flat, lines []series
	for i := range s.Servers {
		v := &s.Servers[i]
		a, b := series{name: v.Name}, series{name: v.Name}
		f, e := series{name: v.Name + ", expected: as beside one", expected: true, hue: i + 1}, series{name: v.Name + ", expected: a line", expected: true, hue: i + 1}
		for _, z := range v.Sizes {
			if x := float64(z.Streams); z.P95Ms.N > 0 {
				a.points = append(a.points, point{x, z.P95Ms.Median, z.P95Ms.Low, z.P95Ms.High})
				f.points = append(f.points, point{x: x, y: v.first().P95Ms.Median})
				b.points = append(b.points, point{x, z.MemoryMiB.Median, z.MemoryMiB.Low, z.MemoryMiB.High})
				e.points = append(e.points, point{x: x, y: v.expectedMemory(&z).Median})
			}
		}
		latency.series, memory.series = append(latency.series, a), append(memory.series, b)
		flat, lines = append(flat, f), append(lines, e)
	}
	latency.series, memory.series = append(latency.series, flat...), append(memory.series, lines...)
	p.chart("latency", "p95 of tools/list against the number of idle streams, by server", latency)
	p.chart("memory", "The server's memory against the number of idle streams, by server", memory)
}
