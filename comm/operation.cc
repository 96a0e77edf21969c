#include "armature/comm/operation.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace armature {
namespace comm {
namespace {

// Collects the first error of an operation's arguments.
class Checker {
 public:
  explicit Checker(Operation& operation) : operation_(operation) {}

  template <typename... Text>
  void Require(bool condition, const Text&... text) {
    if (condition || !operation_.argument_error.ok()) return;
    operation_.argument_error =
        absl::InvalidArgumentError(absl::StrCat(Name(operation_.verb), ": ", text...));
  }

  void Buffer(absl::string_view name, const BufferView& view) {
    Require(view.count >= 0, name, " has ", view.count, " elements");
    Require(view.data != nullptr || view.count == 0, name, " has ", view.count, " elements and no data");
  }

  void SameDType(const BufferView& in, const BufferView& out) {
    Require(in.dtype == out.dtype, "in is ", Name(in.dtype), " and out is ", Name(out.dtype));
  }

  void Root(int root, int size) {
    Require(root >= 0 && root < size, "root ", root, " is not a rank of a group of ", size);
  }

  void Counts(absl::string_view name, absl::Span<const int64_t> counts, int size) {
    Require(static_cast<int>(counts.size()) == size, name, " has ", counts.size(), " entries for ", size,
            " ranks");
    for (int64_t count : counts) Require(count >= 0, name, " has the entry ", count);
  }

  // `part` lies at element `begin` of `whole`, or nowhere in it.
  void PartOrApart(const BufferView& whole, const BufferView& part, int64_t begin) {
    if (whole.count == 0 || part.count == 0) return;
    const char* w = static_cast<const char*>(whole.data);
    const char* p = static_cast<const char*>(part.data);
    if (p == w + begin * SizeOf(whole.dtype)) return;
    Require(p + part.size_bytes() <= w || w + whole.size_bytes() <= p,
            "in and out overlap, and not as an in-place call does");
  }

