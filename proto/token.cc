#include "proto/token.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/support/client_interceptor.h>

#include <utility>
#include <vector>

#include "proto/addresses.h"
#include "proto/held_token.h"

namespace ringwood {
namespace {

namespace hooks = grpc::experimental;

// In every refusal of a token, which says where a process takes it from.
constexpr char kVariable[] = "RINGWOOD_TOKEN_FILE";

constexpr int kAttemptMilliseconds = 2000;  // for one address of several, until the next's turn

class BringToken : public hooks::Interceptor {
 public:
  explicit BringToken(HeldToken* token) : token_(token) {}

  void Intercept(hooks::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(
            hooks::InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->emplace(kTokenKey, token_->At(Now()));
    }
    if (methods->QueryInterceptionHookPoint(hooks::InterceptionHookPoints::POST_RECV_STATUS)) {
      NameFile(methods->GetRecvStatus());
    }
    methods->Proceed();
  }

 private:
  // The server that refuses a token knows no file.
  void NameFile(grpc::Status* status) const {
    if (status->error_code() != grpc::StatusCode::PERMISSION_DENIED || token_->file().empty() ||
        status->error_message().find(kVariable) == std::string::npos) {
      return;
    }
    *status = grpc::Status(status->error_code(),
                           status->error_message() + "; this process has its token from " +
                               token_->file() + " and reads that again when it changes");
  }

  HeldToken* const token_;  // the factory's, which the channel owns
};

class BringTokenFactory : public hooks::ClientInterceptorFactoryInterface {
 public:
  explicit BringTokenFactory(std::shared_ptr<HeldToken> token) : token_(std::move(token)) {}
  hooks::Interceptor* CreateClientInterceptor(hooks::ClientRpcInfo*) override {
    return new BringToken(token_.get());  // gRPC deletes it with the call
  }

 private:
  const std::shared_ptr<HeldToken> token_;
};

}  // namespace

std::shared_ptr<grpc::Channel> OpenChannel(const std::string& address,
                                           const grpc::ChannelArguments& arguments,
                                           const Access& access) {
  std::vector<std::unique_ptr<hooks::ClientInterceptorFactoryInterface>> factories;
  if (access.token != nullptr) {
    factories.push_back(std::make_unique<BringTokenFactory>(access.token));
  }
  grpc::ChannelArguments complete = arguments;
  if (!IsOneAddress(address)) {
    complete.SetString(GRPC_ARG_DEFAULT_AUTHORITY, "ringwood");
    complete.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kAttemptMilliseconds);
  }
  if (access.credentials != nullptr) SetTlsArguments(&complete);
  return hooks::CreateCustomChannelWithInterceptors(
      ChannelTarget(address),
      access.credentials == nullptr
          ? grpc::InsecureChannelCredentials()
          : access.credentials->ForCalling(IdentityRole::kServer, kAnySlot),
      complete, std::move(factories));
}

}  // namespace ringwood
