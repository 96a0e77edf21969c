#include <cstring>
#include <vector>

#include "armature/base/status_matchers.h"
#include "armature/base/thread_team.h"
#include "armature/tensor/cpu/conformance.h"
#include "armature/tensor/cpu/cpu_kernels.h"
#include "armature/tensor/cpu/cpu_stream.h"
#include "armature/tensor/float16.h"
#include "armature/tensor/reference/reference_kernels.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace armature {
namespace {

using ::testing::Each;

using Floats = std::vector<float>;

constexpr int64_t kCounts[] = {0, 1, 3, 7, 17, 64, 100, 1023, 50001};

TEST(Axpby, ConformsToTheReference) {
  for (int64_t count : kCounts) {
    const Floats a = TestValues(count, 1), b = TestValues(count, 2);
    for (bool with_b : {false, true}) {
      for (bool in_place : {false, true}) {
        ExpectConforms([&](const KernelTable& kernels, Stream& stream) {
          Floats y = in_place ? a : Floats(count, 100);
          AxpbyArgs args;
          args.a = in_place ? y.data() : a.data();
          args.b = with_b ? b.data() : nullptr;
          args.y = y.data();
          args.count = count;
          args.alpha = 0.3;
          args.beta = -1.7;
          EXPECT_THAT(kernels.axpby(stream, args), IsOk());
          return y;
        });
      }
    }
  }
}

TEST(CopyBlocks, PutsPartsSideBySide) {
  // x is [part, row, 3 + 1 unused]; y is [row, part, 3].
  for (int64_t rows : {0, 1, 5, 7000}) {
    const Floats x = TestValues(2 * rows * 4, 1);
    Floats expected;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t part : {0, 1}) {
        const auto begin = x.begin() + (part * rows + row) * 4;
        expected.insert(expected.end(), begin, begin + 3);
      }
    }
    ExpectConforms([&](const KernelTable& kernels, Stream& stream) {
      Floats y(expected.size(), 100);
      CopyBlocksArgs args;
      args.x = x.data();
      args.y = y.data();
      args.outer = rows;
      args.inner = 2;
      args.block = 3;
      args.x_outer = 4;
      args.x_inner = rows * 4;
      args.y_outer = 6;
      args.y_inner = 3;
      EXPECT_THAT(kernels.copy_blocks(stream, args), IsOk());
      EXPECT_EQ(y, expected);
      return y;
    });
  }
}

TEST(CopyBlocks, MovesEveryDType) {
  for (DType dtype : {DType::kU8, DType::kBF16, DType::kI32, DType::kF64}) {
    const int64_t size = SizeOf(dtype);
    std::vector<char> x(4 * size), y(4 * size), expected;
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<char>(i);
    for (int64_t from : {0, 2, 1, 3})
      expected.insert(expected.end(), x.begin() + from * size, x.begin() + (from + 1) * size);
    for (const KernelTable* kernels : {&CpuKernels(), &ReferenceKernels()}) {
      ThreadTeam team(1);
      CpuStream stream(team);
      CopyBlocksArgs args;
      args.x = x.data();
      args.y = y.data();
      args.outer = args.inner = 2;
      args.block = 1;
      args.x_outer = args.y_inner = 1;
      args.x_inner = args.y_outer = 2;
      args.dtype = dtype;
      EXPECT_THAT(kernels->copy_blocks(stream, args), IsOk());
      EXPECT_EQ(y, expected) << Name(dtype);
    }
  }
}

TEST(Multiply, ConformsToTheReference) {
  for (int64_t count : kCounts) {
    const Floats a = TestValues(count, 1), b = TestValues(count + 1, 2), before = TestValues(count, 3);
    for (bool scalar : {false, true}) {
      for (bool accumulate : {false, true}) {
        ExpectConforms([&](const KernelTable& kernels, Stream& stream) {
          Floats y = before;
          MultiplyArgs args;
          args.a = a.data();
          args.b = b.data();
          args.y = y.data();
          args.count = count;
          args.scalar_b = scalar;
          args.accumulate = accumulate;
          EXPECT_THAT(kernels.multiply(stream, args), IsOk());
          return y;
        });
      }
    }
  }
}

TEST(Sum, ConformsToTheReference) {
  for (int64_t count : {0, 1, 7, 100, 4096, 4097, 100000, 5000000}) {
    const Floats x = TestValues(count, 1);
    for (bool accumulate : {false, true}) {
      ExpectConforms(
          [&](const KernelTable& kernels, Stream& stream) {
            Floats out = {0.5};
            SumArgs args;
            args.x = x.data();
            args.out = out.data();
            args.count = count;
            args.accumulate = accumulate;
            EXPECT_THAT(kernels.sum(stream, args), IsOk());
            return out;
          },
          /*tolerance=*/1e-6, /*scale=*/100);
    }
  }
}

