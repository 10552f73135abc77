//go:build failpoint

package pipeline_test

import "testing"

// TestEveryFailpointIsPassedOnS3 is [TestEveryFailpointIsPassed] on an S3 server.
func TestEveryFailpointIsPassedOnS3(t *testing.T) { passFailpoints(t, onS3(t)) }
