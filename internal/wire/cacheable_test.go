package wire

import (
	"encoding/json"
	"testing"
	"time"
)

func TestScanCacheable(t *testing.T) {
	for _, c := range []struct {
		text string
		want Cacheable
		next string
		bad  bool
	}{
		{text: `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"ttlMs":9}],"nextCursor":"c\u0031","ttlMs":1500,"cacheScope":"public"}}`,
			want: Cacheable{TTL: 1500 * time.Millisecond, HasTTL: true, Public: true, HasScope: true}, next: "c1"},
		{text: `{"result":{"ttl":3,"tools":[]}}`, want: Cacheable{TTL: 3 * time.Second, HasTTL: true}},
		{text: `{"result":{"ttl":3,"ttlMs":20,"cacheScope":"private","nextCursor":""}}`,
			want: Cacheable{TTL: 20 * time.Millisecond, HasTTL: true, HasScope: true}},
		{text: `{"result":{"ttlMs":-5,"nextCursor":null}}`, want: Cacheable{HasTTL: true}},
		{text: `{"result":{"ttlMs":"5","cacheScope":7}}`},
		{text: `{"result":{"resultType":"input_required","ttlMs":5}}`, want: Cacheable{TTL: 5 * time.Millisecond, HasTTL: true, Interim: true}},
		{text: `{"result":{"resultType":"complete"}}`},
		{text: `{"error":{"ttlMs":5}}`},
		{text: `{"result":[1]}`},
		{text: `[]`, bad: true},
		{text: `{"result":{"ttlMs":}}`, bad: true},
	} {
		var got Cacheable
		ok := ScanCacheable([]byte(c.text), &got)
		if ok == c.bad {
			t.Errorf("%s: read %t", c.text, ok)
		}
		if !ok {
			continue
		}
		if string(got.NextCursor) != c.next {
			t.Errorf("%s: next cursor %q", c.text, got.NextCursor)
		}
		got.NextCursor = nil
		if got.TTL != c.want.TTL || got.HasTTL != c.want.HasTTL || got.Public != c.want.Public || got.HasScope != c.want.HasScope ||
			got.Interim != c.want.Interim {
			t.Errorf("%s: %+v, want %+v", c.text, got, c.want)
		}
	}
}

// FuzzScanCacheable compares with encoding/json, on documents that it reads
// without trouble about types.
func FuzzScanCacheable(f *testing.F) {
	f.Add([]byte(`{"result":{"nextCursor":"a","ttlMs":5,"cacheScope":"public"}}`))
	f.Add([]byte(`{"result":{"ttl":5},"id":1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var c Cacheable
		ok := ScanCacheable(b, &c)
		if ok && !json.Valid(b) {
			t.Fatalf("%q was read", b)
		}
		var m map[string]json.RawMessage
		if json.Unmarshal(b, &m) != nil || m == nil {
			return
		}
		if !ok {
			t.Fatalf("%q was not read", b)
		}
		var r struct {
			NextCursor string `json:"nextCursor"`
			CacheScope string `json:"cacheScope"`
		}
		if json.Unmarshal(m["result"], &r) != nil || !exactKeys(m["result"]) {
			return
		}
		if string(c.NextCursor) != r.NextCursor || c.Public != (r.CacheScope == "public") {
			t.Fatalf("%q: %q %t, want %+v", b, c.NextCursor, c.Public, r)
		}
	})
}

// exactKeys tells whether encoding/json, which ignores case and takes null for
// a missing value, reads the same members as the scanner does.
func exactKeys(result []byte) bool {
	var m map[string]json.RawMessage
	if json.Unmarshal(result, &m) != nil {
		return false
	}
	for k, v := range m {
		if len(k) >= 10 && k != "nextCursor" && k != "cacheScope" || string(v) == "null" {
			return false
		}
	}
	return len(m) < 3
}
