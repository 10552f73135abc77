package filestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/blobstore/internal/driver"
)

// scripted is the operating system with errors: err[call] is what that call
// answers, after it was carried out if done[call].
type scripted struct {
	err  map[string]error
	done map[string]bool
	hook func(call string)
	FS
}

func (s *scripted) call(name string, do func() error) error {
	if s.hook != nil {
		s.hook(name)
	}
	if err := s.err[name]; err != nil {
		if s.done[name] {
			if derr := do(); derr != nil {
				return derr
			}
		}
		return err
	}
	return do()
}

func (s *scripted) Mkdir(path string) error {
	return s.call("mkdir", func() error { return s.FS.Mkdir(path) })
}

func (s *scripted) Create(path string) (f File, err error) {
	err = s.call("create", func() (err error) {
		f, err = s.FS.Create(path)
		return err
	})
	return scriptedFile{s, f}, err
}

func (s *scripted) Link(from, to string) error {
	return s.call("link", func() error { return s.FS.Link(from, to) })
}

func (s *scripted) RenameNoReplace(from, to string) error {
	return s.call("renameat2", func() error { return s.FS.RenameNoReplace(from, to) })
}

func (s *scripted) Rename(from, to string) error {
	return s.call("rename", func() error { return s.FS.Rename(from, to) })
}

func (s *scripted) SyncDir(path string) error {
	return s.call("syncdir", func() error { return s.FS.SyncDir(path) })
}

type scriptedFile struct {
	s *scripted
	File
}

func (f scriptedFile) Write(p []byte) (n int, err error) {
	if f.s.err["write"] != nil { // half of it, as on a full disk
		if n, err = f.File.Write(p[:len(p)/2]); err != nil {
			return n, err
		}
		return n, f.s.err["write"]
	}
	return f.File.Write(p)
}

func (f scriptedFile) Sync() error { return f.s.call("sync", f.File.Sync) }

func (f scriptedFile) Close() error {
	return errors.Join(f.s.err["close"], f.File.Close())
}

// contents is every file below root, hidden ones too.
func contents(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		out[strings.TrimPrefix(path, root+"/")] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func errs(pairs ...any) map[string]error {
	out := map[string]error{}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i].(string)] = pairs[i+1].(error)
	}
	return out
}

// After whatever failure a Create leaves its whole object or nothing, temporary
// files included, and its outcome says which, or Unknown.
func TestCreateFails(t *testing.T) {
	const ours = "ours"
	all, none := map[string]string{"d/k": ours}, map[string]string{}
	link := &os.LinkError{Op: "link", Err: syscall.EIO}
	for _, c := range []struct {
		name string
		err  map[string]error
		done []string
		want driver.Outcome
		left map[string]string
	}{
		{"no folder", errs("mkdir", syscall.EROFS), nil, driver.NotDone, none},
		{"folder's entry not durable", errs("syncdir", syscall.EIO), nil, driver.NotDone, none},
		{"no temporary", errs("create", syscall.EMFILE), nil, driver.NotDone, none},
		{"disk full", errs("write", syscall.ENOSPC), nil, driver.NotDone, none},
		{"disk full at fsync", errs("sync", syscall.ENOSPC), nil, driver.NotDone, none},
		{"bad disk at fsync", errs("sync", syscall.EIO), nil, driver.NotDone, none},
		{"bad disk at close", errs("close", syscall.EIO), nil, driver.NotDone, none},
		{"disk full at link", errs("link", syscall.ENOSPC), nil, driver.NotDone, none},
		{"folder gone at link", errs("link", syscall.ENOENT), nil, driver.NotDone, none},
		{"bad disk at link", errs("link", link), nil, driver.Unknown, none},
		{"link done, answer lost", errs("link", link), []string{"link"}, driver.Created, all},
		{"link repeated after a signal", errs("link", syscall.EEXIST), []string{"link"}, driver.Created, all},
		{"no links: EPERM", errs("link", syscall.EPERM), nil, driver.Created, all},
		{"no links: ENOTSUP", errs("link", syscall.ENOTSUP), nil, driver.Created, all},
		{"no links: EXDEV", errs("link", syscall.EXDEV), nil, driver.Created, all},
		{"no links: EMLINK", errs("link", syscall.EMLINK), nil, driver.Created, all},
		{"no links: ENOSYS", errs("link", syscall.ENOSYS), nil, driver.Created, all},
		{"neither", errs("link", syscall.EPERM, "renameat2", syscall.EINVAL), nil, driver.NotDone, none},
		{"renameat2 fails", errs("link", syscall.EPERM, "renameat2", syscall.EIO), nil, driver.Unknown, none},
		{
			"renameat2 done, answer lost", errs("link", syscall.EPERM, "renameat2", syscall.EIO),
			[]string{"renameat2"},
			driver.Created, all,
		},
		{"published, not durable", errs("syncdir", syscall.EIO), nil, driver.Unknown, all},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir() + "/root"
			fs := &scripted{err: c.err, done: map[string]bool{}, FS: OS()}
			for _, d := range c.done {
				fs.done[d] = true
			}
			s := New(root, fs)
			if c.name == "published, not durable" { // the folders are made, so that this fsync is the first
				if err := New(root, OS()).makeDir(root + "/d"); err != nil {
					t.Fatal(err)
				}
				s.durable[root+"/d"] = true
			}
			got, err := s.Create(t.Context(), "d/k", []byte(ours))
			if got != c.want || (err == nil) != (c.want == driver.Created) {
				t.Errorf("got %s, %v; want %s", got, err, c.want)
			}
			if diff := cmp.Diff(c.left, contents(t, root)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			if c.name == "neither" && !strings.Contains(err.Error(), fileSystem(root+"/d/k")) {
				t.Errorf("error does not name the file system: %v", err)
			}
		})
	}
}

