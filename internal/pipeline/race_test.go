//go:build race

package pipeline_test

// raceEnabled says that the tests run under the race detector, which is slow.
const raceEnabled = true
