package remote

// InOrder is a [Bucket] that may take the parts of an upload only one after
// another, as a resumable upload of GCS does.
type InOrder interface {
	// PartsInOrder reports whether each part must have been taken before the next
	// is sent. More than one at a time is no error: it waits for its turn, which
	// costs memory and the attempt's time.
	PartsInOrder() bool
}

// inOrder is for writers: one part at a time.
func inOrder(b Bucket) bool {
	o, ok := b.(InOrder)
	return ok && o.PartsInOrder()
}
