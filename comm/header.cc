#include "armature/comm/header.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace armature {
namespace comm {
namespace {

bool HasRoot(Verb verb) {
  return verb == Verb::kReduce || verb == Verb::kBroadcast || verb == Verb::kGather || verb == Verb::kScatter;
}

bool SameOperation(const Header& a, const Header& b) {
  if (a.sequence != b.sequence || a.verb != b.verb) return false;
  if (a.verb == Verb::kBarrier) return true;
  if (a.count != b.count || a.dtype != b.dtype || a.uneven != b.uneven) return false;
  if (HasRoot(a.verb) && a.root != b.root) return false;
  return !IsReduction(a.verb) || a.reduce_op == b.reduce_op;
}

absl::Status Differ(int a, const std::string& call_a, int b, const std::string& call_b) {
  return absl::InvalidArgumentError(
      absl::StrCat("ranks disagree: rank ", a, " called ", call_a, ", rank ", b, " called ", call_b));
}

std::string DescribeParts(const Call& call, absl::Span<const int64_t> parts) {
  return absl::StrCat(Describe(*call.header), " ", absl::StrJoin(parts, ","));
}

// Every rank must have the same cut.
absl::Status SameParts(int size, const Call& first, absl::FunctionRef<Call(int)> call) {
  for (int rank = 1; rank < size; ++rank) {
    const Call other = call(rank);
    const bool gather = first.header->verb == Verb::kAllGather;
    const auto a = gather ? first.receives : first.sends, b = gather ? other.receives : other.sends;
    if (a != b) return Differ(0, DescribeParts(first, a), rank, DescribeParts(other, b));
  }
  return absl::OkStatus();
}

// What each rank sends must be what its receiver expects.
absl::Status MatchingParts(int size, absl::FunctionRef<Call(int)> call) {
  for (int sender = 0; sender < size; ++sender) {
    for (int receiver = 0; receiver < size; ++receiver) {
      const int64_t sent = call(sender).sends[receiver], expected = call(receiver).receives[sender];
      if (sent == expected) continue;
      return absl::InvalidArgumentError(absl::StrCat("ranks disagree: in ", Describe(*call(sender).header),
                                                     " rank ", sender, " sends ", sent, " elements to rank ",
                                                     receiver, ", which expects ", expected));
    }
  }
  return absl::OkStatus();
}

}  // namespace

Header MakeHeader(const Operation& operation, uint64_t sequence) {
  Header header;
  header.sequence = sequence;
  header.count = operation.count;
  header.root = operation.root;
  header.verb = operation.verb;
  header.reduce_op = operation.reduce_op;
  header.dtype = operation.dtype;
  header.uneven = !operation.in_parts.uniform() || !operation.out_parts.uniform();
  if (!operation.argument_error.ok()) {
    header.uneven = false;  // the lists may be of any length
    const absl::string_view text = operation.argument_error.message();
    std::memcpy(header.argument_error, text.data(), std::min(text.size(), sizeof(header.argument_error) - 1));
  }
  return header;
}

void WriteParts(const Operation& operation, absl::Span<int64_t> sends, absl::Span<int64_t> receives) {
  for (size_t rank = 0; rank < sends.size(); ++rank) {
    sends[rank] = operation.in_parts.count(static_cast<int>(rank));
    receives[rank] = operation.out_parts.count(static_cast<int>(rank));
  }
}

std::string Describe(const Header& header) {
  std::string text = absl::StrCat(Name(header.verb), " #", header.sequence);
  if (header.verb == Verb::kBarrier) return text;
  absl::StrAppend(&text, " of ", header.count, " ", Name(header.dtype));
  if (header.uneven) absl::StrAppend(&text, " in given parts");
  if (IsReduction(header.verb)) absl::StrAppend(&text, " (", Name(header.reduce_op), ")");
  if (HasRoot(header.verb)) absl::StrAppend(&text, " with root ", header.root);
  return text;
}

absl::Status Agree(int size, absl::FunctionRef<Call(int rank)> call) {
  const Call first = call(0);
  bool uneven = first.header->uneven;
  for (int rank = 0; rank < size; ++rank) {
    const Header& header = *call(rank).header;
    if (header.argument_error[0] != '\0') {
      return absl::InvalidArgumentError(absl::StrCat("rank ", rank, " called ", header.argument_error));
    }
  }
  for (int rank = 1; rank < size; ++rank) {
    const Header& header = *call(rank).header;
    if (!SameOperation(*first.header, header))
      return Differ(0, Describe(*first.header), rank, Describe(header));
  }
  if (!uneven) return absl::OkStatus();
  return first.header->verb == Verb::kAllToAll ? MatchingParts(size, call) : SameParts(size, first, call);
}

}  // namespace comm
}  // namespace armature
