package main

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

func TestBuildOf(t *testing.T) {
	info := func(version string, settings ...string) *debug.BuildInfo {
		i := &debug.BuildInfo{Main: debug.Module{Version: version}}
		for k := 0; k < len(settings); k += 2 {
			i.Settings = append(i.Settings, debug.BuildSetting{Key: settings[k], Value: settings[k+1]})
		}
		return i
	}
	end := ", " + runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH
	for _, tt := range []struct {
		info            *debug.BuildInfo
		release, commit string
		want            string
	}{
		{nil, "", "", "devel (commit not known)" + end},
		{info("(devel)"), "", "", "devel (commit not known)" + end},
		{info("v1.2.3"), "", "", "v1.2.3 (commit not known)" + end},
		{info("(devel)", "vcs.revision", "0123456789abcdef", "vcs.modified", "true"), "", "", "devel (commit 0123456789ab, modified)" + end},
		{info("(devel)", "vcs.revision", "0123456789abcdef", "vcs.modified", "true"), "v0.1.0", "feed", "v0.1.0 (commit feed)" + end},
	} {
		release, commit = tt.release, tt.commit
		if got := buildOf(tt.info).String(); got != tt.want {
			t.Errorf("%+v: %s, want %s", tt.info, got, tt.want)
		}
	}
	release, commit = "", ""
	if stdout, _, code := execute(
		t,
		"version",
	); code != 0 || !strings.HasPrefix(stdout, "eventmeter ") ||
		strings.Count(stdout, "\n") != 1 {
		t.Errorf("exit code %d, %q", code, stdout)
	}
}
