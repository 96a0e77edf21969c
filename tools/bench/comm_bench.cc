#include "armature/tools/bench/comm_bench.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "armature/base/status_macros.h"
#include "armature/comm/inproc/inproc_group.h"
#include "armature/comm/process_group.h"
#include "armature/comm/store.h"
#include "armature/tensor/float16.h"

namespace armature {
namespace bench {
namespace {

using comm::Communicator;
using comm::ReduceOp;
using comm::Work;

// A verb with buffers: `part` has count / ranks elements, `whole` and `other` have count.
struct Verb {
  absl::string_view name;
  double bus_factor;  // times (P-1)/P if `scaled`
  bool scaled;
  Work (*call)(Communicator& comm, BufferView part, BufferView whole, BufferView other, ReduceOp op);
  // Where the result is: 'p'art, 'w'hole or 'o'ther, and whether all ranks have one.
  char result;
  bool reduces;
};

constexpr Verb kVerbs[] = {
    {"all-reduce", 2, true,
     [](Communicator& c, BufferView, BufferView w, BufferView, ReduceOp op) { return c.AllReduce(w, op); },
     'w', true},
    {"reduce", 1, false,
     [](Communicator& c, BufferView, BufferView w, BufferView o, ReduceOp op) {
       return c.Reduce(w, o, op, 0);
     },
     'o', true},
    {"reduce-scatter", 1, true,
     [](Communicator& c, BufferView p, BufferView w, BufferView, ReduceOp op) {
       return c.ReduceScatter(w, p, op);
     },
     'p', true},
    {"all-gather", 1, true,
     [](Communicator& c, BufferView p, BufferView w, BufferView, ReduceOp) { return c.AllGather(p, w); }, 'w',
     false},
    {"all-to-all", 1, true,
     [](Communicator& c, BufferView, BufferView w, BufferView o, ReduceOp) { return c.AllToAll(w, o); }, 'o',
     false},
    {"broadcast", 1, false,
     [](Communicator& c, BufferView, BufferView w, BufferView, ReduceOp) { return c.Broadcast(w, 0); }, 'w',
     false},
    {"gather", 1, true,
     [](Communicator& c, BufferView p, BufferView w, BufferView, ReduceOp) { return c.Gather(p, w, 0); }, 'w',
     false},
    {"scatter", 1, true,
     [](Communicator& c, BufferView p, BufferView w, BufferView, ReduceOp) { return c.Scatter(w, p, 0); },
     'p', false},
};

// The bytes of the number 1 in any dtype.
std::vector<char> One(DType dtype) {
  std::vector<char> bytes(static_cast<size_t>(SizeOf(dtype)));
  const auto put = [&](auto value) { std::memcpy(bytes.data(), &value, sizeof(value)); };
  switch (dtype) {
    case DType::kF32:
      put(1.0f);
      break;
    case DType::kF64:
      put(1.0);
      break;
    case DType::kF16:
      put(Float16(1.0f).bits);
      break;
    case DType::kBF16:
      put(BFloat16(1.0f).bits);
      break;
    case DType::kI32:
      put(int32_t{1});
      break;
    case DType::kI64:
      put(int64_t{1});
      break;
    case DType::kU8:
    case DType::kBool:
      put(uint8_t{1});
      break;
  }
  return bytes;
}

class Buffer {
 public:
  Buffer(DType dtype, int64_t count)
      : dtype_(dtype), count_(count), bytes_(static_cast<size_t>(count * SizeOf(dtype))) {
    const std::vector<char> one = One(dtype);
    for (size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = one[i % one.size()];
  }
  BufferView view() { return {bytes_.data(), count_, dtype_, Device()}; }
  // Elements that are not the first one.
  int64_t Differing(absl::Span<const char> expected) const {
    int64_t wrong = 0;
    for (size_t i = 0; i < bytes_.size(); i += expected.size()) {
      wrong += std::memcmp(bytes_.data() + i, expected.data(), expected.size()) != 0;
    }
    return wrong;
  }

 private:
  DType dtype_;
  int64_t count_;
  std::vector<char> bytes_;
};

absl::StatusOr<const Verb*> FindVerb(absl::string_view name) {
  for (const Verb& verb : kVerbs) {
    if (verb.name == name) return &verb;
  }
  return absl::InvalidArgumentError(absl::StrCat("op: ", name, " is not a collective"));
}

double Seconds(absl::Duration duration) { return absl::ToDoubleSeconds(duration); }

class Measurement {
 public:
  Measurement(Communicator& comm, const Verb& verb, const CommBenchOptions& options)
      : comm_(comm), verb_(verb), options_(options) {}

