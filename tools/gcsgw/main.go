// Command gcsgw is a GCS server for tests: fake-gcs-server, in memory or over a
// folder.
//
//	gcsgw [--root DIR] [--listen 127.0.0.1:0]
//
// NB: over a folder, fake-gcs-server cleans the names of objects as paths: names
// with // or .. are other objects there. In memory it keeps them as they are.
//
// It prints the address it listens on as the first line of its standard output
// and ends at SIGTERM, or when its standard input closes: a server whose test was
// killed does not stay behind. It takes any credentials, and none.
//
// It is a module of its own, so that fake-gcs-server's dependencies are not
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
	"strconv"
	"syscall"
	"time"

	"github.com/fsouza/fake-gcs-server/fakestorage"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "gcsgw:", err)
		os.Exit(1)
	}
}

func run() error {
	listen := flag.String("listen", "127.0.0.1:0", "address; port 0 takes a free one")
	root := flag.String("root", "", "folder of the buckets; default: in memory")
	flag.Parse()
	if flag.NArg() > 0 {
		return errors.New("want no arguments")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the parent is gone
		stop()
	}()
	address, err := serve(*listen, *root)
	if err != nil {
		return err
	}
	fmt.Println(address)
	<-ctx.Done()
	return nil
}

// serve starts the server and returns its address. The server must know its
// address before it has it, for the URLs in its answers, so a free port is looked
// for first; if it is taken in between, another one is tried.
func serve(listen, root string) (string, error) {
	for try := 0; ; try++ {
		address, err := free(listen)
		if err != nil {
			return "", err
		}
		host, text, err := net.SplitHostPort(address)
		if err != nil {
			return "", err
		}
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return "", err
		}
		_, err = fakestorage.NewServerWithOptions(fakestorage.Options{
			Scheme: "http", Host: host, Port: uint16(port),
			StorageRoot: root, PublicHost: address, ExternalURL: "http://" + address,
		})
		if try < 10 && errors.Is(err, syscall.EADDRINUSE) {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		return address, err
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
