package remote

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/blobstore/internal/driver"
)

// liar is a bucket whose answers are not what they say.
type liar struct {
	*fake
	size   int64             // of every object, as Get says
	tokens map[string]string // of the listing's next page, by that of this page
}

func (l *liar) Get(context.Context, string, driver.Range, string) (io.ReadCloser, driver.Info, error) {
	return io.NopCloser(strings.NewReader("0123456789")), driver.Info{Size: l.size}, nil
}

func (l *liar) List(_ context.Context, _, _, token string) ([]driver.Info, string, error) {
	return nil, l.tokens[token], nil
}

// A size that a server says is an error if it is not so, and not memory.
func TestSizesAreNotTrusted(t *testing.T) {
	for size, want := range map[int64]string{
		1 << 62: "10 of 4611686018427387904 bytes arrived", 1 << 45: "10 of 35184372088832 bytes arrived", -9: "has -9 bytes",
	} {
		s, _ := testStore(t, nil, nil)
		s.b, s.o.Attempts = &liar{fake: newFake(), size: size}, 1
		if _, err := s.Read(t.Context(), "k", 0, -1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("size %d: %v, want %q", size, err, want)
		}
		if _, err := s.Read(t.Context(), "k", -1<<62, -1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("size %d, from the end: %v, want %q", size, err, want)
		}
	}
}

// What is larger than is trusted at first arrives all the same.
func TestReadAllGrows(t *testing.T) {
	for _, size := range []int{0, 1, trusted, trusted + 1, 2*trusted + 3, 4*trusted + 5} {
		data := bytes.Repeat([]byte("0123456"), size/7+1)[:size]
		got, err := readAll(bytes.NewReader(data), int64(size))
		if err != nil || !bytes.Equal(got, data) || cap(got) != size {
			t.Errorf("%d bytes: got %d of cap %d, %v", size, len(got), cap(got), err)
		}
	}
}

// A listing whose pages come in a ring ends.
func TestListingInARingEnds(t *testing.T) {
	for name, tokens := range map[string]map[string]string{
		"one":           {"": "1", "1": "1"},
		"two":           {"": "1", "1": "2", "2": "1"},
		"not the first": {"": "1", "1": "2", "2": "3", "3": "4", "4": "5", "5": "3"},
	} {
		s, _ := testStore(t, nil, nil)
		s.b = &liar{fake: newFake(), tokens: tokens}
		var errs []string
		for _, err := range s.List(t.Context(), "", "") {
			errs = append(errs, err.Error())
		}
		if diff := cmp.Diff([]string{"the store gives the same page of the listing again"}, errs); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
