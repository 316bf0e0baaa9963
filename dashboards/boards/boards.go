// Package boards describes the Grafana dashboards of eventmeter. They are written
// here and committed as JSON, which Grafana loads: after a change run
//
//	go run ./dashboards/cmd/boards
package boards

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// Board is one dashboard. File is its name without a folder.
type Board struct {
	File string
	make func() *dashboard.DashboardBuilder
}

// All are the dashboards, in the order in which they are read.
func All() []Board {
	return []Board{
		{"compare.json", compare},
		{"run.json", oneRun},
		{"capacity.json", capacity},
		{"fleet.json", fleet},
		{"lists.json", lists},
	}
}

// JSON is the dashboard as Grafana loads it.
func (b Board) JSON() ([]byte, error) {
	d, err := b.make().Build()
	if err != nil {
		return nil, fmt.Errorf("build %s: %w", b.File, err)
	}
	text, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", b.File, err)
	}
	var tree map[string]any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, fmt.Errorf("encode %s: %w", b.File, err)
	}
	format(tree)
	text, err = json.MarshalIndent(tree, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", b.File, err)
	}
	return append(text, '\n'), nil
}

// Write writes all dashboards to a directory that exists.
func Write(dir string) error {
	for _, b := range All() {
		text, err := b.JSON()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, b.File), text, 0o644); err != nil {
			return fmt.Errorf("write a dashboard: %w", err)
		}
	}
	return nil
}

// Annotations are those of a dashboard by name, with what the data source's own
// editor sets and the SDK's type has no room for.
var annotations = map[string]map[string]any{
	phaseAnnotation: {"titleFormat": "{{phase}} {{lane}}", "tagKeys": "phase", "useValueForTime": true},
	burstAnnotation: {"titleFormat": "burst", "tagKeys": "", "useValueForTime": true},
}

// format adds to the annotations of a dashboard how they are shown.
func format(tree map[string]any) {
	section, _ := tree["annotations"].(map[string]any)
	list, _ := section["list"].([]any)
	for _, one := range list {
		a, _ := one.(map[string]any)
		name, _ := a["name"].(string)
		for key, value := range annotations[name] {
			a[key] = value
		}
	}
}
