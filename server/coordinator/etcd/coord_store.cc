#include "server/coordinator/etcd/coord_store.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "server/coordinator/etcd/client.h"
#include "server/coordinator/kept_record.h"
#include "server/store/record/sealed.h"

namespace ringwood {
namespace {

// A write that finds another revision than it knows reads it and tries again: what it finds is of
// this process's own earlier Save, as nobody else can write.
constexpr int kMostTries = 3;

class EtcdCoordStore : public CoordStore {
 public:
  explicit EtcdCoordStore(EtcdCoordStoreOptions options)
      : options_(std::move(options)),
        client_(options_.etcd),
        name_("the coordinator's record " + options_.etcd.record_key() + " in " +
              options_.etcd.text()) {}

  StatusOr<v1::EpochRecord> Load() override {
    etcdserverpb::TxnRequest request = AsLeader();
    request.add_success()->mutable_request_range()->set_key(options_.etcd.record_key());
    RW_ASSIGN_OR_RETURN(const auto response, client_.Txn(request, Now() + options_.patience));
    if (!response.succeeded()) return Deposed(response);
    RW_RETURN_IF_ERROR(Take(response.responses(0)));
    return kept_;
  }

  Status Save(const v1::EpochRecord& record) override {
    const TimePoint until = Now() + options_.patience;
    const std::string value = Seal(WithoutIncarnations(record, options_.key));
    for (int i = 0; i < kMostTries; ++i) {
      RW_RETURN_IF_ERROR(CheckNewer(kept_, record));
      RW_ASSIGN_OR_RETURN(const auto response, client_.Txn(Write(value), until));
      if (response.succeeded()) {
        kept_ = record;
        modified_ = response.header().revision();
        return OkStatus();
      }
      const auto leader = ReadBy(response.responses(0));
      if (!leader || leader->create_revision() != options_.revision) return Deposed(response);
      const auto stored = ReadBy(response.responses(1));
      if (stored && stored->value() == value) {  // written by a try whose answer was lost
        kept_ = record;
        modified_ = stored->mod_revision();
        return OkStatus();
      }
      RW_RETURN_IF_ERROR(Overtake(response.responses(1), record));
    }
    return Unavailable(name_ + " changes while it is written: is a second server led by hand?");
  }

 private:
  // A transaction that does nothing unless this process leads; else it reads who does.
  etcdserverpb::TxnRequest AsLeader() const {
    etcdserverpb::TxnRequest request;
    etcdserverpb::Compare* leads = request.add_compare();
    leads->set_target(etcdserverpb::Compare::CREATE);
    leads->set_key(options_.etcd.leader_key());
    leads->set_create_revision(options_.revision);
    request.add_failure()->mutable_request_range()->set_key(options_.etcd.leader_key());
    return request;
  }

  // And nothing if the record is not the one that this process knows: an earlier try that was
  // delayed cannot come after this one.
  etcdserverpb::TxnRequest Write(const std::string& value) const {
    etcdserverpb::TxnRequest request = AsLeader();
    etcdserverpb::Compare* known = request.add_compare();
    known->set_target(etcdserverpb::Compare::MOD);
    known->set_key(options_.etcd.record_key());
    known->set_mod_revision(modified_);
    etcdserverpb::PutRequest* put = request.add_success()->mutable_request_put();
    put->set_key(options_.etcd.record_key());
    put->set_value(value);
    request.add_failure()->mutable_request_range()->set_key(options_.etcd.record_key());
    return request;
  }

  Status Take(const etcdserverpb::ResponseOp& read) {
    kept_.Clear();
    modified_ = 0;
    if (const auto stored = ReadBy(read)) {
      StatusOr<v1::EpochRecord> read = Unseal<v1::EpochRecord>(stored->value(), name_);
      if (!read.ok()) {
        return Corrupt(Message(read.status()) + ": `etcdctl del " + options_.etcd.record_key() +
                       "` gives it up, and the job begins again from its newest checkpoint");
      }
      kept_ = *std::move(read);
      modified_ = stored->mod_revision();
    }
    return OkStatus();
  }

  // The record of an earlier Save, which failed here and reached etcd all the same: nobody was told
  // of its epoch, so the same number is used again.
  Status Overtake(const etcdserverpb::ResponseOp& read, const v1::EpochRecord& record) {
    const v1::EpochRecord before = kept_;
    RW_RETURN_IF_ERROR(Take(read));
    if (kept_.epoch() == record.epoch() && before.epoch() < record.epoch()) kept_ = before;
    return OkStatus();
  }

  Status Deposed(const etcdserverpb::TxnResponse& response) const {
    const auto leader = ReadBy(response.responses(0));
    return Refused(absl::StrFormat(
        "this server no longer leads %s: %s; start it again, and it stands by",
        options_.etcd.prefix, leader ? leader->value() + " does" : "its lease ended"));
  }

  const EtcdCoordStoreOptions options_;
  EtcdClient client_;
  const std::string name_;
  v1::EpochRecord kept_;
  int64_t modified_ = 0;  // revision in which kept_ was written; 0: there is none yet
};

}  // namespace

std::unique_ptr<CoordStore> MakeEtcdCoordStore(EtcdCoordStoreOptions options) {
  return std::make_unique<EtcdCoordStore>(std::move(options));
}

}  // namespace ringwood
