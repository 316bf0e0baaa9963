// Package interop holds tests with clients, servers and libraries that others
// wrote, at the exact versions of testdata/package.json. docs/interop.md says
// what was found.
//
// The packages are installed with npm ci --prefix internal/interop/testdata
// --ignore-scripts, and run by Node. Where either is missing, the tests are
// skipped with a message, or fail with EVENTMETER_REQUIRE_TOOLS=1.
package interop
