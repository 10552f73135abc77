package storeserver

import (
	"crypto/rand"
	"os"
	"path/filepath"
)

const (
	s3AccessKey = "deltafold-test"
	s3Region    = "us-east-1"
)

// newSecret is a key that no other server has.
func newSecret() string { return rand.Text() }

var s3 = &kind{
	name:      "s3",
	scheme:    "s3",
	command:   func() ([]string, error) { return build("s3gw") },
	arguments: gatewayArguments,
	// A bucket of versitygw is a folder.
	makeBucket: func(p *process, name string) error { return os.Mkdir(filepath.Join(p.root, name), 0o755) },
	describe: func(_ *process, s *Server) {
		s.AccessKey, s.Region = s3AccessKey, s3Region
	},
	environment: func(s *Server) []string {
		return []string{
			"AWS_ENDPOINT_URL_S3=" + s.Endpoint,
			"AWS_ENDPOINT_URL=" + s.Endpoint,
			"AWS_ALLOW_HTTP=true",
			"AWS_ACCESS_KEY_ID=" + s.AccessKey,
			"AWS_SECRET_ACCESS_KEY=" + s.SecretKey,
			"AWS_SESSION_TOKEN=",
			"AWS_REGION=" + s.Region,
			"AWS_DEFAULT_REGION=" + s.Region,
			"AWS_PROFILE=",
			"AWS_CONFIG_FILE=" + os.DevNull,
			"AWS_SHARED_CREDENTIALS_FILE=" + os.DevNull,
			"AWS_EC2_METADATA_DISABLED=true",
		}
	},
}

// gatewayArguments are those of the gateways in tools.
func gatewayArguments(p *process) []string {
	args := []string{"--root", p.root}
	if p.address != "" {
		args = append(args, "--listen", p.address)
	}
	if !p.own {
		args = append(args, "--remove")
	}
	return args
}
