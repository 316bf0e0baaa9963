package profiles

// system is what this package has to know of a system that a lane can be of.
type system struct {
	name string
	// fill sets the defaults of a lane, before it is read; nil = none of its own.
	fill func(l *Lane, mode string)
	// check holds every lane of a profile against the system's rules: also those
	// of other systems, which must not have its block. nil = there are none.
	check func(c *checker, path string, l *Lane)
}

// systems are those that there are; a new one is a line here.
func systems() []system {
	return []system{
		{"events", nil, (*checker).events},
		{"smithery", nil, (*checker).smithery},
		{"sep-1803", defaultSEP1803, (*checker).sep1803},
		{SystemSEP975, defaultSEP975, (*checker).sep975},
		{SystemSEP2549, defaultSEP2549, (*checker).sep2549},
	}
}

func systemNames() (names []string) {
	for _, s := range systems() {
		names = append(names, s.name)
	}
	return names
}
