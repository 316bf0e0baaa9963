// Package boards defines the Grafana dashboards of eventmeter, which are committed as JSON for
// Grafana to load. After a change, run
//
//	go run ./dashboards/cmd/boards
package boards

import (
	"encoding/json"
	"errors"
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

// All returns the dashboards, in reading order.
func All() []Board {
	return []Board{
		{"compare.json", compare},
		{"run.json", oneRun},
		{"capacity.json", capacity},
		{"fleet.json", fleet},
		{"lists.json", lists},
	}
}

// JSON returns the dashboard as Grafana loads it.
func (b Board) JSON() ([]byte, error) {
	d, err := b.make().Build()
	var text []byte
	if err == nil {
		text, err = encode(d)
	}
	if err != nil {
		return nil, fmt.Errorf("build %s: %w", b.File, err)
	}
	return append(text, '\n'), nil
}

// encode returns the JSON of a dashboard, with the display format of its annotations.
func encode(d dashboard.Dashboard) ([]byte, error) {
	text, err := json.Marshal(d)
	var tree map[string]any
	if err = errors.Join(err, json.Unmarshal(text, &tree)); err != nil {
		return nil, err
	}
	format(tree)
	return json.MarshalIndent(tree, "", "  ")
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

// annotations has, by name, the keys of annotations that the data source's editor
// sets and the SDK's type lacks.
var annotations = map[string]map[string]any{
	phaseAnnotation: {"titleFormat": "{{phase}} {{lane}}", "tagKeys": "phase", "useValueForTime": true},
	burstAnnotation: {"titleFormat": "burst", "tagKeys": "", "useValueForTime": true},
}

// format adds the display format to the annotations of a dashboard.
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
