package ledger

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// keysOf lists the paths of a JSON document, sorted.
func keysOf(v any, path string, into map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for k, w := range v {
			keysOf(w, path+"."+k, into)
		}
	case []any:
		for _, w := range v {
			keysOf(w, path+"[]", into)
		}
	default:
		into[path] = true
	}
}

// TestAccountKeys holds the keys of an account in JSON, which archives of shards
// and checkpoints have, to testdata. Write it again with KEYS=write.
func TestAccountKeys(t *testing.T) {
	t.Parallel()
	a := filled()
	var v any
	if err := json.Unmarshal([]byte(asText(t, a)), &v); err != nil {
		t.Fatal(err)
	}
	set := map[string]bool{}
	keysOf(v, "", set)
	var keys []string
	for k := range set {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	got := strings.Join(keys, "\n") + "\n"
	const file = "testdata/account.keys"
	if os.Getenv("KEYS") == "write" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the keys of an account are\n%s\nwant\n%s", got, want)
	}
}
