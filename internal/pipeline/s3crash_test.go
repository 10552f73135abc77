package pipeline_test

import "testing"

// TestKilledRunsLoseNothingOnS3 is [TestKilledRunsLoseNothing] on an S3 server: a
// request of a killed process may still be carried out after its death.
func TestKilledRunsLoseNothingOnS3(t *testing.T) { killRuns(t, onS3(t), share(200, 10)) }

// TestProcessesAtOnceOnS3 is [TestProcessesAtOnce] on an S3 server.
func TestProcessesAtOnceOnS3(t *testing.T) { processesAtOnce(t, onS3(t), share(52, 2)) }

// TestManyProcessesOnS3 is [TestManyProcesses] on an S3 server.
func TestManyProcessesOnS3(t *testing.T) { manyProcesses(t, onS3(t), share(100, 3)) }
