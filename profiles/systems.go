package profiles

// system is what this package has to know of a system that a lane can be of.
type system struct {
	name, block string   // block is the key of its settings in a lane
	modes       []string // those that it has
	// fill sets the defaults of a lane, before it is read; nil = none of its own.
	fill func(l *Lane, mode string)
	// check holds a lane of the system against the system's rules.
	check func(c *checker, path string, l *Lane)
}

// systems are those that there are; a new one is a line here.
func systems() []system {
	return []system{
		{"events", "events", []string{"poll", "push", "webhook"}, nil, (*checker).events},
		{"smithery", "smithery", []string{"webhook"}, nil, (*checker).smithery},
		{"sep-1803", "sep1803", []string{"push", "webhook"}, defaultSEP1803, (*checker).sep1803},
		{SystemSEP975, "sep975", []string{"push"}, defaultSEP975, (*checker).sep975},
		{SystemSEP2549, "sep2549", []string{"poll"}, defaultSEP2549, (*checker).sep2549},
	}
}

func systemNames() (names []string) {
	for _, s := range systems() {
		names = append(names, s.name)
	}
	return names
}
