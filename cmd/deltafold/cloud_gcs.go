//go:build !nogcs

package main

import _ "github.com/deltafold/deltafold/blobstore/gcs" // gs://
