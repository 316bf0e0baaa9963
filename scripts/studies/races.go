package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/eventmeter/eventmeter/results"
)

// races is about deliveries that meet a change of secrets, or a subscribe, that is under way.
//
// Hypotheses, before anything was measured: a receiver that keeps both secrets refuses nothing; for the
// others, a change refuses the deliveries of a window of constant width, so refusals per change are
// proportional to the rate; signing with both secrets helps a receiver that switches late, and not one
// that switches early; refused deliveries are lost only where the target does not try again; a delivery
// can come before its secret only if the server makes the secret.
type races struct {
	Runs []raceRun `json:"runs"`
}

// raceRun is one run.
type raceRun struct {
	Dual    bool           `json:"dualSigning"`
	Retries bool           `json:"retries"` // whether the target tries again
	Rate    float64        `json:"eventsPerSecond"`
	Changes []secretChange `json:"changes"`
	Client  registration   `json:"clientSecret"`
	Server  registration   `json:"serverSecret"`
}

// secretChange is a lane whose secrets change.
type secretChange struct {
	Receiver  string  `json:"receiver"` // both, early or late
	Changes   float64 `json:"changes"`
	Refused   float64 `json:"refused"`
	Expected  int64   `json:"expected"` // deliveries
	Lost      int64   `json:"lost"`
	Disorder  int64   `json:"outOfOrder"`
	WidthP50  float64 `json:"widthP50Seconds"` // until the last delivery with the old secret only; 0 = there was none
	WidthMost float64 `json:"widthMaxSeconds"`
}

// registration is a lane that subscribes again and again.
type registration struct {
	Opened   float64 `json:"opened"`
	Raced    float64 `json:"raced"`         // deliveries before the answer (client) or subscriptions with one (server)
	Rejected int64   `json:"rejected"`      // deliveries whose signature did not verify
	Window   float64 `json:"windowSeconds"` // mean time from the request to the secret; 0 = the client has it
	Lost     int64   `json:"lost"`
}

// racedExpected bounds the share of registrations with a delivery before the secret: Poisson events in
// the whole window.
func racedExpected(rate, window float64) float64 { return 1 - math.Exp(-rate*window) }

