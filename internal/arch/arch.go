// Package arch holds the import rules of ARCHITECTURE.md, as a test.
package arch
