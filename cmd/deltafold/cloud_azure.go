//go:build !noazure

package main

import _ "github.com/deltafold/deltafold/blobstore/azure" // azblob://, az://, abfss://
