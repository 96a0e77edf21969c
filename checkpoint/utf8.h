// UTF-8 validity of text that comes from files and goes into them.
#ifndef ARMATURE_CHECKPOINT_UTF8_H_
#define ARMATURE_CHECKPOINT_UTF8_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace armature {

// The index of the first byte that is not part of a well-formed sequence, or -1 if all are. Overlong forms,
// surrogates and code points over U+10FFFF are ill-formed.
//
// Reference: The Unicode Standard, table 3-7.
int64_t FindInvalidUtf8(absl::string_view text);

}  // namespace armature

#endif  // ARMATURE_CHECKPOINT_UTF8_H_
