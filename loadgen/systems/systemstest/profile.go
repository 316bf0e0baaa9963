package systemstest

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/eventmeter/eventmeter/loadgen/systems"
	"github.com/eventmeter/eventmeter/profiles"
)

// ReadAgain writes a profile as YAML and as JSON, and requires that it is the same
// when it is read again.
func ReadAgain(t *testing.T, p *profiles.Profile) {
	t.Helper()
	text, err := p.YAML()
	if err != nil {
		t.Fatal(err)
	}
	again, err := profiles.Parse("again", text, nil, systems.Table)
	if err != nil || !reflect.DeepEqual(p, again) {
		t.Errorf("read again, the profile differs: %v\n%s", err, text)
	}
	object, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	fromJSON, err := profiles.FromJSON(object, systems.Table)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(fromJSON.Lanes, p.Lanes) {
		t.Errorf("read from JSON, the lanes differ:\n%+v\n%+v\n%s", fromJSON.Lanes, p.Lanes, object)
	}
}