// A name that is taken between the look and the publishing call is not replaced,
// by either call.
func TestCreateLosesLate(t *testing.T) {
	for _, way := range []string{"link", "renameat2"} {
		root := t.TempDir()
		fs := &scripted{FS: OS()}
		if way == "renameat2" {
			fs.err = errs("link", syscall.EPERM)
		}
		fs.hook = func(call string) {
			if call == way {
				if err := os.WriteFile(root+"/k", []byte("theirs"), 0o666); err != nil {
					t.Error(err)
				}
			}
		}
		got, err := New(root, fs).Create(t.Context(), "k", []byte("ours"))
		if got != driver.Exists || err != nil {
			t.Errorf("%s: got %s, %v", way, got, err)
		}
		if diff := cmp.Diff(map[string]string{"k": "theirs"}, contents(t, root)); diff != "" {
			t.Errorf("%s: files (-want +got):\n%s", way, diff)
		}
	}
}

// Existing is told only when it is durable: it may be our own earlier attempt.
func TestExistsIsDurable(t *testing.T) {
	root := t.TempDir()
	fs := &scripted{FS: OS()}
	s := New(root, fs)
	if got, err := s.Create(t.Context(), "k", nil); got != driver.Created {
		t.Fatal(got, err)
	}
	fs.err = errs("syncdir", syscall.EIO)
	if got, err := s.Create(t.Context(), "k", nil); got != driver.Unknown || err == nil {
		t.Errorf("got %s, %v", got, err)
	}
}

// A context that ends before the publishing call stops it; one that ends at it
// or later does not change what is answered.
func TestCreateCancelled(t *testing.T) {
	for call, want := range map[string]driver.Outcome{
		"create": driver.NotDone, "sync": driver.NotDone, "link": driver.Created, "syncdir": driver.Created,
	} {
		root := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		fs := &scripted{FS: OS()}
		s := New(root, fs)
		if err := s.makeDir(root); err != nil {
			t.Fatal(err)
		}
		fs.hook = func(c string) {
			if c == call {
				cancel()
			}
		}
		got, err := s.Create(ctx, "k", []byte("x"))
		if got != want || want == driver.NotDone != errors.Is(err, context.Canceled) {
			t.Errorf("cancelled at %s: got %s, %v; want %s", call, got, err, want)
		}
		left := map[string]string{}
		if want == driver.Created {
			left["k"] = "x"
		}
		if diff := cmp.Diff(left, contents(t, root)); diff != "" {
			t.Errorf("cancelled at %s: files (-want +got):\n%s", call, diff)
		}
		cancel()
	}
}

// A failed Put or writer leaves the old object and no temporary.
func TestPutFails(t *testing.T) {
	for _, call := range []string{"create", "write", "sync", "close", "rename"} {
		root := t.TempDir()
		if err := os.WriteFile(root+"/k", []byte("old"), 0o666); err != nil {
			t.Fatal(err)
		}
		s := New(root, &scripted{err: errs(call, syscall.ENOSPC), FS: OS()})
		if err := s.Put(t.Context(), "k", []byte("new one")); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s: %v", call, err)
		}
		if diff := cmp.Diff(map[string]string{"k": "old"}, contents(t, root)); diff != "" {
			t.Errorf("%s: files (-want +got):\n%s", call, diff)
		}
	}
}

