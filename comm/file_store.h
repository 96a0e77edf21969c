// OpenFileStore: a Store in a folder that all processes see, on one machine or on a network file system.
//
// Each value is a file, written beside and renamed into place; each counter a file under a lock. Waiting
// looks at the folder every few milliseconds. The folder must be fresh for each run: what an earlier run left
// is found again.
#ifndef ARMATURE_COMM_FILE_STORE_H_
#define ARMATURE_COMM_FILE_STORE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "armature/comm/store.h"

namespace armature {
namespace comm {

// Makes the folder if it is absent; its parent must exist. Errors: Unavailable naming the folder.
absl::StatusOr<std::shared_ptr<Store>> OpenFileStore(absl::string_view folder);

}  // namespace comm
}  // namespace armature

#endif  // ARMATURE_COMM_FILE_STORE_H_
