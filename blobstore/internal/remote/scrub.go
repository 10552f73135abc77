package remote

import (
	"regexp"
	"strings"
)

// secrets are what may stand in the text of a server's or an SDK's error and
// lets who reads it in: parameters of signed URLs and of upload sessions, headers
// and fields of credentials.
var secrets = regexp.MustCompile(`(?i)` +
	`((?:sig|signature|upload_id|access_token|refresh_token|id_token|client_secret|token|accountkey|sharedaccesssignature|x-(?:amz|goog)-(?:signature|credential|security-token))["']?\s*[=:]\s*["']?)[^&\s"'<>;,)]+` +
	`|((?:bearer|sharedkey(?:lite)?|aws4-hmac-sha256)\s+)[^\s"'<>,;)]{4,}`)

// Scrub is text for an error: one line, not long, what looks like a secret cut
// out.
func Scrub(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	text = secrets.ReplaceAllString(text, "${1}${2}[cut]")
	const most = 500
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
