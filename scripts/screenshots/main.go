// Screenshots makes the pictures of docs/images again, from real runs of this
// checkout: the HTML report in the light and in the dark, two runs laid over
// each other, a capacity search, and the live view of a terminal. Run it from the top of the
// checkout, on a machine that does nothing else:
//
//	go run ./scripts/screenshots
//
// It takes a few minutes and needs Chromium, and script(1) for the terminal.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// most is how large a picture may be, in bytes: pages of documentation are read
// over slow lines, too.
const most = 300 << 10

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "screenshots:", err)
		os.Exit(1)
	}
}

// picture is a page to photograph.
type picture struct {
	name string // of the file, without its ending
	page string // a file
	size size
	dark bool
}

type size struct{ width, height int }

func run(ctx context.Context, args []string, log io.Writer) error {
	fl := flag.NewFlagSet("screenshots", flag.ContinueOnError)
	fl.SetOutput(log)
	out := fl.String("out", filepath.Join("docs", "images"), "directory to write the pictures to")
	if err := fl.Parse(args); err != nil {
		return err
	}
	browser, err := findBrowser()
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "eventmeter-screenshots-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }()
	s := &studio{temp: temp, log: log, program: filepath.Join(temp, "eventmeter"), browser: browser}
	if err := s.command(ctx, nil, "go", "build", "-o", s.program, "./cmd/eventmeter"); err != nil {
		return err
	}
	pictures, err := s.pages(ctx)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return err
	}
	for _, p := range pictures {
		if err := s.shoot(ctx, p, filepath.Join(*out, p.name+".png")); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

func findBrowser() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("there is no Chromium on this machine; install the package chromium")
}

// studio is what the pictures are made with.
type studio struct {
	temp, program, browser string
	log                    io.Writer
}

// pages runs what the pictures show, and returns them.
func (s *studio) pages(ctx context.Context) ([]picture, error) {
	before, after := filepath.Join(s.temp, "before"), filepath.Join(s.temp, "after")
	live, err := s.film(ctx, before)
	if err != nil {
		return nil, err
	}
	// The second run is of a target that loses, repeats and delays.
	if err := s.eventmeter(ctx, nil, "run", "--quiet", "--profile", "compare", "--out", after,
		"--set", "target.embedded.faults=drop(rate=0.02, from=5, to=14); duplicate(rate=0.03, from=8, to=16); delay(rate=1, uniform=60ms..160ms)"); err != nil {
		return nil, err
	}
	var both bytes.Buffer
	if err := s.eventmeter(ctx, &both, "report", before, after, "--format", "html"); err != nil {
		return nil, err
	}
	search := filepath.Join(s.temp, "search")
	if err := s.eventmeter(ctx, nil, "capacity", "--quiet", "--out", search); err != nil {
		return nil, err
	}
	one := filepath.Join(before, "report.html")
	whole, err := os.ReadFile(one)
	if err != nil {
		return nil, err
	}
	charts, err := section(string(whole), "curves", "costs")
	if err != nil {
		return nil, err
	}
	overlay, err := section(both.String(), "curves", "costs")
	if err != nil {
		return nil, err
	}
	for name, text := range map[string]string{"charts": charts, "overlay": overlay, "live": string(live)} {
		if err := os.WriteFile(s.file(name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	return []picture{
		{name: "report", page: s.file("charts"), size: size{1100, 2600}},
		{name: "report-light", page: one, size: size{1200, 6000}},
		{name: "report-dark", page: one, size: size{1200, 6000}, dark: true},
		{name: "report-overlay", page: s.file("overlay"), size: size{1200, 3200}},
		{name: "report-capacity", page: filepath.Join(search, "report.html"), size: size{1200, 1000}}, // the verdict and the curves
		{name: "live", page: s.file("live"), size: size{900, 200}},
	}, nil
}

func (s *studio) file(name string) string { return filepath.Join(s.temp, name+".html") }

// section is a report without what stands before one of its sections, and from
// another on.
func section(page, from, to string) (string, error) {
	mark := func(id string) string { return `<section id="` + id + `">` }
	head, _, ok1 := strings.Cut(page, "<header>")
	_, body, ok2 := strings.Cut(page, mark(from))
	body, _, ok3 := strings.Cut(body, mark(to))
	_, scripts, ok4 := strings.Cut(page, "</main>")
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return "", fmt.Errorf("the report has no section from %s to %s", from, to)
	}
	return head + "<main>" + mark(from) + body + "</main>" + scripts, nil
}

// eventmeter runs the program. A run that says that the machine was busy, or a
// threshold that failed, is a picture, too.
func (s *studio) eventmeter(ctx context.Context, out io.Writer, args ...string) error {
	err := s.command(ctx, out, s.program, args...)
	var exit *exec.ExitError
	if errors.As(err, &exit) && slices.Contains([]int{4, 99}, exit.ExitCode()) {
		return nil
	}
	return err
}

func (s *studio) command(ctx context.Context, out io.Writer, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	fmt.Fprintln(s.log, filepath.Base(name), args)
	cmd := exec.CommandContext(ctx, name, args...)
	var errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = out, &errs
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, errs.Bytes())
	}
	return nil
}
