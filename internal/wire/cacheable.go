package wire

import (
	"hash/maphash"
	"time"
)

// Cacheable has the members that determine how long the response to a list or read
// request may be cached (SEP-2549). Its slices alias the message, except for strings
// that had to be unescaped.
type Cacheable struct {
	// NextCursor of a page, unescaped; nil if there is no further page.
	NextCursor []byte
	// TTL is how long the result may be kept. HasTTL is true if the
	// response has one: ttlMs in milliseconds, or ttl of the earlier draft in
	// seconds. Negative values are 0.
	TTL    time.Duration
	HasTTL bool
	// Public is true only for cacheScope "public"; HasScope is true if
	// there is a cacheScope.
	Public, HasScope bool
	// Interim results (a resultType other than "complete") must not be cached.
	Interim bool
	// Order is of the entries of the arrays in the result.
	Order Order
}

// Order identifies entries by their names, and the sequence in which they come. Two orders are
// comparable within one process. The zero value is of no entries.
type Order struct {
	set, sequence uint64
	scale         uint64 // by which a sequence before is multiplied, minus 1
}

// Add appends entries.
func (o *Order) Add(next Order) {
	o.set += next.set
	o.sequence = o.sequence*(next.scale+1) + next.sequence
	o.scale = (o.scale+1)*(next.scale+1) - 1
}

// Permutes reports whether the same entries come in another sequence.
func (o Order) Permutes(other Order) bool { return o.set == other.set && o.sequence != other.sequence }

var orderSeed = maphash.MakeSeed()

// entries adds the entries of the current array: objects with a name, uri or uriTemplate.
func (s *scanner) entries(o *Order) {
	for s.enter('['); s.next(']'); {
		if s.peek() != '{' {
			s.skip()
			continue
		}
		id := uint64(0)
		for s.enter('{'); s.next('}'); {
			switch string(s.key()) {
			case "name", "uri", "uriTemplate":
				id += maphash.Bytes(orderSeed, s.text())
			default:
				s.skip()
			}
		}
		o.Add(Order{id, id, 1<<32 + 14})
	}
}

// ScanCacheable parses the result of a JSON-RPC response into c, which is
// overwritten. It returns false if and only if b is not a JSON object, or is nested
// more than 512 levels deep. Members of the wrong type are left out.
func ScanCacheable(b []byte, c *Cacheable) bool {
	*c = Cacheable{}
	s := scanner{b: b}
	if !s.open('{') {
		return false
	}
	for s.next('}') {
		if string(s.key()) != "result" || s.peek() != '{' {
			s.skip()
			continue
		}
		*c = Cacheable{}
		s.cacheable(c)
	}
	return s.finish()
}

func (s *scanner) cacheable(c *Cacheable) {
	var older time.Duration
	var hasOlder bool
	s.enter('{')
	for s.next('}') {
		switch string(s.key()) {
		case "nextCursor":
			if c.NextCursor = s.text(); len(c.NextCursor) == 0 {
				c.NextCursor = nil // an empty cursor would ask for the first page again
			}
		case "ttlMs":
			c.TTL, c.HasTTL = s.duration(time.Millisecond)
		case "ttl":
			older, hasOlder = s.duration(time.Second)
		case "cacheScope":
			scope := s.text()
			c.HasScope, c.Public = scope != nil, string(scope) == "public"
		case "resultType":
			kind := s.text()
			c.Interim = kind != nil && string(kind) != "complete"
		default:
			if s.peek() == '[' {
				s.entries(&c.Order)
			} else {
				s.skip()
			}
		}
	}
	if !c.HasTTL && hasOlder {
		c.TTL, c.HasTTL = older, true
	}
}
