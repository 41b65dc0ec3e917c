// The connections to the stores of a job: to the main one, and to further ones as they are named.
// Any thread.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "proto/access.h"
#include "proto/own_connection.h"
#include "ringwood/v1/store.grpc.pb.h"

namespace ringwood {

struct StoreLine {
  StoreLine(std::string at, std::shared_ptr<grpc::Channel> over);
  const std::string address;
  const std::shared_ptr<grpc::Channel> channel;
  const std::unique_ptr<v1::Store::Stub> stub;
};

class StoreLines {
 public:
  // Far more than stores that a job has at once; then all are opened anew.
  static constexpr size_t kMost = 256;

  StoreLines(const std::string& main_address, const Access& access,
             const OwnConnection& connection);

  const StoreLine& main() const { return *main_; }
  // Empty: the main one.
  std::shared_ptr<StoreLine> At(const std::string& address);

 private:
  const Access access_;
  const OwnConnection connection_;
  const std::shared_ptr<StoreLine> main_;
  absl::Mutex mutex_;
  std::map<std::string, std::shared_ptr<StoreLine>> further_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ringwood
