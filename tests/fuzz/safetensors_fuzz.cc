// A safetensors file from anywhere: what is accepted covers its bytes exactly, and written again it
// is read as the same.
//
// sources: server/store/portable/safetensors.cc server/store/portable/safetensors_parser.cc
// sources: base/tensor_type.cc base/text.cc base/quoted.cc base/status.cc base/check.cc
#include <cstdint>
#include <string>

#include "base/check.h"
#include "server/store/portable/safetensors.h"

namespace ringwood {
namespace {

StatusOr<Safetensors> ReadFile(const std::string& file) {
  RW_ASSIGN_OR_RETURN(const uint64_t bytes,
                      SafetensorsHeaderBytes(file.substr(0, kSafetensorsPrefixBytes), file.size()));
  RW_CHECK(bytes <= file.size() - kSafetensorsPrefixBytes);
  return ParseSafetensors(file.substr(kSafetensorsPrefixBytes, bytes),
                          file.size() - kSafetensorsPrefixBytes - bytes);
}

// Also what a small file claims to be followed by: sizes that no test file has.
void CheckHeader(const std::string& header, uint64_t data_bytes) {
  StatusOr<Safetensors> file = ParseSafetensors(header, data_bytes);
  if (!file.ok()) return;
  uint64_t end = 0;
  for (const Safetensor& tensor : file->tensors) {
    RW_CHECK(tensor.offset == end && *BytesOf(tensor.type) == tensor.bytes);
    end += tensor.bytes;
  }
  RW_CHECK(end == data_bytes && file->DataBytes() == data_bytes);
  const auto head = SafetensorsHeader(*file);
  RW_CHECK(head.ok());
  const auto again = ParseSafetensors(head->substr(kSafetensorsPrefixBytes), data_bytes);
  RW_CHECK(again.ok() && again->metadata == file->metadata);
  RW_CHECK(again->tensors.size() == file->tensors.size());
}

}  // namespace
}  // namespace ringwood

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  (void)ringwood::ReadFile(bytes);
  ringwood::CheckHeader(bytes, 0);
  ringwood::CheckHeader(bytes, 64);
  ringwood::CheckHeader(bytes, 1ull << 40);
  return 0;
}
