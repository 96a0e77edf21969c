#include "armature/comm/nccl/nccl_launch.h"

#include "armature/comm/nccl/nccl_error.h"

namespace armature {
namespace comm {
namespace {

ncclDataType_t TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return ncclFloat32;
    case DType::kF16:
      return ncclFloat16;
    case DType::kBF16:
      return ncclBfloat16;
    case DType::kF64:
      return ncclFloat64;
    case DType::kI32:
      return ncclInt32;
    case DType::kI64:
      return ncclInt64;
    case DType::kU8:
    case DType::kBool:
      break;
  }
  return ncclUint8;
}

// bool: "any" is the largest byte, "all" the smallest.
ncclRedOp_t OpOf(ReduceOp op, DType dtype) {
  const bool any = op == ReduceOp::kSum || op == ReduceOp::kMax;
  if (dtype == DType::kBool) return any ? ncclMax : ncclMin;
  switch (op) {
    case ReduceOp::kSum:
      return ncclSum;
    case ReduceOp::kAvg:
      return ncclAvg;
    case ReduceOp::kMin:
      return ncclMin;
    case ReduceOp::kMax:
      return ncclMax;
    case ReduceOp::kProd:
      return ncclProd;
  }
  return ncclSum;
}

// Several calls as one. An error inside still ends the group.
class CallGroup {
 public:
  CallGroup() : first_(NcclStatus(ncclGroupStart(), "group")) {}
  void Add(ncclResult_t result, absl::string_view doing) {
    if (first_.ok()) first_ = NcclStatus(result, doing);
  }
  absl::Status End() {
    const ncclResult_t ended = ncclGroupEnd();
    return first_.ok() ? NcclStatus(ended, "group") : first_;
  }

 private:
  absl::Status first_;
};

// What NCCL has no call for, as sends and receives of bytes.
absl::Status LaunchMoves(const Operation& operation, const NcclTarget& target) {
  CallGroup group;
  for (int peer = 0; peer < target.size; ++peer) {
    const Region source = Source(operation, target.rank, peer), place = Target(operation, peer, target.rank);
    const bool kept = peer == target.rank && source.data == place.data;
    if (source.bytes > 0 && !kept) {
      group.Add(ncclSend(source.data, source.bytes, ncclUint8, peer, target.comm, target.stream), "send");
    }
    if (place.bytes > 0 && !kept) {
      group.Add(ncclRecv(place.data, place.bytes, ncclUint8, peer, target.comm, target.stream), "receive");
    }
  }
  return group.End();
}

absl::Status LaunchUnevenReduceScatter(const Operation& operation, const NcclTarget& target) {
  CallGroup group;
  for (int root = 0; root < target.size; ++root) {
    const int64_t count = operation.in_parts.count(root);
    char* const part = operation.in + operation.in_parts.begin(root) * SizeOf(operation.dtype);
    if (count == 0) continue;
    group.Add(ncclReduce(part, operation.out, count, TypeOf(operation.dtype),
                         OpOf(operation.reduce_op, operation.dtype), root, target.comm, target.stream),
              "reduce-scatter");
  }
  return group.End();
}

}  // namespace

absl::Status LaunchCollective(const Operation& operation, const NcclTarget& target) {
  const ncclDataType_t type = TypeOf(operation.dtype);
  const ncclRedOp_t op = OpOf(operation.reduce_op, operation.dtype);
  const char* const in = operation.in;
  char* const out = operation.out;
  const size_t count = static_cast<size_t>(operation.count);
  switch (operation.verb) {
    case Verb::kAllReduce:
      return NcclStatus(ncclAllReduce(in, out, count, type, op, target.comm, target.stream), "all-reduce");
    case Verb::kReduce:
      return NcclStatus(ncclReduce(in, out, count, type, op, operation.root, target.comm, target.stream),
                        "reduce");
    case Verb::kReduceScatter:
      if (!operation.in_parts.uniform()) return LaunchUnevenReduceScatter(operation, target);
      return NcclStatus(ncclReduceScatter(in, out, count, type, op, target.comm, target.stream),
                        "reduce-scatter");
    case Verb::kAllGather:
      if (!operation.out_parts.uniform()) return LaunchMoves(operation, target);
      return NcclStatus(ncclAllGather(in, out, count, type, target.comm, target.stream), "all-gather");
    case Verb::kBroadcast:
      return NcclStatus(ncclBroadcast(in, out, count, type, operation.root, target.comm, target.stream),
                        "broadcast");
    case Verb::kAllToAll:
    case Verb::kGather:
    case Verb::kScatter:
      return LaunchMoves(operation, target);
    case Verb::kBarrier:
      break;
  }
  return absl::InternalError("a barrier has no buffer to launch on");
}

absl::Status LaunchMessages(absl::Span<const PointToPoint> transfers, const NcclTarget& target) {
  CallGroup group;
  for (const PointToPoint& transfer : transfers) {
    const BufferView& data = transfer.data;
    const size_t count = static_cast<size_t>(data.count);
    const bool send = transfer.kind == PointToPoint::Kind::kSend;
    const ncclResult_t result =
        send ? ncclSend(data.data, count, TypeOf(data.dtype), transfer.peer, target.comm, target.stream)
             : ncclRecv(data.data, count, TypeOf(data.dtype), transfer.peer, target.comm, target.stream);
    group.Add(result, send ? "send" : "receive");
  }
  return group.End();
}

}  // namespace comm
}  // namespace armature
