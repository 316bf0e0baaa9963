package refserver

import "testing"

// The draft lists the words of lastError. A refused address is not among them.
func TestLastErrorIsOneOfTheDraft(t *testing.T) {
	words := map[string]bool{
		"connection_refused": true, "timeout": true, "tls_error": true, "http_4xx": true, "http_5xx": true, "challenge_failed": true,
	}
	for _, failure := range []string{failRefused, failTimeout, failTLS, fail4xx, fail5xx, failChallenge, addressRefused} {
		if word := lastError(failure); !words[word] {
			t.Errorf("%s is spelled %q", failure, word)
		}
	}
}