func (s *races) measure(ctx context.Context, l *lab) error {
	for _, retries := range []bool{true, false} {
		rates := []float64{10, 30, 80}
		if !retries {
			rates = []float64{30}
		}
		for _, dual := range []bool{true, false} {
			for _, rate := range rates {
				if err := s.run(ctx, l, raceRun{Dual: dual, Retries: retries, Rate: rate}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (s *races) run(ctx context.Context, l *lab, r raceRun) error {
	name, options := "single", `"DualSignGrace": -1`
	if r.Dual {
		name, options = "dual", `"DualSignGrace": "2s"`
	}
	if !r.Retries {
		name, options = name+"-once", options+`, "RetryMax": -1`
	}
	var often []string // secrets change more often than in the profile
	for _, lane := range []string{"both", "early", "late"} {
		often = append(often, "--set", "lanes."+lane+".webhook.ttl=4s")
	}
	got, _, err := l.runServed(ctx, fmt.Sprintf("%s-%g", name, r.Rate),
		`{"TTLMin": "1s", "RetryBase": "200ms", "AckTimeout": "20s", "AllowPrivateCallbacks": true, "CallbackInsecure": true, `+options+`}`,
		append(often, "--profile", "races", "--set", "thresholds=[]", "--set", fmt.Sprintf("schedule.rate=%g/s", r.Rate), "--set", "phases.measure="+l.duration(40*time.Second, 8*time.Second).String())...)
	if err != nil {
		return err
	}
	for i := range got.Lanes {
		r.read(&got.Lanes[i])
	}
	s.Runs = append(s.Runs, r)
	return nil
}

// read takes over the figures of a lane.
func (r *raceRun) read(n *results.Lane) {
	lost := n.Expected - n.Delivered
	switch n.Name {
	case "client-secret":
		r.Client = registration{Opened: float64(n.Overhead.Opened), Raced: n.Figures["refusedPending"], Rejected: n.Detail.Rejected - int64(n.Figures["refusedPending"]), Lost: lost}
	case "server-secret":
		w := n.Timings["secretWindow"]
		r.Server = registration{Opened: n.Figures["registrations"], Raced: n.Figures["registrationsRaced"], Rejected: n.Detail.Rejected, Window: time.Duration(w.Mean).Seconds(), Lost: lost}
	default:
		w := n.Timings["rotationRace"]
		r.Changes = append(r.Changes, secretChange{
			Receiver: n.Name, Changes: n.Figures["rotations"], Refused: n.Figures["rejectedInRace"], Expected: n.Expected, Lost: lost, Disorder: n.OutOfOrder,
			WidthP50: time.Duration(w.P50).Seconds(), WidthMost: time.Duration(w.Max).Seconds(),
		})
	}
}

// raceGroup is what a receiver refused, over the runs with one way of signing.
type raceGroup struct {
	changes, refused, exposure float64 // exposure = events per second × changes, in all
	held                       bool    // every run is within chance of the common width
	runs                       int
	chi                        float64 // sum of the squared deviations of runs, over what chance allows
	width                      float64 // seconds: refused / exposure
}

// group adds up the runs of a receiver. The maximum likelihood width of Poisson counts with mean
// rate × width × changes is the sum of the counts over that of rate × changes.
func (s *races) group(receiver string, dual bool) (g raceGroup) {
	each := func(do func(r *raceRun, c *secretChange)) {
		for i := range s.Runs {
			for k := range s.Runs[i].Changes {
				if c := &s.Runs[i].Changes[k]; s.Runs[i].Dual == dual && c.Receiver == receiver {
					do(&s.Runs[i], c)
				}
			}
		}
	}
	each(func(r *raceRun, c *secretChange) {
		g.runs++
		g.changes += c.Changes
		g.refused += c.Refused
		g.exposure += r.Rate * c.Changes
	})
	if g.exposure > 0 {
		g.width = g.refused / g.exposure
	}
	g.held = true
	each(func(r *raceRun, c *secretChange) {
		want := g.width * r.Rate * c.Changes
		g.held = g.held && math.Abs(c.Refused-want) <= 1+2.5*math.Sqrt(want)
		if want > 0 {
			g.chi += (c.Refused - want) * (c.Refused - want) / want
		}
	})
	return g
}

// differs reports whether two groups' widths differ beyond chance: under equal widths, the first's share
// of all refusals is its share of the exposure. Where runs of a group differ by more than chance, so may
// the groups.
func differs(a, b raceGroup) bool {
	n, e := a.refused+b.refused, a.exposure+b.exposure
	if n == 0 || e == 0 {
		return false
	}
	q, more := a.exposure/e, 1.0
	if free := a.runs + b.runs - 2; free > 0 {
		more = max(1, (a.chi+b.chi)/float64(free))
	}
	return math.Abs(a.refused-n*q) > 0.5+2*math.Sqrt(more*n*q*(1-q))
}

func (s *races) write(p *page) {
	var keptRefused, keptLost, otherLost, lostWithRetries, clientRejected float64
	for i := range s.Runs {
		r := &s.Runs[i]
		clientRejected += float64(r.Client.Rejected)
		for _, c := range r.Changes {
			switch {
			case c.Receiver == "both":
				keptRefused, keptLost = keptRefused+c.Refused, keptLost+float64(c.Lost)
			case r.Retries:
				lostWithRetries += float64(c.Lost)
			default:
				otherLost += float64(c.Lost)
			}
		}
	}
	kept := "A receiver that keeps both secrets refused nothing and lost nothing"
	if keptRefused+keptLost > 0 {
		kept = fmt.Sprintf("A receiver that keeps both secrets refused %s deliveries and lost %s", whole(keptRefused), whole(keptLost))
	}
	early, late, lateSingle := s.group("early", true), s.group("late", true), s.group("late", false)
	p.answer("**%s, however the target signs. The others refuse what arrives in a window of each change: %s wide for a receiver that drops the old secret early; for one that switches late, %s where the target signs with both secrets and %s where it signs with the new one.** %s",
		kept, ofSeconds(early.width), ofSeconds(late.width), ofSeconds(lateSingle.width), s.serverAnswer())
	s.writeRotation(p)
	p.heading("What is lost")
	held := "That held."
	if lostWithRetries > 0 {
		held = "**That did not hold.**"
	}
	p.text("Expected: refused deliveries are lost only where the target does not try again after 401. "+held+" With retries, %s deliveries to the early and late receivers were lost; without, %s.", whole(lostWithRetries), whole(otherLost))
	s.writeSubscribe(p, clientRejected)
	p.changesIt("The network. The window is about a round trip of a refresh and one of a delivery, here over loopback; a longer way widens it by as much, and the refusals per change with it.")
	p.changesIt("A busy machine widens every window: compare only within a study.")
}

func (s *races) serverAnswer() string {
	var raced, opened float64
	for i := range s.Runs {
		raced, opened = raced+s.Runs[i].Server.Raced, opened+s.Runs[i].Server.Opened
	}
	return fmt.Sprintf("Where the server makes the secret, %s of %s subscriptions had a delivery before their secret.", whole(raced), whole(opened))
}

func (s *races) writeRotation(p *page) {
	p.heading("A change of secrets")
	p.text("Each subscription changes its secret about every 0.3 s. The receiver `both` accepts the old and the new secret, `early` drops the old one when it sends the new one, and `late` switches when the answer has come. Expected: refusals per change = events per second × a width that does not depend on the rate.")
	c := chart{title: "Refused deliveries for each change of secrets", x: axis{title: "events per second for each subscription"}, y: axis{title: "refused per change"}}
	held, groups := 0, 0
	var rows [][]string
	for _, of := range []struct {
		receiver string
		dual     bool
	}{{"both", true}, {"both", false}, {"early", true}, {"early", false}, {"late", true}, {"late", false}} {
		g := s.group(of.receiver, of.dual)
		if g.runs == 0 {
			continue
		}
		signs := "the new one"
		if of.dual {
			signs = "both"
		}
		groups++
		if g.held {
			held++
		}
		line := series{name: fmt.Sprintf("%s, the target signs with %s", of.receiver, signs)}
		dashed := series{name: "expected: rate × " + ofSeconds(g.width), expected: true, points: []point{{x: 0}}}
		for i := range s.Runs {
			r := &s.Runs[i]
			for _, n := range r.Changes {
				if n.Receiver != of.receiver || r.Dual != of.dual {
					continue
				}
				tries := "yes"
				if !r.Retries {
					tries = "no"
				}
				rows = append(rows, []string{of.receiver, signs, tries, short(r.Rate), whole(n.Changes), whole(n.Refused), fmt.Sprintf("%.3f", n.Refused/max(n.Changes, 1)), count(n.Lost), count(n.Disorder), ofSeconds(n.WidthP50) + " / " + ofSeconds(n.WidthMost)})
				if r.Retries {
					line.points = append(line.points, point{x: r.Rate, y: n.Refused / max(n.Changes, 1)})
					dashed.points = append(dashed.points, point{x: r.Rate, y: r.Rate * g.width})
				}
			}
		}
		if of.receiver != "both" {
			c.series = append(c.series, line, dashed)
		}
	}
	p.text("Expected: the counts are within chance (2.5 standard deviations of a Poisson number) of one width for all rates. %s", verdict(held, groups, "groups of runs"))
	p.text("Expected: signing with both secrets does not help the early receiver, and helps the late one. Early: %s Late: %s", compareSigning("early", s), compareSigning("late", s))
	p.chart("rotation", "refused deliveries for each change against the rate, by receiver and way of signing, with the line of a constant width", c)
	p.table([]string{"receiver", "signed with", "tries again", "events/s", "changes", "refused", "per change", "lost", "out of order", "old secret until, p50 / max"}, rows)
}

// compareSigning says whether signing with both secrets helps a receiver.
func compareSigning(receiver string, s *races) string {
	dual, single := s.group(receiver, true), s.group(receiver, false)
	text := fmt.Sprintf("%s refusals in %s changes where the target signs with both, %s in %s where it signs with the new one.", whole(dual.refused), whole(dual.changes), whole(single.refused), whole(single.changes))
	switch {
	case !differs(dual, single):
		return text + " No difference beyond that of the runs."
	case dual.width < single.width:
		return text + " Signing with both helps."
	}
	return text + " Signing with both does not help; it is worse."
}

func (s *races) writeSubscribe(p *page, clientRejected float64) {
	p.heading("Subscribe against deliver")
	p.text("Two lanes subscribe again and again while events are published. Where the client makes the secret, a delivery that comes before the answer can be verified: the signatures of %s were wrong. Where the server makes the secret and sends it with the answer, such a delivery cannot be verified. At most 1 − e^(−rate × window) of the subscriptions can have one: the share with an event between the request and the secret.", whole(clientRejected))
	line, dashed := series{name: "measured, all runs of a rate, with two standard deviations"}, series{name: "at most, by their mean window", expected: true}
	var rates []float64
	pooled := map[float64]registration{} // Window is a sum over registrations
	n, of := 0, 0
	var rows [][]string
	for i := range s.Runs {
		r := &s.Runs[i]
		if r.Server.Opened == 0 {
			continue
		}
		got, most := r.Server.Raced/r.Server.Opened, racedExpected(r.Rate, r.Server.Window)
		chance := 2 * math.Sqrt(max(most*(1-most), 0)/r.Server.Opened)
		if of++; got <= most+chance {
			n++
		}
		if _, known := pooled[r.Rate]; !known {
			rates = append(rates, r.Rate)
		}
		sum := pooled[r.Rate]
		pooled[r.Rate] = registration{Opened: sum.Opened + r.Server.Opened, Raced: sum.Raced + r.Server.Raced, Window: sum.Window + r.Server.Window*r.Server.Opened}
		rows = append(rows, []string{short(r.Rate), whole(r.Server.Opened), whole(r.Server.Raced), fmt.Sprintf("%.3f", got), fmt.Sprintf("%.3f", most), ofSeconds(r.Server.Window), whole(r.Client.Opened), whole(r.Client.Raced)})
	}
	for _, rate := range rates {
		sum := pooled[rate]
		got, most := sum.Raced/sum.Opened, racedExpected(rate, sum.Window/sum.Opened)
		chance := 2 * math.Sqrt(got*(1-got)/sum.Opened)
		line.points = append(line.points, point{x: rate, y: got, low: max(0, got-chance), high: got + chance})
		dashed.points = append(dashed.points, point{x: rate, y: most})
	}
	line.points, dashed.points = byX(line.points), byX(dashed.points)
	p.text("Expected: the measured share is at most this, but for chance (two standard deviations). %s", verdict(n, of, "runs"))
	p.chart("subscribe", "share of subscriptions with a delivery before their secret over the rate, measured and the upper bound", chart{
		title: "Deliveries before their secret", x: axis{title: "events per second"}, y: axis{title: "share of subscriptions"}, series: []series{line, dashed},
	})
	p.table([]string{"events/s", "server's secret: subscriptions", "with a delivery before it", "share", "at most", "mean window", "client's secret: subscriptions", "deliveries before the answer"}, rows)
}
