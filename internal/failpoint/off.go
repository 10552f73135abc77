//go:build !failpoint

package failpoint

// Enabled tells whether this build can be killed at its failpoints.
const Enabled = false

// Hit does nothing in this build.
func Hit(string) {}
