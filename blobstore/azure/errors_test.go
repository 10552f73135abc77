package azure

import (
	"fmt"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/google/go-cmp/cmp"

	"github.com/deltafold/deltafold/blobstore/internal/remote"
)

// The codes that Azure documents for what we ask, with their status.
func TestClasses(t *testing.T) {
	want, got := map[string]remote.Class{}, map[string]remote.Class{}
	for _, c := range []struct {
		op     operation
		status int
		code   bloberror.Code
		want   remote.Class
	}{
		{opCreate, 409, bloberror.BlobAlreadyExists, remote.Exists},
		{opCreate, 412, bloberror.ConditionNotMet, remote.Exists},
		{opCreate, 412, bloberror.TargetConditionNotMet, remote.Exists},
		{opCreate, 403, bloberror.UnauthorizedBlobOverwrite, remote.Exists},
		{opCreate, 412, bloberror.LeaseIDMissing, remote.Refused},
		{opCreate, 412, bloberror.LeaseIDMismatchWithBlobOperation, remote.Refused},
		{opCreate, 409, bloberror.BlobImmutableDueToPolicy, remote.Refused},
		{opCreate, 409, bloberror.SystemInUse, remote.Conflict},
		{opCreate, 409, "", remote.Conflict},
		{opCreate, 404, bloberror.ContainerNotFound, remote.Refused},
		{opCreate, 404, bloberror.BlobNotFound, remote.Refused},
		{opCreate, 409, bloberror.ContainerBeingDeleted, remote.Refused},
		{opCreate, 403, bloberror.AuthenticationFailed, remote.Refused},
		{opCreate, 403, bloberror.AuthorizationPermissionMismatch, remote.Refused},
		{opCreate, 401, bloberror.NoAuthenticationInformation, remote.Refused},
		{opCreate, 401, bloberror.InvalidAuthenticationInfo, remote.Expired},
		{opCreate, 400, bloberror.MD5Mismatch, remote.Unclear},
		{opCreate, 400, bloberror.InvalidInput, remote.Refused},
		{opCreate, 408, "", remote.Unclear},
		{opCreate, 413, bloberror.RequestBodyTooLarge, remote.Refused},
		{opCreate, 429, "", remote.Throttled},
		{opCreate, 500, bloberror.InternalError, remote.Unclear},
		{opCreate, 500, bloberror.OperationTimedOut, remote.Unclear},
		{opCreate, 500, "FeatureNotSupported", remote.Refused},
		{opCreate, 502, "", remote.Unclear},
		{opCreate, 503, bloberror.ServerBusy, remote.Throttled},
		{opCreate, 503, "", remote.Unclear},
		{opCreate, 307, "", remote.Refused},
		{opPut, 409, bloberror.BlobAlreadyExists, remote.Conflict},
		{opPut, 412, bloberror.ConditionNotMet, remote.Refused},
		{opPut, 412, bloberror.LeaseIDMissing, remote.Refused},
		{opGet, 404, bloberror.BlobNotFound, remote.NotFound},
		{opGet, 404, bloberror.ContainerNotFound, remote.Refused},
		{opGet, 404, "", remote.Refused},
		{opGet, 412, bloberror.ConditionNotMet, remote.Changed},
		{opGet, 409, bloberror.BlobArchived, remote.Refused},
		{opHead, 404, bloberror.BlobNotFound, remote.NotFound},
		{opHead, 404, "", remote.NotFound},
		{opHead, 404, bloberror.ContainerNotFound, remote.Refused},
		{opDelete, 404, bloberror.BlobNotFound, remote.NotFound},
		{opDelete, 409, bloberror.SnapshotsPresent, remote.Refused},
		{opList, 404, bloberror.ContainerNotFound, remote.Refused},
		{opUpload, 404, bloberror.BlobNotFound, remote.Refused},
		{opUpload, 400, bloberror.InvalidBlockList, remote.Refused},
	} {
		name := fmt.Sprint(c.op, " ", c.status, " ", c.code)
		want[name], got[name] = c.want, classOf(c.op, c.status, c.code)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
