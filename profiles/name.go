package profiles

import "regexp"

var nameRule = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)

// ValidName tells whether a profile or a lane may have that name: a-z,
// 0-9 and hyphens, a letter first, at most 63. Files are named by it, so that
// whoever reads a name from elsewhere must ask, too.
func ValidName(name string) bool { return nameRule.MatchString(name) }
