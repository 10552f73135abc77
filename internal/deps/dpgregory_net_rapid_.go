// Package deps pins dependencies until their users arrive.
package deps

import (
	_ "pgregory.net/rapid"
)
