#include "armature/tensor/cpu/matmul_kernels.h"

#include <dnnl.h>
#include <omp.h>

#include <algorithm>
#include <atomic>

#include "absl/strings/str_cat.h"
#include "armature/tensor/cpu/cpu_stream.h"

namespace armature {
namespace cpu {
namespace {

// Cuts fall on multiples of the widest register block.
constexpr int64_t kBlock = 16;
// Multiplications below which waking a thread costs more than it saves.
constexpr int64_t kSmallProduct = int64_t{1} << 19;

// Debian's oneDNN takes its number of threads from the calling thread's own OpenMP variable. Other threads,
// the host's among them, have their own, and this one gets its value back.
class SingleThreaded {
 public:
  SingleThreaded() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~SingleThreaded() { omp_set_num_threads(before_); }

 private:
  const int before_;
};

// Tile [row, row + rows) x [col, col + cols) of matrix `batch`.
dnnl_status_t Tile(const MatMulArgs& args, int64_t batch, int64_t row, int64_t rows, int64_t col,
                   int64_t cols) {
  const float* a = static_cast<const float*>(args.a) + batch * args.stride_a;
  const float* b = static_cast<const float*>(args.b) + batch * args.stride_b;
  float* c = static_cast<float*>(args.c) + batch * args.stride_c;
  a += args.transpose_a ? row : row * args.lda;
  b += args.transpose_b ? col * args.ldb : col;
  c += row * args.ldc + col;
  return dnnl_sgemm(args.transpose_a ? 'T' : 'N', args.transpose_b ? 'T' : 'N', rows, cols, args.k, 1.0f, a,
                    args.lda, b, args.ldb, args.accumulate ? 1.0f : 0.0f, c, args.ldc);
}

// How c is cut into tiles, one library call each.
struct Grid {
  int64_t rows = 1, cols = 1;
};

// The fewer tiles the better: each packs its operands anew. So there are no more than asked for, near to
// square.
Grid CutFor(const MatMulArgs& args, int64_t parts) {
  if (args.batch > 1) return {};
  Grid best;
  double least = -1;
  for (int64_t rows = 1; rows <= parts; ++rows) {
    if (parts % rows != 0) continue;
    const double edges = static_cast<double>(args.m) / rows + static_cast<double>(args.n) * rows / parts;
    if (least < 0 || edges < least) {
      best = {rows, parts / rows};
      least = edges;
    }
  }
  return best;
}

// Where part `i` of `parts` of an extent begins.
int64_t Edge(int64_t extent, int64_t parts, int64_t i) {
  return std::min(extent, (extent * i / parts + kBlock - 1) / kBlock * kBlock);
}

void Clear(const MatMulArgs& args) {
  for (int64_t batch = 0; batch < args.batch; ++batch) {
    float* c = static_cast<float*>(args.c) + batch * args.stride_c;
    for (int64_t row = 0; row < args.m; ++row) std::fill_n(c + row * args.ldc, args.n, 0.0f);
  }
}

}  // namespace

absl::Status MatMul(Stream& stream, const MatMulArgs& args) {
  if (args.m == 0 || args.n == 0 || args.batch == 0) return absl::OkStatus();
  if (args.k == 0) {
    if (!args.accumulate) Clear(args);
    return absl::OkStatus();
  }
  ThreadTeam& team = CpuStream::Team(stream);
  const Grid grid = CutFor(args, static_cast<CpuStream&>(stream).matmul_parts());
  const int64_t tiles = args.batch * grid.rows * grid.cols;
  const int64_t grain = std::max<int64_t>(1, kSmallProduct * tiles / (args.batch * args.m * args.n * args.k));
  std::atomic<dnnl_status_t> status{dnnl_success};
  team.ParallelFor(tiles, grain, [&](int64_t begin, int64_t end) {
    const SingleThreaded single_threaded;
    for (int64_t tile = begin; tile < end; ++tile) {
      const int64_t batch = tile / (grid.rows * grid.cols);
      const int64_t i = tile / grid.cols % grid.rows, j = tile % grid.cols;
      const int64_t row = Edge(args.m, grid.rows, i), row_end = Edge(args.m, grid.rows, i + 1);
      const int64_t col = Edge(args.n, grid.cols, j), col_end = Edge(args.n, grid.cols, j + 1);
      if (row == row_end || col == col_end) continue;
      const dnnl_status_t done = Tile(args, batch, row, row_end - row, col, col_end - col);
      if (done != dnnl_success) status.store(done);
    }
  });
  if (status.load() == dnnl_success) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("oneDNN refused a product [", args.m, ", ", args.k, "] x [", args.k,
                                          ", ", args.n, "] with status ", static_cast<int>(status.load())));
}

}  // namespace cpu
}  // namespace armature
