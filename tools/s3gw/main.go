// Command s3gw is an S3 server for tests: the gateway of versitygw over a folder,
// in which a bucket is a folder and an object a file.
//
//	AWS_ACCESS_KEY_ID=… AWS_SECRET_ACCESS_KEY=… s3gw --root DIR [--listen 127.0.0.1:0] [--sidecar DIR] [--remove]
//
// It prints the address it listens on as the first line of its standard output
// and ends at SIGTERM, or when its standard input closes: a server whose test was
// killed does not stay behind. What objects were there is there again after a
// restart, whatever the end was.
//
// It is a module of its own, so that versitygw's many dependencies are not
// deltafold's.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
	"github.com/versity/versitygw/s3api"
)

// copyLimit is S3's own limit on the object that CopyObject takes. NB: without it
// versitygw refuses to copy anything, and Spark renames by copying.
const copyLimit = 5 << 30

// grace is what open requests get when the server is told to end.
const grace = 2 * time.Second

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "s3gw:", err)
		os.Exit(1)
	}
}

func run() error {
	listen := flag.String("listen", "127.0.0.1:0", "address; port 0 takes a free one")
	root := flag.String("root", "", "folder of the buckets")
	remove := flag.Bool("remove", false, "remove root at the end, unless killed")
	sidecar := flag.String("sidecar", "", "folder for what objects carry; default: extended attributes, or beside root where there are none")
	flag.Parse()
	if *root == "" || flag.NArg() > 0 {
		return errors.New("want --root DIR and no arguments")
	}
	// versitygw prints on standard output, whose first line is the address.
	out := os.Stdout
	os.Stdout = os.Stderr

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the parent is gone
		stop()
	}()
	ended := make(chan error, 1)
	go func() {
		backend, err := open(*root, *sidecar)
		if err == nil {
			err = serve(ctx, backend, *listen, out)
		}
		ended <- err
	}()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		select {
		case err = <-ended:
		case <-time.After(grace):
		}
	}
	if *remove {
		err = errors.Join(err, os.RemoveAll(*root), os.RemoveAll(beside(*root)))
	}
	return err
}

// open makes the storage over root: with extended attributes if its file system
// has them, else with files in sidecar.
func open(root, sidecar string) (*posix.Posix, error) {
	if sidecar == "" {
		if err := probe(root); err == nil {
			return posix.New(root, meta.XattrMeta{}, posix.PosixOpts{CopyObjectThreshold: copyLimit})
		}
		sidecar = beside(root)
	}
	if err := os.MkdirAll(sidecar, 0o755); err != nil {
		return nil, err
	}
	store, err := meta.NewSideCar(sidecar)
	if err != nil {
		return nil, err
	}
	return posix.New(root, store, posix.PosixOpts{SideCarDir: sidecar, CopyObjectThreshold: copyLimit})
}

// beside is the sidecar's folder. Its path must not begin with that of root.
func beside(root string) string {
	return filepath.Join(filepath.Dir(root), "meta."+filepath.Base(root))
}

// probe tells whether files below root take extended attributes of users.
// XattrMeta.Test only reads one, which some file systems answer and then refuse
// to store.
func probe(root string) error {
	f, err := os.CreateTemp(root, ".probe-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	return meta.XattrMeta{}.StoreAttribute(f, "", "", "probe", []byte("1"))
}

// serve runs the gateway until ctx ends and prints its address on out once it
// takes connections. versitygw opens its listener itself, by address, so a free
// port is looked for first; if it is taken in between, another one is tried.
func serve(ctx context.Context, backend *posix.Posix, listen string, out io.Writer) error {
	for try := 0; ; try++ {
		address, err := free(listen)
		if err != nil {
			return err
		}
		err = embedgw.RunVersityGW(ctx, backend, &embedgw.Config{
			RootUserAccess:    os.Getenv("AWS_ACCESS_KEY_ID"),
			RootUserSecret:    os.Getenv("AWS_SECRET_ACCESS_KEY"),
			Region:            os.Getenv("AWS_REGION"),
			Ports:             []string{address},
			MaxConnections:    4096,
			MaxRequests:       4096,
			MultipartMaxParts: 10000,
			Quiet:             true,
			KeepAlive:         true,
			S3Options:         []s3api.Option{s3api.WithOnListen(func() { fmt.Fprintln(out, address) })},
		})
		if ctx.Err() != nil {
			return nil
		}
		if try < 10 && errors.Is(err, syscall.EADDRINUSE) {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		return err
	}
}

// free replaces port 0 by one that is free now.
func free(listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil || port != "0" {
		return listen, err
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
