#include "client/grpc/chunk_message.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/support/slice.h>

#include <string>
#include <utility>

namespace ringwood {
namespace {

using Owner = std::shared_ptr<const void>;

// The fields of the chunk, then the beginning of its data.
grpc::Slice FrontOf(const v1::SaveChunk& chunk, size_t data_bytes) {
  using google::protobuf::internal::WireFormatLite;
  std::string front = chunk.SerializeAsString();
  if (data_bytes > 0) {
    google::protobuf::io::StringOutputStream end(&front);
    google::protobuf::io::CodedOutputStream out(&end);
    out.WriteTag(WireFormatLite::MakeTag(v1::SaveChunk::kDataFieldNumber,
                                         WireFormatLite::WIRETYPE_LENGTH_DELIMITED));
    out.WriteVarint32(static_cast<uint32_t>(data_bytes));
  }
  return grpc::Slice(front);
}

}  // namespace

grpc::ByteBuffer ChunkMessage(const v1::SaveChunk& chunk, std::span<const std::byte> data,
                              Owner owner) {
  const grpc::Slice front = FrontOf(chunk, data.size());
  if (data.empty()) return grpc::ByteBuffer(&front, 1);
  const auto let_go = [](void* held) { delete static_cast<Owner*>(held); };
  // gRPC only reads it.
  const grpc::Slice slices[] = {front, grpc::Slice(const_cast<std::byte*>(data.data()), data.size(),
                                                   let_go, new Owner(std::move(owner)))};
  return grpc::ByteBuffer(slices, std::size(slices));
}

}  // namespace ringwood
