// Package deps pins dependencies until their users arrive.
package deps

import (
	_ "github.com/rogpeppe/go-internal/testscript"
)