// A folder that somebody removed after the store had made it is made again.
func TestFolderRemoved(t *testing.T) {
	root := t.TempDir() + "/root"
	s := New(root, OS())
	for range 2 {
		if err := s.Put(t.Context(), "a/b/k", []byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(root); err != nil {
			t.Fatal(err)
		}
	}
}

func TestListHidesTemporaries(t *testing.T) {
	root := t.TempDir()
	s := New(root, OS())
	w, err := s.NewWriter(t.Context(), "d/new")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(root+"/d/.deltafold-tmp-of-a-dead-process", nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for info, err := range s.List(t.Context(), "", "") {
		t.Errorf("listed: %+v, %v", info, err)
	}
	if err := w.Abort(); err != nil {
		t.Fatal(err)
	}
}

// A listing of the log opens the log's folder and no other; one from a key on
// opens no folder below it.
func TestListIsLazy(t *testing.T) {
	root := t.TempDir()
	s := New(root, OS())
	for i := range 10 {
		for _, key := range []string{fmt.Sprintf("_delta_log/%020d.json", i), fmt.Sprintf("p=%d/q/f", i)} {
			if err := s.Put(t.Context(), key, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	var opened []string
	s.readDir = func(path string) ([]os.DirEntry, error) {
		opened = append(opened, strings.TrimPrefix(path, root))
		return os.ReadDir(path)
	}
	for _, c := range []struct {
		prefix, from string
		keys         int
		opened       []string
	}{
		{"_delta_log/", "", 10, []string{"/_delta_log/"}},
		{"_delta_log/", "_delta_log/00000000000000000005", 5, []string{"/_delta_log/"}},
		{"_delta_log/0000", "_delta_log/00000000000000000005", 5, []string{"/_delta_log/"}},
		{"_delta_log", "", 10, []string{"/", "/_delta_log/"}},
		{"p=3", "", 1, []string{"/", "/p=3/", "/p=3/q/"}},
		{"", "p=8/q/e", 2, []string{"/", "/p=8/", "/p=8/q/", "/p=9/", "/p=9/q/"}},
		{"", "p=8/q/g", 1, []string{"/", "/p=8/", "/p=8/q/", "/p=9/", "/p=9/q/"}},
		{"", "p=8/r", 1, []string{"/", "/p=8/", "/p=9/", "/p=9/q/"}},
	} {
		opened = nil
		n := 0
		for _, err := range s.List(t.Context(), c.prefix, c.from) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if diff := cmp.Diff(c.opened, opened); diff != "" || n != c.keys {
			t.Errorf("List(%q, %q): %d keys, want %d; folders (-want +got):\n%s", c.prefix, c.from, n, c.keys, diff)
		}
	}
}

func TestListSymlinks(t *testing.T) {
	root := t.TempDir()
	outside := t.TempDir()
	for path, data := range map[string]string{root + "/a": "1", outside + "/x": "12"} {
		if err := os.WriteFile(path, []byte(data), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"file": outside + "/x", "folder": outside, "nothing": root + "/none"} {
		if err := os.Symlink(to, root+"/"+name); err != nil {
			t.Fatal(err)
		}
	}
	got := map[string]int64{}
	for info, err := range New(root, OS()).List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		got[info.Key] = info.Size
	}
	if diff := cmp.Diff(map[string]int64{"a": 1, "file": 2}, got); diff != "" {
		t.Errorf("listing (-want +got):\n%s", diff)
	}
}

// A real full disk, where the test may mount one.
func TestDiskFull(t *testing.T) {
	root := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", root).CombinedOutput(); err != nil {
		t.Skipf("cannot mount a small tmpfs: %v: %s", err, out)
	}
	defer func() {
		if out, err := exec.Command("umount", root).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	}()
	s := New(root, OS())
	if err := s.Put(t.Context(), "k", []byte("old")); err != nil {
		t.Fatal(err)
	}
	big := make([]byte, 1<<20)
	if got, err := s.Create(t.Context(), "big", big); got != driver.NotDone || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Create: %s, %v", got, err)
	}
	if err := s.Put(t.Context(), "k", big); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Put: %v", err)
	}
	if diff := cmp.Diff(map[string]string{"k": "old"}, contents(t, root)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if got, err := s.Create(t.Context(), "small", []byte("fits")); got != driver.Created {
		t.Errorf("Create after a full disk: %s, %v", got, err)
	}
}
