// Package deps pins dependencies until their users arrive.
package deps

import (
	_ "github.com/google/go-cmp/cmp"
)
