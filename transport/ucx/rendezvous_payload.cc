#include "transport/ucx/rendezvous_payload.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "transport/ucx/worker.h"

namespace ringwood {

RendezvousPayload::RendezvousPayload(const std::unique_ptr<UcxWorker>* worker, void* descriptor)
    : worker_(worker), descriptor_(descriptor) {}

RendezvousPayload::~RendezvousPayload() {
  if (descriptor_ != nullptr && *worker_ != nullptr) {
    ucp_am_data_release((*worker_)->handle(), descriptor_);
  }
}

void RendezvousPayload::Fetch(std::span<std::byte> into, std::function<void(Status)> done) {
  done_ = std::move(done);
  expected_ = into.size();
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                       UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  param.cb.recv_am = &RendezvousPayload::OnReceived;
  param.user_data = this;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  void* const descriptor = std::exchange(descriptor_, nullptr);  // UCX owns it from here
  const ucs_status_ptr_t request =
      ucp_am_recv_data_nbx((*worker_)->handle(), descriptor, into.data(), into.size(), &param);
  if (UCS_PTR_IS_ERR(request)) {
    std::exchange(done_, nullptr)(FromUcx(UCS_PTR_STATUS(request), "fetch an announced message"));
  }
}

void RendezvousPayload::OnReceived(void* request, ucs_status_t status, size_t length,
                                   void* payload) {
  auto* const self = static_cast<RendezvousPayload*>(payload);
  Status result = FromUcx(status, "fetch an announced message");
  if (result.ok() && length != self->expected_) {
    result = Corrupt(
        absl::StrFormat("%d bytes arrived where %d were announced", length, self->expected_));
  }
  ucp_request_free(request);
  std::exchange(self->done_, nullptr)(result);  // the inbox destroys this object later
}

}  // namespace ringwood
