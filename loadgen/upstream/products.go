package upstream

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"text/template"
	"time"

	"github.com/eventmeter/eventmeter"
	"github.com/eventmeter/eventmeter/internal/errtext"
)

// WebhookOptions are the options of the webhooks of all products.
type WebhookOptions struct {
	// URL is the address at which the target takes the product's webhooks. Required.
	URL string
	// Secret is the secret that the target checks signatures with, as the product
	// displays it. It never appears in errors or figures.
	Secret string
	// Text is the sentence that holds the probe; nil means a default of the product.
	Text Text
	ClientOptions
	// Now is the wall clock of signatures and payloads; nil means time.Now.
	// No figure depends on it.
	Now func() time.Time
}

// poster posts signed JSON to one address. It implements the upstream of every
// product; only event, body and header differ, which the product's constructor sets.
type poster struct {
	*client
	url    string
	secret []byte
	text   Text
	now    func() time.Time

	event  string
	body   func(Emission) []byte
	header func(emission Emission, body []byte) http.Header
}

func newPoster(kind string, o WebhookOptions, text Text) (poster, error) {
	if _, ok := httpURL(o.URL); !ok {
		return poster{}, fmt.Errorf(
			"upstream %s: address %q: want a URL such as http://127.0.0.1:8080/hooks/%s",
			kind,
			errtext.Address(o.URL),
			kind,
		)
	}
	p := poster{client: newClient(o.ClientOptions), url: o.URL, secret: []byte(o.Secret), text: o.Text, now: o.Now}
	p.hidden = o.Secret
	if p.text == nil {
		p.text = text
	}
	if p.now == nil {
		p.now = time.Now
	}
	return p, nil
}

// Fire implements [Upstream].
func (p *poster) Fire(ctx context.Context, emission Emission) eventmeter.Outcome {
	body := p.body(emission)
	return p.post(ctx, p.url, p.header(emission, body), body)
}

// Content implements [Recorded].
func (p *poster) Content(emission Emission) (string, []byte) {
	return p.event, p.body(emission)
}

// ask posts a body and returns the status and the body of the answer.
func (p *poster) ask(ctx context.Context, header http.Header, body []byte) (status int, answer []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header = header
	resp, err := p.transport.RoundTrip(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return resp.StatusCode, answer, err
}

// quote returns the first line of an answer in parentheses, with a space before them;
// "" if the answer is empty.
func (p *poster) quote(answer []byte) string {
	line := errtext.FirstLine(answer)
	if u, err := url.Parse(p.url); err == nil {
		line = errtext.Hide(line, u, p.hidden)
	}
	if line == "" {
		return ""
	}
	return " (" + line + ")"
}

// sign returns the HMAC of parts under the secret, in hexadecimal.
func sign(of func() hash.Hash, secret []byte, parts ...[]byte) string {
	mac := hmac.New(of, secret)
	for _, part := range parts {
		mac.Write(part)
	}
	return hex.EncodeToString(mac.Sum(nil))
}

// digest returns a string of hexadecimal digits, at most 64, that is unique to the
// probe and the same in every call. Ids of commits, deliveries and payments are made
// with it.
func digest(digits int, what, probe string) string {
	sum := sha256.Sum256([]byte(what + " " + probe))
	return hex.EncodeToString(sum[:])[:digits]
}

// guid returns a UUID (version 4) that is unique to the probe.
func guid(probe string) string {
	h := []byte(digest(32, "guid", probe))
	h[12], h[16] = '4', "89ab"[h[16]&3]
	return fmt.Sprintf("%s-%s-%s-%s-%s", h[:8], h[8:12], h[12:16], h[16:20], h[20:])
}

// encode returns JSON without the escapes for HTML, which no product writes.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("upstream: a payload of our own cannot be encoded: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'})
}

// payloads are templates of the products' messages: JSON with the members that
// programs read, in the product's order. fill inserts texts already escaped. Stripe's
// bodies are indented, as in reality.
var (
	//go:embed payloads/*.json
	payloadFiles embed.FS
	payloads     = parsePayloads()

	lineBreaks = regexp.MustCompile(`\n\s*`)
)

func parsePayloads() *template.Template {
	all := template.New("").Option("missingkey=error")
	files, _ := payloadFiles.ReadDir("payloads") // it is embedded
	for _, file := range files {
		content, _ := payloadFiles.ReadFile("payloads/" + file.Name())
		text := string(bytes.TrimSpace(content))
		if !strings.HasPrefix(file.Name(), "stripe_") {
			text = strings.ReplaceAll(lineBreaks.ReplaceAllString(text, ""), `": `, `":`)
		}
		template.Must(all.New(file.Name()).Parse(text))
	}
	return all
}

// fill executes a template. It escapes the values that need it, in place.
func fill(name string, values map[string]any) []byte {
	for key, value := range values {
		// Most texts are ids, which need no escapes.
		if text, ok := value.(string); ok && strings.ContainsFunc(text, needsEncoding) {
			quoted := encode(text)
			values[key] = string(quoted[1 : len(quoted)-1])
		}
	}
	var b bytes.Buffer
	if err := payloads.ExecuteTemplate(&b, name+".json", values); err != nil {
		panic("upstream: a payload of our own cannot be made: " + err.Error())
	}
	return b.Bytes()
}

func needsEncoding(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }

var errNoSecret = errors.New("no secret was given: give the one that the target checks signatures with")
