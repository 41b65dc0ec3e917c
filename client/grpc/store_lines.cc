#include "client/grpc/store_lines.h"

#include <utility>

#include "client/grpc/channel.h"

namespace ringwood {

StoreLine::StoreLine(std::string at, std::shared_ptr<grpc::Channel> over)
    : address(std::move(at)), channel(std::move(over)), stub(v1::Store::NewStub(channel)) {}

StoreLines::StoreLines(const std::string& main_address, const Access& access,
                       const OwnConnection& connection)
    : access_(access),
      connection_(connection),
      main_(std::make_shared<StoreLine>(main_address,
                                        MakeChannel(main_address, access, connection))) {}

std::shared_ptr<StoreLine> StoreLines::At(const std::string& address) {
  if (address.empty()) return main_;
  const absl::MutexLock lock(&mutex_);
  if (further_.size() >= kMost) further_.clear();
  std::shared_ptr<StoreLine>& line = further_[address];
  if (line == nullptr) {
    line = std::make_shared<StoreLine>(address, MakeChannel(address, access_, connection_));
  }
  return line;
}

}  // namespace ringwood
