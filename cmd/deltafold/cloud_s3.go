//go:build !nos3

package main

import _ "github.com/deltafold/deltafold/blobstore/s3" // s3://, s3a://
