package mcpclient

import (
	"testing"
)

func TestHeaderText(t *testing.T) {
	for name, want := range map[string]string{
		"post_message":     "post_message",
		"list://content":   "list://content",
		"two words":        "two words",
		"日本語":              "=?base64?5pel5pys6Kqe?=",
		"Hello, 世界":        "=?base64?SGVsbG8sIOS4lueVjA==?=",
		" us-west1":        "=?base64?IHVzLXdlc3Qx?=",
		"us-west1 ":        "=?base64?dXMtd2VzdDEg?=",
		"line1\nline2":     "=?base64?bGluZTEKbGluZTI=?=",
		"=?base64?bm8=?=":  "=?base64?PT9iYXNlNjQ/Ym04PT89?=",
		"=?base64? no end": "=?base64? no end",
		"100%":             "100%",
		"":                 "",
	} {
		if got := headerText(name); got != want {
			t.Errorf("%q became %q, want %q", name, got, want)
		}
	}
}
