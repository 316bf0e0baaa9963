package refserver

import (
	"encoding/json"
	"fmt"
)

// eventType is one entry of events/list.
type eventType struct {
	name        string
	description string
	// filter is the one argument that a subscription may give, and the field
	// of the data it is compared with. Empty: the type takes no arguments.
	filter string
	// owned says that each event is one principal's, whose name stands in the
	// filter field: a subscription hears its own principal's and takes no
	// argument.
	owned   bool
	input   json.RawMessage
	payload json.RawMessage
}

// catalog is what this server offers. Its order is the order of events/list.
func catalog() []eventType {
	return []eventType{
		{
			name:        "chat.message",
			description: "A message was posted to a channel. Without a channel: to any.",
			filter:      "channel",
			input:       json.RawMessage(`{"type":"object","properties":{"channel":{"type":"string","description":"Only messages of this channel."}},"additionalProperties":false}`),
			payload:     json.RawMessage(`{"type":"object","properties":{"channel":{"type":"string"},"text":{"type":"string"}}}`),
		},
		{
			name:        "ticket.moved",
			description: "A ticket moved on a board. Without a board: on any.",
			filter:      "board",
			input:       json.RawMessage(`{"type":"object","properties":{"board":{"type":"string","description":"Only tickets of this board."}},"additionalProperties":false}`),
			payload:     json.RawMessage(`{"type":"object","properties":{"board":{"type":"string"}}}`),
		},
		{
			name:        "tick",
			description: "Something ticked. It takes no arguments.",
			input:       json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`),
			payload:     json.RawMessage(`{"type":"object"}`),
		},
		privateNote,
	}
}

// selection is what a subscription hears of a type: everything, or the events
// whose filter field equals key.
type selection struct {
	keyed bool
	key   string
}

// selectBy reads a subscription's arguments. It returns them in canonical form
// (sorted keys, no white space) beside the selection they make.
func (t eventType) selectBy(arguments json.RawMessage) (selection, string, error) {
	var args map[string]any
	if len(arguments) > 0 {
		if err := json.Unmarshal(arguments, &args); err != nil {
			return selection{}, "", fmt.Errorf("arguments: not an object")
		}
	}
	var sel selection
	for name, value := range args {
		if name != t.filter || name == "" || t.owned {
			return selection{}, "", fmt.Errorf("arguments: %s takes no argument %q", t.name, name)
		}
		text, ok := value.(string)
		if !ok {
			return selection{}, "", fmt.Errorf("arguments: %s is not a string", name)
		}
		sel = selection{keyed: true, key: text}
	}
	if args == nil {
		return sel, "{}", nil
	}
	canonical, err := json.Marshal(args) // sorts the keys
	if err != nil {
		return selection{}, "", fmt.Errorf("arguments: %w", err)
	}
	return sel, string(canonical), nil
}

// keyOf finds the filter value in an event's data, which must be an object.
func (t eventType) keyOf(data []byte) (string, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil || fields == nil {
		return "", fmt.Errorf("data is not a JSON object")
	}
	var key string
	if raw, ok := fields[t.filter]; ok && len(raw) > 0 && raw[0] == '"' {
		if err := json.Unmarshal(raw, &key); err != nil {
			return "", fmt.Errorf("data.%s: %w", t.filter, err)
		}
	}
	return key, nil
}
