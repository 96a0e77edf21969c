#include "armature/tensor/cpu/copy_kernels.h"

#include <cstring>

#include "armature/tensor/cpu/cpu_stream.h"
#include "armature/tensor/cpu/grain.h"

namespace armature {
namespace cpu {

absl::Status CopyBlocks(Stream& stream, const CopyBlocksArgs& args) {
  const int64_t size = SizeOf(args.dtype), block_bytes = args.block * size;
  const char* x = static_cast<const char*>(args.x);
  char* y = static_cast<char*>(args.y);
  const auto copy = [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; ++at) {
      const int64_t i = at / args.inner, j = at % args.inner;
      std::memcpy(y + (i * args.y_outer + j * args.y_inner) * size,
                  x + (i * args.x_outer + j * args.x_inner) * size, block_bytes);
    }
  };
  if (block_bytes > 0)
    CpuStream::Team(stream).ParallelFor(args.outer * args.inner, GrainOf(args.block), copy);
  return absl::OkStatus();
}

}  // namespace cpu
}  // namespace armature
