package changefile

// FormatOf tells a format by a name's ending, "" where it does not.
func FormatOf(name string) string { return formatOf(name) }
