package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go/logging"
	gcaws "gocloud.dev/aws"

	"github.com/deltafold/deltafold/blobstore"
)

// parameters are what a URL, a configuration and the environment say.
type parameters struct {
	region, profile, endpoint    string
	pathStyle                    *bool // nil: by the endpoint
	anonymous                    bool
	accelerate                   bool
	dualstack, fips              bool
	requestChecks, responseCheck string
	requestPayer                 types.RequestPayer
	sse                          types.ServerSideEncryption
	kmsKey                       *string
	role                         url.Values // gocloud's parameters of a role to be assumed
}

// parse reads a URL's parameters; what it does not say comes from c and from the
// variables that delta-rs has beside those of AWS.
func parse(q url.Values, c *blobstore.Config) (*parameters, error) {
	p := &parameters{
		endpoint: c.Endpoint, role: url.Values{},
		requestChecks: "when_required", responseCheck: "when_required",
	}
	if err := p.environment(); err != nil {
		return nil, err
	}
	for name, values := range q {
		if len(values) != 1 {
			return nil, fmt.Errorf("parameter %s is given %d times", name, len(values))
		}
		if err := p.set(name, values[0]); err != nil {
			return nil, err
		}
	}
	return p, p.checkEndpoint()
}

func (p *parameters) environment() error {
	for env, name := range map[string]string{
		"AWS_SKIP_SIGNATURE": "anonymous", "AWS_REQUEST_PAYER": "requester_pays",
		"AWS_SERVER_SIDE_ENCRYPTION": "ssetype", "AWS_SSE_KMS_KEY_ID": "kmskeyid",
	} {
		value := os.Getenv(env)
		if env == "AWS_REQUEST_PAYER" && strings.EqualFold(value, "requester") {
			value = "true"
		}
		if value == "" {
			continue
		}
		if err := p.set(name, value); err != nil {
			return fmt.Errorf("environment variable %s: %w", env, err)
		}
	}
	if value := os.Getenv("AWS_VIRTUAL_HOSTED_STYLE_REQUEST"); value != "" {
		virtual, err := parseBool("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", value)
		if err != nil {
			return err
		}
		p.pathStyle = aws.Bool(!virtual)
	}
	return nil
}

func (p *parameters) set(name, value string) error {
	var err error
	switch name {
	case "region":
		p.region = value
	case "profile":
		p.profile = value
	case "endpoint":
		p.endpoint = value
	case "use_path_style", "s3ForcePathStyle":
		var path bool
		path, err = parseBool(name, value)
		p.pathStyle = &path
	case "anonymous":
		p.anonymous, err = parseBool(name, value)
	case "accelerate":
		p.accelerate, err = parseBool(name, value)
	case "dualstack":
		p.dualstack, err = parseBool(name, value)
	case "fips":
		p.fips, err = parseBool(name, value)
	case "requester_pays":
		var pays bool
		pays, err = parseBool(name, value)
		p.requestPayer = ""
		if pays {
			p.requestPayer = types.RequestPayerRequester
		}
	case "request_checksum_calculation":
		p.requestChecks, err = parseWhen(name, value)
	case "response_checksum_validation":
		p.responseCheck, err = parseWhen(name, value)
	case "ssetype":
		p.sse, err = parseSSE(value)
	case "kmskeyid":
		p.kmsKey = aws.String(value)
	case "role", "role_session_name", "role_external_id", "role_duration", "web_identity_token_file":
		p.role.Set(name, value)
	default:
		return fmt.Errorf("parameter %q of the URL is not known", name)
	}
	return err
}

func parseBool(name, value string) (bool, error) {
	b, err := strconv.ParseBool(strings.ToLower(value))
	if err != nil {
		return false, fmt.Errorf("%s is %q: write true or false", name, value)
	}
	return b, nil
}

func parseWhen(name, value string) (string, error) {
	value = strings.ToLower(value)
	if value != "when_required" && value != "when_supported" {
		return "", fmt.Errorf("%s is %q: write when_required or when_supported", name, value)
	}
	return value, nil
}

func parseSSE(value string) (types.ServerSideEncryption, error) {
	var known []string
	for _, sse := range types.ServerSideEncryption("").Values() {
		if strings.EqualFold(string(sse), value) {
			return sse, nil
		}
		known = append(known, string(sse))
	}
	return "", fmt.Errorf("ssetype is %q: write one of %s", value, strings.Join(known, ", "))
}

