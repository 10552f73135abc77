package storeserver

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// started is the environment at the start of this process: tests may set
// XDG_CACHE_HOME later, and neither the servers nor Go's build cache move then.
var started = os.Environ()

// folder is where servers are; its error is reported by whoever asks for one.
var folder, errFolder = serversFolder()

// serversFolder is where servers are built and installed.
func serversFolder() (string, error) {
	if folder := os.Getenv("DELTAFOLD_SERVERS"); folder != "" {
		return filepath.Abs(folder)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "deltafold-servers"), nil
}

// toolsFolder is the folder tools of this repository, looked for from the folder
// of the running test upwards.
func toolsFolder() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		tools := filepath.Join(dir, "tools")
		if _, err := os.Stat(filepath.Join(tools, "s3gw", "go.mod")); err == nil {
			return tools, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no folder above this one has tools/s3gw")
		}
		dir = parent
	}
}

// build returns the program of a gateway in tools, compiled if there is none of
// that source, toolchain and machine yet. Test binaries that run at once wait
// for the first of them.
func build(name string) ([]string, error) {
	tools, err := toolsFolder()
	if err != nil {
		return nil, err
	}
	source := filepath.Join(tools, name)
	key, err := sourceKey(source)
	if err != nil {
		return nil, err
	}
	if errFolder != nil {
		return nil, errFolder
	}
	program := filepath.Join(folder, name+"-"+key)
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	if _, err := os.Stat(program); err == nil {
		return []string{program}, nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	unlock, err := lock(filepath.Join(folder, name+".lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	if _, err := os.Stat(program); err == nil {
		return []string{program}, nil
	}
	if err := compile(source, program); err != nil {
		return nil, err
	}
	return []string{program}, nil
}

// compile runs go build; the program appears whole or not at all.
func compile(source, program string) error {
	unfinished := program + ".unfinished"
	command := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", unfinished, ".")
	command.Dir = source
	command.Env = append(slices.Clone(started), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	said, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("go build in %s: %w\n%s", source, err, strings.TrimSpace(string(said)))
	}
	return os.Rename(unfinished, program)
}

// sourceKey names what a program is made of.
func sourceKey(source string) (string, error) {
	files, err := fs.Glob(os.DirFS(source), "*")
	if err != nil {
		return "", err
	}
	slices.Sort(files)
	sum := sha256.New()
	fmt.Fprintln(sum, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return "", err
		}
		fmt.Fprintln(sum, name, len(text))
		sum.Write(text)
	}
	return fmt.Sprintf("%.8x", sum.Sum(nil)), nil
}