  absl::StatusOr<CommBenchRow> Row(int64_t size_bytes) {
    const int64_t part_count = std::max<int64_t>(1, size_bytes / SizeOf(options_.dtype) / comm_.size());
    CommBenchRow row;
    row.count = part_count * comm_.size();
    row.size_bytes = row.count * SizeOf(options_.dtype);
    row.dtype = options_.dtype;
    row.reduce_op = options_.reduce_op;
    Buffer part(options_.dtype, part_count), whole(options_.dtype, row.count),
        other(options_.dtype, row.count);
    ARMATURE_ASSIGN_OR_RETURN(row.wrong_elements, CountWrong(part, whole, other));
    ARMATURE_ASSIGN_OR_RETURN(double seconds, Time(part, whole, other));
    row.time_us = seconds * 1e6;
    row.algorithm_gb_per_s = static_cast<double>(row.size_bytes) / seconds / 1e9;
    const double share = verb_.scaled ? (comm_.size() - 1.0) / comm_.size() : 1.0;
    row.bus_gb_per_s = row.algorithm_gb_per_s * verb_.bus_factor * share;
    return row;
  }

 private:
  Work Call(Buffer& part, Buffer& whole, Buffer& other) {
    return verb_.call(comm_, part.view(), whole.view(), other.view(), options_.reduce_op);
  }

  // Every rank brings ones: sums are the number of ranks, anything else is one.
  absl::StatusOr<int64_t> CountWrong(Buffer& part, Buffer& whole, Buffer& other) {
    std::vector<char> sum = One(options_.dtype);
    ARMATURE_RETURN_IF_ERROR(
        comm_.AllReduce({sum.data(), 1, options_.dtype, Device()}, options_.reduce_op).Wait());
    ARMATURE_RETURN_IF_ERROR(Call(part, whole, other).Wait());
    const bool has_result = comm_.rank() == 0 || (verb_.name != "reduce" && verb_.name != "gather");
    const Buffer& result = verb_.result == 'p' ? part : verb_.result == 'w' ? whole : other;
    int64_t wrong = has_result ? result.Differing(verb_.reduces ? sum : One(options_.dtype)) : 0;
    ARMATURE_RETURN_IF_ERROR(comm_.AllReduce({&wrong, 1, DType::kI64, Device()}, ReduceOp::kSum).Wait());
    return wrong;
  }

  // The first rank decides how often, and its median is everyone's.
  absl::StatusOr<double> Time(Buffer& part, Buffer& whole, Buffer& other) {
    const absl::Time begin = absl::Now();
    ARMATURE_RETURN_IF_ERROR(Call(part, whole, other).Wait());
    const double estimate = Seconds(absl::Now() - begin) + 1e-7;
    double repeats = std::min(std::max(5.0, Seconds(options_.time_per_size) / estimate), 20000.0);
    ARMATURE_RETURN_IF_ERROR(comm_.Broadcast({&repeats, 1, DType::kF64, Device()}, 0).Wait());
    std::vector<double> times;
    for (int64_t i = 0; i < static_cast<int64_t>(repeats); ++i) {
      const absl::Time start = absl::Now();
      ARMATURE_RETURN_IF_ERROR(Call(part, whole, other).Wait());
      times.push_back(Seconds(absl::Now() - start));
    }
    std::nth_element(times.begin(), times.begin() + static_cast<int64_t>(times.size() / 2), times.end());
    double median = times[times.size() / 2];
    ARMATURE_RETURN_IF_ERROR(comm_.Broadcast({&median, 1, DType::kF64, Device()}, 0).Wait());
    return median;
  }

