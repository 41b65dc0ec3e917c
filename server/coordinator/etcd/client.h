// Calls to etcd: whichever member answers first, each call within its deadline.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "base/status.h"
#include "etcd/rpc.pb.h"
#include "server/coordinator/etcd/address.h"

namespace grpc {
class ClientContext;
class Status;
}  // namespace grpc

namespace ringwood {

struct EtcdLease {
  int64_t id = 0;
  int64_t seconds = 0;  // as etcd granted it: at least what was asked for
};

// A call that one member does not answer goes to the next one, until its deadline. So it may
// be carried out twice, and after an error once or not at all: the caller's comparisons must hold
// for both. Errors: Unavailable names what each member said; others are etcd's own, with the member
// that sent them. One thread, but for Cancel.
class EtcdClient {
 public:
  explicit EtcdClient(const EtcdAddress& address);
  ~EtcdClient();

  // Linearizable. nullopt: there is no such key.
  StatusOr<std::optional<mvccpb::KeyValue>> Get(const std::string& key, TimePoint until);
  StatusOr<etcdserverpb::TxnResponse> Txn(const etcdserverpb::TxnRequest& request, TimePoint until);
  StatusOr<EtcdLease> Grant(int64_t seconds, TimePoint until);
  // The seconds that it now lasts; 0: there is no such lease any more.
  StatusOr<int64_t> KeepAlive(int64_t lease, TimePoint until);
  Status Revoke(int64_t lease, TimePoint until);

  // Why connections fail, where the reason is TLS or a certificate: Denied, of the first member
  // that has one. OK: nothing is, or nobody answers at all. Blocks, for some seconds at most, and
  // looks up names: a leader has no time for it.
  Status WhyRefused() const;

  // Ends the call in flight and all later ones. Any thread.
  void Cancel();

 private:
  struct Member;
  using Call = std::function<grpc::Status(Member&, grpc::ClientContext*)>;
  Status Try(const std::string& what, TimePoint until, const Call& call);
  grpc::Status CallMember(Member* member, Duration share, const Call& call);
  void Pause();
  bool IsCancelled();

  const EtcdAddress address_;
  std::vector<std::unique_ptr<Member>> members_;
  size_t first_ = 0;  // the member that answered last
  absl::Mutex mutex_;
  grpc::ClientContext* in_flight_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

// What `op` read of one key; nullopt: there is none.
std::optional<mvccpb::KeyValue> ReadBy(const etcdserverpb::ResponseOp& op);

}  // namespace ringwood