func (p *parameters) checkEndpoint() error {
	if p.endpoint == "" {
		return nil
	}
	u, err := url.Parse(p.endpoint)
	switch {
	case err != nil:
		return fmt.Errorf("endpoint: %w", err)
	case u.Scheme != "https" && u.Scheme != "http" || u.Host == "":
		return fmt.Errorf("endpoint %q is not a URL: write https://host, or http://host for plain http", p.endpoint)
	case u.User != nil:
		return errors.New("credentials in the endpoint are not taken: use the environment or a profile")
	case u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("endpoint %q has more than a host and a path", p.endpoint)
	}
	return nil
}

// load makes the SDK's configuration. A role is assumed by gocloud's package,
// whose parameters these are.
func (p *parameters) load(ctx context.Context) (aws.Config, error) {
	var cfg aws.Config
	var err error
	if len(p.role) > 0 {
		q := url.Values{}
		for name := range p.role {
			q.Set(name, p.role.Get(name))
		}
		for name, value := range map[string]string{"region": p.region, "profile": p.profile} {
			if value != "" {
				q.Set(name, value)
			}
		}
		if p.anonymous {
			q.Set("anonymous", "true")
		}
		cfg, err = gcaws.V2ConfigFromURLParams(ctx, q)
	} else {
		cfg, err = config.LoadDefaultConfig(ctx, p.options()...)
	}
	if err != nil {
		return aws.Config{}, fmt.Errorf("configuration of AWS: %w", err)
	}
	cfg.Logger = logging.Nop{}
	cfg.HTTPClient = httpClient(cfg.HTTPClient)
	return cfg, nil
}

func (p *parameters) options() []func(*config.LoadOptions) error {
	opts := []func(*config.LoadOptions) error{config.WithLogger(logging.Nop{})}
	if p.region != "" {
		opts = append(opts, config.WithRegion(p.region))
	}
	if p.profile != "" {
		opts = append(opts, config.WithSharedConfigProfile(p.profile))
	}
	if p.anonymous {
		opts = append(opts, config.WithCredentialsProvider(aws.AnonymousCredentials{}))
	}
	return opts
}

// httpClient is the SDK's transport, with the certificates that the environment
// names, behind a client that follows no redirect.
func httpClient(sdk aws.HTTPClient) aws.HTTPClient {
	buildable, ok := sdk.(*awshttp.BuildableClient)
	if !ok {
		buildable = awshttp.NewBuildableClient()
	}
	t := buildable.GetTransport()
	t.MaxIdleConnsPerHost = 64
	t.MaxIdleConns = 256
	t.IdleConnTimeout = 60 * time.Second
	return &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// client makes a client for a region.
func (p *parameters) client(cfg aws.Config, region string) *awss3.Client {
	return awss3.NewFromConfig(cfg, func(o *awss3.Options) {
		o.Region = region
		o.Retryer = aws.NopRetryer{}
		o.Logger = logging.Nop{}
		o.ClientLogMode = 0
		o.UseAccelerate = p.accelerate
		o.DisableLogOutputChecksumValidationSkipped = true
		if p.dualstack {
			o.EndpointOptions.UseDualStackEndpoint = aws.DualStackEndpointStateEnabled
		}
		if p.fips {
			o.EndpointOptions.UseFIPSEndpoint = aws.FIPSEndpointStateEnabled
		}
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		if p.requestChecks == "when_supported" {
			o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenSupported
		}
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		if p.responseCheck == "when_supported" {
			o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenSupported
		}
		if p.endpoint != "" {
			o.BaseEndpoint = &p.endpoint
		}
		if o.BaseEndpoint != nil {
			o.BaseEndpoint = aws.String(strings.TrimRight(*o.BaseEndpoint, "/"))
		}
		if p.pathStyle != nil {
			o.UsePathStyle = *p.pathStyle
		} else {
			o.UsePathStyle = !isAmazon(o.BaseEndpoint)
		}
	})
}

// isAmazon tells the endpoints of Amazon S3; nil is the SDK's own, which is one.
// NB: not all names of Amazon are its S3: machines (ec2-….amazonaws.com) and load
// balancers have some too, and any store may be behind them. A name of S3 has a
// part "s3", or one that begins with "s3-"; a balancer's owner may choose that.
func isAmazon(endpoint *string) bool {
	if endpoint == nil {
		return true
	}
	u, err := url.Parse(*endpoint)
	if err != nil {
		return false
	}
	host := strings.ToLower(u.Hostname())
	name, ok := strings.CutSuffix(strings.TrimSuffix(host, ".cn"), ".amazonaws.com")
	parts := strings.Split(name, ".")
	return ok && !slices.Contains(parts, "elb") && slices.ContainsFunc(parts, func(part string) bool {
		return part == "s3" || strings.HasPrefix(part, "s3-")
	})
}
