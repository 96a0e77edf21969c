// ARMATURE_RETURN_IF_ERROR and ARMATURE_ASSIGN_OR_RETURN keep the happy path straight:
//
//   absl::StatusOr<Header> ReadHeader(FileSystem& files, const std::string& path) {
//     ARMATURE_ASSIGN_OR_RETURN(std::string bytes, files.Read(path));
//     ARMATURE_RETURN_IF_ERROR(CheckMagic(bytes), "token file ", path);
//     ...
//   }
//
// Arguments after the first are context: on an error they are joined and put before its message ("token file
// a.tok: bad magic"). Add context where it is known and only once. The context is not evaluated into a string
// on success.
#ifndef ARMATURE_BASE_STATUS_MACROS_H_
#define ARMATURE_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace armature {

// AddContext returns `status` with "context: " before its message; an OK status stays OK.
template <typename... Context>
absl::Status AddContext(absl::Status status, const Context&... context) {
  if constexpr (sizeof...(context) > 0) {
    if (!status.ok()) return absl::Status(status.code(), absl::StrCat(context..., ": ", status.message()));
  }
  return status;
}

template <typename T, typename... Context>
absl::StatusOr<T> AddContext(absl::StatusOr<T> result, const Context&... context) {
  if constexpr (sizeof...(context) > 0) {
    if (!result.ok()) return AddContext(result.status(), context...);
  }
  return result;
}

}  // namespace armature

#define ARMATURE_RETURN_IF_ERROR(...)                                    \
  do {                                                                   \
    absl::Status armature_status_ = ::armature::AddContext(__VA_ARGS__); \
    if (!armature_status_.ok()) return armature_status_;                 \
  } while (false)

// `lhs` may declare a variable. A type with a comma in it needs `auto`.
#define ARMATURE_ASSIGN_OR_RETURN(lhs, ...) \
  ARMATURE_ASSIGN_OR_RETURN_(ARMATURE_CONCAT_(armature_result_, __LINE__), lhs, __VA_ARGS__)

#define ARMATURE_ASSIGN_OR_RETURN_(result, lhs, ...)   \
  auto result = ::armature::AddContext(__VA_ARGS__);   \
  if (!result.ok()) return std::move(result).status(); \
  lhs = *std::move(result)

#define ARMATURE_CONCAT_(a, b) ARMATURE_CONCAT_EXPANDED_(a, b)
#define ARMATURE_CONCAT_EXPANDED_(a, b) a##b

#endif  // ARMATURE_BASE_STATUS_MACROS_H_
