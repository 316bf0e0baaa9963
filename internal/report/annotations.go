package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/eventmeter/eventmeter/results"
)

// The CI systems that [Annotations] knows.
const (
	GitHub   = "github"
	GitLab   = "gitlab"
	Azure    = "azure"
	TeamCity = "teamcity"
)

// Systems lists the CI systems that [Annotations] knows.
func Systems() []string { return []string{GitHub, GitLab, Azure, TeamCity} }

// DetectCI returns the CI system in which the process runs, or "" if it is none of [Systems]. env
// is a function such as os.Getenv.
func DetectCI(env func(string) string) string {
	switch {
	case env("GITHUB_ACTIONS") == "true":
		return GitHub
	case env("GITLAB_CI") == "true":
		return GitLab
	case strings.EqualFold(env("TF_BUILD"), "true"):
		return Azure
	case env("TEAMCITY_VERSION") != "":
		return TeamCity
	}
	return ""
}

// note is one annotation.
type note struct {
	failed bool // else a warning
	lane   string
	title  string
	text   string
}

const thresholdTitle = "eventmeter: threshold "

// thresholdText returns why a threshold did not hold.
func thresholdText(v *results.Verdict) string {
	if v.NotEvaluated != "" {
		return "not evaluated: " + v.Text
	}
	return "measured: " + v.Text
}

// notes returns what a reader of the job has to know; it is empty for a clean run.
func notes(r *results.Result) []note {
	var out []note
	if r.Partial {
		out = append(out, note{true, "", "eventmeter: partial run", r.Reason})
	}
	if r.Generator.Bottleneck {
		out = append(out, note{true, "", "eventmeter: bottleneck", bottleneck(r)})
	}
	for i := range r.Thresholds {
		if v := &r.Thresholds[i]; !v.Passed {
			out = append(out, note{true, v.Lane, thresholdTitle + v.Threshold, thresholdText(v)})
		}
	}
	for _, u := range uncleanLines(lanesOf(r)) {
		out = append(out, note{false, "", "eventmeter: not clean", u.String()})
	}
	for _, w := range r.Warnings {
		out = append(out, note{false, w.Lane, "eventmeter: " + w.Code, w.Text})
	}
	return out
}

func (n note) line() string {
	if n.lane != "" {
		return Clean(n.lane) + ": " + Clean(n.text)
	}
	return Clean(n.text)
}

// Annotations writes failures and warnings in the form that a CI system shows beside a job. Text
// from a target cannot become a command.
//
//	github    ::error and ::warning workflow commands
//	gitlab    a folded section of plain ERROR and WARNING lines, because GitLab
//	          has no command for this: let it read the JUnit report, too
//	azure     ##vso[task.logissue] commands
//	teamcity  test messages for thresholds, build problems, warning messages
//
// An unknown system is an error.
func Annotations(w io.Writer, r *results.Result, system string) error {
	if !slices.Contains(Systems(), system) {
		return fmt.Errorf("annotations: there is no CI system %q; name one of %s", system, strings.Join(Systems(), ", "))
	}
	p := &printer{w: w}
	switch system {
	case GitHub:
		for _, n := range notes(r) {
			p.printf("::%s title=%s::%s\n", severity(n), githubProperty(Clean(n.title)), githubData(n.line()))
		}
	case Azure:
		for _, n := range notes(r) {
			p.printf("##vso[task.logissue type=%s]%s\n", severity(n), azureData(Clean(n.title)+": "+n.line()))
		}
	case GitLab:
		p.gitlab(r)
	case TeamCity:
		p.teamcity(r)
	}
	return p.err
}

func severity(n note) string {
	if n.failed {
		return "error"
	}
	return "warning"
}

// githubData escapes the message of a workflow command, githubProperty the
// value of a property, as the runner's toolkit does.
func githubData(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}

func githubProperty(s string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(githubData(s))
}

// azureData escapes the message of a logging command. The agent finds commands anywhere in a line,
// so a marker within a message is broken up.
func azureData(s string) string {
	s = strings.NewReplacer("%", "%AZP25", "\r", "%0D", "\n", "%0A").Replace(s)
	return strings.NewReplacer("##vso[", "##vso (", "##[", "## [").Replace(s)
}

// gitlab writes a section. Its markers contain the only escape codes, with the times of the run.
func (p *printer) gitlab(r *results.Result) {
	all := notes(r)
	if len(all) == 0 {
		return
	}
	p.printf("\x1b[0Ksection_start:%d:eventmeter\r\x1b[0Keventmeter: %s\n", r.Started.Unix(), plural(len(all), "finding"))
	for _, n := range all {
		p.printf("%s %s: %s\n", strings.ToUpper(severity(n)), gitlabData(n.title), gitlabData(n.line()))
	}
	p.printf("\x1b[0Ksection_end:%d:eventmeter\r\x1b[0K\n", r.Finished.Unix())
}

// gitlabData breaks up text that looks like the marker of a section.
func gitlabData(s string) string {
	return strings.NewReplacer("section_start:", "section_start :", "section_end:", "section_end :").Replace(Clean(s))
}

// teamcity reports thresholds as tests, so that TeamCity keeps their history. A threshold that was
// not evaluated is a failed test: an ignored test would leave the build green.
func (p *printer) teamcity(r *results.Result) {
	for i := range r.Thresholds {
		v := &r.Thresholds[i]
		where := "run"
		if v.Lane != "" {
			where = v.Lane
		}
		name := teamcityValue("eventmeter." + where + ": " + v.Threshold)
		p.printf("##teamcity[testStarted name='%s']\n", name)
		if !v.Passed {
			p.printf("##teamcity[testFailed name='%s' message='%s']\n", name, teamcityValue(thresholdText(v)))
		}
		p.printf("##teamcity[testFinished name='%s']\n", name)
	}
	for _, n := range notes(r) {
		switch {
		case strings.HasPrefix(n.title, thresholdTitle):
		case n.failed:
			p.printf("##teamcity[buildProblem description='%s']\n", teamcityValue(n.title+": "+n.line()))
		default:
			p.printf("##teamcity[message text='%s' status='WARNING']\n", teamcityValue(n.line()))
		}
	}
}

// teamcityValue escapes a value of a service message.
func teamcityValue(s string) string {
	var b strings.Builder
	for _, c := range Clean(s) {
		switch {
		case strings.ContainsRune("|'[]", c):
			b.WriteByte('|')
			b.WriteRune(c)
		case c > 0xffff:
			b.WriteByte('?') // the escape has four digits only
		case c > 0x7e:
			fmt.Fprintf(&b, "|0x%04X", c)
		default:
			b.WriteRune(c)
		}
	}
	return b.String()
}
