package azure

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"

	"github.com/deltafold/deltafold/blobstore/internal/remote"
)

// mostParts is how many blocks a blob has at most.
const mostParts = 50_000

// upload is a block blob being staged. Blocks wait under the blob's name until a
// list of them is committed; those of one upload begin with its own random bytes,
// so that two uploads of one name do not mix.
type upload struct {
	client *blockblob.Client
	id     [16]byte
}

// StartUpload is [remote.Bucket]'s. It makes no request.
func (b *bucket) StartUpload(_ context.Context, key string) (remote.Upload, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	u := &upload{client: b.client.NewBlockBlobClient(key)}
	if _, err := rand.Read(u.id[:]); err != nil {
		return nil, refusal("random bytes: %w", err)
	}
	return u, nil
}

// block is the name of a block: all those of a blob must be of one length.
func (u *upload) block(number int) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(u.id[:], uint32(number)))
}

// Part is [remote.Upload]'s.
func (u *upload) Part(ctx context.Context, number int, data []byte) error {
	if number > mostParts {
		return refusal("more than %d parts", mostParts)
	}
	o := &blockblob.StageBlockOptions{TransactionalValidation: checksum(data)}
	if _, err := u.client.StageBlock(ctx, u.block(number), streaming.NopCloser(bytes.NewReader(data)), o); err != nil {
		return opUpload.failed(err)
	}
	return nil
}

// Complete is [remote.Upload]'s. It may be repeated: blocks that are part of the
// blob already are found there.
func (u *upload) Complete(ctx context.Context, parts int) error {
	blocks := make([]string, parts)
	for i := range blocks {
		blocks[i] = u.block(i + 1)
	}
	if _, err := u.client.CommitBlockList(ctx, blocks, nil); err != nil {
		return opUpload.failed(err)
	}
	return nil
}

// Abort is [remote.Upload]'s. It makes no request: Azure cannot drop blocks that
// were not committed, hides them, and drops them itself after a week.
func (u *upload) Abort(context.Context) error { return nil }
