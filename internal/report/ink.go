package report

// Ink paints text for a terminal. The zero value leaves it plain.
type Ink struct{ On bool }

// The escape codes of the colours.
const (
	inkOff    = "\x1b[0m"
	inkBold   = "\x1b[1m"
	inkDim    = "\x1b[2m"
	inkRed    = "\x1b[31m"
	inkGreen  = "\x1b[32m"
	inkYellow = "\x1b[33m"
)

// modeInks are the nearest of the sixteen colours to those of the HTML report.
var modeInks = map[string]string{"push": "\x1b[94m", "poll": inkYellow, "webhook": inkGreen}

func (i Ink) paint(code, text string) string {
	if !i.On || code == "" || text == "" {
		return text
	}
	return code + text + inkOff
}

// Bold is for what is read first.
func (i Ink) Bold(text string) string { return i.paint(inkBold, text) }

// Dim is for what is read last.
func (i Ink) Dim(text string) string { return i.paint(inkDim, text) }

// Bad is for what went wrong.
func (i Ink) Bad(text string) string { return i.paint(inkRed, text) }

// Mode is the colour of lanes of a delivery mode.
func (i Ink) Mode(mode, text string) string { return i.paint(modeInks[mode], text) }

// verdict is the colour of a verdict: its word and whether the run is clean.
func (i Ink) verdict(j *judgement, text string) string {
	switch {
	case j.word == "fail":
		return i.paint(inkBold+inkRed, text)
	case j.word == "pass" && len(j.unclean) == 0:
		return i.paint(inkBold+inkGreen, text)
	}
	return i.paint(inkBold+inkYellow, text)
}
