// A store that answers on a port of loopback, as the process that has it serves it.
#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "proto/call.h"
#include "server/store/service/store_service.h"

namespace ringwood {

class ServedStore {
 public:
  explicit ServedStore(const StoreService::Options& options) {
    auto service = StoreService::Create(options);
    EXPECT_TRUE(service.ok()) << service.status();
    service_ = *std::move(service);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(options.further ? service_->parts() : service_->service());
    server_ = builder.BuildAndStart();
    channel_ = grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                                   grpc::InsecureChannelCredentials());
  }
  ~ServedStore() {
    service_->Stop();
    server_->Shutdown(DeadlineIn(Seconds(10)));
  }

  StoreService& service() { return *service_; }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

 private:
  std::unique_ptr<StoreService> service_;  // outlives its server
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace ringwood
