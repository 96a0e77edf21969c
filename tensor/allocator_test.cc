#include "armature/tensor/allocator.h"

#include <cstdint>
#include <cstring>

#include "armature/base/status_matchers.h"

namespace armature {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Allocator, CountsWhatWasAskedForByCategory) {
  Allocator allocator(HostMemory());
  ASSERT_OK_AND_ASSIGN(void* weights, allocator.Allocate(1000, MemoryCategory::kParameters));
  ASSERT_OK_AND_ASSIGN(void* x, allocator.Allocate(77, MemoryCategory::kActivations));
  EXPECT_EQ(allocator.counters(MemoryCategory::kParameters).live_bytes, 1000);
  EXPECT_EQ(allocator.total().live_bytes, 1077);
  allocator.Free(x, 77, MemoryCategory::kActivations);
  EXPECT_EQ(allocator.counters(MemoryCategory::kActivations).live_bytes, 0);
  EXPECT_EQ(allocator.counters(MemoryCategory::kActivations).peak_bytes, 77);
  allocator.ResetPeaks();
  EXPECT_EQ(allocator.total().peak_bytes, 1000);
  allocator.Free(weights, 1000, MemoryCategory::kParameters);
}

TEST(Allocator, ReusesFreedBlocks) {
  Allocator allocator(HostMemory());
  ASSERT_OK_AND_ASSIGN(void* first, allocator.Allocate(5000, MemoryCategory::kOther));
  allocator.Free(first, 5000, MemoryCategory::kOther);
  const int64_t reserved = allocator.reserved_bytes();
  ASSERT_OK_AND_ASSIGN(void* second, allocator.Allocate(5001, MemoryCategory::kOther));
  EXPECT_EQ(first, second);
  EXPECT_EQ(allocator.reserved_bytes(), reserved);
  allocator.Free(second, 5001, MemoryCategory::kOther);
  allocator.ReleaseCached();
  EXPECT_EQ(allocator.reserved_bytes(), 0);
}

TEST(Allocator, AddressesAreAlignedAndZeroBytesAreFine) {
  Allocator allocator(HostMemory());
  for (int64_t bytes : {0, 1, 63, 513, 4 << 20}) {
    ASSERT_OK_AND_ASSIGN(void* data, allocator.Allocate(bytes, MemoryCategory::kOther));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 64, 0u);
    std::memset(data, 1, bytes);
    allocator.Free(data, bytes, MemoryCategory::kOther);
  }
}

TEST(Allocator, LimitGivesResourceExhaustedWithTheCounters) {
  Allocator allocator(HostMemory(), /*limit_bytes=*/4096);
  ASSERT_OK_AND_ASSIGN(void* data, allocator.Allocate(3000, MemoryCategory::kGradients));
  EXPECT_THAT(allocator.Allocate(2000, MemoryCategory::kActivations),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("2000 bytes of activations"), HasSubstr("gradients 3000"))));
  allocator.Free(data, 3000, MemoryCategory::kGradients);
  // The cached block makes room for one of another size.
  ASSERT_OK_AND_ASSIGN(data, allocator.Allocate(4000, MemoryCategory::kActivations));
  allocator.Free(data, 4000, MemoryCategory::kActivations);
}

TEST(Allocator, ImpossibleSizesAreErrors) {
  Allocator allocator(HostMemory());
  EXPECT_THAT(allocator.Allocate(-1, MemoryCategory::kOther), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(allocator.Allocate(int64_t{1} << 60, MemoryCategory::kOther),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

}  // namespace
}  // namespace armature
