package report

// hues is the number of colours in the page's style; further lanes reuse them.
const hues = 8

// modeHues are the colours of the modes. The first lane of a mode has the mode's colour, so that a
// mode looks the same in every report.
var modeHues = map[string]int{"push": 0, "poll": 1, "webhook": 2}

// huesOf assigns a colour to each lane name: the same in every run, and different from the other
// lanes of its runs as long as there are unused colours.
func huesOf(runs []Page) map[string]int {
	out := map[string]int{}
	beside := map[string]map[string]bool{} // lanes of the same runs
	for i := range runs {
		for _, a := range runs[i].Result.Lanes {
			if beside[a.Name] == nil {
				beside[a.Name] = map[string]bool{}
			}
			for _, b := range runs[i].Result.Lanes {
				beside[a.Name][b.Name] = true
			}
		}
	}
	next := 0
	for i := range runs {
		for _, l := range runs[i].Result.Lanes {
			if _, known := out[l.Name]; known {
				continue
			}
			taken := map[int]bool{}
			for name := range beside[l.Name] {
				if h, known := out[name]; known {
					taken[h] = true
				}
			}
			h, ok := modeHues[l.Mode]
			// The modes' colours come last: a later lane may need its own.
			for _, other := range []int{3, 4, 5, 6, 7, 0, 1, 2} {
				if ok && !taken[h] {
					break
				}
				h, ok = other, true
			}
			if mode, known := modeHues[l.Mode]; taken[h] { // all are taken
				if h = mode; !known {
					h = next % hues
					next++
				}
			}
			out[l.Name] = h
		}
	}
	return out
}