TEST(Fill, WritesEveryFloatDType) {
  ThreadTeam team(2);
  CpuStream stream(team);
  FillArgs args;
  args.count = 50001;
  args.value = -1.5;
  const auto filled = [&](auto values) {
    args.y = values.data();
    EXPECT_THAT(CpuKernels().fill(stream, args), IsOk());
    return values;
  };
  EXPECT_THAT(filled(Floats(args.count)), Each(-1.5f));
  args.dtype = DType::kF64;
  EXPECT_THAT(filled(std::vector<double>(args.count)), Each(-1.5));
  args.dtype = DType::kF16;
  for (Float16 value : filled(std::vector<Float16>(args.count))) ASSERT_EQ(value.bits, 0xBE00);
  args.dtype = DType::kBF16;
  for (BFloat16 value : filled(std::vector<BFloat16>(args.count))) ASSERT_EQ(value.bits, 0xBFC0);
}

// Every sign and exponent, with mantissas around all roundings.
Floats AwkwardFloats() {
  Floats values;
  for (uint32_t exponent = 0; exponent < 512; ++exponent) {
    for (uint32_t mantissa : {0x0u, 0x1u, 0xFFFu, 0x1000u, 0x1001u, 0x1FFFu, 0x3000u, 0x7FFFu, 0x8000u,
                              0x8001u, 0x18000u, 0x400000u, 0x7FEFFFu, 0x7FF000u, 0x7FFFFFu}) {
      const uint32_t bits = exponent << 23 | mantissa;
      float value;
      std::memcpy(&value, &bits, sizeof(value));
      values.push_back(value);
    }
  }
  return values;
}

// The 16-bit values as floats with the same bits as integers, so that NaNs can be compared too.
template <typename Half>
Floats CastDown(const KernelTable& kernels, Stream& stream, const Floats& x, DType to) {
  std::vector<Half> y(x.size());
  CastArgs args;
  args.x = x.data();
  args.y = y.data();
  args.count = static_cast<int64_t>(x.size());
  args.to = to;
  EXPECT_THAT(kernels.cast(stream, args), IsOk());
  Floats bits;
  for (Half value : y) bits.push_back(value.bits);
  return bits;
}

TEST(Cast, RoundsToTheBitsOfTheReference) {
  const Floats x = AwkwardFloats();
  ExpectConforms([&](const KernelTable& kernels,
                     Stream& stream) { return CastDown<BFloat16>(kernels, stream, x, DType::kBF16); },
                 /*tolerance=*/0);
  ExpectConforms([&](const KernelTable& kernels,
                     Stream& stream) { return CastDown<Float16>(kernels, stream, x, DType::kF16); },
                 /*tolerance=*/0);
}

TEST(Cast, WidensEvery16BitValueToTheBitsOfTheReference) {
  std::vector<uint16_t> x(65536);
  for (int i = 0; i < 65536; ++i) x[i] = static_cast<uint16_t>(i);
  for (DType from : {DType::kBF16, DType::kF16}) {
    ExpectConforms(
        [&](const KernelTable& kernels, Stream& stream) {
          std::vector<uint32_t> y(x.size());
          CastArgs args;
          args.x = x.data();
          args.y = y.data();
          args.count = static_cast<int64_t>(x.size());
          args.from = from;
          EXPECT_THAT(kernels.cast(stream, args), IsOk());
          Floats halves;  // each of 16 bits, exact in a float
          for (uint32_t bits : y) {
            if ((bits & 0x7FFFFFFF) > 0x7F800000) bits |= 0x400000;  // a signalling NaN may become quiet
            halves.push_back(static_cast<float>(bits >> 16));
            halves.push_back(static_cast<float>(bits & 0xFFFF));
          }
          return halves;
        },
        /*tolerance=*/0);
  }
}

Floats Embedded(const KernelTable& kernels, Stream& stream, const Floats& table,
                const std::vector<int32_t>& ids, int64_t rows, int64_t cols) {
  Floats out(ids.size() * cols, 100);
  EmbeddingArgs args;
  args.table = table.data();
  args.ids = ids.data();
  args.out = out.data();
  args.count = static_cast<int64_t>(ids.size());
  args.rows = rows;
  args.cols = cols;
  args.first_row = 10;
  EXPECT_THAT(kernels.embedding(stream, args), IsOk());
  return out;
}

TEST(Embedding, ConformsToTheReferenceForwardAndBackward) {
  for (int64_t count : {0, 1, 100, 2000}) {
    for (int64_t cols : {0, 1, 17, 100}) {
      const int64_t rows = 30;
      std::vector<int32_t> ids(count);
      for (int64_t i = 0; i < count; ++i) ids[i] = static_cast<int32_t>(i * 7919 % 50);  // 10 to 39 are here
      const Floats table = TestValues(rows * cols, 1), dout = TestValues(count * cols, 2);
      ExpectConforms([&](const KernelTable& kernels, Stream& stream) {
        return Embedded(kernels, stream, table, ids, rows, cols);
      });
      for (bool accumulate : {false, true}) {
        ExpectConforms([&](const KernelTable& kernels, Stream& stream) {
          Floats dtable = table;
          EmbeddingBackwardArgs args;
          args.dout = dout.data();
          args.ids = ids.data();
          args.dtable = dtable.data();
          args.count = count;
          args.rows = rows;
          args.cols = cols;
          args.first_row = 10;
          args.accumulate = accumulate;
          EXPECT_THAT(kernels.embedding_backward(stream, args), IsOk());
          return dtable;
        });
      }
    }
  }
}

}  // namespace
}  // namespace armature
