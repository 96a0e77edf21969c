#include "armature/comm/store.h"

#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "armature/base/clock.h"

namespace armature {
namespace comm {
namespace {

class InprocStore final : public Store {
 public:
  absl::Status Set(absl::string_view key, absl::string_view value) override {
    std::unique_lock<std::mutex> lock(mutex_);
    values_[std::string(key)] = std::string(value);
    changed_.notify_all();
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Get(absl::string_view key, absl::Time deadline) override {
    std::unique_lock<std::mutex> lock(mutex_);
    for (bool late = false;; late = !RealClock().WaitUntil(changed_, lock, deadline)) {
      const auto found = values_.find(std::string(key));
      if (found != values_.end()) return found->second;
      if (late) return absl::DeadlineExceededError(absl::StrCat("store: nobody has set ", key));
    }
  }

  absl::StatusOr<int64_t> Add(absl::string_view key, int64_t delta) override {
    std::unique_lock<std::mutex> lock(mutex_);
    return counters_[std::string(key)] += delta;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
  std::map<std::string, int64_t> counters_;
};

class PrefixStore final : public Store {
 public:
  PrefixStore(std::shared_ptr<Store> store, absl::string_view prefix)
      : store_(std::move(store)), prefix_(prefix) {}

  absl::Status Set(absl::string_view key, absl::string_view value) override {
    return store_->Set(absl::StrCat(prefix_, key), value);
  }
  absl::StatusOr<std::string> Get(absl::string_view key, absl::Time deadline) override {
    return store_->Get(absl::StrCat(prefix_, key), deadline);
  }
  absl::StatusOr<int64_t> Add(absl::string_view key, int64_t delta) override {
    return store_->Add(absl::StrCat(prefix_, key), delta);
  }

 private:
  const std::shared_ptr<Store> store_;
  const std::string prefix_;
};

}  // namespace

std::shared_ptr<Store> MakeInprocStore() { return std::make_shared<InprocStore>(); }

std::shared_ptr<Store> WithPrefix(std::shared_ptr<Store> store, absl::string_view prefix) {
  return std::make_shared<PrefixStore>(std::move(store), prefix);
}

}  // namespace comm
}  // namespace armature