 private:
  Operation& operation_;
};

Operation Make(Verb verb, const BufferView& in, const BufferView& out, int64_t count) {
  Operation operation;
  operation.verb = verb;
  operation.dtype = in.dtype;
  operation.count = count;
  operation.in = static_cast<char*>(in.data);
  operation.out = static_cast<char*>(out.data);
  return operation;
}

int64_t Sum(absl::Span<const int64_t> counts) {
  int64_t sum = 0;
  for (int64_t count : counts) sum += count;
  return sum;
}

Region Slice(const Operation& operation, char* base, const Parts& parts, int rank) {
  const int64_t width = SizeOf(operation.dtype);
  return {base + parts.begin(rank) * width, parts.count(rank) * width};
}

Region Whole(const Operation& operation, char* base, int64_t count) {
  return {base, count * SizeOf(operation.dtype)};
}

}  // namespace

absl::string_view Name(Verb verb) {
  constexpr absl::string_view kNames[] = {"barrier",        "all-reduce", "reduce",
                                          "reduce-scatter", "all-gather", "all-to-all",
                                          "broadcast",      "gather",     "scatter"};
  const int index = static_cast<int>(verb);
  return index < 9 ? kNames[index] : "unknown";
}

Parts::Parts(absl::Span<const int64_t> counts) : ends_(counts.begin(), counts.end()) {
  for (size_t i = 1; i < ends_.size(); ++i) ends_[i] += ends_[i - 1];
}

bool IsReduction(Verb verb) {
  return verb == Verb::kAllReduce || verb == Verb::kReduce || verb == Verb::kReduceScatter;
}

Range ReducedPart(int64_t count, int64_t element_bytes, int rank, int size) {
  const int64_t line = 64 / element_bytes;
  const int64_t lines = (count + line - 1) / line;
  const int64_t begin = lines / size * rank + std::min<int64_t>(rank, lines % size);
  const int64_t end = begin + lines / size + (rank < lines % size ? 1 : 0);
  return {std::min(begin * line, count), std::min(end * line, count)};
}

Region Source(const Operation& operation, int sender, int receiver) {
  switch (operation.verb) {
    case Verb::kReduceScatter:
    case Verb::kAllToAll:
      return Slice(operation, operation.in, operation.in_parts, receiver);
    case Verb::kScatter:
      return sender == operation.root ? Slice(operation, operation.in, operation.in_parts, receiver)
                                      : Region();
    case Verb::kAllGather:
      return Whole(operation, operation.in, operation.out_parts.count(sender));
    case Verb::kGather:
      return receiver == operation.root ? Whole(operation, operation.in, operation.count) : Region();
    case Verb::kBroadcast:
      return sender == operation.root ? Whole(operation, operation.in, operation.count) : Region();
    case Verb::kBarrier:
    case Verb::kAllReduce:
    case Verb::kReduce:
      break;
  }
  return {};
}

Region Target(const Operation& operation, int sender, int receiver) {
  switch (operation.verb) {
    case Verb::kAllGather:
    case Verb::kAllToAll:
      return Slice(operation, operation.out, operation.out_parts, sender);
    case Verb::kGather:
      return receiver == operation.root ? Slice(operation, operation.out, operation.out_parts, sender)
                                        : Region();
    case Verb::kScatter:
    case Verb::kBroadcast:
      return sender == operation.root ? Whole(operation, operation.out, operation.count) : Region();
    case Verb::kBarrier:
    case Verb::kAllReduce:
    case Verb::kReduce:
    case Verb::kReduceScatter:
      break;
  }
  return {};
}

Operation MakeBarrier() { return Operation(); }

Operation MakeAllReduce(BufferView data, ReduceOp op) {
  Operation operation = Make(Verb::kAllReduce, data, data, data.count);
  operation.reduce_op = op;
  Checker(operation).Buffer("data", data);
  return operation;
}

Operation MakeReduce(BufferView in, BufferView out, ReduceOp op, int root, int rank, int size) {
  Operation operation = Make(Verb::kReduce, in, out, in.count);
  operation.reduce_op = op;
  operation.root = root;
  Checker check(operation);
  check.Root(root, size);
  check.Buffer("in", in);
  if (rank == root) {
    check.Buffer("out", out);
    check.SameDType(in, out);
    check.Require(out.count == in.count, "out has ", out.count, " elements and in has ", in.count);
    check.PartOrApart(in, out, 0);
  }
  return operation;
}

Operation MakeReduceScatter(BufferView in, BufferView out, ReduceOp op, int rank, int size) {
  Operation operation = Make(Verb::kReduceScatter, in, out, out.count);
  operation.reduce_op = op;
  operation.in_parts = Parts(out.count);
  Checker check(operation);
  check.Buffer("in", in);
  check.Buffer("out", out);
  check.SameDType(in, out);
  check.Require(in.count == size * out.count, "in has ", in.count, " elements, which is not ", size,
                " ranks times ", out.count, " of out");
  check.PartOrApart(in, out, rank * out.count);
  return operation;
}

Operation MakeReduceScatterV(BufferView in, BufferView out, absl::Span<const int64_t> counts, ReduceOp op,
                             int rank, int size) {
  Operation operation = Make(Verb::kReduceScatter, in, out, Sum(counts));
  operation.reduce_op = op;
  operation.in_parts = Parts(counts);
  Checker check(operation);
  check.Counts("counts", counts, size);
  check.Buffer("in", in);
  check.Buffer("out", out);
  check.SameDType(in, out);
  check.Require(in.count == operation.count, "in has ", in.count, " elements and counts add up to ",
                operation.count);
  if (!operation.argument_error.ok()) return operation;
  check.Require(out.count == counts[rank], "out has ", out.count, " elements and counts[", rank, "] is ",
                counts[rank]);
  check.PartOrApart(in, out, operation.in_parts.begin(rank));
  return operation;
}

Operation MakeAllGather(BufferView in, BufferView out, int rank, int size) {
  Operation operation = Make(Verb::kAllGather, in, out, in.count);
  operation.out_parts = Parts(in.count);
  Checker check(operation);
  check.Buffer("in", in);
  check.Buffer("out", out);
  check.SameDType(in, out);
  check.Require(out.count == size * in.count, "out has ", out.count, " elements, which is not ", size,
                " ranks times ", in.count, " of in");
  check.PartOrApart(out, in, rank * in.count);
  return operation;
}

Operation MakeAllGatherV(BufferView in, BufferView out, absl::Span<const int64_t> counts, int rank,
                         int size) {
  Operation operation = Make(Verb::kAllGather, in, out, Sum(counts));
  operation.out_parts = Parts(counts);
  Checker check(operation);
  check.Counts("counts", counts, size);
  check.Buffer("in", in);
  check.Buffer("out", out);
  check.SameDType(in, out);
  check.Require(out.count == operation.count, "out has ", out.count, " elements and counts add up to ",
                operation.count);
  if (!operation.argument_error.ok()) return operation;
  check.Require(in.count == counts[rank], "in has ", in.count, " elements and counts[", rank, "] is ",
                counts[rank]);
  check.PartOrApart(out, in, operation.out_parts.begin(rank));
  return operation;
}

Operation MakeAllToAll(BufferView in, BufferView out, int size) {
  Operation operation = Make(Verb::kAllToAll, in, out, in.count / size);
  operation.in_parts = Parts(operation.count);
  operation.out_parts = Parts(operation.count);
  Checker check(operation);
  check.Buffer("in", in);
  check.Buffer("out", out);
  check.SameDType(in, out);
  check.Require(in.count % size == 0, "in has ", in.count, " elements, which ", size,
                " ranks can't share equally");
  check.Require(in.count == out.count, "in has ", in.count, " elements and out has ", out.count);
  check.Require(in.data != out.data || in.count == 0, "in and out are the same buffer");
  check.PartOrApart(in, out, 0);
  return operation;
}

Operation MakeAllToAllV(BufferView in, absl::Span<const int64_t> in_counts, BufferView out,
                        absl::Span<const int64_t> out_counts, int size) {
  Operation operation = Make(Verb::kAllToAll, in, out, 0);  // each rank has its own count
  operation.in_parts = Parts(in_counts);
  operation.out_parts = Parts(out_counts);
  Checker check(operation);
  check.Counts("in_counts", in_counts, size);
  check.Counts("out_counts", out_counts, size);
  check.Buffer("in", in);
  check.Buffer("out", out);
  check.SameDType(in, out);
  check.Require(in.count == Sum(in_counts), "in has ", in.count, " elements and in_counts add up to ",
                Sum(in_counts));
  check.Require(out.count == Sum(out_counts), "out has ", out.count, " elements and out_counts add up to ",
                Sum(out_counts));
  check.Require(in.data != out.data || in.count == 0 || out.count == 0, "in and out are the same buffer");
  check.PartOrApart(in, out, 0);
  return operation;
}

Operation MakeBroadcast(BufferView data, int root, int size) {
  Operation operation = Make(Verb::kBroadcast, data, data, data.count);
  operation.root = root;
  Checker check(operation);
  check.Root(root, size);
  check.Buffer("data", data);
  return operation;
}

Operation MakeGather(BufferView in, BufferView out, int root, int rank, int size) {
  Operation operation = Make(Verb::kGather, in, out, in.count);
  operation.root = root;
  operation.out_parts = Parts(in.count);
  Checker check(operation);
  check.Root(root, size);
  check.Buffer("in", in);
  if (rank == root) {
    check.Buffer("out", out);
    check.SameDType(in, out);
    check.Require(out.count == size * in.count, "out has ", out.count, " elements, which is not ", size,
                  " ranks times ", in.count, " of in");
    check.PartOrApart(out, in, root * in.count);
  }
  return operation;
}

Operation MakeScatter(BufferView in, BufferView out, int root, int rank, int size) {
  Operation operation = Make(Verb::kScatter, in, out, out.count);
  operation.dtype = out.dtype;
  operation.root = root;
  operation.in_parts = Parts(out.count);
  Checker check(operation);
  check.Root(root, size);
  check.Buffer("out", out);
  if (rank == root) {
    check.Buffer("in", in);
    check.SameDType(in, out);
    check.Require(in.count == size * out.count, "in has ", in.count, " elements, which is not ", size,
                  " ranks times ", out.count, " of out");
    check.PartOrApart(in, out, root * out.count);
  }
  return operation;
}

}  // namespace comm
}  // namespace armature
