package remote

import (
	"strings"
	"testing"
)

func TestScrub(t *testing.T) {
	for in, want := range map[string]string{
		"":                                      "",
		"The specified\n  blob does not exist.": "The specified blob does not exist.",
		`Get "https://a.example/c?se=1&sig=aB%2B%3D&sp=r": EOF`: `Get "https://a.example/c?se=1&sig=[cut]&sp=r": EOF`,
		`Put "https://h/o?upload_id=ABC-x_1": reset`:            `Put "https://h/o?upload_id=[cut]": reset`,
		"Authorization: Bearer ya29.abc-DEF was refused":        "Authorization: Bearer [cut] was refused",
		"SharedKey account:c2lnbg==, no":                        "SharedKey [cut], no",
		`{"access_token": "ya29.x", "error": "no"}`:             `{"access_token": "[cut]", "error": "no"}`,
		"AccountName=a;AccountKey=abc==;EndpointSuffix=s":       "AccountName=a;AccountKey=[cut];EndpointSuffix=s",
		"X-Amz-Signature=00ff&X-Amz-Credential=AKIA/x&x-id=Get": "X-Amz-Signature=[cut]&X-Amz-Credential=[cut]&x-id=Get",
		strings.Repeat("é", 400):                                strings.Repeat("é", 250) + "…",
		"invalid key of bucket k: signature does not match":     "invalid key of bucket k: signature does not match",
	} {
		if got := Scrub(in); got != want {
			t.Errorf("Scrub(%q)\n got %q\nwant %q", in, got, want)
		}
	}
}
