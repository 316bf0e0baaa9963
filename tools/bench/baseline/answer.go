//go:build unix

package baseline

import (
	"encoding/json"
	"math"
	"net/http"
)

// streamID is the id of the request that opened a stream, which every message on it
// names, padded to one length with spaces.
type streamID [20]byte

// noID is where a message has the id, and meta the member that names it.
var noID = streamID([]byte("0                   "))

var meta = `"_meta":{"io.modelcontextprotocol/subscriptionId":` + string(noID[:]) + `}`

// newStreamID pads an id; false if it is longer than any number of a client.
func newStreamID(raw []byte) (id streamID, ok bool) {
	n := copy(id[:], raw)
	for i := range id[n:] {
		id[n+i] = ' '
	}
	return id, len(raw) <= len(id)
}

// active confirms a subscription.
func active(id streamID) []byte {
	f := newFrame(
		[]byte(
			`data: {"jsonrpc":"2.0","method":"notifications/events/active","params":{"cursor":null,"truncated":false,` + meta + `}}` + "\n\n",
		),
	)
	copy(f.text[f.id:], id[:])
	return f.text
}

const (
	discovered = `{"resultType":"complete","supportedVersions":["2026-07-28"],` +
		`"capabilities":{"experimental":{"events":{"listChanged":false}}},` +
		`"serverInfo":{"name":"eventmeter-baseline","version":"0.1"},"ttlMs":3600000,"cacheScope":"public"}`
	listed = `{"resultType":"complete","events":[{"name":"` + EventName + `","description":"One event for everybody.",` +
		`"delivery":["push"],"inputSchema":{"type":"object"},` +
		`"payloadSchema":{"type":"object"}}]}`
)

// maxBody bounds a request's body.
const maxBody = 1 << 20

// answer is the response to a request: a body, or a stream that stays open.
type answer struct {
	status int
	body   []byte
	stream bool
	group  int      // of a stream
	id     streamID // of a stream
}

// answer answers one posted message: a JSON-RPC request, or an event to send to
// all streams, {"name":…, "data":{…}}, as for the admin listener of the reference
// server. An event whose data has a "group" is sent only to the streams that were
// opened with this argument.
func (f *Server) answer(body []byte) answer {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Name      string  `json:"name"`
			Arguments grouped `json:"arguments"`
		} `json:"params"`
		Data json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return answer{
			status: http.StatusBadRequest,
			body:   []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`),
		}
	}
	if m.ID == nil {
		m.ID = json.RawMessage("null")
	}
	result := func(status int, member, value string) answer {
		return answer{status: status, body: []byte(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"` + member + `":` + value + `}`)}
	}
	switch {
	case m.Method == "" && m.Data != nil:
		id, err := f.Fire(m.Data)
		if err != nil {
			return answer{status: http.StatusBadRequest, body: []byte(`{"error":"data is not an object"}`)}
		}
		return answer{status: http.StatusAccepted, body: []byte(`{"eventId":"` + id + `"}`)}
	case m.Method == "server/discover":
		return result(http.StatusOK, "result", discovered)
	case m.Method == "events/list":
		return result(http.StatusOK, "result", listed)
	case m.Method == "events/stream" && m.Params.Name == EventName:
		id, ok := newStreamID(m.ID)
		if !ok {
			return result(http.StatusBadRequest, "error", `{"code":-32600,"message":"The id is too long"}`)
		}
		return answer{status: http.StatusOK, stream: true, group: m.Params.Arguments.number(), id: id}
	case m.Method == "events/stream":
		return result(http.StatusNotFound, "error", `{"code":-32011,"message":"Not found","data":{"kind":"event"}}`)
	}
	return result(http.StatusNotFound, "error", `{"code":-32601,"message":"Method not found"}`)
}

// everybody is the group of events for all streams and of streams without a group.
const everybody = -1

// grouped are the arguments of a stream, or the data of an event.
type grouped struct {
	Group *int `json:"group,string"`
}

func (g grouped) number() int {
	if g.Group == nil || *g.Group < 0 || *g.Group > math.MaxInt32 {
		return everybody
	}
	return *g.Group
}
