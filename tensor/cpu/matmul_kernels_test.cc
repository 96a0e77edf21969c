#include "armature/tensor/cpu/matmul_kernels.h"

#include <omp.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "armature/base/status_matchers.h"
#include "armature/base/thread_team.h"
#include "armature/tensor/cpu/conformance.h"
#include "armature/tensor/cpu/cpu_stream.h"

namespace armature {
namespace {

struct Product {
  int64_t m, n, k;
  bool transpose_a = false, transpose_b = false;
  int64_t batch = 1;
  int64_t extra = 0;  // unused elements at the end of each row
  bool accumulate = false;

  MatMulArgs Args(const std::vector<float>& a, const std::vector<float>& b, std::vector<float>& c) const {
    MatMulArgs args;
    args.a = a.data();
    args.b = b.data();
    args.c = c.data();
    args.m = m;
    args.n = n;
    args.k = k;
    args.transpose_a = transpose_a;
    args.transpose_b = transpose_b;
    args.lda = (transpose_a ? m : k) + extra;
    args.ldb = (transpose_b ? k : n) + extra;
    args.ldc = n + extra;
    args.batch = batch;
    args.stride_a = (transpose_a ? k : m) * args.lda;
    args.stride_b = (transpose_b ? n : k) * args.ldb;
    args.stride_c = m * args.ldc;
    args.accumulate = accumulate;
    return args;
  }
  std::vector<float> A() const { return TestValues(batch * (m + extra) * (k + extra) + extra * (m + k), 1); }
  std::vector<float> B() const { return TestValues(batch * (k + extra) * (n + extra) + extra * (n + k), 2); }
  std::vector<float> C() const { return TestValues(batch * m * (n + extra), 3); }
};

void ExpectRight(const Product& product) {
  SCOPED_TRACE(absl::StrCat(product.m, "x", product.n, "x", product.k, " ", product.transpose_a,
                            product.transpose_b, " batch ", product.batch, " extra ", product.extra,
                            " accumulate ", product.accumulate));
  ExpectConforms(
      [&](const KernelTable& kernels, Stream& stream) {
        const std::vector<float> a = product.A(), b = product.B();
        std::vector<float> c = product.C();
        EXPECT_THAT(kernels.matmul(stream, product.Args(a, b, c)), IsOk());
        return c;
      },
      /*tolerance=*/2e-6, /*scale=*/static_cast<double>(product.k) + 1);
}

TEST(MatMul, OddShapesAndTransposes) {
  for (int64_t m : {1, 3, 17, 65})
    for (int64_t n : {1, 7, 64})
      for (int64_t k : {1, 5, 33})
        for (bool transpose_a : {false, true})
          for (bool transpose_b : {false, true}) {
            Product product{m, n, k, transpose_a, transpose_b};
            product.accumulate = (m + n + k) % 2 == 0;
            ExpectRight(product);
          }
}

TEST(MatMul, SeveralTiles) {
  ExpectRight({300, 500, 40});
  ExpectRight({257, 1, 100, true, false});
  ExpectRight({1, 900, 20, false, true});
  Product added{520, 790, 24, true, true};
  added.accumulate = true;
  ExpectRight(added);
}

TEST(MatMul, AFixedNumberOfPartsGivesTheSameBitsForEveryTeam) {
  for (const Product& product :
       {Product{64, 192, 64}, Product{256, 768, 256, false, true}, Product{96, 1003, 64, false, true},
        // The library sums these in another order for another cut.
        Product{2304, 768, 1024, true, false}, Product{128, 128, 4096, false, true}}) {
    const std::vector<float> a = product.A(), b = product.B();
    std::vector<float> expected;
    for (int size : {1, 2, 3, 4}) {
      ThreadTeam team(size);
      CpuStream stream(team, /*matmul_parts=*/4);
      std::vector<float> c = product.C();
      ASSERT_THAT(cpu::MatMul(stream, product.Args(a, b, c)), IsOk());
      if (size == 1) expected = c;
      EXPECT_EQ(c, expected) << product.m << "x" << product.n << "x" << product.k << ", team of " << size;
    }
  }
}

TEST(MatMul, BatchesAndLeadingDimensions) {
  Product product{19, 23, 11};
  product.batch = 3;
  product.extra = 5;
  ExpectRight(product);
  product.transpose_a = product.transpose_b = product.accumulate = true;
  ExpectRight(product);
}

TEST(MatMul, NothingToAddGivesZerosOrLeavesTheResult) {
  for (bool accumulate : {false, true}) {
    Product product{2, 3, 0};
    product.accumulate = accumulate;
    ExpectRight(product);
  }
  ExpectRight({0, 3, 2});
  ExpectRight({3, 0, 2});
}

TEST(MatMul, LeavesTheCallersOpenMpAlone) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(7);
  ExpectRight({300, 500, 40});
  EXPECT_EQ(omp_get_max_threads(), 7);
  omp_set_num_threads(before);
}

TEST(MatMul, TwoStreamsAtOnce) {
  const Product product{300, 400, 64};
  const std::vector<float> a = product.A(), b = product.B();
  std::vector<float> results[2] = {product.C(), product.C()};
  std::vector<std::thread> threads;
  for (std::vector<float>& c : results) {
    threads.emplace_back([&] {
      ThreadTeam team(2);
      CpuStream stream(team);
      for (int round = 0; round < 20; ++round) {
        EXPECT_THAT(cpu::MatMul(stream, product.Args(a, b, c)), IsOk());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(results[0], results[1]);
}

}  // namespace
}  // namespace armature
