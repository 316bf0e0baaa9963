package wire

import "time"

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
			s.skip()
		}
	}
	if !c.HasTTL && hasOlder {
		c.TTL, c.HasTTL = older, true
	}
}