  Communicator& comm_;
  const Verb& verb_;
  const CommBenchOptions& options_;
};

absl::Status CheckOptions(const CommBenchOptions& options) {
  if (options.first_bytes < 1 || options.last_bytes < options.first_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("sizes from ", options.first_bytes, " to ", options.last_bytes, " bytes"));
  }
  if (options.factor < 2)
    return absl::InvalidArgumentError(absl::StrCat("factor ", options.factor, " must be >= 2"));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Communicator>> JoinGroup(const CommBenchOptions& options,
                                                        std::shared_ptr<comm::Store> store, int rank) {
  comm::ProcessGroupOptions group;
  group.transport = options.backend == "shm" ? comm::Transport::kSharedMemory : comm::Transport::kTcp;
  return comm::ConnectProcesses(std::move(store), rank, options.ranks, group);
}

}  // namespace

absl::StatusOr<std::vector<CommBenchRow>> MeasureComm(Communicator& comm, const CommBenchOptions& options) {
  ARMATURE_RETURN_IF_ERROR(CheckOptions(options));
  ARMATURE_ASSIGN_OR_RETURN(const Verb* verb, FindVerb(options.op));
  Measurement measurement(comm, *verb, options);
  std::vector<CommBenchRow> rows;
  for (int64_t bytes = options.first_bytes; bytes <= options.last_bytes; bytes *= options.factor) {
    ARMATURE_ASSIGN_OR_RETURN(CommBenchRow row, measurement.Row(bytes));
    rows.push_back(row);
  }
  return rows;
}

absl::StatusOr<std::vector<CommBenchRow>> RunCommBench(const CommBenchOptions& options) {
  const bool inproc = options.backend == "inproc";
  if (!inproc && options.backend != "shm" && options.backend != "gloo") {
    return absl::InvalidArgumentError(
        absl::StrCat("backend: ", options.backend, " is not inproc, shm or gloo"));
  }
  std::vector<std::unique_ptr<Communicator>> inproc_ranks(std::max(options.ranks, 0));
  if (inproc) {
    ARMATURE_ASSIGN_OR_RETURN(inproc_ranks, comm::MakeInprocGroup(options.ranks));
  } else if (options.ranks < 1) {
    return absl::InvalidArgumentError(absl::StrCat("ranks: ", options.ranks));
  }
  std::shared_ptr<comm::Store> store = comm::MakeInprocStore();
  std::vector<absl::StatusOr<std::vector<CommBenchRow>>> results(options.ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < options.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      if (inproc) {
        results[rank] = MeasureComm(*inproc_ranks[rank], options);
        return;
      }
      absl::StatusOr<std::unique_ptr<Communicator>> joined = JoinGroup(options, store, rank);
      results[rank] = joined.ok() ? MeasureComm(**joined, options) : joined.status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return std::move(results[0]);
}

double MeasurePlainAdd(int threads, int64_t size_bytes) {
  const int64_t count = size_bytes / 4, share = count / threads;
  std::vector<float> a(count, 1), b(count, 1);
  std::vector<double> times;
  for (int round = 0; round < 21; ++round) {
    const absl::Time start = absl::Now();
    std::vector<std::thread> team;
    for (int t = 0; t < threads; ++t) {
      team.emplace_back([&, t] {
        float* x = a.data() + t * share;
        float* y = b.data() + t * share;
        for (int64_t i = 0; i < share; ++i) x[i] = y[i] = x[i] + y[i];
      });
    }
    for (std::thread& thread : team) thread.join();
    times.push_back(Seconds(absl::Now() - start));
  }
  std::nth_element(times.begin(), times.begin() + 10, times.end());
  return static_cast<double>(size_bytes) / times[10] / 1e9;
}

std::string FormatCommTable(absl::Span<const CommBenchRow> rows) {
  std::string table = absl::StrFormat("# %10s %12s %6s %6s %12s %12s %12s %7s\n", "size", "count", "dtype",
                                      "redop", "time(us)", "algbw(GB/s)", "busbw(GB/s)", "#wrong");
  for (const CommBenchRow& row : rows) {
    absl::StrAppendFormat(&table, "  %10d %12d %6s %6s %12.1f %12.2f %12.2f %7d\n", row.size_bytes, row.count,
                          Name(row.dtype), Name(row.reduce_op), row.time_us, row.algorithm_gb_per_s,
                          row.bus_gb_per_s, row.wrong_elements);
  }
  return table;
}

std::string FormatCommJson(absl::Span<const CommBenchRow> rows) {
  std::string json = "[";
  for (const CommBenchRow& row : rows) {
    absl::StrAppendFormat(
        &json,
        "%s\n  {\"size_bytes\": %d, \"count\": %d, \"dtype\": \"%s\", \"redop\": \"%s\", "
        "\"time_us\": %.3f, \"algbw_gb_per_s\": %.4f, \"busbw_gb_per_s\": %.4f, \"wrong\": %d}",
        json.size() > 1 ? "," : "", row.size_bytes, row.count, Name(row.dtype), Name(row.reduce_op),
        row.time_us, row.algorithm_gb_per_s, row.bus_gb_per_s, row.wrong_elements);
  }
  return absl::StrCat(json, "\n]\n");
}

}  // namespace bench
}  // namespace armature
