package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
)

// targetFlags are the flags for the address of a server and the access to it.
type targetFlags struct {
	url       string
	command   string
	headers   []string
	tokens    []string
	tokenFile string
}

func (t *targetFlags) add(c *cobra.Command) {
	addFlags(c, []flagSpec{
		{&t.url, "target,t", "URL of the MCP endpoint"},
		{&t.command, "command", "instead of --target: a program, with its arguments, that speaks MCP over standard input and output"},
		{&t.headers, "header,H", "header of every request, 'Name: value' (repeatable)"},
		{&t.tokens, "token", "bearer token, one principal each (repeatable)"},
		{&t.tokenFile, "token-file", "file of bearer tokens, one principal a line"},
	})
}

// commandOverride returns the override for --command.
func (t *targetFlags) commandOverride() ([]string, error) {
	if t.command == "" {
		return nil, nil
	}
	if t.url != "" {
		return nil, usagef("--target and --command: give one of the two")
	}
	text, err := json.Marshal(t.command) // which is YAML, too
	return []string{"target.command=" + string(text)}, err
}

// apply applies the flags to the profile.
func (t *targetFlags) apply(p *profiles.Target) error {
	for _, h := range t.headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return usagef("--header %q: want 'Name: value'", h)
		}
		if err := checkHeader(strings.TrimSpace(name), strings.TrimSpace(value)); err != nil {
			return usageError{err}
		}
		if p.Headers == nil {
			p.Headers = map[string]string{}
		}
		p.Headers[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	file := p.TokenFile
	if t.tokenFile != "" {
		file = t.tokenFile
	}
	if file != "" {
		tokens, err := readTokens(file)
		if err != nil {
			return usageError{err}
		}
		p.Tokens = append(p.Tokens, tokens...)
	}
	for _, token := range t.tokens {
		if err := checkToken("--token", token); err != nil {
			return usageError{err}
		}
	}
	p.Tokens = append(p.Tokens, t.tokens...)
	p.TokenFile = "" // it is read, and a profile has either tokens or a file of them
	return nil
}

// profile reads a profile that a command has written for the target, with more overrides.
func (t *targetFlags) profile(name, text string, more ...string) (*profiles.Profile, error) {
	set, err := t.commandOverride()
	if err != nil {
		return nil, err
	}
	if t.url != "" {
		set = append(set, "target.url="+strconv.Quote(t.url))
	}
	p, err := profiles.Parse(name, []byte(text), append(set, more...), systems.Table)
	if err != nil {
		return nil, usageError{err}
	}
	return p, t.apply(&p.Target)
}

func readTokens(name string) ([]string, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("token file: %w", err)
	}
	defer f.Close()
	var tokens []string
	s := bufio.NewScanner(f)
	for number := 1; s.Scan(); number++ {
		line := s.Text()
		if number == 1 {
			line = strings.TrimPrefix(line, "\ufeff") // some editors begin a file with this mark
		}
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := checkToken(fmt.Sprintf("token file %s: line %d", name, number), line); err != nil {
			return nil, err
		}
		tokens = append(tokens, line)
	}
	if err := s.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("token file %s: a line is longer than %d KiB; put one token on each line", name, bufio.MaxScanTokenSize>>10)
	} else if err != nil {
		return nil, fmt.Errorf("token file %s: %w", name, err)
	}
	if len(tokens) == 0 {
		return nil, fmt.Errorf("token file %s holds no token; put one on each line", name)
	}
	return tokens, nil
}
