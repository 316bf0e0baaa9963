package wire

import "bytes"

const (
	// repeatLimit is the largest message, in bytes, that is kept to compare the next one
	// with.
	repeatLimit = 4 << 10
	// repeatTokens is how many tokens of a message may differ from message to message.
	repeatTokens = 8
	// A message that repeats pays off a debt by one, and one that does not adds
	// repeatPenalty. With more than repeatDebt nothing is compared for repeatPause
	// messages: what never repeats costs little more than a scan.
	repeatPenalty, repeatDebt, repeatPause = 8, 64, 256
)

// Repeat scans messages of which many resemble the one before, as those that a server
// sends to thousands of subscriptions: they differ in an id or a time, within tokens of one
// length. Such a message is compared with the last one, and only tokens that differ are
// looked at. What cannot be proved equal in form is scanned.
//
// A Repeat must not be used by two goroutines at once.
type Repeat struct {
	// Memo is the length, in bytes, from which on a string that changes clears
	// Message.Memo.
	Memo int

	m      Message // of text; its slices alias text
	text   []byte  // the last message; empty = there is none to compare with
	before []byte  // the message before it
	free   []token // ascending: where text may differ from the next message
	known  []token // free of the message before
	debt   int
	pause  int // messages to scan without a comparison
}

// token is the inside of a string without escapes, or the digits of an integer, which is no
// key and nothing that a Message has in another form than its bytes.
type token struct {
	from, to int
	number   bool
	memo     bool // a change clears Message.Memo
	changed  bool
}

// takes reports whether b may stand in the place of a token.
func (k *token) takes(b []byte) bool {
	if !k.number {
		return plainUntil(b, 0) == len(b)
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
	}
	return b[0] != '0' || len(b) == 1
}

// Scan is [ScanMessage]. The message is valid until the next call, and only its Memo may be
// changed.
func (r *Repeat) Scan(b []byte) (*Message, bool) {
	if r.same(b) {
		r.debt = max(r.debt-1, 0)
		return &r.m, true
	}
	if r.pause > 0 || len(b) > repeatLimit {
		r.pause = max(r.pause-1, 0)
		r.text = r.text[:0]
		return &r.m, ScanMessage(b, &r.m)
	}
	if r.debt += repeatPenalty; r.debt > repeatDebt {
		r.debt, r.pause = 0, repeatPause
	}
	r.before, r.text = r.text, append(r.before[:0], b...)
	ok := ScanMessage(r.text, &r.m)
	if !ok || !r.learn() {
		r.text = r.text[:0]
	}
	return &r.m, ok
}

// same reports whether b has the form of the last message, and makes it the last message if
// so.
func (r *Repeat) same(b []byte) bool {
	t := r.text
	if len(b) != len(t) || len(t) == 0 {
		return false
	}
	at := 0
	for i := range r.free {
		k := &r.free[i]
		if !bytes.Equal(b[at:k.from], t[at:k.from]) {
			return false
		}
		at = k.to
		k.changed = !bytes.Equal(b[k.from:k.to], t[k.from:k.to])
		if k.changed && !k.takes(b[k.from:k.to]) {
			return false
		}
	}
	if !bytes.Equal(b[at:], t[at:]) {
		return false
	}
	for i := range r.free {
		if k := &r.free[i]; k.changed {
			copy(t[k.from:k.to], b[k.from:k.to])
			if k.memo {
				r.m.Memo = Memo{}
			}
		}
	}
	return true
}

// learn finds the tokens in which the next message may differ from text: those in which
// text differs from the message before. It returns false if other messages of its form may
// mean something else.
func (r *Repeat) learn() bool {
	m, b := &r.m, r.text
	if m.HasResult || m.HasError || m.HasFault || m.HasNextPoll {
		return false
	}
	r.free, r.known = r.known[:0], r.free
	fixed := false // the next value is not kept as its bytes
	for i := 0; i < len(b); {
		switch c := b[i]; {
		case c == '"':
			end := plainUntil(b, i+1)
			next := end + 1
			for b[end] != '"' { // an escape
				end = plainUntil(b, end+escapeLen(b[end:]))
				next = -1
			}
			after := end + 1
			for after < len(b) && b[after] <= ' ' {
				after++
			}
			key := after < len(b) && b[after] == ':'
			switch {
			case key && next < 0:
				return false // it may be the name of any member
			case key:
				fixed = string(b[i+1:end]) == "jsonrpc"
			case next > 0 && !fixed:
				r.consider(token{from: i + 1, to: end})
				fallthrough
			default:
				fixed = false
			}
			i = end + 1
		case c >= '0' && c <= '9':
			end := i + 1
			for end < len(b) && b[end] >= '0' && b[end] <= '9' {
				end++
			}
			whole := end == len(b) || b[end] != '.' && b[end]|0x20 != 'e'
			if whole && !fixed {
				r.consider(token{from: i, to: end, number: true})
			}
			for end < len(b) && (b[end] >= '0' && b[end] <= '9' || b[end] == '.' || b[end]|0x20 == 'e' || b[end] == '-' || b[end] == '+') {
				end++
			}
			fixed, i = false, end
		default:
			i++
		}
	}
	return true
}

// consider adds a token of text to free if it differs from the message before, or did
// earlier.
func (r *Repeat) consider(k token) {
	if len(r.free) == repeatTokens || k.from == k.to {
		return
	}
	inside := r.text[k.from:k.to]
	differs := len(r.before) == len(r.text) && !bytes.Equal(r.before[k.from:k.to], inside)
	for i := 0; i < len(r.known) && !differs; i++ {
		differs = r.known[i].from == k.from && r.known[i].to == k.to
	}
	if differs {
		k.memo = len(inside) >= r.Memo || bytes.Equal(inside, r.m.EventID)
		r.free = append(r.free, k)
	}
}
