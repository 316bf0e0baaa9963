package wire

import (
	"encoding/json"
	"testing"
	"time"
)

func TestScanResumable(t *testing.T) {
	for _, c := range []struct {
		name, text string
		ok         bool
		check      func(m *Resumable) bool
	}{
		{"policy", `{"jsonrpc":"2.0","method":"notifications/requests/resumePolicy","params":{"requestId":7,` +
			`"resumeToken":"a\u0062c","maxWait":2.5}}`, true, func(m *Resumable) bool {
			return string(m.Method) == "notifications/requests/resumePolicy" && string(m.RequestID) == "7" &&
				string(m.ResumeToken) == "abc" && m.HasMaxWait && m.MaxWait == 2500*time.Millisecond
		}},
		{"policy without a bound", `{"method":"x","params":{"requestId":"7","resumeToken":"t"}}`, true, func(m *Resumable) bool {
			return string(m.RequestID) == `"7"` && !m.HasMaxWait
		}},
		{"progress", `{"method":"notifications/progress","params":{"progressToken":7,"progress":3,"total":20,` +
			`"message":"step 3"}}`, true, func(m *Resumable) bool {
			return string(m.ProgressToken) == "7" && m.HasProgress && m.Progress == 3
		}},
		{"progress of a broken number", `{"params":{"progress":0.5}}`, true, func(m *Resumable) bool { return !m.HasProgress }},
		{"log", `{"method":"notifications/message","params":{"level":"info","data":{"step":5,"seq":1}}}`, true, func(m *Resumable) bool {
			return m.HasLogSeq && m.LogSeq == 1
		}},
		{"log of text", `{"params":{"data":"seq"}}`, true, func(m *Resumable) bool { return !m.HasLogSeq }},
		{"status", `{"id":9,"result":{"status":"processing","hasPendingMessage":true}}`, true, func(m *Resumable) bool {
			return m.HasResult && string(m.Status) == "processing" && !m.NonePending && string(m.ID) == "9"
		}},
		{"error", `{"id":9,"error":{"code":-32602,"message":"no"}}`, true, func(m *Resumable) bool {
			return m.HasError &&
				m.Error.Code == -32602 && !m.HasResult
		}},
		{"result that is no object", `{"id":9,"result":null}`, true, func(m *Resumable) bool { return m.HasResult }},
		{"cut", `{"id":9,"result":{"status":"pro`, false, nil},
		{"no object", `[]`, false, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m Resumable
			if ok := ScanResumable([]byte(c.text), &m); ok != c.ok || ok && !c.check(&m) {
				t.Errorf("%t, %+v", ok, m)
			}
		})
	}
}

func TestScanResumableDoesNotAllocate(t *testing.T) {
	b := []byte(
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":3,"total":20,"message":"step 3"}}`,
	)
	var m Resumable
	if n := testing.AllocsPerRun(100, func() { ScanResumable(b, &m) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzScanResumable compares with the standard library.
func FuzzScanResumable(f *testing.F) {
	f.Add([]byte(`{"method":"m","params":{"requestId":7,"resumeToken":"t","maxWait":3,"progress":4,"data":{"seq":2}}}`))
	f.Add([]byte(`{"id":1,"result":{"status":"completed","hasPendingMessage":false}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var m Resumable
		var object map[string]json.RawMessage
		want := json.Unmarshal(b, &object) == nil && object != nil
		if got := ScanResumable(b, &m); got != want && len(b) < maxDepth {
			t.Fatalf("%q: %t, want %t", b, got, want)
		}
	})
}

func BenchmarkScanResumable(b *testing.B) {
	text := []byte(
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":3,"total":20,"message":"step 3"}}`,
	)
	var m Resumable
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		ScanResumable(text, &m)
	}
}
