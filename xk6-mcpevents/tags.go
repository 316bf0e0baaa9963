package mcpevents

import (
	"encoding/json"
	"fmt"
	"slices"

	"go.k6.io/k6/v2/metrics"
)

// reserved are the tags that the extension sets itself.
var reserved = []string{"system", "mode", "event", "lane", "level", "row"}

// ownTags are tags of a script for the samples of one call.
type ownTags map[string]string

// UnmarshalJSON implements json.Unmarshaler.
func (t *ownTags) UnmarshalJSON(b []byte) error {
	var given map[string]string
	if err := json.Unmarshal(b, &given); err != nil {
		return fmt.Errorf("use an object of texts")
	}
	for _, name := range inOrder(given) {
		if slices.Contains(reserved, name) {
			return fmt.Errorf("%s is set by the extension: use another name", name)
		}
	}
	*t = given
	return nil
}

// of adds the tags to others.
func (t ownTags) of(tags *metrics.TagSet) *metrics.TagSet { return tags.WithTagsFromMap(t) }
