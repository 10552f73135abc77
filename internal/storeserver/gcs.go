package storeserver

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

var gcs = &kind{
	name:       "gcs",
	scheme:     "gs",
	command:    func() ([]string, error) { return build("gcsgw") },
	arguments:  memoryArguments,
	makeBucket: makeGCSBucket,
	describe:   func(*process, *Server) {},
	environment: func(s *Server) []string {
		return []string{
			"STORAGE_EMULATOR_HOST=" + s.Endpoint,
			"GOOGLE_APPLICATION_CREDENTIALS=",
			"CLOUDSDK_CONFIG=" + os.DevNull,
		}
	},
}

// makeGCSBucket: Buckets: insert of the JSON API, which needs no credentials here.
func makeGCSBucket(p *process, name string) error {
	body, err := json.Marshal(map[string]string{"name": name})
	if err != nil {
		return err
	}
	r, err := http.Post("http://"+p.address+"/storage/v1/b?project=test", "application/json", strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	return answered(r, http.StatusOK)
}

// answered closes the answer and returns an error unless it has that status.
func answered(r *http.Response, status int) error {
	defer r.Body.Close()
	if r.StatusCode != status {
		text, _ := io.ReadAll(io.LimitReader(r.Body, 1000)) // for the message alone
		return fmt.Errorf("the server answers %s: %s", r.Status, text)
	}
	return nil
}
